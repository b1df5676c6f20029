/* beside.c: MPI_Pack and MPI_Unpack beside a kernel that fills the GPU (Jenkins section 4.4, Wu section 5.4), both ways
 * round: what the computation costs the packing, and what the packing costs the computation.
 *
 * usage: mpirun -n 1 stridec run -- beside [OUT.json]
 *
 * The computation is many waves of blocks of some 20 us each in a stream of its own, as a solver's kernels are. STRIDEC_SM_LIMIT
 * and STRIDEC_ENGINE, where set, are noted in the results: bench/run.sh runs it with several settings. */
#include "common.h"
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 256
#define WAVE_US 20
#define COMPUTE_US 8000
#define SAMPLES 5

static const char ptx[] =
    ".version 6.5\n.target sm_75\n.address_size 64\n"
    ".visible .entry compute(.param .u64 to, .param .u32 rounds) {\n"
    "  .reg .f32 %a, %b, %c, %d; .reg .u32 %i, %t; .reg .u64 %p; .reg .pred %q;\n"
    "  mov.u32 %t, %tid.x; cvt.rn.f32.u32 %a, %t; mov.u32 %t, %ctaid.x; cvt.rn.f32.u32 %b, %t;\n"
    "  mov.f32 %c, 0f3F800000; mov.f32 %d, 0f40000000; ld.param.u32 %i, [rounds];\n"
    "again:\n"
    "  fma.rn.f32 %a, %a, 0f3F800347, 0f3F000000; fma.rn.f32 %b, %b, 0f3F7FF972, 0f3E800000;\n"
    "  fma.rn.f32 %c, %c, 0f3F80068E, 0f3E000000; fma.rn.f32 %d, %d, 0f3F7FF2E5, 0f3D800000;\n"
    "  sub.u32 %i, %i, 1; setp.ne.u32 %q, %i, 0; @%q bra again;\n"
    "  add.f32 %a, %a, %b; add.f32 %c, %c, %d; add.f32 %a, %a, %c; setp.eq.f32 %q, %a, 0f4640E400;\n"
    "  ld.param.u64 %p, [to]; @%q st.global.f32 [%p], %a; ret;\n}\n";

static const struct {
    const char *name;
    int bytes, block, pitch;
} layouts[] = {
    {"vector 1 MiB, 8 B blocks", 1 << 20, 8, 512},
    {"vector 1 MiB, 256 B blocks", 1 << 20, 256, 512},
    {"vector 4 MiB, 256 B blocks", 4 << 20, 256, 512},
    {"vector 64 MiB, 32 B blocks", 64 << 20, 32, 512},
    {"vector 64 MiB, 256 B blocks", 64 << 20, 256, 512},
};

struct beside {
    __typeof__(cuLaunchKernel) *launch;
    CUfunction compute;
    cudaStream_t computing;
    cudaEvent_t from, to;
    CUdeviceptr sink;
    int rounds, blocks;
};

static void start_compute(struct beside *b)
{
    void *arguments[] = {&b->sink, &b->rounds};
    CUDA(cudaEventRecord(b->from, b->computing));
    b->launch(b->compute, (unsigned)b->blocks, 1, 1, THREADS, 1, 1, 0, (CUstream)b->computing, arguments, NULL);
    CUDA(cudaEventRecord(b->to, b->computing));
}

static double compute_us(struct beside *b)
{
    float ms;
    CUDA(cudaEventSynchronize(b->to));
    CUDA(cudaEventElapsedTime(&ms, b->from, b->to));
    return ms * 1e3;
}

static double compute_alone(struct beside *b)
{
    double us[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        start_compute(b);
        us[i] = compute_us(b);
    }
    return median_of(us, SAMPLES);
}

/* Rounds for blocks of WAVE_US, and blocks for COMPUTE_US in all. */
static void calibrate(struct beside *b)
{
    int device, multiprocessors;
    CUDA(cudaGetDevice(&device));
    CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    b->rounds = 1000;
    b->blocks = multiprocessors * (2048 / THREADS);
    b->rounds = (int)(1000 * WAVE_US / compute_alone(b)) + 1;
    b->blocks *= COMPUTE_US / WAVE_US;
}

struct call {
    MPI_Datatype type;
    void *user, *packed;
    int bytes;
    bool pack;
};

static void one_call(const struct call *c)
{
    int position = 0;
    if (c->pack)
        MPI_Pack(c->user, 1, c->type, c->packed, c->bytes, &position, MPI_COMM_WORLD);
    else
        MPI_Unpack(c->packed, c->bytes, &position, c->user, 1, c->type, MPI_COMM_WORLD);
}

/* Microseconds a call: as many calls as `us` holds, at most 200. */
static double calls_us(const struct call *c, double us, int *calls)
{
    double begin = now_us(), now = begin;
    for (*calls = 0; *calls < 200 && now < begin + us; ++*calls) {
        one_call(c);
        now = now_us();
    }
    return (now - begin) / *calls;
}

static void measure(struct beside *b, const struct call *c, const char *head, const char *name)
{
    double alone[SAMPLES], beside[SAMPLES], computing[SAMPLES], alone_compute = compute_alone(b);
    int calls = 0;
    for (int i = 0; i < SAMPLES; i++) alone[i] = calls_us(c, COMPUTE_US / 4.0, &calls);
    for (int i = 0; i < SAMPLES; i++) {
        start_compute(b);
        for (double until = now_us() + 100; now_us() < until;) continue; /* so that it runs */
        beside[i] = calls_us(c, COMPUTE_US * 0.6, &calls);
        computing[i] = compute_us(b);
    }
    printf("%s{\"case\": \"%s\", \"way\": \"%s\", \"bytes\": %d, \"calls\": %d, \"alone_us\": %.2f, \"beside_us\": %.2f, "
           "\"compute_alone_us\": %.1f, \"compute_beside_us\": %.1f}", head, name, c->pack ? "pack" : "unpack", c->bytes,
           calls, median_of(alone, SAMPLES), median_of(beside, SAMPLES), alone_compute, median_of(computing, SAMPLES));
}

static void measure_layout(struct beside *b, size_t i, const char *head)
{
    int blocks = layouts[i].bytes / layouts[i].block;
    struct call c = {.bytes = layouts[i].bytes};
    MPI_Type_create_hvector(blocks, layouts[i].block, layouts[i].pitch, MPI_BYTE, &c.type);
    MPI_Type_commit(&c.type);
    c.user = device_new((size_t)blocks * (size_t)layouts[i].pitch);
    c.packed = device_new((size_t)c.bytes);
    device_set(c.user, 1, (size_t)blocks * (size_t)layouts[i].pitch);
    for (double end = now_us() + 5e5; now_us() < end;) one_call(&c); /* its own kernel is ready then */
    for (int way = 0; way < 2; way++) {
        c.pack = !way;
        one_call(&c);
        measure(b, &c, way ? ",\n" : head, layouts[i].name);
    }
    CUDA(cudaFree(c.packed));
    CUDA(cudaFree(c.user));
    MPI_Type_free(&c.type);
}

static void load_compute(struct beside *b)
{
    *(void **)&b->launch = driver_symbol("cuLaunchKernel");
    b->sink = (CUdeviceptr)(uintptr_t)device_new(256);
    b->compute = driver_kernel(ptx, "compute");
    if (b->compute) return;
    fprintf(stderr, "beside: the driver refused the computation\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    struct beside b = {0};
    const char *limit = getenv("STRIDEC_SM_LIMIT"), *engine = getenv("STRIDEC_ENGINE");
    MPI_Init(&argc, &argv);
    if (!gpu_select(0)) {
        printf("beside: no GPU found: nothing to measure\n");
        MPI_Finalize();
        return 0;
    }
    if (argc > 1 && !freopen(argv[1], "w", stdout)) {
        perror(argv[1]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    load_compute(&b);
    CUDA(cudaStreamCreateWithFlags(&b.computing, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&b.from));
    CUDA(cudaEventCreate(&b.to));
    calibrate(&b);
    printf("{\n");
    json_head(stdout, argc, argv);
    printf("\"sm_limit\": \"%s\",\n\"engine\": \"%s\",\n\"cases\": [\n", limit ? limit : "", engine ? engine : "");
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) measure_layout(&b, i, i ? ",\n" : "");
    printf("\n]}\n");
    MPI_Finalize();
    return 0;
}
