/* error.h: errors of stridec's own, raised as the MPI raises its own. */
#ifndef STRIDEC_ERROR_H
#define STRIDEC_ERROR_H
#include <mpi.h>
#include <stdbool.h>

/* Logs `what` and calls the error handler of comm with the error class `code`. Returns the class that the call is to
 * return: after error_device_lost MPI_ERR_OTHER instead of MPI_ERR_NO_MEM, and neither of them is logged. */
int raise_error(MPI_Comm comm, int code, const char *what) __attribute__((cold));
/* Notes that a CUDA context is lost, or the driver does not tell where an address lies, and that the log says so;
 * false: no longer. */
void error_device_lost(bool is);

#endif
