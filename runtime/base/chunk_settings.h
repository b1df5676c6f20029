/* chunk_settings.h: the line `pipeline` of a tuned table: how long messages are cut into chunks (pipeline.h).
 *   pipeline chunk=524288 depth=4 least=1048576 device=0
 * Commas may stand for blanks. A setting that is not named keeps its value. */
#ifndef STRIDEC_CHUNK_SETTINGS_H
#define STRIDEC_CHUNK_SETTINGS_H
#include <stdint.h>
#include <stdio.h>

#define CHUNK_DEPTH_MAX 16
struct chunk_params {
    int64_t chunk;   /* bytes */
    int64_t depth;   /* chunks packed at the same time; at most CHUNK_DEPTH_MAX */
    int64_t least;   /* bytes: shorter messages are not cut */
    int64_t device;   /* 1: chunks lie in device memory if the MPI is CUDA-aware; 0: in host memory */
};
/* For systems without a tuned table. On one H200 machine over TCP, 64 MiB take 0.75 of the time uncut, 1 MiB 0.89 to
 * 0.98 (bench/results/h200-nodes.md). */
#define CHUNK_SETTINGS_DEFAULT ((struct chunk_params){.chunk = 1 << 19, .depth = 4, .least = 1 << 20, .device = 0})

/* Returns NULL, or the reason why `settings` is not allowed; *p is then unchanged. */
const char *chunk_settings_read(struct chunk_params *p, const char *settings);
void chunk_settings_write(const struct chunk_params *p, FILE *f);

#endif
