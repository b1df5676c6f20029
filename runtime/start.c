/* start.c: MPI_Init and MPI_Finalize, and MPI_Type_commit: where stridec begins and ends. */
#include "choose.h"
#include "env.h"
#include "interpose.h"
#include "log.h"
#include "next.h"
#include "request.h"
#include "which_mpi.h"

_Thread_local int interpose_depth __attribute__((tls_model("initial-exec")));
atomic_bool interpose_active;

static void start(void)
{
    int rank;
    if (env_get()->disable || !which_mpi_fits()) return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    log_set_rank(rank);
    if (rank == 0) env_check();
    choose_start();
    if (layout_start()) {
        log_write(LOG_ERROR, "the MPI gives no attribute key for datatypes: stridec steps aside");
        return;
    }
    atomic_store_explicit(&interpose_active, true, memory_order_release);
}

int call_Init(const struct next *next, int *argc, char ***argv)
{
    int rc = next->Init(argc, argv);
    if (rc == MPI_SUCCESS) start();
    return rc;
}

int call_Init_thread(const struct next *next, int *argc, char ***argv, int required, int *provided)
{
    int rc = next->Init_thread(argc, argv, required, provided);
    if (rc == MPI_SUCCESS) start();
    return rc;
}

int call_Finalize(const struct next *next)
{
    if (atomic_exchange(&interpose_active, false)) {
        record_finish();
        if (env_get()->stats) stats_report();
        layout_finish();
        kernel_finish();
        if (driver_get()) device_finish();
        choose_finish();
    }
    return next->Finalize();
}

int call_Type_commit(const struct next *next, MPI_Datatype *datatype)
{
    int rc = next->Type_commit(datatype);
    struct layout *l = rc == MPI_SUCCESS ? layout_of(*datatype) : NULL;
    if (l) atomic_store_explicit(&l->committed, true, memory_order_relaxed);
    return rc;
}
