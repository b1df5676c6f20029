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

int raise_error(MPI_Comm comm, int code, const char *what)
{
    bool follows =
        atomic_load_explicit(&lost, memory_order_relaxed) && (code == MPI_ERR_NO_MEM || code == MPI_ERR_OTHER);
    if (follows) code = MPI_ERR_OTHER;
    else log_write(LOG_ERROR, "%s", what);
    if ((comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF) && !world_exists()) comm = self_comm_get();
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}
