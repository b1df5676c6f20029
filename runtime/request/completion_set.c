/* completion_set.c: see completion_set.h. */
#include "completion_set.h"
#include "base/freelist.h"
#include "base/log.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FEW (sizeof ((struct finder *)0)->few.records / sizeof(struct record *))

/* Serves one call at a time where there is no memory for the lists. */
#define EMERGENCY_BYTES (128 << 10)
static max_align_t emergency[EMERGENCY_BYTES / sizeof(max_align_t)];
static atomic_flag emergency_taken = ATOMIC_FLAG_INIT;

static void *emergency_list(size_t bytes)
{
    return bytes <= sizeof emergency && !atomic_flag_test_and_set(&emergency_taken) ? emergency : NULL;
}

void finder_room(struct finder *f, int count, MPI_Status *statuses)
{
    size_t n = count > 0 ? (size_t)count : 0, own = statuses == MPI_STATUSES_IGNORE ? n : 0;
    size_t each = record_threads() ? sizeof(struct record *) : sizeof(MPI_Request);
    size_t list = (n * each + _Alignof(MPI_Status) - 1) / _Alignof(MPI_Status) * _Alignof(MPI_Status);
    f->block = n > FEW ? spare_get(SPARE_LIST, list + own * sizeof(MPI_Status)) : NULL;
    if (n > FEW && !f->block) f->block = emergency_list(list + own * sizeof(MPI_Status));
    if (n > FEW && !f->block) log_fatal("no memory to look for the records of %d requests", count);
    f->records = !record_threads() ? NULL : f->block ? f->block : f->few.records;
    f->handles = record_threads() ? NULL : f->block ? f->block : f->few.handles;
    f->count = count;
    f->statuses = !own ? statuses : f->block ? (MPI_Status *)((char *)f->block + list) : f->few.statuses;
}

void finder_leave(struct finder *f)
{
    if (f->block == emergency) atomic_flag_clear(&emergency_taken);
    else spare_put(SPARE_LIST, f->block);
}

void finder_close(struct finder *f)
{
    for (int i = 0; f->records && i < f->count; i++)
        if (f->records[i]) record_keep(f->records[i]);
    finder_leave(f);
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

bool finder_open(struct finder *f, int count, const MPI_Request requests[], MPI_Status *statuses)
{
    if (count <= 0 || !requests) return false;
    finder_room(f, count, statuses);
    if (f->handles) memcpy(f->handles, requests, (size_t)count * sizeof *requests);
    if (f->handles || finder_take(f, requests)) return true;
    finder_close(f);
    return false;
}

int completion_rc(struct completion *c, int rc)
{
    int ours = completion_end(c);
    return rc == MPI_SUCCESS ? ours : rc;
}

static void finish_at(struct completion *c, struct finder *f, int i, MPI_Status *status, int error)
{
    struct record *r = f->records ? f->records[i] : record_take(f->handles[i]);
    if (r) completion_add(c, r, status, error);
    if (f->records) f->records[i] = NULL;
}

static int class_of(int error)
{
    int class = error;
    if (error != MPI_SUCCESS) PMPI_Error_class(error, &class);
    return class;
}

bool finder_refused(int rc)
{
    int class = class_of(rc);
    return class == MPI_ERR_ARG || class == MPI_ERR_REQUEST;
}

bool finder_truncated(int error)
{
    return class_of(error) == MPI_ERR_TRUNCATE;
}

/* Of calls on arrays, which tell of a message that was too long by its status. */
static int end_array(struct completion *c, struct finder *f, int n, int rc)
{
    int ours = completion_end(c);
    if (rc != MPI_SUCCESS || !finder_truncated(ours)) return rc == MPI_SUCCESS ? ours : rc;
    for (int i = 0; i < n; i++)
        if (!finder_truncated(f->statuses[i].MPI_ERROR)) f->statuses[i].MPI_ERROR = MPI_SUCCESS;
    return MPI_ERR_IN_STATUS;
}

void finder_pending(const struct finder *f, const MPI_Request requests[])
{
    for (int i = 0; i < f->count; i++) {
        if (!finder_goes_on(requests[i])) continue;
        bool ends = f->records ? f->records[i] && !record_persistent(f->records[i]) : record_goes(f->handles[i]);
        int seen = 0;
        if (!ends) PMPI_Request_get_status(requests[i], &seen, MPI_STATUS_IGNORE);
        if (!seen) f->statuses[i].MPI_ERROR = MPI_ERR_PENDING;
    }
}

int finder_all(struct finder *f, int rc)
{
    struct completion c = {0};
    bool each = rc == MPI_ERR_IN_STATUS;
    for (int i = 0; finder_completed(rc) && i < f->count; i++) {
        int error = each ? f->statuses[i].MPI_ERROR : rc;
        if (!each) f->statuses[i].MPI_ERROR = MPI_SUCCESS;
        if (error != MPI_ERR_PENDING) finish_at(&c, f, i, &f->statuses[i], error);
    }
    rc = end_array(&c, f, f->count, rc);
    finder_close(f);
    return rc;
}

bool finder_offers(const struct finder *f)
{
    bool any = false;
    for (int i = 0; i < f->count && !any; i++)
        any = f->records ? record_offering(f->records[i]) : record_offers(f->handles[i]);
    return any;
}

bool finder_step(const struct finder *f)
{
    bool all = true;
    for (int i = 0; record_defers() && i < f->count; i++)
        if (!(f->records ? record_stepped(f->records[i]) : record_step(f->handles[i]))) all = false;
    return all;
}

int finder_later(struct finder *f, const MPI_Request requests[], int *flag)
{
    int seen = 0, rc = MPI_SUCCESS;
    for (int i = 0; i < f->count && rc == MPI_SUCCESS; i++)
        rc = PMPI_Request_get_status(requests[i], &seen, MPI_STATUS_IGNORE);
    finder_close(f);
    *flag = 0;
    return rc;
}

int finder_one(struct finder *f, int index, MPI_Status *status, int rc)
{
    struct completion c = {0};
    bool completed = index != MPI_UNDEFINED && index >= 0 && index < f->count && !finder_refused(rc);
    if (completed) finish_at(&c, f, index, status, rc);
    finder_close(f);
    return completion_rc(&c, rc);
}

int finder_some(struct finder *f, int outcount, const int indices[], int rc)
{
    struct completion c = {0};
    int n = finder_completed(rc) && outcount != MPI_UNDEFINED ? outcount : 0;
    bool each = rc == MPI_ERR_IN_STATUS;
    for (int i = 0; i < n; i++) {
        if (!each) f->statuses[i].MPI_ERROR = MPI_SUCCESS;
        finish_at(&c, f, indices[i], &f->statuses[i], f->statuses[i].MPI_ERROR);
    }
    rc = end_array(&c, f, n, rc);
    finder_close(f);
    return rc;
}
