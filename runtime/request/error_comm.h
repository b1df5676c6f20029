/* error_comm.h: the communicator of a request, on which what stridec finds wrong at its end is raised. It may be
 * freed before. */
#ifndef STRIDEC_HOME_H
#define STRIDEC_HOME_H
#include <mpi.h>
#include <stdatomic.h>

struct home {
    MPI_Comm comm;
    unsigned long frees;   /* of communicators, before */
};
#pragma GCC visibility push(hidden)
extern atomic_ulong home_frees;
#pragma GCC visibility pop
static inline struct home home_of(MPI_Comm comm)
{
    return (struct home){comm, atomic_load_explicit(&home_frees, memory_order_relaxed)};
}
/* It, or MPI_COMM_WORLD where it is gone, or may be. */
MPI_Comm home_comm(struct home h);
/* It is about to be freed. */
void home_freed(MPI_Comm comm);

#endif
