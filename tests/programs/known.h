/* known.h: faults of the MPIs alone, found by programs in host memory without stridec. What meets one is not drawn. */
#ifndef STRIDEC_TESTS_PROGRAMS_KNOWN_H
#define STRIDEC_TESTS_PROGRAMS_KNOWN_H
#include <mpi.h>

/* Open MPI 4.1: the second start of a Bsend_init sends other bytes.
 * Under MPI_THREAD_MULTIPLE its MPI_Waitall may hang where one of the requests ends in an error.
 * Its engine misreads a step of -1 byte.
 * MPICH 4.0: MPI_Get_elements ends the program, or tells too few,
 * of resized types, pairs, types of several basic ones and those of large-count constructors. The status of a nonblocking
 * receive from MPI_PROC_NULL is not set, and persistent requests of it are never complete. What comes as packed bytes, as from Bsend, into many small structs or pairs is taken
 * for truncated. Its engine divides by zero where empty blocks of one length are a member of a struct. */
#ifdef OPEN_MPI
#define KNOWN_BSEND_INIT 1
#define KNOWN_WAITALL_FAILS 1
#define KNOWN_ELEMENTS 0
#define KNOWN_NOBODY 0
#define KNOWN_EMPTY 0
#define KNOWN_STEP 1
#define KNOWN_STRUCTS 1
#else
#define KNOWN_WAITALL_FAILS 0
#define KNOWN_ELEMENTS 1
#define KNOWN_NOBODY 1
#define KNOWN_EMPTY 1
#define KNOWN_STEP 0
#define KNOWN_STRUCTS 1
#define KNOWN_BSEND_INIT 0
#endif
/* Open MPI 4.1: a message of a rank to itself is written past the end of a receive that is too short (README, Limits). */
#define KNOWN_SELF_TRUNCATES 1
/* Open MPI 4.1 takes a pair for one basic element in MPI_Get_elements, MPICH for two: the standard leaves it open. */
#define KNOWN_PAIRS 1

#endif
