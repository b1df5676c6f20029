/* calls_start.c: starting persistent requests: what the operation reads is packed first. */
#include "next.h"
#include "request.h"
#include <stdlib.h>

static int start_failed(void)
{
    return raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "a persistent request can't be started");
}

/* The record goes back before the start: the request may complete in any thread as soon as it is active. */
static int start(MPI_Request request)
{
    struct record *r = record_take(request);
    if (!r) return MPI_SUCCESS;
    bool packed = record_start(r);
    if (!packed) record_stop(r);
    record_keep(r);
    return packed ? MPI_SUCCESS : start_failed();
}

static void take_back(MPI_Request request)
{
    struct record *r = record_take(request);
    if (!r) return;
    record_stop(r);
    record_keep(r);
}

int call_Start(const struct next *next, MPI_Request *request)
{
    int rc = request ? start(*request) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS && (rc = next->Start(request)) != MPI_SUCCESS && request) take_back(*request);
    return rc;
}

int call_Startall(const struct next *next, int count, MPI_Request requests[])
{
    int rc = MPI_SUCCESS, started = 0;
    for (; requests && started < count && rc == MPI_SUCCESS; started++) rc = start(requests[started]);
    if (rc == MPI_SUCCESS && (rc = next->Startall(count, requests)) == MPI_SUCCESS) return rc;
    for (int i = 0; i < started; i++) take_back(requests[i]);
    return rc;
}
