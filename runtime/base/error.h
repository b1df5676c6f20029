/* error.h: raises stridec's own errors as the MPI raises its errors. */
#ifndef STRIDEC_ERROR_H
#define STRIDEC_ERROR_H
#include <mpi.h>
#include <stdbool.h>

/* Logs `what` and calls comm's error handler with class `code`. Returns the class for the caller to return. After
 * error_set_device_lost(true) logs no MPI_ERR_NO_MEM or MPI_ERR_OTHER, and returns MPI_ERR_OTHER for both. */
int raise_error(MPI_Comm comm, int code, const char *what) __attribute__((cold));
/* Raise an error of a file or a window on it. */
int raise_file_error(MPI_File file, int code, const char *what);
int raise_window_error(MPI_Win win, int code, const char *what);
/* Sets the state that the log already reports: a CUDA context is lost, or the driver can't locate an address. */
void error_set_device_lost(bool is);

#endif
