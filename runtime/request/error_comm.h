/* error_comm.h: the communicator on which a request's errors are raised. It may be freed before the request ends. */
#ifndef STRIDEC_ERROR_COMM_H
#define STRIDEC_ERROR_COMM_H
#include <mpi.h>
#include <stdatomic.h>

struct error_comm {
    MPI_Comm comm;
    unsigned long frees;   /* communicators freed before the request began */
};
#pragma GCC visibility push(hidden)
extern atomic_ulong error_comm_frees;
#pragma GCC visibility pop
static inline struct error_comm error_comm_of(MPI_Comm comm)
{
    return (struct error_comm){comm, atomic_load_explicit(&error_comm_frees, memory_order_relaxed)};
}
/* Returns the communicator; MPI_COMM_WORLD if it is freed, or may be. */
MPI_Comm error_comm_comm(struct error_comm e);
/* Notes that a communicator is about to be freed. */
void error_comm_freed(MPI_Comm comm);

#endif
