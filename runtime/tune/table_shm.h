/* table_shm.h: the lines `offer` of a tuned table: messages of derived types in host memory that go through shared
 * memory (shm_send.h).
 *   offer 1 8192         runs of 1 byte and more: from 8192 packed bytes on
 *   offer 2048 1048576   runs of 2048 bytes and more
 *   offer 16384 never
 * The row with the longest run that a layout reaches counts. Without rows the built-in ones do. */
#ifndef STRIDEC_TUNE_TABLE_SHM_H
#define STRIDEC_TUNE_TABLE_SHM_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TUNE_SHM_MAX 16
struct tune_shm {
    int rows;
    struct {
        int64_t run;     /* bytes, ascending */
        int64_t least;   /* packed bytes; INT64_MAX: never */
    } row[TUNE_SHM_MAX];
};

/* Adds a row. Returns NULL, or the reason why not. */
const char *tune_shm_add(struct tune_shm *o, int64_t run, int64_t least);
/* Adds the row in the text after `offer`. Returns NULL, or the reason why not. */
const char *tune_shm_read(struct tune_shm *o, const char *rest);
void tune_shm_write(const struct tune_shm *o, FILE *f);
/* Returns the least packed bytes that go through shared memory; INT64_MAX if never. */
int64_t tune_shm_least(const struct tune_shm *o, int64_t run);
/* The built-in rows for the library's own MPI, measured with Debian's Open MPI 4.1 or MPICH 4.0. */
extern const struct tune_shm *const tune_shm_default;

#endif
