/* type_contents.c: asks the MPI for envelopes and contents. */
#include "type_contents.h"
#include "base/mpi_abi.h"
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(MPI_Aint) == sizeof(int64_t) && sizeof(MPI_Count) == sizeof(int64_t), "lists are not copied");

int contents_envelope(MPI_Datatype datatype, struct contents *c)
{
#if MPI_VERSION >= 4
    MPI_Count ni, na, nt;
    int rc = PMPI_Type_get_envelope_c(datatype, &ni, &na, &c->nlarge, &nt, &c->combiner);
    c->nints = (int)ni, c->naddresses = (int)na, c->ntypes = (int)nt;
    return rc;
#else
    c->nlarge = 0;
    return PMPI_Type_get_envelope(datatype, &c->nints, &c->naddresses, &c->ntypes, &c->combiner);
#endif
}

static int contents_lists(MPI_Datatype datatype, struct contents *c, int *ints)
{
    MPI_Aint *addresses = (void *)c->addresses;
#if MPI_VERSION >= 4
    MPI_Count *large = (void *)c->large;
    return PMPI_Type_get_contents_c(datatype, c->nints, c->naddresses, c->nlarge, c->ntypes, ints, addresses, large,
                                    c->types);
#else
    return PMPI_Type_get_contents(datatype, c->nints, c->naddresses, c->ntypes, ints, addresses, c->types);
#endif
}

void contents_free(struct contents *c)
{
    free(c->ints), free(c->addresses), free(c->large), free(c->types);
}

/* Makes integers of n ints in the upper half of their room. */
static void widen(int64_t *ints, size_t n)
{
    const char *from = (const char *)ints + n * sizeof(int);
    int one;
    for (size_t i = 0; i < n; i++) {
        memcpy(&one, from + i * sizeof one, sizeof one);
        ints[i] = one;
    }
}

/* Reads the lists. Each has one extra entry, so that no allocation is empty. */
bool contents_read(MPI_Datatype datatype, struct contents *c)
{
    size_t n = (size_t)c->nints;
    c->int_at = c->ints = malloc((n + 1) * sizeof *c->ints);
    c->address_at = c->addresses = malloc(((size_t)c->naddresses + 1) * sizeof *c->addresses);
    c->large_at = c->large = malloc(((size_t)c->nlarge + 1) * sizeof *c->large);
    c->types = malloc(((size_t)c->ntypes + 1) * sizeof(MPI_Datatype));
    if (!c->ints || !c->addresses || !c->large || !c->types) return false;
    if (contents_lists(datatype, c, (int *)(void *)c->ints + n) != MPI_SUCCESS) return false;
    widen(c->ints, n);
    return true;
}

/* Combiners of predefined types. Those after the first have no names, and must not be freed either. */
static const int named[] = {
    MPI_COMBINER_NAMED, MPI_COMBINER_F90_REAL, MPI_COMBINER_F90_COMPLEX, MPI_COMBINER_F90_INTEGER,
#if MPI_VERSION * 100 + MPI_SUBVERSION >= 401
    MPI_COMBINER_VALUE_INDEX,
#endif
};

bool contents_named(int combiner)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i] == combiner) return true;
    return false;
}

void contents_free_handle(MPI_Datatype *datatype)
{
    struct contents c = {0};
    if (contents_envelope(*datatype, &c) == MPI_SUCCESS && !contents_named(c.combiner)) PMPI_Type_free(datatype);
}
