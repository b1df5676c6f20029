/* known.h: faults of the MPIs alone, met by programs in host memory without stridec. What would meet one is not drawn. */
#ifndef STRIDEC_TESTS_PROGRAMS_KNOWN_H
#define STRIDEC_TESTS_PROGRAMS_KNOWN_H
#include <mpi.h>

#ifdef OPEN_MPI
#define OPEN_MPI_HAS 1
#define MPICH_HAS 0
#else
#define OPEN_MPI_HAS 0
#define MPICH_HAS 1
#endif

/* Open MPI 4.1: a message of a rank to itself is written past the end of a receive that is too short (runtime/README.md). */
#define KNOWN_SELF_TRUNCATES 1
/* MPI_Get_elements takes a pair for one basic element there, for two in MPICH: the standard leaves it open. */
#define KNOWN_PAIRS 1
/* Open MPI 4.1: the second start of a Bsend_init sends other bytes. */
#define KNOWN_BSEND_INIT OPEN_MPI_HAS
/* Open MPI 4.1: under MPI_THREAD_MULTIPLE a call on several requests may hang where one of them ends in an error. */
#define KNOWN_WAITALL_FAILS OPEN_MPI_HAS
/* Open MPI 4.1: a call on several requests may crash where one is of a file and another one ends in an error:
 * MPI_Waitall of an MPI_File_iread_at_all and a receive that is too short shows it in twenty lines. */
#define KNOWN_FILE_FAILS OPEN_MPI_HAS
/* Open MPI 4.1: where a receive is too short, MPI_Testany, MPI_Waitany, MPI_Testsome and MPI_Waitsome may free other
 * requests that are under way: all whose status holds an error, and that of a send holds what was in its memory
 * until the send is complete. A receive of 8 bytes that gets 64, beside a long MPI_Isend, shows it in twenty lines
 * with MALLOC_PERTURB_=85. */
#define KNOWN_ANY OPEN_MPI_HAS
/* Open MPI 4.1: a step of -1 byte is misread. */
#define KNOWN_STEP OPEN_MPI_HAS

/* Open MPI 4.1: osc/pt2pt, the component for windows where processes cannot read each other's memory, takes no threads:
 * under MPI_THREAD_MULTIPLE MPI_Win_create ends in an error. */
#define KNOWN_WINDOW_THREADS (OPEN_MPI_HAS && setup.threads > 1)
/* Open MPI 4.1, osc/pt2pt: with fetches under shared locks, three of nine jobs of ten programs did not end in 25 s
 * without stridec. Which call hangs is not looked into. */
#define KNOWN_FETCHES OPEN_MPI_HAS
/* Both MPIs: an MPI_Get of more may bring wrong bytes in host memory without stridec (MPICH 4,471 and 42,000, Open MPI
 * 100,000). Bytes. */
#define KNOWN_ACCESS_MOST (MPICH_HAS ? 2000 : 8000)
/* Open MPI 4.1, osc/pt2pt: with locks, or MPI_Win_start, three of 13,500 programs hang and one gets wrong bytes in host memory without
 * stridec. Which call it is was not looked into: fences alone are drawn. */
#define KNOWN_EPOCHS OPEN_MPI_HAS
/* Open MPI 4.1: accumulates leave out elements of derived target types, or end the program. */
#define KNOWN_ACCUMULATE OPEN_MPI_HAS

/* MPICH 4.0: an accumulate from a type of absolute addresses ends the program. */
#define KNOWN_ACCUMULATE_ABSOLUTE MPICH_HAS
/* MPICH 4.0: a window begins at the multiple of 16 bytes before its address. */
#define KNOWN_WINDOW_BASE MPICH_HAS
/* MPICH 4.0: MPI_Win_wait lets no nonblocking collective go on: a rank that waits for one in which another one in MPI_Win_wait takes
 * part, before it ends its epoch, waits for ever (an MPI_Iallreduce of 2837 integers shows it in twenty lines). */
#define KNOWN_WIN_WAIT MPICH_HAS
/* MPICH 4.0: an MPI_Iallgatherv in place brings wrong bytes of structs (one of 8,000 programs, in host memory without stridec). */
#define KNOWN_ALLGATHERV MPICH_HAS
/* MPICH 4.0: MPI_Win_flush_local may not wait for an MPI_Get that comes before an MPI_Put (a hundred of 300 times,
 * without stridec). */
#define KNOWN_FLUSH_LOCAL MPICH_HAS
/* MPICH 4.0: the request of an MPI_Rget may be complete before its data is there (one of 120 programs, without stridec). */
#define KNOWN_RGET MPICH_HAS
/* MPICH 4.0: MPI_Get_elements ends the program or tells too few: of resized types, pairs, structs, large-count constructors. */
#define KNOWN_ELEMENTS MPICH_HAS
/* MPICH 4.0: the status of a nonblocking receive from MPI_PROC_NULL is not set; persistent requests of it are never complete. */
#define KNOWN_NOBODY MPICH_HAS
/* MPICH 4.0: empty blocks of one length as a member of a struct divide by zero. */
#define KNOWN_EMPTY MPICH_HAS
/* MPICH 4.0: what comes into hundreds of small structs or pairs is taken for truncated. */
#define KNOWN_STRUCTS MPICH_HAS
/* MPICH 4.0: calls on several requests, and tests, take persistent collectives for complete twice, or for errors. */
#define KNOWN_PERSISTENT MPICH_HAS
/* MPICH 4.0: MPI_Parrived ends in an error where the message is complete already, and lets nothing else go on. */
#define KNOWN_PARRIVED MPICH_HAS
/* MPICH 4.0: MPI_Isendrecv gives a derived type back once too often, which ends the program. */
#define KNOWN_ISENDRECV MPICH_HAS

/* MPICH 4.0: where some hundreds of types are alive, what it packs itself may end some bytes short: MPI_Pack, buffered sends,
 * MPI_Sendrecv_replace, an MPI_Alltoall in place, MPI_Gather and MPI_Scatter, in which some ranks pack for others. A hundred types
 * that nobody uses, made beside a program's own, show it without stridec; beside stridec its own types do. Drawn under --short
 * alone, and MPI_Pack on devices, where stridec packs. */
#define KNOWN_SHORT (MPICH_HAS && !setup.may_be_short)

/* ROMIO of MPICH 4.0 gives up on buffers and views of many types: vectors alone come there. */
#define KNOWN_FILE_TYPES MPICH_HAS
/* MPICH 4.0: with nonblocking calls on files, two of two jobs of ten programs did not end in 8 s without stridec; one program was in
 * MPI_Wait for an MPI_File_iwrite. Three of three jobs without such calls ended. */
#define KNOWN_FILE_LATER MPICH_HAS
/* Open MPI 4.1: MPI_File_sync ends in an error while a call on any other file is under way. */
#define KNOWN_FILE_SYNC OPEN_MPI_HAS
/* Both MPIs: with files in several threads, two of four jobs of ten programs did not end in 8 s without stridec. That they hang is
 * likely, not shown: no run gave them more time. */
#define KNOWN_FILE_THREADS (setup.threads > 1)

/* A CUDA-aware Open MPI 4.1 writes device memory past the end of a receive that is too short. It copies in the current context, and
 * aborts where that does not reach a pool's memory, or a mapping's, on another device. */
#define KNOWN_AWARE (OPEN_MPI_HAS && setup.near && mpi_is_aware())

#endif
