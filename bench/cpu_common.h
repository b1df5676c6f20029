/* cpu_common.h: what cpu_pack and cpu_pingpong share: the ways that they compare, the MPI's own calls beside stridec's,
 * their arguments, the kernels that they go through, and their results file. */
#ifndef STRIDEC_BENCH_CPU_COMMON_H
#define STRIDEC_BENCH_CPU_COMMON_H
#include "cpu_kernels.h"
#include <stdio.h>

/* The ways: as the program gets it (by stridec where it is preloaded), by the MPI's own library, by hand-written loops.
 * They take turns, so many of them, so that they share the machine's mood. */
enum { WAY_PROGRAM, WAY_MPI, WAY_HAND, WAYS, TURNS_MIN = 9, TURNS_MAX = 400 };
extern const char *const method_names[WAYS];

struct times {
    double median, least;
    double ratio;   /* to the program's: the median of that within each turn, whatever the machine's mood was then */
};
/* The way whose turn it is: first the one before another, then that before it. */
int way_of(int turn, int i);
/* Of n turns, in microseconds; sorts them. */
void times_of(double sample[WAYS][TURNS_MAX], int n, struct times t[WAYS]);
/* The members "PREFIXmpi_us", "PREFIXmpi_least_us", "PREFIXmpi_ratio" and so on, each after a comma. */
void write_times(FILE *f, const char *prefix, const struct times t[WAYS]);

/* [--least BYTES] [--most BYTES] [--ms MS] [--only NAME] [--count] [RESULTS.json] */
struct wish {
    size_t least, most;
    double us;
    const char *only, *out;
    enum { FORM_NONE, FORM_TRIP, FORM_BOTH, FORM_SELF } form;   /* of messages */
    bool count;             /* calls are counted, not timed: there are no results */
};

struct run {
    const char *benchmark;   /* as results name it */
    struct wish wish;        /* as the program presets them */
    int rank, ranks, done, wrong;
    FILE *f;                 /* of rank 0 */
};
/* Begins the MPI, reads the arguments into the wishes and writes the results' head. */
void run_begin(struct run *r, int argc, char **argv);
/* Every kernel at every size that is wished for: one() writes a row, and is false where bytes were wrong. */
void run_kernels(struct run *r, bool (*one)(FILE *f, struct cpu_kernel *k, bool first));
/* Ends the results and the MPI; the program's exit status. */
int run_end(struct run *r);
/* Ends all ranks with a message. */
_Noreturn void run_fail(const char *why);

/* int stridec_host_ready(MPI_Datatype, int); NULL: stridec is not preloaded. */
extern int (*stridec_ready)(MPI_Datatype, int);

/* Memory from the start of a page, all of it touched. */
void *room(size_t bytes);

#endif
