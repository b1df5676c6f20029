/* args_file.c: whether a file takes packed bytes: its view may convert them by their types. */
#include "args_internal.h"
#include "datatype/type_contents.h"
#include <string.h>

bool file_is_native(MPI_File fh)
{
    char name[MPI_MAX_DATAREP_STRING + 1] = "";
    MPI_Datatype element, type;
    MPI_Offset at;
    if (fh == MPI_FILE_NULL || PMPI_File_get_view(fh, &at, &element, &type, name) != MPI_SUCCESS) return false;
    contents_free_handle(&element), contents_free_handle(&type);
    return !strcmp(name, "native");
}
