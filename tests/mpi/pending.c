/* pending.c: many collectives under way at a time, completed in any order beside messages and collectives of the MPI's own;
 * absolute addresses; types of nothing; errors; and that nothing is left behind.
 *
 * run: -n 1
 * run: -n 2
 * run: -n 4
 * run: STRIDEC_TRANSPORT=staged -n 3
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "jobs.h"
#include "resources.h"
#include <stdlib.h>
#include <string.h>

#define N 12

static MPI_Datatype vector, indexed;
static MPI_Comm errors;   /* returns errors */

/* ---- many at a time ---- */

static struct pair from[N], to[N];

/* Every third lies in host memory; the last of each kind is a message to the next rank. */
static enum mem_kind kind_of(int i)
{
    return i % 3 == 2 ? MEM_HOST : MEM_DEVICE;
}

static void begin_one(int i, void *s, void *r, MPI_Request *request)
{
    int left = (my_rank + num_ranks - 1) % num_ranks;
    switch (i % 4) {
    case 0:
        MPI_Ibcast(r, 1, my_rank % 2 ? vector : indexed, i % num_ranks, MPI_COMM_WORLD, request);
        break;
    case 1:
        MPI_Iallgather(s, 1, vector, r, 1, indexed, MPI_COMM_WORLD, request);
        break;
    case 2:
        MPI_Iallreduce(s, r, 40, MPI_INT, MPI_BXOR, MPI_COMM_WORLD, request);
        break;
    default:
        MPI_Irecv(r, 1, indexed, left, i, MPI_COMM_WORLD, request);
        break;
    }
}

static void begin(bool host, MPI_Request requests[N])
{
    for (int i = 0; i < N; i++) {
        struct buf *s = host ? &from[i].host : &from[i].tested, *r = host ? &to[i].host : &to[i].tested;
        begin_one(i, pair_origin(s, 1), pair_origin(r, 1), &requests[i]);
    }
    for (int i = 3; i < N; i += 4)
        MPI_Send(pair_origin(host ? &from[i].host : &from[i].tested, 1), 1, vector, (my_rank + 1) % num_ranks, i,
                 MPI_COMM_WORLD);
}

static void by_waitall(MPI_Request requests[N])
{
    MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
}

static void by_waitany(MPI_Request requests[N])
{
    for (int k = 0, i; k < N; k++) {
        MPI_Waitany(N, requests, &i, MPI_STATUS_IGNORE);
        expect(i >= 0 && i < N, "MPI_Waitany gives %d", i);
        if (i >= 0 && i < N) pair_check(&to[i], "completed by MPI_Waitany");
    }
}

static void by_waitsome(MPI_Request requests[N])
{
    int n = 0, indices[N];
    for (int left = N; left > 0 && n != MPI_UNDEFINED; left -= n) {
        MPI_Waitsome(N, requests, &n, indices, MPI_STATUSES_IGNORE);
        for (int k = 0; k < n; k++) pair_check(&to[indices[k]], "completed by MPI_Waitsome");
    }
}

static void from_the_last(MPI_Request requests[N])
{
    for (int i = N - 1; i >= 0; i--) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        pair_check(&to[i], "completed by MPI_Wait, from the last");
    }
}

static void by_testing(MPI_Request requests[N])
{
    for (int i = 0; i < N; i++) {
        int flag = 0;
        while (!flag) MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
        pair_check(&to[i], "seen by MPI_Request_get_status");
        for (flag = 0; !flag;) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
    }
}

static void check_pending(void (*complete)(MPI_Request *), const char *name)
{
    static uint64_t salt = 7;
    MPI_Request requests[N];
    salt += 100;
    for (int i = 0; i < N; i++) {
        pair_make(&from[i], kind_of(i), 1), pair_make(&to[i], kind_of(i), 1);
        pair_fill(&from[i], salt + (uint64_t)(i * 8 + my_rank));
        pair_fill(&to[i], salt + 1000 + (uint64_t)(i * 8 + my_rank));
    }
    begin(true, requests);
    by_waitall(requests);
    begin(false, requests);
    complete(requests);
    for (int i = 0; i < N; i++) {
        pair_check(&to[i], name);
        pair_check(&from[i], name);
        expect(requests[i] == MPI_REQUEST_NULL, "%s leaves request %d set", name, i);
        pair_free(&from[i]), pair_free(&to[i]);
    }
    report("%d requests, %s", N, name);
}

/* ---- both ways by one request ---- */

/* MPICH 4.0 gives a derived type of the application's back once too often: on host memory the call is another. */
static void check_exchanges(void)
{
#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
    int right = (my_rank + 1) % num_ranks, left = (my_rank + num_ranks - 1) % num_ranks;
    struct pair s, r;
    MPI_Request q;
    pair_make(&s, MEM_DEVICE, 1), pair_make(&r, MEM_DEVICE, 1);
    for (uint64_t k = 0; k < 5; k++) {
        pair_fill(&s, 2 * k + 16 * (uint64_t)my_rank), pair_fill(&r, 2 * k + 1 + 16 * (uint64_t)my_rank);
        MPI_Sendrecv(pair_origin(&s.host, 1), 1, vector, right, 0, pair_origin(&r.host, 1), 1, indexed, left, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv_replace(pair_origin(&s.host, 1), 1, indexed, left, 1, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Isendrecv(pair_origin(&s.tested, 1), 1, vector, right, 0, pair_origin(&r.tested, 1), 1, indexed, left, 0,
                      MPI_COMM_WORLD, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        MPI_Isendrecv_replace(pair_origin(&s.tested, 1), 1, indexed, left, 1, right, 1, MPI_COMM_WORLD, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        pair_check(&s, "MPI_Isendrecv_replace"), pair_check(&r, "MPI_Isendrecv");
    }
    pair_free(&s), pair_free(&r);
    report("MPI_Isendrecv and MPI_Isendrecv_replace");
#endif
}

/* ---- absolute addresses ---- */

/* One block in each of two buffers. */
static MPI_Datatype absolute(void *a, void *b)
{
    MPI_Aint at[2];
    MPI_Datatype t;
    MPI_Get_address(a, &at[0]);
    MPI_Get_address(b, &at[1]);
    MPI_Type_create_hindexed(2, (int[]){7, 5}, at, MPI_INT, &t);
    type_commit(&t);
    return t;
}

static void check_bottom(bool mixed)
{
    struct pair a, b, flat;
    pair_make(&a, MEM_DEVICE, 1), pair_make(&b, mixed ? MEM_HOST : MEM_DEVICE, 1), pair_make(&flat, MEM_DEVICE, 1);
    pair_fill(&a, (uint64_t)my_rank), pair_fill(&b, 20 + (uint64_t)my_rank), pair_fill(&flat, 40 + (uint64_t)my_rank);
    for (int host = 1; host >= 0; host--) {
        MPI_Datatype t = absolute(pair_origin(host ? &a.host : &a.tested, 1), pair_origin(host ? &b.host : &b.tested, 1));
        MPI_Request r;
        MPI_Allgather(MPI_BOTTOM, 1, t, pair_origin(host ? &flat.host : &flat.tested, 1), 1, vector, MPI_COMM_WORLD);
        MPI_Ibcast(MPI_BOTTOM, 1, t, num_ranks - 1, MPI_COMM_WORLD, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Type_free(&t);
    }
    pair_check(&a, "the first part"), pair_check(&b, "the second part"), pair_check(&flat, "what was gathered");
    pair_free(&a), pair_free(&b), pair_free(&flat);
    report("MPI_BOTTOM, %s", mixed ? "device and host" : "two parts on the device");
}

/* What was staged for absolute types must be none of the next call's business. */
static void check_reduced(void)
{
    struct pair a, r;
    pair_make(&a, MEM_DEVICE, 1), pair_make(&r, MEM_DEVICE, 1);
    pair_fill(&a, (uint64_t)my_rank), pair_fill(&r, 40);
    MPI_Allreduce(pair_origin(&a.host, 1), pair_origin(&r.host, 1), 30, MPI_INT, MPI_BXOR, MPI_COMM_WORLD);
    MPI_Allreduce(pair_origin(&a.tested, 1), pair_origin(&r.tested, 1), 30, MPI_INT, MPI_BXOR, MPI_COMM_WORLD);
    pair_check(&a, "what is reduced"), pair_check(&r, "the result");
    pair_free(&a), pair_free(&r);
    report("a reduction after collectives with absolute types");
}

/* ---- no type for what is empty ---- */

static int exchange_nothing(void *s, void *r, MPI_Datatype of_nothing)
{
    int counts[PEERS] = {0}, displs[PEERS] = {0};
    MPI_Datatype types[PEERS];
    for (int i = 0; i < num_ranks; i++) types[i] = i == my_rank ? vector : of_nothing, counts[i] = i == my_rank;
    return MPI_Alltoallw(s, counts, displs, types, r, counts, displs, types, errors);
}

static void check_null_types(void)
{
    struct pair s, r;
    pair_make(&s, MEM_DEVICE, 1), pair_make(&r, MEM_DEVICE, 1);
    pair_fill(&s, 1), pair_fill(&r, 2);
    if (exchange_nothing(pair_origin(&s.host, 1), pair_origin(&r.host, 1), MPI_DATATYPE_NULL) == MPI_SUCCESS) {
        int rc = exchange_nothing(pair_origin(&s.tested, 1), pair_origin(&r.tested, 1), MPI_DATATYPE_NULL);
        expect_equal(rc, MPI_SUCCESS, "MPI_Alltoallw");
        pair_check(&r, "MPI_Alltoallw");
    } else {
        note("this MPI takes no MPI_DATATYPE_NULL, whatever the count");
    }
    pair_free(&s), pair_free(&r);
    report("MPI_DATATYPE_NULL for no elements");
}

/* ---- errors ---- */

static void check_class(int host, int tested, const char *what)
{
    expect(host != MPI_SUCCESS, "%s is no error", what);
    expect(error_class(host) == error_class(tested), "%s: %s, and on the device %s", what, error_name(error_class(host)),
           error_name(error_class(tested)));
}

static void check_errors(void)
{
    struct pair b;
    MPI_Datatype raw;
    MPI_Request r = MPI_REQUEST_NULL;
    pair_make(&b, MEM_DEVICE, 1);
    void *host = pair_origin(&b.host, 1), *tested = pair_origin(&b.tested, 1);
    pair_fill(&b, 3);
    MPI_Type_vector(3, 1, 2, MPI_INT, &raw);
    check_class(MPI_Bcast(host, 1, vector, num_ranks + 3, errors), MPI_Bcast(tested, 1, vector, num_ranks + 3, errors),
                "a root that is none");
    check_class(MPI_Ibcast(host, 1, vector, -7, errors, &r), MPI_Ibcast(tested, 1, vector, -7, errors, &r),
                "a root below zero");
    check_class(MPI_Bcast(host, 1, raw, 0, errors), MPI_Bcast(tested, 1, raw, 0, errors), "a type that is not committed");
    check_class(MPI_Bcast(host, -1, vector, 0, errors), MPI_Bcast(tested, -1, vector, 0, errors), "a count below zero");
    check_class(MPI_Allreduce(MPI_IN_PLACE, host, 1, MPI_INT, MPI_OP_NULL, errors),
                MPI_Allreduce(MPI_IN_PLACE, tested, 1, MPI_INT, MPI_OP_NULL, errors), "no operation");
    MPI_Type_free(&raw);
    pair_check(&b, "after errors");
    pair_free(&b);
    report("errors have the MPI's own classes");
}

/* ---- what is left ---- */

static void everything(void)
{
    static const struct { void (*by)(MPI_Request *); const char *name; } WAYS[] = {
        {by_waitall, "by MPI_Waitall"}, {by_waitany, "by MPI_Waitany"}, {by_waitsome, "by MPI_Waitsome"},
        {from_the_last, "by MPI_Wait from the last"}, {by_testing, "by MPI_Request_get_status and MPI_Test"}};
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) check_pending(WAYS[i].by, WAYS[i].name);
    if (!host_mode) check_exchanges();
    check_bottom(false);
    check_bottom(true);
    check_reduced();
    check_null_types();
    check_errors();
}

static bool any_rank(int mine)
{
    int any;
    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    return any;
}

/* Until what was compiled in the background meanwhile is there, each time leaves more than the one before. */
int main(int argc, char **argv)
{
    struct resources before, after;
    double start = 0;
    check_start(&argc, &argv, -1);
    MPI_Comm_dup(MPI_COMM_WORLD, &errors);
    MPI_Comm_set_errhandler(errors, MPI_ERRORS_RETURN);
    vector = shape_make(1, 1), indexed = shape_make(2, 1);
    everything();
    resources_now(&after);
    do {
        before = after;
        everything();
        resources_now(&after);
    } while (any_rank(after.device_bytes != before.device_bytes || after.descriptors != before.descriptors)
             && any_rank(within(&start, 60)));
    expect_equal(after.device_bytes, before.device_bytes, "device memory in use after the last time");
    expect_equal(after.descriptors, before.descriptors, "the number of open files");
    report("nothing is left behind");
    MPI_Type_free(&vector), MPI_Type_free(&indexed);
    MPI_Comm_free(&errors);
    return check_finish();
}
