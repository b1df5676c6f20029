/* attributes.c: a PMPI_Type_create_keyval, as a library to be preloaded, that counts how often attributes of the last
 * key are deleted. */
#include <dlfcn.h>
#include <mpi.h>

int attributes_deleted;
static MPI_Type_delete_attr_function *asked;

static int count(MPI_Datatype type, int key, void *value, void *extra)
{
    attributes_deleted++;
    return asked(type, key, value, extra);
}

int PMPI_Type_create_keyval(MPI_Type_copy_attr_function *copy, MPI_Type_delete_attr_function *gone, int *key,
                            void *extra)
{
    static int (*real)(MPI_Type_copy_attr_function *, MPI_Type_delete_attr_function *, int *, void *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Type_create_keyval");
    asked = gone;
    return real(copy, count, key, extra);
}
