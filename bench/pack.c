/* pack.c: MPI_Pack and MPI_Unpack on GPU memory, checked byte for byte and timed, layout by layout.
 *
 * usage: mpirun -n 1 stridec run -- pack [--check] [--span BYTES] [OUT.json]
 *
 * Each layout is packed and unpacked from device to device and compared with what the MPI makes of the same
 * bytes in host memory: all packed bytes, and after unpacking the whole span, gaps included. That is done right
 * after the commit and again when 0.5 s of calls have passed, so that a kernel compiled meanwhile is checked
 * too; only then it is timed. --check stops before timing. --span leaves out layouts that reach further.
 * Exit status 1 where a byte was wrong. */
#include "common.h"
#include "layouts.h"
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#define WARM_US 0.5e6
#define BUDGET_US 0.4e6
#define GRANULE 64        /* bytes of memory that move together */
#define KERNEL_LEAST_US 3 /* the shortest time a packing kernel is granted by the floor */

/* The limits of this machine, measured in this run. */
struct limits {
    double launch_us;     /* an empty kernel and the wait for it */
    double bytes_per_us;  /* device-to-device copy, bytes read plus written */
};

struct work {
    struct layout *l;
    char *host, *host_packed;     /* span_bytes, packed_bytes */
    char *user, *packed;          /* the same on the device */
    char *second;                 /* device, packed_bytes: where the contiguous copy goes */
    cudaStream_t stream;
};

static void pack(void *arg)
{
    struct work *w = arg;
    int position = 0;

    MPI_Pack(w->user, w->l->count, w->l->type, w->packed, (int)w->l->packed_bytes, &position, MPI_COMM_WORLD);
}

static void unpack(void *arg)
{
    struct work *w = arg;
    int position = 0;

    MPI_Unpack(w->packed, (int)w->l->packed_bytes, &position, w->user, w->l->count, w->l->type, MPI_COMM_WORLD);
}

static void contiguous(void *arg)
{
    struct work *w = arg;

    CUDA(cudaMemcpyAsync(w->second, w->packed, w->l->packed_bytes, cudaMemcpyDeviceToDevice, w->stream));
    CUDA(cudaStreamSynchronize(w->stream));
}

static void host_pack(struct work *w)
{
    int position = 0;

    MPI_Pack(w->host, w->l->count, w->l->type, w->host_packed, (int)w->l->packed_bytes, &position, MPI_COMM_WORLD);
}

static void host_unpack(struct work *w)
{
    int position = 0;

    MPI_Unpack(w->host_packed, (int)w->l->packed_bytes, &position, w->host, w->l->count, w->l->type, MPI_COMM_WORLD);
}

/* The granules of the strided side: all that the layout touches, and those it covers only in part. Asks the
 * host MPI which bytes those are: 0xff unpacked into zeros. */
static void granules(struct work *w, size_t *touched, size_t *partial)
{
    memset(w->host, 0, w->l->span_bytes);
    memset(w->host_packed, 0xff, w->l->packed_bytes);
    host_unpack(w);
    *touched = *partial = 0;
    for (size_t at = 0; at < w->l->span_bytes; at += GRANULE) {
        size_t n = w->l->span_bytes - at < GRANULE ? w->l->span_bytes - at : GRANULE, set = 0;

        for (size_t i = 0; i < n; i++)
            set += w->host[at + i] != 0;
        *touched += set > 0;
        *partial += set > 0 && set < GRANULE;
    }
}

static bool check(struct work *w, uint64_t seed)
{
    bool right;
    struct layout *l = w->l;

    random_bytes(w->host, l->span_bytes, seed);
    device_write(w->user, w->host, l->span_bytes);
    device_set(w->packed, 0xa5, l->packed_bytes);
    host_pack(w);
    pack(w);
    right = device_equals(w->packed, w->host_packed, l->packed_bytes);
    if (!right)
        fprintf(stderr, "pack: %s: MPI_Pack made wrong bytes\n", l->name);

    random_bytes(w->host_packed, l->packed_bytes, seed + 1);
    device_write(w->packed, w->host_packed, l->packed_bytes);
    host_unpack(w);
    unpack(w);
    if (!device_equals(w->user, w->host, l->span_bytes)) {
        fprintf(stderr, "pack: %s: MPI_Unpack made wrong bytes\n", l->name);
        right = false;
    }
    return right;
}

static void warm(struct work *w)
{
    for (double end = now_us() + WARM_US; now_us() < end;) {
        pack(w);
        unpack(w);
    }
}

static struct work work_new(struct layout *l)
{
    struct work w = { .l = l };

    w.host = host_new(l->span_bytes);
    w.host_packed = host_new(l->packed_bytes);
    w.user = device_new(l->span_bytes);
    w.packed = device_new(l->packed_bytes);
    w.second = device_new(l->packed_bytes);
    CUDA(cudaStreamCreateWithFlags(&w.stream, cudaStreamNonBlocking));
    return w;
}

static void work_free(struct work *w)
{
    CUDA(cudaStreamDestroy(w->stream));
    CUDA(cudaFree(w->second));
    CUDA(cudaFree(w->packed));
    CUDA(cudaFree(w->user));
    free(w->host_packed);
    free(w->host);
}

/* Launching an empty kernel and waiting for it. */
struct empty {
    CUfunction kernel;
    CUstream stream;
    __typeof__(cuLaunchKernel) *launch;
    __typeof__(cuStreamSynchronize) *wait;
};

static void launch_empty(void *arg)
{
    struct empty *e = arg;

    e->launch(e->kernel, 1, 1, 1, 32, 1, 1, 0, e->stream, NULL, NULL);
    e->wait(e->stream);
}

static double measure_launch(cudaStream_t stream)
{
    static const char ptx[] = ".version 6.5\n.target sm_75\n.address_size 64\n.visible .entry empty() { ret; }\n";
    struct empty e = { .stream = (CUstream)stream };
    __typeof__(cuModuleLoadData) *load;
    __typeof__(cuModuleGetFunction) *find;
    CUmodule module;

    *(void **)&e.launch = driver_symbol("cuLaunchKernel");
    *(void **)&e.wait = driver_symbol("cuStreamSynchronize");
    *(void **)&load = driver_symbol("cuModuleLoadData");
    *(void **)&find = driver_symbol("cuModuleGetFunction");
    if (load(&module, ptx) != CUDA_SUCCESS || find(&e.kernel, module, "empty") != CUDA_SUCCESS) {
        fprintf(stderr, "pack: the driver refused an empty kernel\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    /* The least of several medians: a floor must not be a cold GPU's. */
    double least = median_us(launch_empty, &e, WARM_US, 100);
    for (int i = 0; i < 5; i++) {
        double us = median_us(launch_empty, &e, BUDGET_US, 100);
        if (us < least) least = us;
    }
    return least;
}

static struct limits measure_limits(void)
{
    const size_t bytes = (size_t)1 << 30;
    const int copies = 16;
    struct limits m;
    cudaStream_t stream;
    void *from = device_new(bytes), *to = device_new(bytes);
    double best = 0;

    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    m.launch_us = measure_launch(stream);
    for (int round = 0; round < 5; round++) {
        double t = now_us(), rate;

        for (int i = 0; i < copies; i++)
            CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
        CUDA(cudaStreamSynchronize(stream));
        rate = 2.0 * (double)bytes * copies / (now_us() - t);
        best = rate > best ? rate : best;
    }
    m.bytes_per_us = best;
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaFree(from));
    CUDA(cudaFree(to));
    return m;
}

static double floor_us(const struct limits *m, size_t bytes_moved)
{
    double moving = (double)bytes_moved / m->bytes_per_us;

    return m->launch_us + (moving > KERNEL_LEAST_US ? moving : KERNEL_LEAST_US);
}

/* One row of "cases". */
static void measure(FILE *f, struct work *w, const struct limits *m, size_t touched, size_t partial, bool ok)
{
    struct layout *l = w->l;
    double pack_us = median_us(pack, w, BUDGET_US, 20), unpack_us = median_us(unpack, w, BUDGET_US, 20);

    median_us(contiguous, w, BUDGET_US / 4, 20);
    fprintf(f, "{\"case\": \"%s\", \"bytes\": %zu, \"ok\": %s, \"pack_us\": %.2f, \"unpack_us\": %.2f, "
            "\"contiguous_us\": %.2f, \"floor_us\": %.2f, \"floor_unpack_us\": %.2f}", l->name, l->packed_bytes,
            ok ? "true" : "false", pack_us, unpack_us, median_us(contiguous, w, BUDGET_US, 20),
            floor_us(m, l->packed_bytes + l->list_bytes + GRANULE * touched),
            floor_us(m, l->packed_bytes + l->list_bytes + GRANULE * (touched + partial)));
    fprintf(stderr, "pack: %-42s pack %8.1f us, unpack %8.1f us\n", l->name, pack_us, unpack_us);
}

/* Returns the number of layouts with wrong bytes. Writes rows where f is not NULL. */
static int run_all(FILE *f, const struct limits *m, size_t span_max)
{
    int wrong = 0, done = 0, left_out = 0;

    for (size_t i = 0; i < layout_total(LAYOUTS_PACK); i++) {
        struct layout l = layout_make(LAYOUTS_PACK, i);
        size_t touched = 0, partial = 0;
        struct work w;
        bool ok;

        if (l.span_bytes > span_max) {
            left_out++;
            layout_free(&l);
            continue;
        }
        w = work_new(&l);
        ok = check(&w, 4 * i);
        if (f)
            granules(&w, &touched, &partial);
        warm(&w);
        ok = check(&w, 4 * i + 2) && ok;
        wrong += !ok;
        if (f) {
            fputs(done ? ",\n" : "", f);
            measure(f, &w, m, touched, partial, ok);
        }
        done++;
        work_free(&w);
        layout_free(&l);
    }
    fprintf(stderr, "pack: %d layouts verified, %d wrong, %d left out\n", done - wrong, wrong, left_out);
    return wrong;
}

int main(int argc, char **argv)
{
    const char *out = NULL;
    bool check_only = false;
    size_t span_max = SIZE_MAX;
    struct limits m = { 0 };
    FILE *f = NULL;
    int wrong;

    MPI_Init(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--check"))
            check_only = true;
        else if (!strcmp(argv[i], "--span") && i + 1 < argc)
            span_max = strtoull(argv[++i], NULL, 10);
        else
            out = argv[i];
    }
    if (!gpu_select(0)) {
        printf("pack: no GPU found: nothing to measure\n");
        MPI_Finalize();
        return 0;
    }
    if (!check_only) {
        f = out ? fopen(out, "w") : stdout;
        if (!f) {
            perror(out);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        m = measure_limits();
        fprintf(f, "{\n");
        json_head(f, argc, argv);
        fprintf(f, "\"launch_us\": %.2f,\n\"copy_GB_s\": %.0f,\n\"cases\": [\n", m.launch_us, m.bytes_per_us / 1000);
    }
    wrong = run_all(f, &m, span_max);
    if (f) {
        fprintf(f, "\n]}\n");
        if (f != stdout)
            fclose(f);
    }
    MPI_Finalize();
    return wrong != 0;
}
