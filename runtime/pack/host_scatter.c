/* host_scatter.c: packs and unpacks in host memory. */
#include "host_scatter.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct scatter {
    char *user, *packed;
};

static int gather_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    const struct scatter *g = arg;
    memcpy(g->packed + packed, g->user + user, (size_t)len);
    return 0;
}

static int scatter_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    const struct scatter *g = arg;
    memcpy(g->user + user, g->packed + packed, (size_t)len);
    return 0;
}

bool host_scatter_move(struct typed_buffer *p, char *packed, int64_t begin, int64_t end, bool out)
{
    struct scatter g = {p->user, packed};
    int all = p->bytes <= INT_MAX ? (int)p->bytes : 0, rc = MPI_ERR_OTHER;
    if (p->layout->tree)
        return !tree_walk(p->layout->tree, p->count, p->layout->extent, begin, end, out ? gather_run : scatter_run, &g);
    char *whole = all ? malloc((size_t)all) : NULL;
    if (whole) rc = PMPI_Pack(p->user, (int)p->count, p->datatype, whole, all, &(int){0}, MPI_COMM_SELF);
    if (rc == MPI_SUCCESS && out) memcpy(packed, whole, (size_t)end);
    if (rc == MPI_SUCCESS && !out) {
        memcpy(whole, packed, (size_t)end);
        rc = PMPI_Unpack(whole, all, &(int){0}, p->user, (int)p->count, p->datatype, MPI_COMM_SELF);
    }
    free(whole);
    return rc == MPI_SUCCESS;
}
