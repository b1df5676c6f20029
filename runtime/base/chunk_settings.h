/* chunk_settings.h: the line `pipeline` of a tuned table: how long messages are cut into chunks (pipeline.h).
 *   pipeline chunk=524288 depth=4 least=1048576 device=0
 * Commas do for blanks. What is not named stays as it was. */
#ifndef STRIDEC_TUNE_PIPELINE_H
#define STRIDEC_TUNE_PIPELINE_H
#include <stdint.h>
#include <stdio.h>

#define PIPELINE_DEPTH_MOST 16
struct tune_pipeline {
    int64_t chunk;   /* bytes */
    int64_t depth;   /* chunks that are packed at the same time; up to PIPELINE_DEPTH_MOST */
    int64_t least;   /* bytes from which on a message is cut */
    int64_t device;  /* 1: chunks may be device memory where a CUDA-aware MPI takes it; 0: they are host memory */
};
/* For systems that were not tuned. Between two nodes on one machine with H200s, over TCP, chunks of 512 KiB take
 * 0.75 times what packing, copying and sending one after the other take for 64 MiB, 0.84 to 0.9 for 8, 0.83 to 0.94
 * for 4, and 0.89 to 0.98 for 1 MiB (bench/results/h200-nodes.md). */
#define TUNE_PIPELINE_USUAL ((struct tune_pipeline){.chunk = 1 << 19, .depth = 4, .least = 1 << 20, .device = 0})

/* NULL, or what is wrong with the settings; p is as it was then. */
const char *tune_pipeline_read(struct tune_pipeline *p, const char *settings);
void tune_pipeline_write(const struct tune_pipeline *p, FILE *f);

#endif
