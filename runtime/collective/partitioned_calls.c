/* partitioned_calls.c: partitioned communication. */
#include "base/error.h"
#include "base/hash_table.h"
#include "next.h"
#include "partitioned.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct partitioned {
    MPI_Request request;
    struct arg arg;              /* the record's only argument */
    bool receive;
    int partitions;
    int64_t count;               /* elements of each partition */
    pthread_mutex_t lock;        /* protects `unpacked`, and unpacking */
    unsigned char *unpacked;     /* a receive's flag for each partition */
    UT_hash_handle hh;
};

/* One operation. An inactive one has all partitions unpacked. */

void partitioned_start(struct partitioned *p)
{
    pthread_mutex_lock(&p->lock);
    memset(p->unpacked, 0, (size_t)p->partitions);
    pthread_mutex_unlock(&p->lock);
}

/* Unpacks partitions [first, past), of which none is unpacked. p->lock is held. */
static int unpack_partitions(struct partitioned *p, int first, int past)
{
    memset(p->unpacked + first, 1, (size_t)(past - first));
    return args_move_part(&p->arg, first * p->count, (past - first) * p->count, false);
}

int partitioned_complete(struct partitioned *p)
{
    int rc = 0;
    if (!p->receive) return 0;
    pthread_mutex_lock(&p->lock);
    for (int i = 0, past; i < p->partitions; i = past) {
        for (past = i + 1; past < p->partitions && p->unpacked[past] == p->unpacked[i]; past++) {}
        if (!p->unpacked[i]) rc |= unpack_partitions(p, i, past);
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

#ifdef HAVE_Psend_init
static struct partitioned *table;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

void partitioned_free(struct partitioned *p)
{
    if (!p) return;
    pthread_mutex_lock(&table_lock);
    if (p->hh.tbl) HASH_DEL(table, p);
    pthread_mutex_unlock(&table_lock);
    pthread_mutex_destroy(&p->lock);
    free(p->unpacked), free(p);
}

static struct partitioned *find(MPI_Request request)
{
    struct partitioned *p = NULL;
    pthread_mutex_lock(&table_lock);
    HASH_FIND(hh, table, &request, sizeof request, p);
    pthread_mutex_unlock(&table_lock);
    return p;
}

/* Returns an operation that is in no table yet; NULL without memory. */
static struct partitioned *partitioned_new(bool receive, int partitions, int64_t count)
{
    struct partitioned *p = malloc(sizeof *p);
    unsigned char *unpacked = malloc((size_t)partitions);
    if (!p || !unpacked) return free(p), free(unpacked), NULL;
    *p = (struct partitioned){.receive = receive, .partitions = partitions, .count = count, .unpacked = unpacked};
    memset(unpacked, 1, (size_t)partitions);
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

static void partitioned_add(struct partitioned *p)
{
    pthread_mutex_lock(&table_lock);
    HASH_ADD(hh, table, request, sizeof p->request, p);
    pthread_mutex_unlock(&table_lock);
}

/* Opens the arguments, of one partition so far. Returns as args_open does; ARGS_NONE also for arguments that the MPI
 * will refuse. */
static int open(struct args_set *o, int partitions, int peer, bool receives)
{
    MPI_Count count = o->of[0].count;
    int64_t all;
    if (peer == MPI_PROC_NULL || partitions <= 0 || count <= 0) return ARGS_NONE;
    if (__builtin_mul_overflow((int64_t)partitions, (int64_t)count, &all)) return ARGS_NONE;
    o->of[0].count = all;
    int rc = args_open(o);
    if (rc != MPI_SUCCESS || (o->partitioned = partitioned_new(receives, partitions, count))) return rc;
    args_free(o);
    return raise_error(o->comm, MPI_ERR_NO_MEM, "no memory for the record of a partitioned request");
}

static int keep(struct args_set *o, int rc, MPI_Request *request)
{
    if (rc == MPI_SUCCESS) {
        o->partitioned->request = *request;
        o->partitioned->arg = o->of[0];
        partitioned_add(o->partitioned);
    }
    return args_persist(o, rc, request);
}

#define INIT(name, address, is_receive) \
    int call_##name(const struct next *next, address *buf, int partitions, MPI_Count count, MPI_Datatype datatype, \
                    int peer, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request) \
    { \
        struct args_set o = {.how = ARGS_PACKED, .comm = comm, .n = 1, \
                             .of = {{.buf = (void *)(uintptr_t)buf, .count = count, .type = datatype}}}; \
        int rc = open(&o, partitions, peer, is_receive); \
        if (rc == ARGS_NONE) return next->name(buf, partitions, count, datatype, peer, tag, comm, info, request); \
        if (rc != MPI_SUCCESS) return rc; \
        rc = next->name(o.of[0].use, partitions, count, o.of[0].use_type, peer, tag, comm, info, request); \
        return keep(&o, rc, request); \
    }
INIT(Psend_init, const void, false)
INIT(Precv_init, void, true)

/* Packs partitions first to last. Wrong arguments are left for the MPI to refuse. */
static int pack(const struct partitioned *p, int first, int last)
{
    if (!p || p->receive || first < 0 || last < first || last >= p->partitions) return MPI_SUCCESS;
    if (!args_move_part(&p->arg, first * p->count, (last - first + 1) * p->count, true)) return MPI_SUCCESS;
    return raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "packing on the GPU failed");
}

int call_Pready(const struct next *next, int partition, MPI_Request request)
{
    int rc = pack(find(request), partition, partition);
    return rc != MPI_SUCCESS ? rc : next->Pready(partition, request);
}

int call_Pready_range(const struct next *next, int low, int high, MPI_Request request)
{
    int rc = pack(find(request), low, high);
    return rc != MPI_SUCCESS ? rc : next->Pready_range(low, high, request);
}

int call_Pready_list(const struct next *next, int length, partition_list list, MPI_Request request)
{
    const struct partitioned *p = find(request);
    int rc = MPI_SUCCESS;
    for (int i = 0; p && list && i < length && rc == MPI_SUCCESS; i++) rc = pack(p, list[i], list[i]);
    return rc != MPI_SUCCESS ? rc : next->Pready_list(length, list, request);
}

int call_Parrived(const struct next *next, MPI_Request request, int partition, int *flag)
{
    struct partitioned *p = find(request);
    int rc = next->Parrived(request, partition, flag), failed = 0;
    if (!p || !p->receive || rc != MPI_SUCCESS || !*flag || partition < 0 || partition >= p->partitions) return rc;
    pthread_mutex_lock(&p->lock);
    if (!p->unpacked[partition]) failed = unpack_partitions(p, partition, partition + 1);
    pthread_mutex_unlock(&p->lock);
    return failed ? raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "unpacking on the GPU failed") : rc;
}
#else
void partitioned_free(struct partitioned *p)
{
    (void)p;
}
#endif
