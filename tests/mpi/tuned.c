/* tuned.c: a tuned table in use. It decides which messages go zero-copy, whatever call sends them; one that
 * is of another GPU is warned of and does not. And it touches no GPU that the application does not: a thread without a
 * context sends from GPU 1, and GPU 0 gets no context. The ranks write the table themselves: it is read at MPI_Init.
 *
 * run: SIMGPU_DEVICES=2 -n 2
 * run: -n 2 chosen
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 forced
 * run: -n 2 machine => warns
 * run: -n 2 versions => warns
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 -n 2 aware => warns
 */
#include "check.h"
#include "offers.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS 30

/* With a curve of zero-copy messages by which those of 4 KiB are better packed, and those of 64 KiB not. */
static const struct mode {
    const char *name, *head;
    bool packs;        /* what is better packed */
} modes[] = {
    {"gpus", "machine Simulated GPU\nmpi any\n", true},
    {"chosen", "machine Simulated GPU\nmpi any\n", true},
    {"forced", "machine Simulated GPU\nmpi any\n", false},
    {"machine", "machine Another GPU\nmpi any\n", false},
    {"versions", "machine Simulated GPU\nmpi Another MPI 1.0\nstridec 0\n", true},
    {"aware", "machine Simulated GPU\nmpi any\n", true},   /* it has no messages from device memory */
};
static const char *const curves[] = {"pack_mapped", "unpack_mapped", "pack_staged", "unpack_staged", "message_host"};
static struct layout vector;
static struct buf source, target;

static const struct mode *mode_of(int argc, char **argv)
{
    for (size_t i = 1; i < sizeof modes / sizeof *modes; i++)
        for (int k = 1; k < argc; k++)
            if (!strcmp(argv[k], modes[i].name)) return &modes[i];
    return modes;
}

static void write_table(char *path, const struct mode *m)
{
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) exit(2);
    fprintf(f, "stridec tune 1\n%sdate 2026-01-01\n", m->head);
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) fprintf(f, "curve %s\nbytes 1\nany 1\n", curves[i]);
    fprintf(f, "curve zerocopy\nbytes 4096 65536\nblock 8 1000 1\n");
    if (fclose(f)) exit(2);
    setenv("STRIDEC_TUNE", path, 1);
}

/*
 * Ways to send.
 */

static int peer;
static MPI_Comm ring;

static void by_sendrecv(void)
{
    MPI_Sendrecv(source.origin, vector.count, vector.type, peer, 1, target.origin, vector.count, vector.type, peer, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void by_isend(void)
{
    MPI_Request r[2];
    MPI_Irecv(target.origin, vector.count, vector.type, peer, 2, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(source.origin, vector.count, vector.type, peer, 2, MPI_COMM_WORLD, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void by_start(void)
{
    MPI_Request r[2];
    MPI_Recv_init(target.origin, vector.count, vector.type, peer, 3, MPI_COMM_WORLD, &r[0]);
    MPI_Send_init(source.origin, vector.count, vector.type, peer, 3, MPI_COMM_WORLD, &r[1]);
    MPI_Startall(2, r);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
}

static void by_edge(void)
{
    MPI_Neighbor_alltoall(source.origin, vector.count, vector.type, target.origin, vector.count, vector.type, ring);
}

static const struct {
    const char *name;
    void (*go)(void);
} ways[] = {{"Sendrecv", by_sendrecv}, {"Isend", by_isend}, {"Start", by_start}, {"Neighbor_alltoall", by_edge}};

/* True if both ranks have offered messages of these many bytes. */
static bool offered(void)
{
    int mine = offers_sized(vector.bytes), both;
    MPI_Allreduce(&mine, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return both;
}

static void open_buffers(int blocks)
{
    MPI_Datatype type;
    MPI_Type_vector(blocks, 1, 4, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    layout_of(&vector, type, 1, "doubles");
    buf_make(&source, MEM_DEVICE, &vector, 0, 1 + (uint64_t)my_rank);
    buf_make(&target, MEM_DEVICE, &vector, 0, 9);
}

static void close_buffers(void)
{
    buf_free(&source);
    buf_free(&target);
    layout_free(&vector);
}

static void exchange_by(int way)
{
    buf_fill(&target, 9);
    ways[way].go();
    buf_expect_from(&target, &vector, &vector, 1 + (uint64_t)peer);
    buf_check(&target, ways[way].name);
}

/* Offers begin once the ranks have tried each other's memory. */
static void check_long(void)
{
    double since = 0;
    bool any = false;
    open_buffers(8192);
    for (int i = 0; i < 10 || (!any && within(&since, SECONDS) && i < 1000); i++) {
        exchange_by(0);
        any = offered();
    }
    expect(any || host_mode, "long messages are not offered");
    close_buffers();
    report("long messages go zero-copy");
}

static void check_short(const struct mode *m)
{
    for (int way = 0; way < (int)(sizeof ways / sizeof *ways); way++) {
        open_buffers(512 + way);   /* each of its own size */
        exchange_by(way);
        expect(host_mode || offered() != m->packs, "short messages are %soffered", m->packs ? "" : "not ");
        close_buffers();
        report("short messages by %s, table: %s", ways[way].name, m->name);
    }
}

static void check_choice(const struct mode *m)
{
    int one = 1;
    peer = my_rank ^ 1;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &peer, &one, 1, &peer, &one, MPI_INFO_NULL, 0, &ring);
    check_long();
    check_short(m);
    MPI_Comm_free(&ring);
}

/*
 * A GPU that is not the default one.
 */

static void *exchange(void *arg)
{
    (void)arg;
    by_sendrecv();
    return NULL;
}

static void check_gpu0(void)
{
    CUresult (*state)(CUdevice, unsigned *, int *) = NULL;
    unsigned flags = 0;
    int active = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver) *(void **)&state = dlsym(driver, "cuDevicePrimaryCtxGetState");
    if (state && state(0, &flags, &active) == CUDA_SUCCESS) expect(!active, "GPU 0 has a context");
}

static void check_gpus(void)
{
    int devices = 1;
    pthread_t id;
    peer = my_rank ^ 1;
    if (!host_mode && (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2)) {
        note("needs two GPUs");
    } else {
        if (!host_mode) cudaSetDevice(1);
        open_buffers(60);
        pthread_create(&id, NULL, exchange, NULL);
        pthread_join(id, NULL);
        buf_expect_from(&target, &vector, &vector, 1 + (uint64_t)peer);
        buf_check(&target, "received by a thread without a context");
        if (!host_mode) check_gpu0();
        close_buffers();
    }
    report("a tuned table touches no other GPU");
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/stridec-table.XXXXXX";
    const struct mode *m = mode_of(argc, argv);
    write_table(path, m);
    check_start(&argc, &argv, MPI_THREAD_SERIALIZED);
    unlink(path);
    if (m == modes) check_gpus();
    else check_choice(m);
    return check_finish();
}
