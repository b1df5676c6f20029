/* stats_job.h: the statistics of all ranks, for the reports: stats_screen.c, stats_table.c, stats_json.c and
 * stats_record.c. Private to the statistics. */
#ifndef STRIDEC_STATS_JOB_H
#define STRIDEC_STATS_JOB_H
#include "base/hash_table.h"
#include "stats.h"
#include <stdio.h>

/* Most reasons to leave a type to the MPI, and most names, per type. */
#define STATS_REASONS 8
#define STATS_NAMES 8
/* Most bytes of the signatures of a spec, and of those that a rank sends: spec_load reads files up to 16 MiB. */
#define STATS_WHOLE_MAX ((size_t)12 << 20)

/* ORDER STATS_STATE: names in stats_job.c. */
enum { STATS_COMPILED, STATS_CACHE, STATS_AHEAD, STATS_SHARED, STATS_COPY, STATS_PENDING, STATS_FAILED, STATS_STATES };
extern const char *const stats_state_names[STATS_STATES];

struct stats_way {
    const char *protocol, *why;   /* why: "" if none was told */
    int64_t message_bytes;        /* -1: of many sizes */
    int64_t calls, bytes;
};

struct stats_left {
    const char *why;
    int64_t calls, bytes;
};

struct stats_line {
    const char *text;
    struct stats_line *next;
};

/* A type of all ranks. Texts lie in the texts of the ranks (stats_job). */
struct stats_total {
    /* The last three: NULL if there is none. whole: "" if there is no room for it. */
    const char *signature, *family, *form, *reads, *whole, *rule;
    int64_t size, extent, calls, bytes, timed, launches, nanoseconds;   /* timed: bytes of timed calls */
    int64_t states[STATS_STATES];   /* ranks */
    const char *names[STATS_NAMES];
    struct stats_left left[STATS_REASONS];
    struct stats_way *way;
    int ways;
    struct stats_line *lines;
    UT_hash_handle hh;
};

/* Returns the reason why the MPI serves a type of which no call was counted; NULL for other types. */
static inline const char *stats_uncounted(const struct stats_total *t)
{
    return t->calls || t->left[0].why ? NULL : t->rule;
}

struct stats_pair {
    int from, to;
    int64_t bytes;
};

struct stats_job {
    struct stats_total *types;   /* most bytes first, once all ranks are in it */
    struct stats_pair *pair;
    size_t pairs, pair_room;
    const char *gpu;             /* NULL if no rank uses one */
    double copy_rate, seconds;
    long unread;
    int ranks, hosts;            /* hosts: 0 if not known */
    bool incomplete;             /* a rank had no memory for all of its part */
    const char *empty;           /* why there are no types; NULL if there are */
    char **text;                 /* what the ranks sent */
    size_t texts;
};

/* Adds what a rank wrote. The job owns the text, which changes. */
void stats_job_add(struct stats_job *job, char *text);
/* Writes a type as stats_job_add reads it, with its whole signature if that is wanted. */
void stats_write_total(FILE *f, const struct stats_total *t, bool whole);
/* Writes the job as stats_job_add reads it. */
void stats_job_write(const struct stats_job *job, FILE *f);
void stats_job_sort(struct stats_job *job);
void stats_job_free(struct stats_job *job);

/* printf's format and arguments for the derived types that were never read. */
#define STATS_UNREAD "%ld derived type%s in host memory, used too seldom to be read"
#define STATS_UNREAD_OF(job) (job)->unread, (job)->unread == 1 ? "" : "s"

/* Sums of all types. */
struct stats_sums {
    int64_t calls, bytes, left_calls, left_bytes;
};
struct stats_sums stats_job_sums(const struct stats_job *job);
/* Returns the program's name, and the version of stridec. */
const char *stats_program(void);
extern const char stats_version[];

/* Writes this rank's rows in the form of stats_job_write (stats.c). */
void stats_write_rows(FILE *f);
/* Returns seconds since stats_start. */
double stats_seconds(void);

/* The reports. Those that write a file return false with errno on failure. */
void stats_screen(const struct stats_job *job);
void stats_table(const struct stats_job *job);
bool stats_json(const struct stats_job *job, const char *path);
bool stats_record(const struct stats_job *job, const char *path);

#endif
