/* together.h: timing in step: what all ranks run, as often on each, as rank 0's clock says. Collective calls, all. */
#ifndef STRIDEC_BENCH_TOGETHER_H
#define STRIDEC_BENCH_TOGETHER_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* Where stridec is loaded: until it has all kernels that messages of these types in that memory take, from any rank of
 * MPI_COMM_WORLD into any other. What is timed then is no matter of how long compilers take. */
void together_ready(int n, const MPI_Datatype types[], const void *memory);
/* Batches of run(arg) until `us` have passed on rank 0. */
void together_warm(void (*run)(void *arg), void *arg, double us);
/* How many calls of run(arg) fill `us`, by one of them: between `least` and 1000. */
int together_calls(void (*run)(void *arg), void *arg, double us, int least);
/* The median over `calls` calls, each begun by all at once, of the time of the rank that took longest. */
double together_us(void (*run)(void *arg), void *arg, int calls);
/* Memory of this rank that a trip sends and receives: in each field runs of `run` bytes, one every `stride`, from the
 * first byte on. run 0: no gaps. */
struct together_fields {
    int n;
    char *const *from, *const *to;
    const size_t *span;     /* bytes of each */
    size_t run, stride;
};
/* Whether a trip between two ranks brings the bytes of the other one, and leaves gaps alone; sets *us to half of it,
 * unless NULL. Where not, standard error says so of `what`. */
bool together_right(const struct together_fields *d, void (*trip)(void *arg), void *arg, const char *what, double *us);
/* Times trips that both ranks begin at once: sets us[i] to half of one. */
void together_trips(void (*trip)(void *arg), void *arg, int trips, double us[]);
bool together_past(double end_us);   /* whether rank 0's clock has passed end_us */

#endif
