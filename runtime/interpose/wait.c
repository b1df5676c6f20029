/* wait.c: completes requests (completion_set.h). */
#include "base/self_comm.h"
#include "collective/neighbor_stream.h"
#include "next.h"
#include "protocol/channel.h"
#include "request/completion_set.h"
#include "request/light_request.h"

/* The path for light requests alone (light_request.h), which is usual in processes without GPUs. */

static int wait_light(const struct next *next, MPI_Request *request, MPI_Status *status)
{
    struct light_request w;
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    MPI_Request of = request ? *request : MPI_REQUEST_NULL;
    if (!request || !light_request_take(of, &w)) return next->Wait(request, status);
    int rc = next->Wait(request, s);
    if (completion_set_refused(rc)) return light_request_return(of, &w), rc;
    if (rc == MPI_SUCCESS) rc = light_request_done(&w, s);
    light_request_end(&w);
    return rc;
}

#define LIGHT_MAX 32

static int waitall_light(const struct next *next, int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct light_request w[LIGHT_MAX];
    MPI_Request of[LIGHT_MAX];
    MPI_Status own[LIGHT_MAX], *s = statuses == MPI_STATUSES_IGNORE ? own : statuses;
    int at[LIGHT_MAX], n = 0;
    bool failed = false;
    for (int i = 0; i < count; i++)
        if (light_request_take(requests[i], &w[n])) of[n] = requests[i], at[n++] = i;
    int rc = next->Waitall(count, requests, n ? s : statuses);
    for (int i = 0; i < n; i++) {
        MPI_Status *status = &s[at[i]];
        if (rc == MPI_ERR_IN_STATUS && completion_set_goes_on(requests[at[i]])) status->MPI_ERROR = MPI_ERR_PENDING;
        int error = rc == MPI_ERR_IN_STATUS ? status->MPI_ERROR : rc;
        if (error == MPI_ERR_PENDING || !completion_set_completed(rc)) {
            light_request_return(of[i], &w[i]);
            continue;
        }
        if (error == MPI_SUCCESS) w[i].error = light_request_done(&w[i], status);
        failed |= w[i].error != MPI_SUCCESS;
        light_request_end(&w[i]);
    }
    for (int i = 0; i < count && failed && rc == MPI_SUCCESS; i++) s[i].MPI_ERROR = MPI_SUCCESS;
    for (int i = 0; i < n && failed; i++)
        if (w[i].error != MPI_SUCCESS) s[at[i]].MPI_ERROR = w[i].error;
    return failed ? MPI_ERR_IN_STATUS : rc;
}

/* Returns 0, the number of complete requests: a receiver is still to come. The MPI may not have made progress in this
 * call: it was not asked, or not about a request that it still has to do something for. */
static int none_yet(void)
{
    comm_progress(MPI_COMM_WORLD);
    return 0;
}

/* Ends a test of all. */
static int waits(struct completion_set *f, int *flag)
{
    completion_set_close(f);
    *flag = none_yet();
    return MPI_SUCCESS;
}

int call_Wait(const struct next *next, MPI_Request *request, MPI_Status *status)
{
    struct completion_set f;
    if (light_request_alone()) return wait_light(next, request, status);
    if (!completion_set_open(&f, 1, request, status)) return next->Wait(request, status);
    completion_set_await(&f);
    int rc = next->Wait(request, f.statuses);
    return completion_set_one(&f, 0, f.statuses, rc);
}

int call_Test(const struct next *next, MPI_Request *request, int *flag, MPI_Status *status)
{
    struct completion_set f;
    if (!completion_set_open(&f, 1, request, status)) return next->Test(request, flag, status);
    completion_set_step(&f);
    if (completion_set_waits(&f)) return waits(&f, flag);
    int rc = next->Test(request, flag, f.statuses);
    return completion_set_one(&f, rc != MPI_SUCCESS || *flag ? 0 : MPI_UNDEFINED, f.statuses, rc);
}

int call_Waitall(const struct next *next, int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct completion_set f;
    if (light_request_alone() && count > 0 && count <= LIGHT_MAX && requests)
        return waitall_light(next, count, requests, statuses);
    if (!completion_set_open(&f, count, requests, statuses)) return next->Waitall(count, requests, statuses);
    completion_set_await(&f);
    int rc = next->Waitall(count, requests, f.statuses);
    if (rc == MPI_ERR_IN_STATUS) completion_set_pending(&f, requests);
    return completion_set_all(&f, rc);
}

int call_Testall(const struct next *next, int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    struct completion_set f;
    if (!completion_set_open(&f, count, requests, statuses)) return next->Testall(count, requests, flag, statuses);
    completion_set_step(&f);
    if (completion_set_waits(&f)) return waits(&f, flag);
    int rc = next->Testall(count, requests, flag, f.statuses);
    if (rc != MPI_SUCCESS || *flag) return completion_set_all(&f, rc);
    completion_set_close(&f);
    return rc;
}

/* Returns the first request from `at` on whose message has arrived already (record_held), else count. The MPI does
 * not know about it, so calls for any of several report it first. */
static int next_held(int at, int count, const MPI_Request requests[])
{
    while (requests && at < count && !record_held(requests[at])) at++;
    return requests ? at : count;
}

/* Calls MPI_Testany without the sends that wait for their receivers. */
static int test_any(const struct next *next, const struct completion_set *f, MPI_Request requests[], int *index,
                    int *flag, MPI_Status *s)
{
    MPI_Request *shown = completion_set_show(f, requests);
    int rc = next->Testany(f->count, shown, index, flag, s);
    bool any = *flag && *index != MPI_UNDEFINED;
    if (shown == requests || (rc == MPI_SUCCESS && !*flag)) return rc;
    if (any) requests[*index] = shown[*index];
    else *flag = none_yet();
    return rc;
}

/* Waits by polling, because the MPI's MPI_Waitany would wait without stridec's progress. */
static int wait_any(const struct next *next, const struct completion_set *f, MPI_Request requests[], int *index,
                    MPI_Status *s)
{
    int flag = 0, rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && !flag) {
        if (completion_set_step(f) && !record_any_rndv()) return next->Waitany(f->count, requests, index, s);
        rc = test_any(next, f, requests, index, &flag, s);
    }
    return rc;
}

int call_Waitany(const struct next *next, int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    struct completion_set f;
    int held = next_held(0, count, requests);
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    if (!completion_set_open(&f, count, requests, s)) return next->Waitany(count, requests, index, status);
    if (held < count) return completion_set_one(&f, *index = held, s, MPI_SUCCESS);
    *index = MPI_UNDEFINED;   /* stays so if the MPI refuses an argument */
    int rc = wait_any(next, &f, requests, index, s);
    return completion_set_one(&f, *index, s, rc);
}

int call_Testany(const struct next *next, int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    struct completion_set f;
    int held = next_held(0, count, requests);
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    if (!completion_set_open(&f, count, requests, s)) return next->Testany(count, requests, index, flag, status);
    if (held < count) return *flag = 1, completion_set_one(&f, *index = held, s, MPI_SUCCESS);
    *index = MPI_UNDEFINED;
    completion_set_step(&f);
    int rc = test_any(next, &f, requests, index, flag, s);
    return completion_set_one(&f, rc != MPI_SUCCESS || *flag ? *index : MPI_UNDEFINED, s, rc);
}

static int list_held(int count, const MPI_Request requests[], int indices[])
{
    int n = 0;
    for (int at = next_held(0, count, requests); at < count; at = next_held(at + 1, count, requests)) indices[n++] = at;
    return n;
}

/* Calls MPI_Testsome without the sends that wait for their receivers. */
static int test_some(const struct next *next, const struct completion_set *f, MPI_Request requests[], int *outcount,
                     int indices[])
{
    MPI_Request *shown = completion_set_show(f, requests);
    int rc = next->Testsome(f->count, shown, outcount, indices, f->statuses);
    if (shown == requests || !completion_set_completed(rc)) return rc;
    if (*outcount == MPI_UNDEFINED) *outcount = none_yet();
    for (int i = 0; i < *outcount; i++) requests[indices[i]] = shown[indices[i]];
    return rc;
}

static int wait_some(const struct next *next, const struct completion_set *f, MPI_Request requests[], int *outcount,
                     int indices[])
{
    int rc = MPI_SUCCESS;
    for (*outcount = 0; rc == MPI_SUCCESS && !*outcount;) {
        if (completion_set_step(f) && !record_any_rndv())
            return next->Waitsome(f->count, requests, outcount, indices, f->statuses);
        rc = test_some(next, f, requests, outcount, indices);
    }
    return rc;
}

int call_Waitsome(const struct next *next, int incount, MPI_Request requests[], int *outcount, int indices[],
                  MPI_Status statuses[])
{
    struct completion_set f;
    int n = list_held(incount, requests, indices);
    if (!completion_set_open(&f, incount, requests, statuses))
        return next->Waitsome(incount, requests, outcount, indices, statuses);
    if (n) return completion_set_some(&f, *outcount = n, indices, MPI_SUCCESS);
    int rc = wait_some(next, &f, requests, outcount, indices);
    return completion_set_some(&f, *outcount, indices, rc);
}

int call_Testsome(const struct next *next, int incount, MPI_Request requests[], int *outcount, int indices[],
                  MPI_Status statuses[])
{
    struct completion_set f;
    int n = list_held(incount, requests, indices);
    if (!completion_set_open(&f, incount, requests, statuses))
        return next->Testsome(incount, requests, outcount, indices, statuses);
    if (n) return completion_set_some(&f, *outcount = n, indices, MPI_SUCCESS);
    completion_set_step(&f);
    int rc = test_some(next, &f, requests, outcount, indices);
    return completion_set_some(&f, *outcount, indices, rc);
}

static void step_each(int count, const MPI_Request requests[])
{
    for (int i = 0; record_any_steps() && requests && i < count; i++) record_step(requests[i]);
}

/* Unpacks the data of a request that is reported as complete, though it is not freed yet. */
static void finish_seen(struct completion *c, MPI_Request request, MPI_Status *status)
{
    struct record *r = record_take(request);
    if (!r) return;
    completion_add(c, r, status, MPI_SUCCESS);
    record_seen(r);
}

int call_Request_get_status(const struct next *next, MPI_Request request, int *flag, MPI_Status *status)
{
    struct completion c = {0};
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    step_each(1, &request);
    int rc = next->Request_get_status(request, flag, s);
    if (rc == MPI_SUCCESS && *flag && record_waits(request)) *flag = none_yet();
    if (rc == MPI_SUCCESS && *flag) finish_seen(&c, request, s);
    return completion_rc(&c, rc);
}

#ifdef HAVE_Request_get_status_any
int call_Request_get_status_any(const struct next *next, int count, const MPI_Request requests[], int *index, int *flag,
                                MPI_Status *status)
{
    struct completion c = {0};
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    struct completion_set f;
    int held = next_held(0, count, requests);
    completion_set_alloc(&f, count, MPI_STATUSES_IGNORE);
    step_each(count, requests);
    const MPI_Request *shown = completion_set_look(&f, requests);
    int rc = held < count ? MPI_SUCCESS : next->Request_get_status_any(count, shown, index, flag, s);
    if (held < count) *index = held, *flag = 1;
    if (rc == MPI_SUCCESS && *flag && *index == MPI_UNDEFINED && shown != requests) *flag = none_yet();
    if (rc == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED) finish_seen(&c, requests[*index], s);
    completion_set_free(&f);
    return completion_rc(&c, rc);
}

int call_Request_get_status_all(const struct next *next, int count, const MPI_Request requests[], int *flag,
                                MPI_Status statuses[])
{
    struct completion c = {0};
    struct completion_set f;
    completion_set_alloc(&f, count, statuses);
    step_each(count, requests);
    int rc = next->Request_get_status_all(count, requests, flag, f.statuses);
    if (rc == MPI_SUCCESS && *flag && completion_set_look(&f, requests) != requests) *flag = none_yet();
    for (int i = 0; rc == MPI_SUCCESS && *flag && i < count; i++) finish_seen(&c, requests[i], &f.statuses[i]);
    completion_set_free(&f);
    return completion_rc(&c, rc);
}

int call_Request_get_status_some(const struct next *next, int incount, const MPI_Request requests[], int *outcount,
                                 int indices[], MPI_Status statuses[])
{
    struct completion c = {0};
    struct completion_set f;
    completion_set_alloc(&f, incount, statuses);
    int held = list_held(incount, requests, indices);
    step_each(incount, requests);
    const MPI_Request *shown = completion_set_look(&f, requests);
    int rc = held ? MPI_SUCCESS : next->Request_get_status_some(incount, shown, outcount, indices, f.statuses);
    if (held) *outcount = held;
    if (rc == MPI_SUCCESS && *outcount == MPI_UNDEFINED && shown != requests) *outcount = none_yet();
    for (int i = 0; rc == MPI_SUCCESS && *outcount != MPI_UNDEFINED && i < *outcount; i++)
        finish_seen(&c, requests[indices[i]], &f.statuses[i]);
    completion_set_free(&f);
    return completion_rc(&c, rc);
}
#endif

/* Ignores requests whose message has arrived, and collectives: neither can be cancelled. */
int call_Cancel(const struct next *next, MPI_Request *request)
{
    return request && (record_held(*request) || record_has_steps(*request)) ? MPI_SUCCESS : next->Cancel(request);
}

/* Frees the messages that a collective has become for stridec_start_on. */
static void free_messages(const struct next *next, MPI_Request request)
{
    struct neighbor_messages *m = neighbor_stream_take(request);
    for (int i = 0; m && i < m->made; i++) call_Request_free(next, &m->request[i]);
    neighbor_messages_free(m);
}

int call_Request_free(const struct next *next, MPI_Request *request)
{
    if (request) free_messages(next, *request), channel_freed(*request);
    struct record *r = request ? record_take(*request) : NULL;
    if (!r || !record_freed(r)) return next->Request_free(request);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}
