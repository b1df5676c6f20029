/* stats.h: what each datatype cost, for STRIDEC_STATS: one row a signature. Counting is atomic and cheap. */
#ifndef STRIDEC_STATS_H
#define STRIDEC_STATS_H
#include <mpi.h>
#include <stdint.h>

struct stats_row;

/* The row for a signature, made at first use; lives as long as the process. Never NULL: without STRIDEC_STATS, and
 * without memory, all types share one row that nobody reads. */
struct stats_row *stats_row(const char *signature, const char *family);

struct stats_sample {
    int64_t bytes;           /* packed bytes moved */
    int64_t nanoseconds;     /* from the first launch to its completion */
    int launches;            /* kernels and copies */
    const char *transport;   /* static: "device", "oneshot", "staged", "pack", ... */
    const char *state;       /* kernel_state at the time, or NULL */
};
void stats_add(struct stats_row *row, const struct stats_sample *sample);
/* A line to be shown under the row; nothing for the shared one. */
void stats_tell(struct stats_row *row, const char *line);
/* Sets the line that is shown where no call of the row was counted: how the MPI came to serve it. */
void stats_rule(struct stats_row *row, const char *line);
/* Counts a call of a type that is known here, but that the MPI serves; `why` is of static storage. */
void stats_left(struct stats_row *row, const char *why, int64_t bytes);
/* Adds a name that the program has given to a type of the row. */
void stats_name(struct stats_row *row, const char *name);
int64_t stats_now(void);     /* nanoseconds, monotonic */

/* Counts what no row tells. */
struct stats_rest {
    const char *empty;   /* why the table may be empty */
    long unread;         /* types that were used, but too seldom to be read */
};
/* Sums the rows of all ranks of a communicator on rank 0 and prints the table to standard error there. Collective. */
void stats_report(MPI_Comm comm, const struct stats_rest *rest);

#endif
