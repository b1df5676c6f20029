/* search_wait.c: how a host learns soonest that a kernel has finished.
 *
 * Each method launches a kernel and waits; the time is the host's, from before the launch until it knows. */
#include "search.h"
#include <stdlib.h>
#include <string.h>

#define CALLS 2000

static const char kernels[] =
    "extern \"C\" __global__ void plain(unsigned *to, unsigned n)\n"
    "{\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) to[i] = i;\n"
    "}\n"
    /* The last block to finish sets the flag; the counter is left at 0 for the next launch. */
    "extern \"C\" __global__ void flagged(unsigned *to, unsigned n, unsigned *counter, volatile unsigned *flag,\n"
    "                                    unsigned value)\n"
    "{\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) to[i] = i;\n"
    "    if (gridDim.x > 1) {\n"
    "        __syncthreads();\n"
    "        if (threadIdx.x) return;\n"
    "        __threadfence();\n"
    "        if (atomicAdd(counter, 1) != gridDim.x - 1) return;\n"
    "        *counter = 0;\n"
    "    } else {\n"
    "        __syncthreads();\n"
    "        if (threadIdx.x) return;\n"
    "    }\n"
    "    __threadfence_system();\n"
    "    *flag = value;\n"
    "}\n";

struct waiting {
    CUstream stream;
    CUfunction plain, flagged;
    CUdeviceptr to, counter, flag;
    volatile unsigned *seen;
    unsigned grid, value;
    bool told;      /* in the table too */
    CUevent event;
    CUgraph graph;
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS node_parameters;
    CUgraphExec exec;
};

static void launch_plain(struct waiting *w)
{
    unsigned n = w->grid * 128;
    void *arguments[] = { &w->to, &n };
    CU(cuLaunchKernel(w->plain, w->grid, 1, 1, 128, 1, 1, 0, w->stream, arguments, NULL));
}

static void spin(struct waiting *w)
{
    while (*w->seen != w->value)
        __builtin_ia32_pause();
}

static void by_synchronize(struct waiting *w)
{
    launch_plain(w);
    CU(cuStreamSynchronize(w->stream));
}

static void by_query(struct waiting *w)
{
    launch_plain(w);
    while (cu.cuStreamQuery(w->stream) == CUDA_ERROR_NOT_READY) continue;
}

static void by_event_query(struct waiting *w)
{
    launch_plain(w);
    CU(cuEventRecord(w->event, w->stream));
    while (cu.cuEventQuery(w->event) == CUDA_ERROR_NOT_READY) continue;
}

static void by_event_synchronize(struct waiting *w)
{
    launch_plain(w);
    CU(cuEventRecord(w->event, w->stream));
    CU(cuEventSynchronize(w->event));
}

static void by_write_value(struct waiting *w)
{
    w->value++;
    launch_plain(w);
    CU(cuStreamWriteValue32(w->stream, w->flag, w->value, 0));
    spin(w);
}

static void by_copy(struct waiting *w)
{
    w->value++;
    CU(cuMemcpyHtoDAsync(w->counter + 64, &w->value, sizeof w->value, w->stream));
    launch_plain(w);
    CU(cuMemcpyDtoHAsync((void *)(uintptr_t)w->seen, w->counter + 64, sizeof w->value, w->stream));
    spin(w);
}

static void by_flag(struct waiting *w)
{
    unsigned n = w->grid * 128;
    w->value++;
    void *arguments[] = { &w->to, &n, &w->counter, &w->flag, &w->value };
    CU(cuLaunchKernel(w->flagged, w->grid, 1, 1, 128, 1, 1, 0, w->stream, arguments, NULL));
    spin(w);
}

static void by_graph(struct waiting *w)
{
    CU(cuGraphLaunch(w->exec, w->stream));
    CU(cuStreamSynchronize(w->stream));
}

/* The arguments of a launch change from call to call. */
static void by_graph_set(struct waiting *w)
{
    unsigned n = w->grid * 128 - ++w->value % 2;
    void *arguments[] = { &w->to, &n };
    w->node_parameters.kernelParams = arguments;
    CU(cuGraphExecKernelNodeSetParams(w->exec, w->node, &w->node_parameters));
    by_graph(w);
}

static void by_graph_flag(struct waiting *w)
{
    unsigned n = w->grid * 128;
    w->value++;
    void *arguments[] = { &w->to, &n, &w->counter, &w->flag, &w->value };
    w->node_parameters.kernelParams = arguments;
    CU(cuGraphExecKernelNodeSetParams(w->exec, w->node, &w->node_parameters));
    CU(cuGraphLaunch(w->exec, w->stream));
    spin(w);
}

static void launch_only(struct waiting *w)
{
    launch_plain(w);
}

static const struct {
    const char *name;
    void (*run)(struct waiting *);
    int event;      /* flags of the event it uses, or -1 */
    int drain;      /* the stream is emptied, untimed, after each call */
} methods[] = {
    { "cuStreamSynchronize", by_synchronize, -1, 0 },
    { "cuStreamQuery spin", by_query, -1, 0 },
    { "event (timing) + cuEventQuery spin", by_event_query, CU_EVENT_DEFAULT, 0 },
    { "event (no timing) + cuEventQuery spin", by_event_query, CU_EVENT_DISABLE_TIMING, 0 },
    { "event (timing) + cuEventSynchronize", by_event_synchronize, CU_EVENT_DEFAULT, 0 },
    { "event (no timing) + cuEventSynchronize", by_event_synchronize, CU_EVENT_DISABLE_TIMING, 0 },
    { "event (no timing, blocking) + cuEventSynchronize", by_event_synchronize,
      CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC, 0 },
    { "cuStreamWriteValue32 + host spin", by_write_value, -1, 0 },
    { "kernel writes mapped flag + host spin", by_flag, -1, 0 },
    { "kernel writes mapped flag + host spin, drained", by_flag, -1, 1 },
    { "copy of the flag + host spin", by_copy, -1, 0 },
    { "graph of one kernel + cuStreamSynchronize", by_graph, -1, 0 },
    { "graph of one kernel, arguments set + cuStreamSynchronize", by_graph_set, -1, 0 },
    { "graph of one kernel, arguments set, mapped flag + host spin", by_graph_flag, -1, 0 },
    { "launch only, drained", launch_only, -1, 1 },
};
#define METHODS (sizeof methods / sizeof *methods)

static void launch_flagged(struct waiting *w)
{
    unsigned n = w->grid * 128;
    void *arguments[] = { &w->to, &n, &w->counter, &w->flag, &w->value };
    CU(cuLaunchKernel(w->flagged, w->grid, 1, 1, 128, 1, 1, 0, w->stream, arguments, NULL));
}

static void make_graph(struct waiting *w, bool flagged)
{
    size_t one = 1;
    CU(cuStreamBeginCapture(w->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    (flagged ? launch_flagged : launch_plain)(w);
    CU(cuStreamEndCapture(w->stream, &w->graph));
    CU(cuGraphGetNodes(w->graph, &w->node, &one));
    CU(cuGraphKernelNodeGetParams(w->node, &w->node_parameters));
    CU(cuGraphInstantiateWithFlags(&w->exec, w->graph, 0));
}

static bool takes_graph(size_t m)
{
    return methods[m].run == by_graph || methods[m].run == by_graph_set || methods[m].run == by_graph_flag;
}

static void time_method(struct waiting *w, size_t m, const char *head)
{
    static double us[CALLS];
    if (methods[m].event >= 0) CU(cuEventCreate(&w->event, (unsigned)methods[m].event));
    if (takes_graph(m)) make_graph(w, methods[m].run == by_graph_flag);
    for (int i = -200; i < CALLS; i++) {
        double t = now_us();
        methods[m].run(w);
        if (i >= 0) us[i] = now_us() - t;
        if (methods[m].drain) CU(cuStreamSynchronize(w->stream));
    }
    CU(cuStreamSynchronize(w->stream));
    if (methods[m].event >= 0) CU(cuEventDestroy(w->event));
    if (takes_graph(m)) {
        CU(cuGraphExecDestroy(w->exec));
        CU(cuGraphDestroy(w->graph));
    }
    double median = median_of(us, CALLS);
    printf("%s{\"method\": \"%s\", \"blocks\": %u, \"median_us\": %.3f, \"p99_us\": %.3f, \"least_us\": %.3f", head,
           methods[m].name, w->grid, median, us[CALLS * 99 / 100], us[0]);
    if (!w->told) return;
    fprintf(stderr, "  %-50s blocks %4u  median %7.2f  p99 %7.2f", methods[m].name, w->grid, median,
            us[CALLS * 99 / 100]);
}

int search_wait_main(int flags)
{
    static const struct {
        const char *name;
        unsigned flags;
    } streams[] = { { "default", CU_STREAM_DEFAULT }, { "non-blocking", CU_STREAM_NON_BLOCKING } };
    static const unsigned grids[] = { 1, 128, 1024 };
    struct waiting w = { 0 };
    char *text = strdup(kernels);
    CUmodule module;
    void *host;
    const char *head = "";
    if (!gpu_open(flags)) return 1;
    compile_all(1, &text, &module);
    if (!module) return 1;
    CU(cuModuleGetFunction(&w.plain, module, "plain"));
    CU(cuModuleGetFunction(&w.flagged, module, "flagged"));
    CU(cuMemAlloc(&w.to, 1024 * 128 * 4));
    CU(cuMemAlloc(&w.counter, 256));
    CU(cuMemsetD8Async(w.counter, 0, 256, NULL));
    CU(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    memset(host, 0, 4096);
    w.seen = host;
    CU(cuMemHostGetDevicePointer(&w.flag, host, 0));
    CU(cuCtxSynchronize());
    for (size_t s = 0; s < 2; s++) {
        CU(cuStreamCreate(&w.stream, streams[s].flags));
        for (size_t g = 0; g < sizeof grids / sizeof *grids; g++)
            for (size_t m = 0; m < METHODS; m++) {
                    bool written = methods[m].run == by_write_value;
                if ((written && !cu.cuStreamWriteValue32) || (takes_graph(m) && !cu.cuGraphExecKernelNodeSetParams)) continue;
                w.grid = grids[g];
                w.told = flags == 0 && grids[g] <= 128;
                time_method(&w, m, head);
                printf(", \"stream\": \"%s\", \"context_flags\": %d}", streams[s].name, flags);
                fflush(stdout);
                if (w.told) fprintf(stderr, "  %s stream\n", streams[s].name);
                head = ",\n";
            }
        CU(cuStreamDestroy(w.stream));
    }
    printf("\n");
    free(text);
    return 0;
}
