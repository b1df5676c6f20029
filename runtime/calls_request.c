/* calls_request.c: completing requests. Each call takes the records of its requests, lets the MPI complete
 * them, finishes what completed and keeps the rest. */
#include "next.h"
#include "request.h"
#include <stdlib.h>
#include <string.h>

/* The records of an array of requests (NULL where there is none), and statuses of our own where the
 * application wants none, since only they tell what arrived. */
struct finder {
    int count;
    struct record **records;
    MPI_Status *statuses, *own;
    struct record *few[32];
    MPI_Status few_statuses[32];
};

/* What did not complete goes back into the table. */
static void finder_close(struct finder *f)
{
    for (int i = 0; i < f->count; i++)
        if (f->records[i]) record_keep(f->records[i]);
    if (f->records != f->few) free(f->records);
    if (f->own != f->few_statuses) free(f->own);
}

/* False if none of the requests has a record: the call goes straight down. `statuses` may be
 * MPI_STATUSES_IGNORE. */
static bool finder_open(struct finder *f, int count, const MPI_Request requests[], MPI_Status *statuses)
{
    size_t n = count > 0 ? (size_t)count : 0;
    bool few = n <= sizeof f->few / sizeof *f->few, any = false;
    if (n == 0 || !requests) return false;
    f->count = count;
    f->records = few ? f->few : malloc(n * sizeof *f->records);
    f->own = few ? f->few_statuses : malloc(n * sizeof *f->own);
    f->statuses = statuses == MPI_STATUSES_IGNORE ? f->own : statuses;
    if (!f->records || !f->own) abort();   /* without records the data would be lost without a word */
    for (size_t i = 0; i < n; i++) {
        f->records[i] = record_take(requests[i]);
        any |= f->records[i] != NULL;
    }
    if (!any) finder_close(f);
    return any;
}

static void finish_at(struct completion *c, struct finder *f, int i, const MPI_Status *status, int error)
{
    if (f->records[i]) completion_add(c, f->records[i], status, error);
    f->records[i] = NULL;
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

/* All of the requests have completed, but those that MPI_ERR_IN_STATUS names as pending. */
static int finish_all(struct finder *f, int rc)
{
    struct completion c = {0};
    bool each = rc == MPI_ERR_IN_STATUS;
    for (int i = 0; completed(rc) && i < f->count; i++) {
        int error = each ? f->statuses[i].MPI_ERROR : rc;
        if (error != MPI_ERR_PENDING) finish_at(&c, f, i, &f->statuses[i], error);
    }
    finder_close(f);
    return end(&c, rc);
}

static int finish_one(struct finder *f, int index, const MPI_Status *status, int rc)
{
    struct completion c = {0};
    if (index != MPI_UNDEFINED && index >= 0 && index < f->count) finish_at(&c, f, index, status, rc);
    finder_close(f);
    return end(&c, rc);
}

static int finish_some(struct finder *f, int outcount, const int indices[], int rc)
{
    struct completion c = {0};
    for (int i = 0; completed(rc) && outcount != MPI_UNDEFINED && i < outcount; i++)
        finish_at(&c, f, indices[i], &f->statuses[i], rc == MPI_ERR_IN_STATUS ? f->statuses[i].MPI_ERROR : rc);
    finder_close(f);
    return end(&c, rc);
}

int call_Wait(const struct next *next, MPI_Request *request, MPI_Status *status)
{
    struct finder f;
    if (!finder_open(&f, 1, request, status)) return next->Wait(request, status);
    int rc = next->Wait(request, f.statuses);
    return finish_one(&f, 0, f.statuses, rc);
}

int call_Test(const struct next *next, MPI_Request *request, int *flag, MPI_Status *status)
{
    struct finder f;
    if (!finder_open(&f, 1, request, status)) return next->Test(request, flag, status);
    int rc = next->Test(request, flag, f.statuses);
    return finish_one(&f, rc != MPI_SUCCESS || *flag ? 0 : MPI_UNDEFINED, f.statuses, rc);
}

int call_Waitall(const struct next *next, int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct finder f;
    if (!finder_open(&f, count, requests, statuses)) return next->Waitall(count, requests, statuses);
    int rc = next->Waitall(count, requests, f.statuses);
    return finish_all(&f, rc);
}

int call_Testall(const struct next *next, int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    struct finder f;
    if (!finder_open(&f, count, requests, statuses)) return next->Testall(count, requests, flag, statuses);
    int rc = next->Testall(count, requests, flag, f.statuses);
    if (rc != MPI_SUCCESS || *flag) return finish_all(&f, rc);
    finder_close(&f);
    return rc;
}

int call_Waitany(const struct next *next, int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    struct finder f;
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    if (!finder_open(&f, count, requests, MPI_STATUSES_IGNORE)) return next->Waitany(count, requests, index, status);
    *index = MPI_UNDEFINED;   /* as it stays where an argument is refused */
    int rc = next->Waitany(count, requests, index, s);
    return finish_one(&f, *index, s, rc);
}

int call_Testany(const struct next *next, int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    struct finder f;
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    if (!finder_open(&f, count, requests, MPI_STATUSES_IGNORE))
        return next->Testany(count, requests, index, flag, status);
    *index = MPI_UNDEFINED;
    int rc = next->Testany(count, requests, index, flag, s);
    return finish_one(&f, rc != MPI_SUCCESS || *flag ? *index : MPI_UNDEFINED, s, rc);
}

int call_Waitsome(const struct next *next, int incount, MPI_Request requests[], int *outcount, int indices[],
                  MPI_Status statuses[])
{
    struct finder f;
    if (!finder_open(&f, incount, requests, statuses))
        return next->Waitsome(incount, requests, outcount, indices, statuses);
    int rc = next->Waitsome(incount, requests, outcount, indices, f.statuses);
    return finish_some(&f, *outcount, indices, rc);
}

int call_Testsome(const struct next *next, int incount, MPI_Request requests[], int *outcount, int indices[],
                  MPI_Status statuses[])
{
    struct finder f;
    if (!finder_open(&f, incount, requests, statuses))
        return next->Testsome(incount, requests, outcount, indices, statuses);
    int rc = next->Testsome(incount, requests, outcount, indices, f.statuses);
    return finish_some(&f, *outcount, indices, rc);
}

/* A request that is seen to be complete has its data in place, though it is not freed yet. */
int call_Request_get_status(const struct next *next, MPI_Request request, int *flag, MPI_Status *status)
{
    struct record *r = record_take(request);
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    if (!r) return next->Request_get_status(request, flag, status);
    int rc = next->Request_get_status(request, flag, s);
    if (rc != MPI_SUCCESS || !*flag) {
        record_keep(r);
        return rc;
    }
    struct completion c = {0};
    completion_add(&c, r, s, MPI_SUCCESS);
    return completion_end(&c);
}

int call_Request_free(const struct next *next, MPI_Request *request)
{
    struct record *r = request ? record_take(*request) : NULL;
    if (!r) return next->Request_free(request);
    record_orphan(r);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}
