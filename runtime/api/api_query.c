/* api_query.c: the path of a message, as send_select would choose it. */
#include "api.h"
#include "protocol/protocol.h"
#include <stdio.h>
#include <string.h>

/* Returns the path of a name that a protocol's explain returned. */
static enum stridec_path path_of(const char *name)
{
    for (int i = 0; i <= STRIDEC_PATH_PACKED; i++)
        if (!strcmp(stridec_path_name((enum stridec_path)i), name)) return (enum stridec_path)i;
    return STRIDEC_PATH_MPI;
}

static bool is_dest(MPI_Comm comm, int dest)
{
    int inter = 0, size = 0;
    PMPI_Comm_test_inter(comm, &inter);
    (inter ? PMPI_Comm_remote_size : PMPI_Comm_size)(comm, &size);
    return dest == MPI_PROC_NULL || (dest >= 0 && dest < size);
}

int api_query_path(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                   enum stridec_path *path, char *why, size_t why_bytes)
{
    char text[TUNE_WHY_MAX] = "nothing to send";
    struct message m = {buf, count, datatype, dest, comm, .reuse = REUSE_BLOCKING};
    if (!path || count < 0 || comm == MPI_COMM_NULL || !is_dest(comm, dest) || !layout_of(datatype))
        return STRIDEC_INVALID;
    *path = STRIDEC_PATH_MPI;
    if (dest != MPI_PROC_NULL) *path = path_of(send_probe(&m)->explain(&m, text));
    if (why && why_bytes) snprintf(why, why_bytes, "%s", text);
    return STRIDEC_OK;
}
