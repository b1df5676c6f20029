/* together.h: timing in step: what all ranks run, as often on each, as rank 0's clock says. Collective calls, all. */
#ifndef STRIDEC_BENCH_TOGETHER_H
#define STRIDEC_BENCH_TOGETHER_H
#include <mpi.h>
#include <stdbool.h>

/* Where stridec is loaded: until it has all kernels that messages of these types in that memory take, from any rank of
 * MPI_COMM_WORLD into any other. What is timed then is no matter of how long compilers take. */
void together_ready(int n, const MPI_Datatype types[], const void *memory);
/* Batches of run(arg) until `us` have passed on rank 0. */
void together_warm(void (*run)(void *arg), void *arg, double us);
/* How many calls of run(arg) fill `us`, by one of them: between `least` and 1000. */
int together_calls(void (*run)(void *arg), void *arg, double us, int least);
/* The median over `calls` calls, each begun by all at once, of the time of the rank that took longest. */
double together_us(void (*run)(void *arg), void *arg, int calls);
bool together_past(double end_us);   /* whether rank 0's clock has passed end_us */

#endif
