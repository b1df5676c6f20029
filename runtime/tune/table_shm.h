/* table_shm.h: the lines `offer` of a tuned table: which messages of derived types in host memory go through memory that
 * their receiver has mapped (shm_send.h).
 *   offer 1 8192         those of runs of 1 byte and more: from 8192 packed bytes on
 *   offer 2048 1048576   those of runs of 2048 bytes and more
 *   offer 16384 never
 * The row of the longest run that a layout reaches counts. Without rows the figures that come with the library do. */
#ifndef STRIDEC_TUNE_OFFERS_H
#define STRIDEC_TUNE_OFFERS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TUNE_OFFERS_MAX 16
struct tune_offers {
    int rows;
    struct {
        int64_t run;     /* bytes, ascending */
        int64_t least;   /* packed bytes; INT64_MAX: never */
    } row[TUNE_OFFERS_MAX];
};

/* Adds a row. NULL, or what is wrong with it. */
const char *tune_offers_add(struct tune_offers *o, int64_t run, int64_t least);
/* The same of what follows the word. */
const char *tune_offers_read(struct tune_offers *o, const char *rest);
void tune_offers_write(const struct tune_offers *o, const char *word, const char *what, FILE *f);
/* From so many packed bytes on; INT64_MAX: never. */
int64_t tune_offers_least(const struct tune_offers *o, int64_t run);
/* Measured with Debian's Open MPI 4.1 and MPICH 4.0: those of the MPI that this library was built for. */
extern const struct tune_offers tune_offers_usual;

#endif
