/* stats_sums.h: the types of a job summed in other ways: by protocol, by reason, by form. */
#ifndef STRIDEC_STATS_SUMS_H
#define STRIDEC_STATS_SUMS_H
#include "stats_job.h"

struct stats_sum {
    const char *name;               /* protocol, reason or form */
    int64_t calls, bytes;           /* of a reason without counts: 0 */
    bool counted;                   /* false: of a reason without counts */
    int types;
    int64_t timed, nanoseconds, states[STATS_STATES];   /* of a form alone */
    const struct stats_total *most; /* the type with most bytes */
};
/* Most bytes first. */
struct stats_sums_list {
    struct stats_sum *sum;
    int count;
};

/* Return the sums; free with stats_sums_free. A form counts only if stridec moved bytes of a type of it. */
struct stats_sums_list stats_by_protocol(const struct stats_job *job);
struct stats_sums_list stats_by_reason(const struct stats_job *job);
struct stats_sums_list stats_by_form(const struct stats_job *job);
void stats_sums_free(struct stats_sums_list *list);

#endif
