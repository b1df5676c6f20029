/* completion_set.c: the requests of one completing call. */
#include "completion_set.h"
#include "base/freelist.h"
#include "base/log.h"
#include "base/mpi_workarounds.h"
#include "base/self_comm.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FEW (sizeof((struct completion_set *)0)->few.records / sizeof(struct record *))

/* Memory of the lists for one call at a time, if there is no other. */
#define EMERGENCY_BYTES (128 << 10)
static max_align_t emergency[EMERGENCY_BYTES / sizeof(max_align_t)];
static atomic_flag emergency_taken = ATOMIC_FLAG_INIT;

static void *emergency_list(size_t bytes)
{
    return bytes <= sizeof emergency && !atomic_flag_test_and_set(&emergency_taken) ? emergency : NULL;
}

void completion_set_alloc(struct completion_set *f, int count, MPI_Status *statuses)
{
    size_t n = count > 0 ? (size_t)count : 0, own = statuses == MPI_STATUSES_IGNORE ? n : 0;
    size_t each = (record_threads() ? sizeof(struct record *) : sizeof(MPI_Request)) + sizeof(MPI_Request);
    size_t list = (n * each + _Alignof(MPI_Status) - 1) / _Alignof(MPI_Status) * _Alignof(MPI_Status);
    f->block = n > FEW ? freelist_get(FREELIST_ARRAY, list + own * sizeof(MPI_Status)) : NULL;
    if (n > FEW && !f->block) f->block = emergency_list(list + own * sizeof(MPI_Status));
    if (n > FEW && !f->block) log_fatal("no memory to look for the records of %d requests", count);
    f->records = !record_threads() ? NULL : f->block ? f->block : f->few.records;
    f->handles = record_threads() ? NULL : f->block ? f->block : f->few.handles;
    f->count = count;
    f->shown = f->block ? (MPI_Request *)((char *)f->block + n * (each - sizeof(MPI_Request))) : f->few.shown;
    f->statuses = !own ? statuses : f->block ? (MPI_Status *)((char *)f->block + list) : f->few.statuses;
}

void completion_set_free(struct completion_set *f)
{
    if (f->block == emergency) atomic_flag_clear(&emergency_taken);
    else freelist_put(FREELIST_ARRAY, f->block);
}

void completion_set_close(struct completion_set *f)
{
    for (int i = 0; f->records && i < f->count; i++)
        if (f->records[i]) record_keep(f->records[i]);
    completion_set_free(f);
}

static bool completion_set_take(struct completion_set *f, const MPI_Request requests[])
{
    bool any = false;
    for (int i = 0; i < f->count; i++) {
        f->records[i] = record_take(requests[i]);
        any |= f->records[i] != NULL;
    }
    return any;
}

bool completion_set_open(struct completion_set *f, int count, const MPI_Request requests[], MPI_Status *statuses)
{
    if (count <= 0 || !requests) return false;
    completion_set_alloc(f, count, statuses);
    if (f->handles) memcpy(f->handles, requests, (size_t)count * sizeof *requests);
    if (f->handles || completion_set_take(f, requests)) return true;
    completion_set_close(f);
    return false;
}

int completion_rc(struct completion *c, int rc)
{
    int ours = completion_end(c);
    return rc == MPI_SUCCESS ? ours : rc;
}

static void finish_at(struct completion *c, struct completion_set *f, int i, MPI_Status *status, int error)
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

bool completion_set_refused(int rc)
{
    int class = class_of(rc);
    return class == MPI_ERR_ARG || class == MPI_ERR_REQUEST || STAYS_ACTIVE(class);
}

bool completion_set_truncated(int error)
{
    return class_of(error) == MPI_ERR_TRUNCATE;
}

/* Ends the completion of a call on an array: MPI_ERR_IN_STATUS where the statuses tell of all errors. */
static int end_array(struct completion *c, struct completion_set *f, int n, int rc)
{
    int ours = completion_end(c);
    bool told = false;
    if (rc != MPI_SUCCESS) return rc;
    for (int i = 0; i < n && ours != MPI_SUCCESS; i++) told |= f->statuses[i].MPI_ERROR != MPI_SUCCESS;
    return told && !c->untold ? MPI_ERR_IN_STATUS : ours;
}

void completion_set_pending(const struct completion_set *f, const MPI_Request requests[])
{
    for (int i = 0; i < f->count; i++) {
        if (!completion_set_goes_on(requests[i])) continue;
        bool ends = f->records ? f->records[i] && !record_persistent(f->records[i]) : record_transient(f->handles[i]);
        int seen = 0;
        if (!ends) PMPI_Request_get_status(requests[i], &seen, MPI_STATUS_IGNORE);
        if (!seen) f->statuses[i].MPI_ERROR = MPI_ERR_PENDING;
    }
}

int completion_set_all(struct completion_set *f, int rc)
{
    struct completion c = {0};
    bool each = rc == MPI_ERR_IN_STATUS;
    for (int i = 0; completion_set_completed(rc) && i < f->count; i++) {
        int error = each ? f->statuses[i].MPI_ERROR : rc;
        if (!each) f->statuses[i].MPI_ERROR = MPI_SUCCESS;
        if (!STAYS_ACTIVE(class_of(error))) finish_at(&c, f, i, &f->statuses[i], error);
    }
    rc = end_array(&c, f, f->count, rc);
    completion_set_close(f);
    return rc;
}

static bool waits(const struct completion_set *f, int i)
{
    return f->records ? record_waits_taken(f->records[i]) : record_waits(f->handles[i]);
}

bool completion_set_waits(const struct completion_set *f)
{
    bool any = false;
    for (int i = 0; i < f->count && !any; i++) any = waits(f, i);
    return any;
}

/* Lists in f->shown the requests that would not wait for their receivers. Returns true if it leaves some out. */
static bool leave_out(const struct completion_set *f, const MPI_Request requests[], bool taken)
{
    bool some = false;
    for (int i = 0; record_any_rndv() && i < f->count; i++) {
        bool later = taken ? waits(f, i) : record_waits(requests[i]);
        f->shown[i] = later ? MPI_REQUEST_NULL : requests[i];
        some |= later;
    }
    return some;
}

MPI_Request *completion_set_show(const struct completion_set *f, MPI_Request requests[])
{
    return leave_out(f, requests, true) ? f->shown : requests;
}

const MPI_Request *completion_set_look(const struct completion_set *f, const MPI_Request requests[])
{
    return requests && leave_out(f, requests, false) ? f->shown : requests;
}

bool completion_set_step(const struct completion_set *f)
{
    bool all = true;
    for (int i = 0; record_any_steps() && i < f->count; i++)
        if (!(f->records ? record_step_taken(f->records[i]) : record_step(f->handles[i]))) all = false;
    return all;
}

void completion_set_await(const struct completion_set *f)
{
    for (unsigned spins = 1; !completion_set_step(f); spins++) comm_backoff(MPI_COMM_WORLD, spins);
}

int completion_set_one(struct completion_set *f, int index, MPI_Status *status, int rc)
{
    struct completion c = {0};
    bool completed = index != MPI_UNDEFINED && index >= 0 && index < f->count && !completion_set_refused(rc);
    if (completed) finish_at(&c, f, index, status, rc);
    completion_set_close(f);
    return completion_rc(&c, rc);
}

int completion_set_some(struct completion_set *f, int outcount, const int indices[], int rc)
{
    struct completion c = {0};
    int n = completion_set_completed(rc) && outcount != MPI_UNDEFINED ? outcount : 0;
    bool each = rc == MPI_ERR_IN_STATUS;
    for (int i = 0; i < n; i++) {
        if (!each) f->statuses[i].MPI_ERROR = MPI_SUCCESS;
        finish_at(&c, f, indices[i], &f->statuses[i], f->statuses[i].MPI_ERROR);
    }
    rc = end_array(&c, f, n, rc);
    completion_set_close(f);
    return rc;
}
