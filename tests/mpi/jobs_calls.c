/* jobs_calls.c: the collectives, in all forms that the MPI has. */
#include "jobs.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_mpi(struct dl_phdr_info *object, size_t size, void *name)
{
    const char *file = strrchr(object->dlpi_name, '/');
    (void)size;
    if (!file || strncmp(file, "/libmpi", 7)) return 0;
    *(const char **)name = object->dlpi_name;
    return 1;
}

/* The MPI's own function. */
static void *own(const char *name)
{
    const char *file = NULL;
    dl_iterate_phdr(is_mpi, &file);
    void *mpi = file ? dlopen(file, RTLD_LAZY | RTLD_NOLOAD) : NULL, *f = mpi ? dlsym(mpi, name) : NULL;
    char other[64];
    snprintf(other, sizeof other, "PMPIX%s", strchr(name, '_'));   /* Open MPI 4.1's persistent ones */
    if (mpi && !f) f = dlsym(mpi, other);
    if (!f) abort();
    dlclose(mpi);
    return f;
}

#define BARE(...) __VA_ARGS__
#if HAVE_PERSISTENT
#define CASE_PERSISTENT(N, ARGS) case PERSISTENT: return MPI_##N##_init(BARE ARGS, MPI_INFO_NULL, &j->request);
#else
#define CASE_PERSISTENT(N, ARGS)
#endif
#ifdef HAVE_LARGE
#define CASES_LARGE(N, I, ARGS) \
    case LARGE: return MPI_##N##_c(BARE ARGS); \
    case NONBLOCKING_LARGE: return MPI_##I##_c(BARE ARGS, &j->request); \
    case PERSISTENT_LARGE: return MPI_##N##_init_c(BARE ARGS, MPI_INFO_NULL, &j->request);
#else
#define CASES_LARGE(N, I, ARGS)
#endif

/* A call whose arguments differ in the large-count forms. */
#define CALL_WIDE(name, N, I, ARGS, WIDE) \
    static int name(struct job *j) \
    { \
        switch (j->form) { \
        case BLOCKING: return MPI_##N(BARE ARGS); \
        case NONBLOCKING: return MPI_##I(BARE ARGS, &j->request); \
        CASE_PERSISTENT(N, ARGS) \
        CASES_LARGE(N, I, WIDE) \
        default: return MPI_ERR_OTHER; \
        } \
    }
#define CALL(name, N, I, ARGS) CALL_WIDE(name, N, I, ARGS, ARGS)

/* The same, or the MPI's own: in every form, or in the blocking ones. */
#define OWN(F, ...) \
    do { \
        __typeof__(&MPI_##F) f; \
        *(void **)&f = own("PMPI_" #F); \
        return f(__VA_ARGS__); \
    } while (0)
#if HAVE_PERSISTENT
#define OWN_PERSISTENT(N, ARGS) case PERSISTENT: OWN(N##_init, BARE ARGS, MPI_INFO_NULL, &j->request);
#else
#define OWN_PERSISTENT(N, ARGS)
#endif
#ifdef HAVE_LARGE
#define OWN_BLOCKING(N, ARGS, WIDE) \
    case BLOCKING: OWN(N, BARE ARGS); \
    case LARGE: OWN(N##_c, BARE WIDE);
#define OWN_LARGE(N, I, ARGS) \
    case NONBLOCKING_LARGE: OWN(I##_c, BARE ARGS, &j->request); \
    case PERSISTENT_LARGE: OWN(N##_init_c, BARE ARGS, MPI_INFO_NULL, &j->request);
#else
#define OWN_BLOCKING(N, ARGS, WIDE) case BLOCKING: OWN(N, BARE ARGS);
#define OWN_LARGE(N, I, ARGS)
#endif
#define OWN_CALL(name, N, I, ARGS, WIDE, LATER) \
    CALL_WIDE(name##_above, N, I, ARGS, WIDE) \
    static int name(struct job *j) \
    { \
        if (!j->alone) return name##_above(j); \
        switch (j->form) { \
        OWN_BLOCKING(N, ARGS, WIDE) \
        LATER \
        default: return name##_above(j); \
        } \
    }
#define LATER_OWN(N, I, ARGS, WIDE) \
    case NONBLOCKING: OWN(I, BARE ARGS, &j->request); \
    OWN_PERSISTENT(N, ARGS) \
    OWN_LARGE(N, I, WIDE)
#define DATA_WIDE(name, N, I, ARGS, WIDE) OWN_CALL(name, N, I, ARGS, WIDE, LATER_OWN(N, I, ARGS, WIDE))
#define DATA(name, N, I, ARGS) DATA_WIDE(name, N, I, ARGS, ARGS)
/* Open MPI 4.1's nonblocking ones among neighbours meet several edges between two ranks in another order. */
#define NEAR_WIDE(name, N, I, ARGS, WIDE) OWN_CALL(name, N, I, ARGS, WIDE, )
#define NEAR(name, N, I, ARGS) NEAR_WIDE(name, N, I, ARGS, ARGS)

#define SEND j->s.buf, j->s.count, j->s.type
#define RECV j->r.buf, j->r.count, j->r.type
#define SENDV j->s.buf, j->s.counts, j->s.displs, j->s.type
#define RECVV j->r.buf, j->r.counts, j->r.displs, j->r.type
#define WIDE_SENDV j->s.buf, j->s.wide_counts, j->s.wide_displs, j->s.type
#define WIDE_RECVV j->r.buf, j->r.wide_counts, j->r.wide_displs, j->r.type
#define SENDW j->s.buf, j->s.counts, j->s.bytes, j->s.types
#define RECVW j->r.buf, j->r.counts, j->r.bytes, j->r.types
#define NEAR_SENDW j->s.buf, j->s.counts, j->s.wide_bytes, j->s.types
#define NEAR_RECVW j->r.buf, j->r.counts, j->r.wide_bytes, j->r.types
#define WIDE_SENDW j->s.buf, j->s.wide_counts, j->s.wide_bytes, j->s.types
#define WIDE_RECVW j->r.buf, j->r.wide_counts, j->r.wide_bytes, j->r.types

DATA(bcast, Bcast, Ibcast, (RECV, j->root, j->comm))
DATA(gather, Gather, Igather, (SEND, RECV, j->root, j->comm))
DATA_WIDE(gatherv, Gatherv, Igatherv, (SEND, RECVV, j->root, j->comm), (SEND, WIDE_RECVV, j->root, j->comm))
DATA(scatter, Scatter, Iscatter, (SEND, RECV, j->root, j->comm))
DATA_WIDE(scatterv, Scatterv, Iscatterv, (SENDV, RECV, j->root, j->comm), (WIDE_SENDV, RECV, j->root, j->comm))
DATA(allgather, Allgather, Iallgather, (SEND, RECV, j->comm))
DATA_WIDE(allgatherv, Allgatherv, Iallgatherv, (SEND, RECVV, j->comm), (SEND, WIDE_RECVV, j->comm))
DATA(alltoall, Alltoall, Ialltoall, (SEND, RECV, j->comm))
DATA_WIDE(alltoallv, Alltoallv, Ialltoallv, (SENDV, RECVV, j->comm), (WIDE_SENDV, WIDE_RECVV, j->comm))
DATA_WIDE(alltoallw, Alltoallw, Ialltoallw, (SENDW, RECVW, j->comm), (WIDE_SENDW, WIDE_RECVW, j->comm))

NEAR(near_allgather, Neighbor_allgather, Ineighbor_allgather, (SEND, RECV, j->comm))
NEAR_WIDE(near_allgatherv, Neighbor_allgatherv, Ineighbor_allgatherv, (SEND, RECVV, j->comm),
          (SEND, WIDE_RECVV, j->comm))
NEAR(near_alltoall, Neighbor_alltoall, Ineighbor_alltoall, (SEND, RECV, j->comm))
NEAR_WIDE(near_alltoallv, Neighbor_alltoallv, Ineighbor_alltoallv, (SENDV, RECVV, j->comm),
          (WIDE_SENDV, WIDE_RECVV, j->comm))
NEAR_WIDE(near_alltoallw, Neighbor_alltoallw, Ineighbor_alltoallw, (NEAR_SENDW, NEAR_RECVW, j->comm),
          (WIDE_SENDW, WIDE_RECVW, j->comm))

#define REDUCED j->s.buf, j->r.buf, j->r.count, j->r.type, j->op
CALL(reduce, Reduce, Ireduce, (REDUCED, j->root, j->comm))
CALL(allreduce, Allreduce, Iallreduce, (REDUCED, j->comm))
CALL(scan, Scan, Iscan, (REDUCED, j->comm))
CALL(exscan, Exscan, Iexscan, (REDUCED, j->comm))
CALL_WIDE(reduce_scatter, Reduce_scatter, Ireduce_scatter,
          (j->s.buf, j->r.buf, j->r.counts, j->r.type, j->op, j->comm),
          (j->s.buf, j->r.buf, j->r.wide_counts, j->r.type, j->op, j->comm))
CALL(reduce_scatter_block, Reduce_scatter_block, Ireduce_scatter_block, (REDUCED, j->comm))

static int reduce_local(struct job *j)
{
#ifdef HAVE_LARGE
    if (j->form == LARGE) return MPI_Reduce_local_c(REDUCED);
#endif
    return MPI_Reduce_local(REDUCED);
}

const struct call data_calls[] = {
    {"MPI_Bcast", bcast, ROOTED},
    {"MPI_Gather", gather, ROOTED | IN_PLACE_ROOT | MPICH_CANT_PERSIST},
    {"MPI_Gatherv", gatherv, ROOTED | BY_SENDER | IN_PLACE_ROOT},
    {"MPI_Scatter", scatter, ROOTED | IN_PLACE_OUT | MPICH_CANT_PERSIST},
    {"MPI_Scatterv", scatterv, ROOTED | BY_RECEIVER | IN_PLACE_OUT},
    {"MPI_Allgather", allgather, IN_PLACE_ALL | MPICH_CANT_PERSIST},
    {"MPI_Allgatherv", allgatherv, BY_SENDER | IN_PLACE_ALL},
    {"MPI_Alltoall", alltoall, IN_PLACE_ALL},
    {"MPI_Alltoallv", alltoallv, BY_SENDER | BY_RECEIVER | IN_PLACE_ALL},
    {"MPI_Alltoallw", alltoallw, BY_SENDER | BY_RECEIVER | IN_PLACE_ALL},
};
const struct call neighbor_calls[] = {
    {"MPI_Neighbor_allgather", near_allgather, 0},
    {"MPI_Neighbor_allgatherv", near_allgatherv, BY_SENDER},
    {"MPI_Neighbor_alltoall", near_alltoall, 0},
    {"MPI_Neighbor_alltoallv", near_alltoallv, BY_SENDER | BY_RECEIVER},
    {"MPI_Neighbor_alltoallw", near_alltoallw, BY_SENDER | BY_RECEIVER},
};
const struct call reduce_calls[] = {
    {"MPI_Reduce", reduce, ROOTED | IN_PLACE_ROOT},
    {"MPI_Allreduce", allreduce, IN_PLACE_ALL},
    {"MPI_Scan", scan, IN_PLACE_ALL},
    {"MPI_Exscan", exscan, IN_PLACE_ALL | FIRST_NOTHING},
    {"MPI_Reduce_scatter", reduce_scatter, IN_PLACE_ALL | SCATTERS | BY_SENDER},
    {"MPI_Reduce_scatter_block", reduce_scatter_block, IN_PLACE_ALL | SCATTERS},
    {"MPI_Reduce_local", reduce_local, BLOCKING_ONLY},
};
const int data_call_count = sizeof data_calls / sizeof *data_calls;
const int neighbor_call_count = sizeof neighbor_calls / sizeof *neighbor_calls;
const int reduce_call_count = sizeof reduce_calls / sizeof *reduce_calls;
