/* calls_request.c: completing requests. Under MPI_THREAD_MULTIPLE each call takes the records of its requests, lets
 * the MPI complete them, finishes what completed and keeps the rest: as soon as the MPI has completed a request, its
 * handle may be another thread's. At the other levels nobody reuses a handle before the call returns: only the
 * records of what completed are looked for, by the handles that were there before. */
#include "next.h"
#include "request.h"
#include "spare.h"
#include "spin.h"
#include "watch.h"
#include <stdlib.h>
#include <string.h>

/* What a call remembers of its requests, and statuses of our own where the application wants none, since only they tell
 * what arrived. */
struct finder {
    int count;
    struct record **records;   /* with threads: NULL where there is none */
    MPI_Request *handles;      /* else */
    MPI_Status *statuses;
    void *block;               /* what these lie in, if not in `few` */
    struct {
        struct record *records[32];
        MPI_Request handles[32];
        MPI_Status statuses[32];
    } few;
};

#define FEW (sizeof ((struct finder *)0)->few.records / sizeof(struct record *))

/* Memory for so many requests, and for statuses where the application has none. */
static void finder_room(struct finder *f, int count, MPI_Status *statuses)
{
    size_t n = count > 0 ? (size_t)count : 0, own = statuses == MPI_STATUSES_IGNORE ? n : 0;
    size_t each = record_threads() ? sizeof(struct record *) : sizeof(MPI_Request);
    size_t list = (n * each + _Alignof(MPI_Status) - 1) / _Alignof(MPI_Status) * _Alignof(MPI_Status);
    f->block = n > FEW ? spare_get(SPARE_LIST, list + own * sizeof(MPI_Status)) : NULL;
    if (n > FEW && !f->block) abort();   /* without records the data would be lost without a word */
    f->records = !record_threads() ? NULL : f->block ? f->block : f->few.records;
    f->handles = record_threads() ? NULL : f->block ? f->block : f->few.handles;
    f->count = count;
    f->statuses = !own ? statuses : f->block ? (MPI_Status *)((char *)f->block + list) : f->few.statuses;
}

/* What did not complete goes back into the table. */
static void finder_close(struct finder *f)
{
    for (int i = 0; f->records && i < f->count; i++)
        if (f->records[i]) record_keep(f->records[i]);
    spare_put(SPARE_LIST, f->block);
}

static bool finder_take(struct finder *f, const MPI_Request requests[])
{
    bool any = false;
    for (int i = 0; i < f->count; i++) {
        f->records[i] = record_take(requests[i]);
        any |= f->records[i] != NULL;
    }
    return any;
}

/* False if no request has a record, as far as that is known: the call goes straight down. `statuses` may be
 * MPI_STATUSES_IGNORE. */
static bool finder_open(struct finder *f, int count, const MPI_Request requests[], MPI_Status *statuses)
{
    if (count <= 0 || !requests) return false;
    finder_room(f, count, statuses);
    if (f->handles) memcpy(f->handles, requests, (size_t)count * sizeof *requests);
    if (f->handles || finder_take(f, requests)) return true;
    finder_close(f);
    return false;
}

static void finish_at(struct completion *c, struct finder *f, int i, MPI_Status *status, int error)
{
    struct record *r = f->records ? f->records[i] : record_take(f->handles[i]);
    if (r) completion_add(c, r, status, error);
    if (f->records) f->records[i] = NULL;
}

static int end(struct completion *c, int rc)
{
    int ours = completion_end(c);
    return rc == MPI_SUCCESS ? ours : rc;
}

/* Calls on arrays tell failed requests by MPI_ERR_IN_STATUS; any other error is about the arguments, and
 * completed nothing. */
static bool completed(int rc)
{
    return rc == MPI_SUCCESS || rc == MPI_ERR_IN_STATUS;
}

/* Of calls on arrays, which tell of a message that was too long by its status. */
static int end_array(struct completion *c, struct finder *f, int n, int rc)
{
    int ours = completion_end(c);
    if (rc != MPI_SUCCESS || ours != MPI_ERR_TRUNCATE) return rc == MPI_SUCCESS ? ours : rc;
    for (int i = 0; i < n; i++)
        if (f->statuses[i].MPI_ERROR != MPI_ERR_TRUNCATE) f->statuses[i].MPI_ERROR = MPI_SUCCESS;
    return MPI_ERR_IN_STATUS;
}

/* All of the requests have completed, but those that MPI_ERR_IN_STATUS names as pending. */
static int finish_all(struct finder *f, int rc)
{
    struct completion c = {0};
    bool each = rc == MPI_ERR_IN_STATUS;
    for (int i = 0; completed(rc) && i < f->count; i++) {
        int error = each ? f->statuses[i].MPI_ERROR : rc;
        if (!each) f->statuses[i].MPI_ERROR = MPI_SUCCESS;
        if (error != MPI_ERR_PENDING) finish_at(&c, f, i, &f->statuses[i], error);
    }
    rc = end_array(&c, f, f->count, rc);
    finder_close(f);
    return rc;
}

/* True if a buffer that was offered is not free yet. */
static bool finder_offers(const struct finder *f)
{
    bool any = false;
    for (int i = 0; i < f->count && !any; i++)
        any = f->records ? record_offering(f->records[i]) : record_offers(f->handles[i]);
    return any;
}

/* Goes on with neighbourhood collectives: true where all among the requests are complete, as far as the MPI's next look at
 * them can tell. Calls that wait for requests of the MPI's own have these complete before. */
static bool finder_step(const struct finder *f)
{
    bool all = true;
    for (int i = 0; record_defers() && i < f->count; i++)
        if (!(f->records ? record_stepped(f->records[i]) : record_step(f->handles[i]))) all = false;
    return all;
}

static void step_each(int count, const MPI_Request requests[])
{
    for (int i = 0; record_defers() && requests && i < count; i++) record_step(requests[i]);
}

/* Not complete; but the MPI goes on. */
static int finder_later(struct finder *f, const MPI_Request requests[], int *flag)
{
    int seen = 0, rc = MPI_SUCCESS;
    for (int i = 0; i < f->count && rc == MPI_SUCCESS; i++)
        rc = PMPI_Request_get_status(requests[i], &seen, MPI_STATUS_IGNORE);
    finder_close(f);
    *flag = 0;
    return rc;
}

static int finish_one(struct finder *f, int index, MPI_Status *status, int rc)
{
    struct completion c = {0};
    if (index != MPI_UNDEFINED && index >= 0 && index < f->count) finish_at(&c, f, index, status, rc);
    finder_close(f);
    return end(&c, rc);
}

static int finish_some(struct finder *f, int outcount, const int indices[], int rc)
{
    struct completion c = {0};
    int n = completed(rc) && outcount != MPI_UNDEFINED ? outcount : 0;
    bool each = rc == MPI_ERR_IN_STATUS;
    for (int i = 0; i < n; i++) {
        if (!each) f->statuses[i].MPI_ERROR = MPI_SUCCESS;
        finish_at(&c, f, indices[i], &f->statuses[i], f->statuses[i].MPI_ERROR);
    }
    rc = end_array(&c, f, n, rc);
    finder_close(f);
    return rc;
}

/*
 * Where there are none but watched receives (watch.h), which is what a process without GPUs mostly has.
 */

static int wait_watched(const struct next *next, MPI_Request *request, MPI_Status *status)
{
    struct watch w;
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    if (!request || !watch_take(*request, &w)) return next->Wait(request, status);
    int rc = next->Wait(request, s);
    if (rc == MPI_SUCCESS && watch_hit(&w, s)) rc = watch_arrived(&w, s, MPI_COMM_WORLD);
    return rc;
}

#define WATCHED_AT_ONCE 32

static int waitall_watched(const struct next *next, int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct watch w[WATCHED_AT_ONCE];
    MPI_Request of[WATCHED_AT_ONCE];
    MPI_Status own[WATCHED_AT_ONCE], *s = statuses == MPI_STATUSES_IGNORE ? own : statuses;
    int at[WATCHED_AT_ONCE], n = 0;
    bool failed = false;
    for (int i = 0; i < count; i++)
        if (watch_take(requests[i], &w[n])) of[n] = requests[i], at[n++] = i;
    int rc = next->Waitall(count, requests, n ? s : statuses);
    for (int i = 0; i < n; i++) {
        MPI_Status *status = &s[at[i]];
        int error = rc == MPI_ERR_IN_STATUS ? status->MPI_ERROR : rc;
        if (error == MPI_ERR_PENDING) watch_add(of[i], &w[i]);
        if (error != MPI_SUCCESS || !watch_hit(&w[i], status)) continue;
        w[i].error = watch_arrived(&w[i], status, MPI_COMM_WORLD);
        failed |= w[i].error != MPI_SUCCESS;
    }
    for (int i = 0; i < count && failed && rc == MPI_SUCCESS; i++) s[i].MPI_ERROR = MPI_SUCCESS;
    for (int i = 0; i < n && failed; i++)
        if (w[i].error != MPI_SUCCESS) s[at[i]].MPI_ERROR = w[i].error;
    return failed ? MPI_ERR_IN_STATUS : rc;
}

int call_Wait(const struct next *next, MPI_Request *request, MPI_Status *status)
{
    struct finder f;
    if (watch_alone()) return wait_watched(next, request, status);
    if (!finder_open(&f, 1, request, status)) return next->Wait(request, status);
    for (unsigned spins = 0; !finder_step(&f); spins++) spin(spins);
    int rc = next->Wait(request, f.statuses);
    return finish_one(&f, 0, f.statuses, rc);
}

int call_Test(const struct next *next, MPI_Request *request, int *flag, MPI_Status *status)
{
    struct finder f;
    if (!finder_open(&f, 1, request, status)) return next->Test(request, flag, status);
    finder_step(&f);
    if (finder_offers(&f)) return finder_later(&f, request, flag);
    int rc = next->Test(request, flag, f.statuses);
    return finish_one(&f, rc != MPI_SUCCESS || *flag ? 0 : MPI_UNDEFINED, f.statuses, rc);
}

int call_Waitall(const struct next *next, int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct finder f;
    if (watch_alone() && count > 0 && count <= WATCHED_AT_ONCE && requests)
        return waitall_watched(next, count, requests, statuses);
    if (!finder_open(&f, count, requests, statuses)) return next->Waitall(count, requests, statuses);
    for (unsigned spins = 0; !finder_step(&f); spins++) spin(spins);
    int rc = next->Waitall(count, requests, f.statuses);
    return finish_all(&f, rc);
}

int call_Testall(const struct next *next, int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    struct finder f;
    if (!finder_open(&f, count, requests, statuses)) return next->Testall(count, requests, flag, statuses);
    finder_step(&f);
    if (finder_offers(&f)) return finder_later(&f, requests, flag);
    int rc = next->Testall(count, requests, flag, f.statuses);
    if (rc != MPI_SUCCESS || *flag) return finish_all(&f, rc);
    finder_close(&f);
    return rc;
}

/* The MPI takes no notice of receives whose messages are here already (record_holds): calls that ask for any of several
 * are told of these first. */
static int held_from(int at, int count, const MPI_Request requests[])
{
    while (requests && at < count && !record_holds(requests[at])) at++;
    return requests ? at : count;
}

/* MPI_Waitany, where the MPI alone would not come to an end. */
static int wait_any(const struct next *next, const struct finder *f, MPI_Request requests[], int *index, MPI_Status *s)
{
    int flag = 0, rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && !flag) {
        if (finder_step(f)) return next->Waitany(f->count, requests, index, s);
        rc = next->Testany(f->count, requests, index, &flag, s);
    }
    return rc;
}

int call_Waitany(const struct next *next, int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    struct finder f;
    int held = held_from(0, count, requests);
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    if (!finder_open(&f, count, requests, s)) return next->Waitany(count, requests, index, status);
    if (held < count) return finish_one(&f, *index = held, s, MPI_SUCCESS);
    *index = MPI_UNDEFINED;   /* as it stays where an argument is refused */
    int rc = wait_any(next, &f, requests, index, s);
    return finish_one(&f, *index, s, rc);
}

int call_Testany(const struct next *next, int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    struct finder f;
    int held = held_from(0, count, requests);
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    if (!finder_open(&f, count, requests, s))
        return next->Testany(count, requests, index, flag, status);
    if (held < count) return *flag = 1, finish_one(&f, *index = held, s, MPI_SUCCESS);
    *index = MPI_UNDEFINED;
    finder_step(&f);
    int rc = next->Testany(count, requests, index, flag, s);
    return finish_one(&f, rc != MPI_SUCCESS || *flag ? *index : MPI_UNDEFINED, s, rc);
}

static int held_some(int count, const MPI_Request requests[], int indices[])
{
    int n = 0;
    for (int at = held_from(0, count, requests); at < count; at = held_from(at + 1, count, requests)) indices[n++] = at;
    return n;
}

static int wait_some(const struct next *next, const struct finder *f, MPI_Request requests[], int *outcount, int indices[])
{
    int rc = MPI_SUCCESS;
    for (*outcount = 0; rc == MPI_SUCCESS && !*outcount;) {
        if (finder_step(f)) return next->Waitsome(f->count, requests, outcount, indices, f->statuses);
        rc = next->Testsome(f->count, requests, outcount, indices, f->statuses);
    }
    return rc;
}

int call_Waitsome(const struct next *next, int incount, MPI_Request requests[], int *outcount, int indices[],
                  MPI_Status statuses[])
{
    struct finder f;
    int n = held_some(incount, requests, indices);
    if (!finder_open(&f, incount, requests, statuses))
        return next->Waitsome(incount, requests, outcount, indices, statuses);
    if (n) return finish_some(&f, *outcount = n, indices, MPI_SUCCESS);
    int rc = wait_some(next, &f, requests, outcount, indices);
    return finish_some(&f, *outcount, indices, rc);
}

int call_Testsome(const struct next *next, int incount, MPI_Request requests[], int *outcount, int indices[],
                  MPI_Status statuses[])
{
    struct finder f;
    int n = held_some(incount, requests, indices);
    if (!finder_open(&f, incount, requests, statuses))
        return next->Testsome(incount, requests, outcount, indices, statuses);
    if (n) return finish_some(&f, *outcount = n, indices, MPI_SUCCESS);
    finder_step(&f);
    int rc = next->Testsome(incount, requests, outcount, indices, f.statuses);
    return finish_some(&f, *outcount, indices, rc);
}

/* A request that is seen to be complete has its data in place, though it is not freed yet. */
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
    if (rc == MPI_SUCCESS && *flag && record_offers(request)) *flag = 0;
    if (rc == MPI_SUCCESS && *flag) finish_seen(&c, request, s);
    return end(&c, rc);
}

#ifdef HAVE_Request_get_status_any
int call_Request_get_status_any(const struct next *next, int count, const MPI_Request requests[], int *index, int *flag,
                                MPI_Status *status)
{
    struct completion c = {0};
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int held = held_from(0, count, requests);
    step_each(count, requests);
    int rc = held < count ? MPI_SUCCESS : next->Request_get_status_any(count, requests, index, flag, s);
    if (held < count) *index = held, *flag = 1;
    if (rc == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED) finish_seen(&c, requests[*index], s);
    return end(&c, rc);
}

int call_Request_get_status_all(const struct next *next, int count, const MPI_Request requests[], int *flag,
                                MPI_Status statuses[])
{
    struct completion c = {0};
    struct finder f;
    finder_room(&f, count, statuses);
    step_each(count, requests);
    int rc = next->Request_get_status_all(count, requests, flag, f.statuses);
    for (int i = 0; rc == MPI_SUCCESS && *flag && i < count; i++) finish_seen(&c, requests[i], &f.statuses[i]);
    spare_put(SPARE_LIST, f.block);
    return end(&c, rc);
}

int call_Request_get_status_some(const struct next *next, int incount, const MPI_Request requests[], int *outcount,
                                 int indices[], MPI_Status statuses[])
{
    struct completion c = {0};
    struct finder f;
    finder_room(&f, incount, statuses);
    int held = held_some(incount, requests, indices);
    step_each(incount, requests);
    int rc = held ? MPI_SUCCESS : next->Request_get_status_some(incount, requests, outcount, indices, f.statuses);
    if (held) *outcount = held;
    for (int i = 0; rc == MPI_SUCCESS && *outcount != MPI_UNDEFINED && i < *outcount; i++)
        finish_seen(&c, requests[indices[i]], &f.statuses[i]);
    spare_put(SPARE_LIST, f.block);
    return end(&c, rc);
}
#endif

/* What is here can't be cancelled, nor can collectives. */
int call_Cancel(const struct next *next, MPI_Request *request)
{
    return request && (record_holds(*request) || record_deferred(*request)) ? MPI_SUCCESS : next->Cancel(request);
}

int call_Request_free(const struct next *next, MPI_Request *request)
{
    struct record *r = request ? record_take(*request) : NULL;
    if (!r || !record_orphan(r)) return next->Request_free(request);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}
