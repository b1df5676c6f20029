/* gpu.h: properties of GPUs, and the text by which the generator is told of them. */
#ifndef STRIDEC_GEN_GPU_H
#define STRIDEC_GEN_GPU_H

/* ORDER GPU_ROW: gpu_rows.lua. */
struct gen_gpu {
    int sm;                /* 90 for compute capability 9.0 */
    int multiprocessors;
    int threads;           /* that a multiprocessor runs at a time */
    int cache;             /* MiB of L2 */
    int memory;            /* GB/s */
    int link, host;        /* GB/s one way: to another GPU of the node, and to host memory */
};

/* A row for each architecture, ascending (gpus.lua). */
extern const struct gen_gpu gen_gpu_rows[];
extern const int gen_gpu_row_count;

/* Returns the row of an architecture; without one, that of the newest which is older. */
const struct gen_gpu *gen_gpu_row(int sm);
/* Returns a GPU by what its driver tells; numbers below 1 are the row's. */
struct gen_gpu gen_gpu_of(int sm, int multiprocessors, int threads, int cache, int memory);

/* Writes the target (gen.h) of a GPU, and that of an architecture's row. */
#define GEN_TARGET_MAX 96
void gen_gpu_target(const struct gen_gpu *gpu, char target[GEN_TARGET_MAX]);
void gen_arch_target(int sm, char target[GEN_TARGET_MAX]);

#endif
