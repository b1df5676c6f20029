/* mpi_abi.h: how the MPIs' headers and handles differ. Conditions on the MPI are here and in mpi_workarounds.h alone;
 * other code asks the constants. */
#ifndef STRIDEC_MPI_ABI_H
#define STRIDEC_MPI_ABI_H
#include "mpi_family.h"
#include <mpi.h>
#include <stdint.h>

/* The family that the library is built for. */
#if defined(OPEN_MPI)
#define MPI_FAMILY MPI_FAMILY_OPEN_MPI
#elif defined(MPICH_VERSION)
#define MPI_FAMILY MPI_FAMILY_MPICH
#elif defined(MPI_ABI_VERSION)
#define MPI_FAMILY MPI_FAMILY_STANDARD
#else
#define MPI_FAMILY MPI_FAMILY_UNKNOWN
#endif
#define IS_OPEN_MPI (MPI_FAMILY == MPI_FAMILY_OPEN_MPI)   /* for C code: #if knows no enum */
#define IS_MPICH (MPI_FAMILY == MPI_FAMILY_MPICH)

/* Returns the bytes that a receive brought, modulo 2^31: read from the status where its layout is known. */
static inline int64_t mpi_abi_status_bytes(const MPI_Status *status)
{
#if defined OPEN_MPI
    return (int64_t)status->_ucount & INT32_MAX;
#elif defined MPICH_NUMVERSION && MPICH_NUMVERSION < 50000000
    return status->count_lo & INT32_MAX;
#else
    MPI_Count bytes = 0;
    return PMPI_Get_elements_x(status, MPI_BYTE, &bytes) == MPI_SUCCESS ? bytes & INT32_MAX : 0;
#endif
}

/* Combiners of MPI 1, which MPI 3 removed: headers keep them for old libraries, some under other names. Undefined where
 * there are none. */
#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 6 && !OMPI_ENABLE_MPI1_COMPAT
#define OLD_COMBINER(name) OMPI_WAS_MPI_COMBINER_##name
#elif defined OPEN_MPI && OMPI_MAJOR_VERSION < 6 || defined MPICH_VERSION
#define OLD_COMBINER(name) MPI_COMBINER_##name
#endif

/* Fortran's types of a given size: an MPI that was built without them has no such names. */
#ifndef MPI_INTEGER1
#define MPI_INTEGER1 MPI_DATATYPE_NULL
#endif
#ifndef MPI_INTEGER2
#define MPI_INTEGER2 MPI_DATATYPE_NULL
#endif
#ifndef MPI_INTEGER4
#define MPI_INTEGER4 MPI_DATATYPE_NULL
#endif
#ifndef MPI_INTEGER8
#define MPI_INTEGER8 MPI_DATATYPE_NULL
#endif
#ifndef MPI_REAL4
#define MPI_REAL4 MPI_DATATYPE_NULL
#endif
#ifndef MPI_REAL8
#define MPI_REAL8 MPI_DATATYPE_NULL
#endif
#ifndef MPI_COMPLEX8
#define MPI_COMPLEX8 MPI_DATATYPE_NULL
#endif
#ifndef MPI_COMPLEX16
#define MPI_COMPLEX16 MPI_DATATYPE_NULL
#endif

/* The MPI starts through PMIx, where its launcher offers that; its ranks in MPI_COMM_WORLD are PMIx's (modex.h). */
#define STARTS_BY_PMIX IS_OPEN_MPI

/* 1 if the MPI has MPIX_GPU_query_support, which the library then offers too. */
#ifdef OPEN_MPI
#define HAS_GPU_QUERY 0
#else
#define HAS_GPU_QUERY 1
#endif

#endif
