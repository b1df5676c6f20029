/* calls_start.c: starting persistent requests: what the operations read is offered or packed first, all together. */
#include "next.h"
#include "request.h"
#include <stdlib.h>

/* The records go back before the start: a request may complete in any thread as soon as it is active. */
static int start(int count, const MPI_Request requests[])
{
    struct starts s = {0};
    bool ok = true;
    for (int i = 0; i < count && ok; i++) {
        struct record *r = record_take(requests[i]);
        if (r) ok = record_start(&s, r);
    }
    if (record_started(&s, ok)) return MPI_SUCCESS;
    return raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "a persistent request can't be started");
}

static void take_back(int count, const MPI_Request requests[])
{
    for (int i = 0; i < count; i++) {
        struct record *r = record_take(requests[i]);
        if (!r) continue;
        record_stop(r);
        record_keep(r);
    }
}

int call_Start(const struct next *next, MPI_Request *request)
{
    int rc = request ? start(1, request) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS && (rc = next->Start(request)) != MPI_SUCCESS && request) take_back(1, request);
    return rc;
}

int call_Startall(const struct next *next, int count, MPI_Request requests[])
{
    int rc = requests ? start(count, requests) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS && (rc = next->Startall(count, requests)) != MPI_SUCCESS && requests) take_back(count, requests);
    return rc;
}
