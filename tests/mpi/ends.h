/* ends.h: the ways in which a program completes requests. */
#ifndef STRIDEC_TEST_ENDS_H
#define STRIDEC_TEST_ENDS_H
#include <mpi.h>

#define END_WAYS 8
#define END_MOST 8        /* requests of end_all */

/* Completes a request by MPI_Test. */
void end_by_tests(MPI_Request *q);
/* Completes n requests in one of END_WAYS ways: all at once, some or any of them, or one by one. */
void end_all(int way, int n, MPI_Request q[]);

#endif
