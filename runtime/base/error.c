/* error.c: see error.h. */
#include "error.h"
#include "log.h"
#include "self_comm.h"
#include <stdatomic.h>

static atomic_bool lost;

void error_set_device_lost(bool is)
{
    atomic_store(&lost, is);
}

/* Logs an error, unless it follows from a lost device. Returns its code. */
static int say(int code, const char *what)
{
    bool follows =
        atomic_load_explicit(&lost, memory_order_relaxed) && (code == MPI_ERR_NO_MEM || code == MPI_ERR_OTHER);
    if (follows) return MPI_ERR_OTHER;
    log_write(LOG_ERROR, "%s", what);
    return code;
}

int raise_file_error(MPI_File file, int code, const char *what)
{
    code = say(code, what);
    PMPI_File_call_errhandler(file, code);
    return code;
}

int raise_window_error(MPI_Win win, int code, const char *what)
{
    code = say(code, what);
    PMPI_Win_call_errhandler(win, code);
    return code;
}

int raise_error(MPI_Comm comm, int code, const char *what)
{
    code = say(code, what);
    if ((comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF) && !world_exists()) comm = self_comm_get();
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}
