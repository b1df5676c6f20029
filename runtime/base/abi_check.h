/* abi_check.h: checks that the process runs on the MPI whose handles this library was compiled with. */
#ifndef STRIDEC_ABI_CHECK_H
#define STRIDEC_ABI_CHECK_H
#include "mpi_family.h"
#include <stdbool.h>

/* Returns true if this library may serve MPI calls, else false and one line from the first rank: it is for another MPI,
 * or another copy serves. After false, use no handle and only pass calls. Two releases of one MPI count as one. */
bool abi_check_ok(void);
/* Returns abi_check_ok() to copies of the library that are loaded later. */
int stridec_serves(void);

/* Returns the MPI that this library was built for. */
enum mpi_family abi_check_built_for(void);

#endif
