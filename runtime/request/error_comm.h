/* error_comm.h: the communicator of a request, on which what stridec finds wrong at its end is raised. It may be
 * freed before. */
#ifndef STRIDEC_HOME_H
#define STRIDEC_HOME_H
#include <mpi.h>
#include <stdatomic.h>

struct error_comm {
    MPI_Comm comm;
    unsigned long frees;   /* of communicators, before */
};
#pragma GCC visibility push(hidden)
extern atomic_ulong error_comm_frees;
#pragma GCC visibility pop
static inline struct error_comm error_comm_of(MPI_Comm comm)
{
    return (struct error_comm){comm, atomic_load_explicit(&error_comm_frees, memory_order_relaxed)};
}
/* It, or MPI_COMM_WORLD where it is gone, or may be. */
MPI_Comm error_comm_comm(struct error_comm h);
/* It is about to be freed. */
void error_comm_freed(MPI_Comm comm);

#endif
