/* stats.h: costs per datatype for STRIDEC_STATS and STRIDEC_RECORD: one row a signature. Counters are atomic and
 * cheap; without either variable nothing is counted. */
#ifndef STRIDEC_STATS_H
#define STRIDEC_STATS_H
#include "base/world_rank.h"
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stats_row;

/* Returns the row of a signature, made at first use and never freed. Never NULL: without STRIDEC_STATS or memory
 * all types share one row that nobody reads. */
struct stats_row *stats_row(const char *signature, const char *family);

/* Describes a row's first type. All texts are copied. */
#define STATS_READS_MAX 120
struct stats_type {
    const char *form;        /* signature of the kernel's form: rows of one form are shown as one */
    const char *reads;       /* the type as its constructor reads */
    const char *whole;       /* signature without abridgement, for STRIDEC_RECORD; NULL if it is not recorded */
    int64_t size, extent;    /* bytes */
};
/* Returns true if stats_describe was called for the row, or need not be. */
bool stats_described(const struct stats_row *row);
void stats_describe(struct stats_row *row, const struct stats_type *type);

struct stats_sample {
    int64_t bytes;           /* packed bytes moved */
    int64_t nanoseconds;     /* from the first launch to its completion */
    int launches;            /* kernels and copies */
    const char *transport;   /* static: "device", "oneshot", "staged", "pack", ... */
    const char *state;       /* kernel_state at that time, or NULL */
};
void stats_add(struct stats_row *row, const struct stats_sample *sample);
/* Says why samples of so many bytes took this transport. The first text stays. */
void stats_set_why(struct stats_row *row, const char *transport, int64_t bytes, const char *why);
/* Adds a line that is shown under the row. Does nothing for the shared row. */
void stats_add_line(struct stats_row *row, const char *line);
/* Sets the line that is shown if no call of the row was counted: why the MPI serves the type. */
void stats_set_rule(struct stats_row *row, const char *line);
/* Counts a call of a known type that passes to the MPI; `why` has static storage. */
void stats_add_passed(struct stats_row *row, const char *why, int64_t bytes);
/* Adds a name that the program gave to a type of the row. */
void stats_add_name(struct stats_row *row, const char *name);
int64_t stats_now(void);     /* nanoseconds, monotonic */

/* Starts the clock of the job, and the bytes to each of `ranks` ranks of the world; 0: they are not kept. */
void stats_start(int ranks);
extern _Atomic int64_t *stats_sent;   /* bytes to each rank of the world; NULL: not kept */
void stats_add_sent_to(int rank, int64_t bytes);
/* Counts the bytes of a message that stridec sends to a rank of comm. */
static inline void stats_add_sent(MPI_Comm comm, int peer, int64_t bytes)
{
    if (stats_sent) stats_add_sent_to(world_rank(comm, peer), bytes);
}

/* Facts for the report beside the rows. */
struct stats_about {
    const char *empty;       /* why there may be no rows */
    long unread;             /* types used too seldom to be read */
    const char *gpu;         /* this rank's GPU; NULL: none in use */
    double copy_rate;        /* GB/s at which it can copy in its memory; 0: unknown */
};
/* Sums the rows of all ranks on rank 0, which prints or writes what STRIDEC_STATS and STRIDEC_RECORD ask for.
 * Collective in comm. Reports for this process alone, without a call of the MPI, if comm is MPI_COMM_NULL. */
void stats_report(MPI_Comm comm, const struct stats_about *about);

#endif
