/* stats.h: costs per datatype for STRIDEC_STATS: one row a signature. Counters are atomic and cheap. */
#ifndef STRIDEC_STATS_H
#define STRIDEC_STATS_H
#include <mpi.h>
#include <stdint.h>

struct stats_row;

/* Returns the row of a signature, made at first use and never freed. Never NULL: without STRIDEC_STATS or memory
 * all types share one row that nobody reads. */
struct stats_row *stats_row(const char *signature, const char *family);

struct stats_sample {
    int64_t bytes;           /* packed bytes moved */
    int64_t nanoseconds;     /* from the first launch to its completion */
    int launches;            /* kernels and copies */
    const char *transport;   /* static: "device", "oneshot", "staged", "pack", ... */
    const char *state;       /* kernel_state at that time, or NULL */
};
void stats_add(struct stats_row *row, const struct stats_sample *sample);
/* Adds a line that is shown under the row. Does nothing for the shared row. */
void stats_add_line(struct stats_row *row, const char *line);
/* Sets the line that is shown if no call of the row was counted: why the MPI serves the type. */
void stats_set_rule(struct stats_row *row, const char *line);
/* Counts a call of a known type that passes to the MPI; `why` has static storage. */
void stats_add_passed(struct stats_row *row, const char *why, int64_t bytes);
/* Adds a name that the program gave to a type of the row. */
void stats_add_name(struct stats_row *row, const char *name);
int64_t stats_now(void);     /* nanoseconds, monotonic */

/* Counts outside of the rows. */
struct stats_uncounted {
    const char *empty;   /* why the table may be empty */
    long unread;         /* types used too seldom to be read */
};
/* Sums the rows of all ranks on rank 0, which prints the table to standard error. Collective. */
void stats_report(MPI_Comm comm, const struct stats_uncounted *rest);

#endif
