/* mpi_workarounds.h: the MPIs' faults that stridec works around, a line each: 1 where the MPI at hand has it.
 *
 * Workarounds that do no harm elsewhere have no condition; `Workaround (MPI version): ...` stands in the code:
 *   Open MPI 4.1   MPI_Ialltoallw reads one type for each neighbor, and at least one        collective/args_internal.h
 *                  MPI_Reduce_scatter_block in place copies too little of device memory     collective/args.c
 *                  a status is read after another thread may have received its message      request/probed.c
 *                  cancelling a completed request takes it out of a list twice               request/freed.c
 *                  a copy of INT is named "Dup MPI_INT"                                      datatype/layout.c
 *                  persistent collectives are called MPIX_                                   interpose/functions.lua
 *   MPICH 4.0      MPI_Pack does not check the size and writes past the end                  interpose/pack_call.c
 *                  requests of MPI_Isendrecv report nothing of the receive                   interpose/isendrecv.c
 *                  lists of types are declared without const                                interpose/stubs.lua
 *                  a type that a message holds last calls its attributes without a lock      datatype/layout.h
 *                  a probe of MPI_COMM_SELF, or one that finds a message, makes no progress  base/self_comm.h
 *                  neighborhood collectives copy counts of the wrong direction               collective/args.h
 *                  MPI_Ialltoallw in place confuses the sizes of two ranks' types            collective/args_replace.c
 *                  MPI_Allgatherv cuts what it forwards by another type's extent             collective/args_stage.c
 */
#ifndef STRIDEC_MPI_WORKAROUNDS_H
#define STRIDEC_MPI_WORKAROUNDS_H
#include "mpi_abi.h"

#ifdef MPICH_NUMVERSION
#define MPICH_BEFORE(version) (MPICH_NUMVERSION < (version))
#else
#define MPICH_BEFORE(version) 0
#endif

/* MPICH: MPI_ERR_TRUNCATE if a message ends within a basic element of a type with gaps (datatype/byte_types.h). */
#define ELEMENTS_ARE_WHOLE IS_MPICH
/* MPICH before 5: also if a part of a message on the network does. */
#define PARTS_ARE_WHOLE MPICH_BEFORE(50000000)
/* MPICH before 5: the request of MPI_Rget completes before data of a derived type are in place (4.0.2). */
#define RGET_ENDS_EARLY MPICH_BEFORE(50000000)
/* MPICH before 5: MPI_Win_flush_local may not wait for an MPI_Get that comes before an MPI_Put (4.0.2). */
#define GET_MISSES_LOCAL_FLUSH MPICH_BEFORE(50000000)
/* MPICH 5: MPI_Request_get_status ends a persistent request that is complete, and MPI_Testany and its kin then say
 * that none is active (5.0.2). The same where the standard ABI tells of no version. */
#define GET_STATUS_ENDS_PERSISTENT (!IS_OPEN_MPI && !MPICH_BEFORE(50000000))
/* MPICH 4.0 to 4.1.2: neighborhood calls copy as many counts as there are neighbors of the wrong direction
 * (pmodels/mpich#6233). The forms for large counts copy none. */
#if MPICH_BEFORE(40100300) && !MPICH_BEFORE(40000000)
#define DEGREES_SWAPPED 1
#endif
/* MPIs with fault tolerance (Open MPI 5: MPI_, MPICH: MPIX_): a receive from any source stays active after this. */
#if defined MPI_ERR_PROC_FAILED_PENDING
#define STAYS_ACTIVE(class) ((class) == MPI_ERR_PENDING || (class) == MPI_ERR_PROC_FAILED_PENDING)
#elif defined MPIX_ERR_PROC_FAILED_PENDING
#define STAYS_ACTIVE(class) ((class) == MPI_ERR_PENDING || (class) == MPIX_ERR_PROC_FAILED_PENDING)
#else
#define STAYS_ACTIVE(class) ((class) == MPI_ERR_PENDING)
#endif
/* MPIs with fault tolerance: after these errors calls on the communicator fail on all ranks. */
#if defined MPI_ERR_REVOKED
#define COMM_IS_BROKEN(class) ((class) == MPI_ERR_REVOKED || (class) == MPI_ERR_PROC_FAILED)
#elif defined MPIX_ERR_REVOKED
#define COMM_IS_BROKEN(class) ((class) == MPIX_ERR_REVOKED || (class) == MPIX_ERR_PROC_FAILED)
#else
#define COMM_IS_BROKEN(class) ((void)(class), false)
#endif
/* MPICH: MPI_Allgatherv forwards data from rank to rank, and each cuts them by the extent of its type. */
#define ALLGATHERV_CUTS_BY_EXTENT (!IS_OPEN_MPI)
/* MPICH: MPI_Waitall waits for some requests at a time, and leaves the statuses behind a failed one as they were. */
#define WAITALL_LEAVES_STATUSES (!IS_OPEN_MPI)
/* MPICH: MPI_Neighbor_alltoallw takes MPI_DATATYPE_NULL for an edge without elements. */
#define NULL_EDGE_TYPES IS_MPICH
/* Open MPI 4.1: a message of contiguous bytes from a rank to itself, longer than 1 KiB and than its receive, is written
 * past the receive's end. */
#define SELF_WRITES_PAST IS_OPEN_MPI
/* Open MPI: nonblocking collectives do not take device memory, whatever its support. */
#define ASYNC_IS_AWARE (!IS_OPEN_MPI)
/* Open MPI: reductions of device memory are copied to pageable memory and made on the host. */
#define REDUCES_ON_HOST IS_OPEN_MPI

#endif
