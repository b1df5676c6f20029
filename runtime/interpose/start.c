/* start.c: starts persistent requests: exposes or packs what they send, all together. Calls without work for stridec
 * come here too: receives must register (receive_gate.h). */
#include "base/activity.h"
#include "base/error.h"
#include "collective/neighbor_stream.h"
#include "next.h"
#include "protocol/channel.h"
#include "request/receive_gate.h"
#include "request/record.h"

/* Prepares requests. Puts their records back before the start: any thread may complete an active request. */
static int start(struct starts *s, int count, const MPI_Request requests[])
{
    bool ok = true;
    const struct record *last = NULL;
    for (int i = 0; i < count; i++)
        if (channel_is_bound(requests[i]) || neighbor_stream_started(requests[i]))
            return raise_error(MPI_COMM_WORLD, MPI_ERR_REQUEST, "a request of stridec_start_on");
    for (int i = 0; i < count && ok; i++) {
        struct record *r = record_take(requests[i]);
        if (r) ok = record_start(s, r), last = r;
    }
    if (record_started(s, ok)) return MPI_SUCCESS;
    return record_raise(last, MPI_ERR_OTHER, "a persistent request can't be started");
}

static int feed(struct starts *s)
{
    const struct record *failed = record_feed(s);
    return failed ? record_raise(failed, MPI_ERR_OTHER, "packing on the GPU failed") : MPI_SUCCESS;
}

static void stop_all(int count, const MPI_Request requests[])
{
    for (int i = 0; i < count; i++) {
        struct record *r = record_take(requests[i]);
        if (!r) continue;
        record_stop(r);
        record_keep(r);
    }
}

static bool nothing_to_do(void)
{
    receive_gate_open(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_NULL);
    return !probed_any() && !interpose_pending();
}

static int start_one(const struct next *next, MPI_Request *request)
{
    struct starts s = {0};
    if (nothing_to_do()) return next->Start(request);
    int rc = request ? start(&s, 1, request) : MPI_SUCCESS;
    if (rc != MPI_SUCCESS || (request && record_held(*request))) return rc;
    rc = receive_gate_close(next->Start(request));
    if (rc == MPI_SUCCESS) return feed(&s);
    if (request) stop_all(1, request);
    return rc;
}

int call_Start(const struct next *next, MPI_Request *request)
{
    return receive_gate_close(start_one(next, request));
}

static bool any_holds(int count, const MPI_Request requests[])
{
    bool any = false;
    for (int i = 0; requests && i < count && !any; i++) any = record_held(requests[i]);
    return any;
}

static int start_rest(const struct next *next, int count, MPI_Request requests[])
{
    int rc = MPI_SUCCESS;
    for (int i = 0; i < count && rc == MPI_SUCCESS; i++)
        if (!record_held(requests[i])) rc = next->Start(&requests[i]);
    return rc;
}

static int start_all(const struct next *next, int count, MPI_Request requests[])
{
    struct starts s = {0};
    if (nothing_to_do()) return next->Startall(count, requests);
    int rc = requests ? start(&s, count, requests) : MPI_SUCCESS;
    if (rc != MPI_SUCCESS) return rc;
    rc = receive_gate_close(any_holds(count, requests) ? start_rest(next, count, requests)
                                                       : next->Startall(count, requests));
    if (rc == MPI_SUCCESS) return feed(&s);
    if (requests) stop_all(count, requests);
    return rc;
}

int call_Startall(const struct next *next, int count, MPI_Request requests[])
{
    return receive_gate_close(start_all(next, count, requests));
}
