/* common.h: what the benchmarks share: GPU memory, comparing, timing, the head of a results file. */
#ifndef STRIDEC_BENCH_COMMON_H
#define STRIDEC_BENCH_COMMON_H
#include "timing.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Ends the run with a message where the CUDA call fails. */
#define CUDA(call) cuda_check((call), #call)
void cuda_check(cudaError_t status, const char *what);

/* Selects the GPU of this rank: rank modulo the number of GPUs. False where there is none. */
bool gpu_select(int rank);
/* How many GPUs so many ranks then use. */
int gpus_used(int ranks);

/* A function of libcuda.so.1; ends the run where there is none. */
void *driver_symbol(const char *name);
/* A kernel of a module of PTX or machine code, which stays loaded; NULL where the driver refuses it. */
CUfunction driver_kernel(const void *image, const char *name);
/* source.c: a kernel of CUDA C, compiled by NVRTC for the current device; NULL without NVRTC, or where it refuses. */
CUfunction source_kernel(const char *source, const char *name);

bool mpi_takes_device(void);   /* whether the MPI says that it is CUDA-aware */
bool stridec_loaded(void);

/* Bytes a microsecond from this rank's GPU to the next one, by the driver's copies; 0 where no other is in reach. */
double peer_rate(void);

void *host_new(size_t bytes);     /* end the run when memory is out */
void *device_new(size_t bytes);

/* True if device memory holds the bytes of `host`; reads it back in pieces. */
bool device_equals(const void *device, const void *host, size_t bytes);

/* Fills device memory, and waits until it is done: MPI may look at it from another stream. */
void device_write(void *device, const void *host, size_t bytes);
void device_set(void *device, int byte, size_t bytes);

/* The median of the times of run(arg), in microseconds: as many calls as fit in `budget_us`, between
 * `least` and 2000 of them. */
double median_us(void (*run)(void *arg), void *arg, double budget_us, int least);

/* The first members of a results object: "machine", "versions", "date", "command" (each with a comma). */
void json_head(FILE *f, int argc, char **argv);
/* A results file with its head, standard output where `out` is NULL; ends the run where it cannot be written. */
FILE *results_open(const char *out, int argc, char **argv);
void results_close(FILE *f);   /* NULL is let be */
/* A results file up to its list of "cases", and its end right behind that list; NULL is let be. */
FILE *cases_open(const char *out, int argc, char **argv, const char *benchmark);
void cases_close(FILE *f);

#endif
