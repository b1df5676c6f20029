/* search.h: the parts of bench/search: layouts, variants, the GPU, the studies. */
#ifndef STRIDEC_BENCH_SEARCH_H
#define STRIDEC_BENCH_SEARCH_H
#include "timing.h"
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The driver, loaded at run time. The optional calls may be NULL. */
#define SEARCH_CALLS(X) \
    X(cuInit) X(cuGetErrorName) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain) \
    X(cuCtxPushCurrent) X(cuCtxSynchronize) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemHostGetDevicePointer) \
    X(cuMemcpyAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyHtoDAsync) X(cuMemsetD8Async) \
    X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery) \
    X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) X(cuEventElapsedTime) \
    X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel)
#define SEARCH_OPTIONAL(X) \
    X(cuStreamBeginCapture) X(cuStreamEndCapture) \
    X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy) X(cuGraphGetNodes) \
    X(cuGraphKernelNodeGetParams) X(cuGraphExecKernelNodeSetParams) X(cuCtxSetLimit) \
    X(cuCtxGetLimit) X(cuStreamWriteValue32) X(cuDevicePrimaryCtxSetFlags)
struct cu {
#define SEARCH_FIELD(name) __typeof__(name) *name;
    SEARCH_CALLS(SEARCH_FIELD) SEARCH_OPTIONAL(SEARCH_FIELD)
    CUdevice device;
    int multiprocessors, arch;
    char gpu[128];
};
extern struct cu cu;

/* Loads the driver and makes the primary context of device 0 current; flags are the context's, or -1. */
bool gpu_open(int flags);
void gpu_check(CUresult r, const char *what);
#define CU(call) gpu_check(cu.call, #call)
CUstream gpu_stream(void);   /* the one all measuring uses */

/* Compiles sources in parallel processes, each to a module (NULL where it failed; the log goes to stderr). */
void compile_all(int n, char *const source[], CUmodule module[]);
/* The other end of it: `search --compile arch in out`. */
int compile_main(const char *arch, const char *in, const char *out);
extern const char *search_self;
extern const char search_kernels[];   /* search_kernels.cu */

struct search_layout {
    const char *name;
    int64_t length, dims, count[4], step[4], offset;  /* outermost first */
};
extern const struct search_layout search_layouts[];
extern const int search_layout_total;
struct search_layout layout_small(const struct search_layout *l);   /* few rows, for checks without a GPU */
int64_t layout_blocks(const struct search_layout *l);
int64_t layout_bytes(const struct search_layout *l);
int64_t layout_span(const struct search_layout *l);
/* Bytes that packing (unpacking) moves by the floor's rule. */
int64_t layout_moved(const struct search_layout *l, bool pack);
char *layout_source(const struct search_layout *l);      /* the constants */
char *layout_signature(const struct search_layout *l);

enum family { LINEAR, STAGED, BULK, BULK_ROWS, TILE };
struct variant {
    enum family family;
    int word, item, flight, threads, map, grid, ctas, bands, load, store, fetch;   /* ctas: for each SM */
};
struct variants {
    int n, room;
    struct variant *v;
};
bool variant_same(const struct variant *a, const struct variant *b);
bool variant_unsafe(const struct variant *v);
void variant_name(const struct variant *v, char *text, size_t room);
char *variant_source(const struct variant *v, bool pack, int number);   /* one kernel's line, named v<number> */
unsigned variant_grid(const struct variant *v, const struct search_layout *l);
/* Adds variants that the list has not: the cores; hints on the first `n` of best; mixes of what helped. */
void variants_cores(struct variants *to, const struct search_layout *l, bool pack, bool plain);
void variants_hints(struct variants *to, const struct search_layout *l, bool pack, const struct variant *best, int n);
void variants_mixes(struct variants *to, const struct search_layout *l, bool pack, const struct variant *best, int n);

int search_layout_main(int index, bool small, double launch_us, double bytes_per_us, double seconds);
int search_limits_main(void);
int search_wait_main(int flags);
int search_scatter_main(void);
char *scatter_source(void);   /* its kernels */
#endif
