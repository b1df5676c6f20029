/* window.c: one-sided calls whose origin buffers are derived and on a device: every call, in every kind of epoch,
 * against the same call with host buffers on a window of its own; windows and MPI_Bsend buffers that are themselves on a
 * device.
 *
 * Open MPI's first choice among its components needs a kernel that lets processes read each other's memory.
 *
 * run: OMPI_MCA_osc=pt2pt -n 2
 * run: OMPI_MCA_osc=pt2pt STRIDEC_TRANSPORT=staged -n 2
 * run: OMPI_MCA_osc=pt2pt LD_PRELOAD=@AWARE SIMGPU_OPEN=1 -n 2
 * run: OMPI_MCA_osc=pt2pt LD_PRELOAD=@AWARE SIMGPU_OPEN=1 STRIDEC_TRANSPORT=device -n 2
 * run: OMPI_MCA_osc=pt2pt -n 3 few
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define INTS 240   /* of an operation */
#define WIN_BYTES 16384
#define AT 64      /* displacement, bytes */

static struct layout lists[LISTS], one;

static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* ---- one side of a comparison: a window, and buffers of one kind ---- */

struct side {
    enum mem_kind kind;
    MPI_Win win;
    unsigned char *memory;
    const struct layout *from, *to, *there;   /* of the origin, the result, in the window */
    struct buf origin, result, compare;
};

static struct side host, device;

static void side_window(struct side *s, enum mem_kind kind)
{
    s->kind = kind;
    s->memory = malloc(WIN_BYTES);
    MPI_Win_create(s->memory, WIN_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &s->win);
}

static void side_fill(struct side *s, int round, bool single)
{
    for (int i = 0; i < WIN_BYTES; i++) s->memory[i] = (unsigned char)(i * 7 + round + my_rank);
    s->from = single ? &one : &lists[round % LISTS];
    s->to = single ? &one : &lists[(round + 1) % LISTS];
    s->there = single ? &one : &lists[(round / 2 + 2) % LISTS];
    buf_make(&s->origin, s->kind, s->from, 0, (uint64_t)(round + 100 * my_rank));
    buf_make(&s->result, s->kind, s->to, 0, (uint64_t)(round + 100 * my_rank + 1));
    buf_make(&s->compare, s->kind, s->from, 0, (uint64_t)(round + 100 * my_rank + 2));
    MPI_Win_fence(MPI_MODE_NOSUCCEED, s->win);
}

static void side_empty(struct side *s)
{
    buf_free(&s->origin), buf_free(&s->result), buf_free(&s->compare);
}

static void same(struct buf *got, const struct buf *want, const char *what)
{
    mem_read(want->kind, got->shadow, want->base, want->bytes);
    buf_check(got, what);
}

static void same_buffers(const char *what)
{
    same(&device.origin, &host.origin, what);
    same(&device.result, &host.result, what);
    same(&device.compare, &host.compare, what);
}

static void same_windows(const char *what)
{
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++) {
        struct side *s = i ? &device : &host;
        MPI_Win_lock(MPI_LOCK_SHARED, my_rank, 0, s->win);
        MPI_Win_unlock(my_rank, s->win);
    }
    for (int i = 0; i < WIN_BYTES; i++) {
        if (device.memory[i] == host.memory[i]) continue;
        fail("%s: byte %d of the window is 0x%02x, not 0x%02x", what, i, device.memory[i], host.memory[i]);
        return;
    }
}

/* ---- operations ---- */

#define FROM(s) (s)->origin.origin, (s)->from->count, (s)->from->type
#define TO(s) (s)->result.origin, (s)->to->count, (s)->to->type
#define THERE(s) target, AT, (s)->there->count, (s)->there->type

static void put(struct side *s, int target, MPI_Request *r)
{
    (void)r;
    MPI_Put(FROM(s), THERE(s), s->win);
}

static void get(struct side *s, int target, MPI_Request *r)
{
    (void)r;
    MPI_Get(TO(s), THERE(s), s->win);
}

static void accumulate(struct side *s, int target, MPI_Request *r)
{
    (void)r;
    MPI_Accumulate(FROM(s), THERE(s), MPI_SUM, s->win);
}

static void replace(struct side *s, int target, MPI_Request *r)
{
    (void)r;
    MPI_Accumulate(FROM(s), THERE(s), MPI_REPLACE, s->win);
}

static void get_accumulate(struct side *s, int target, MPI_Request *r)
{
    (void)r;
    MPI_Get_accumulate(FROM(s), TO(s), THERE(s), MPI_SUM, s->win);
}

static void get_only(struct side *s, int target, MPI_Request *r)
{
    (void)r;
    MPI_Get_accumulate(NULL, 0, MPI_INT, TO(s), THERE(s), MPI_NO_OP, s->win);
}

static void fetch_and_op(struct side *s, int target, MPI_Request *r)
{
    (void)r;
    MPI_Fetch_and_op(s->origin.origin, s->result.origin, MPI_INT, target, AT, MPI_SUM, s->win);
}

/* What is in the window is what is compared with, or not. */
static void compare_and_swap(struct side *s, int target, MPI_Request *r)
{
    int there;
    (void)r;
    memcpy(&there, s->memory + AT, sizeof there);   /* as the target's, but for the rank that it was filled with */
    if (target == my_rank) mem_write(s->kind, s->compare.origin, &there, sizeof there);
    MPI_Compare_and_swap(s->origin.origin, s->compare.origin, s->result.origin, MPI_INT, target, AT, s->win);
}

static void rput(struct side *s, int target, MPI_Request *r)
{
    MPI_Rput(FROM(s), THERE(s), s->win, r);
}

static void rget(struct side *s, int target, MPI_Request *r)
{
    MPI_Rget(TO(s), THERE(s), s->win, r);
}

static void raccumulate(struct side *s, int target, MPI_Request *r)
{
    MPI_Raccumulate(FROM(s), THERE(s), MPI_SUM, s->win, r);
}

static void rget_accumulate(struct side *s, int target, MPI_Request *r)
{
    MPI_Rget_accumulate(FROM(s), TO(s), THERE(s), MPI_SUM, s->win, r);
}

#if MPI_VERSION >= 4
static void put_c(struct side *s, int target, MPI_Request *r)
{
    (void)r;
    MPI_Put_c(FROM(s), THERE(s), s->win);
}

static void get_c(struct side *s, int target, MPI_Request *r)
{
    (void)r;
    MPI_Get_c(TO(s), THERE(s), s->win);
}

static void get_accumulate_c(struct side *s, int target, MPI_Request *r)
{
    (void)r;
    MPI_Get_accumulate_c(FROM(s), TO(s), THERE(s), MPI_SUM, s->win);
}

static void rget_c(struct side *s, int target, MPI_Request *r)
{
    MPI_Rget_c(TO(s), THERE(s), s->win, r);
}
#endif

static const struct operation {
    const char *name;
    void (*run)(struct side *s, int target, MPI_Request *r);
    bool single, request;
} operations[] = {
    {"MPI_Put", put, false, false},
    {"MPI_Get", get, false, false},
    {"MPI_Accumulate, sum", accumulate, false, false},
    {"MPI_Accumulate, replace", replace, false, false},
    {"MPI_Get_accumulate, sum", get_accumulate, false, false},
    {"MPI_Get_accumulate, no operation", get_only, false, false},
    {"MPI_Fetch_and_op", fetch_and_op, true, false},
    {"MPI_Compare_and_swap", compare_and_swap, true, false},
    {"MPI_Rput", rput, false, true},
    {"MPI_Rget", rget, false, true},
    {"MPI_Raccumulate", raccumulate, false, true},
    {"MPI_Rget_accumulate", rget_accumulate, false, true},
#if MPI_VERSION >= 4
    {"MPI_Put_c", put_c, false, false},
    {"MPI_Get_c", get_c, false, false},
    {"MPI_Get_accumulate_c", get_accumulate_c, false, false},
    {"MPI_Rget_c", rget_c, false, true},
#endif
};

/* ---- epochs ---- */

static void fence(MPI_Win win, int target)
{
    (void)target;
    MPI_Win_fence(0, win);
}

static void last_fence(MPI_Win win, int target)
{
    (void)target;
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

static void nothing(MPI_Win win, int target)
{
    (void)win, (void)target;
}

/* `by` ranks on from this one. */
static MPI_Group neighbor(MPI_Win win, int by)
{
    MPI_Group all, single;
    int rank = (my_rank + by + num_ranks) % num_ranks;
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &rank, &single);
    MPI_Group_free(&all);
    return single;
}

static void post_start(MPI_Win win, int target)
{
    int by = (target - my_rank + num_ranks) % num_ranks;
    MPI_Group to = neighbor(win, by), from = neighbor(win, -by);
    MPI_Win_post(from, 0, win);
    MPI_Win_start(to, 0, win);
    MPI_Group_free(&to), MPI_Group_free(&from);
}

static void complete(MPI_Win win, int target)
{
    (void)target;
    MPI_Win_complete(win);
}

static void wait(MPI_Win win, int target)
{
    (void)target;
    MPI_Win_wait(win);
}

static void lock(MPI_Win win, int target)
{
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
}

static void unlock(MPI_Win win, int target)
{
    MPI_Win_unlock(target, win);
}

static void lock_all(MPI_Win win, int target)
{
    (void)target;
    MPI_Win_lock_all(0, win);
}

static void unlock_all(MPI_Win win, int target)
{
    (void)target;
    MPI_Win_unlock_all(win);
}

static void flush(MPI_Win win, int target)
{
    MPI_Win_flush(target, win);
}

static void flush_all(MPI_Win win, int target)
{
    (void)target;
    MPI_Win_flush_all(win);
}

static void flush_local(MPI_Win win, int target)
{
    MPI_Win_flush_local(target, win);
}

static void flush_local_all(MPI_Win win, int target)
{
    (void)target;
    MPI_Win_flush_local_all(win);
}

typedef void step(MPI_Win win, int target);
static const struct epoch {
    const char *name;
    step *open, *synchronise, *close;
    bool passive;
} epochs[] = {
    {"MPI_Win_fence", fence, last_fence, nothing, false},
    {"MPI_Win_complete", post_start, complete, wait, false},
    {"MPI_Win_unlock", lock, unlock, nothing, true},
    {"MPI_Win_unlock_all", lock_all, unlock_all, nothing, true},
    {"MPI_Win_flush", lock_all, flush, unlock_all, true},
    {"MPI_Win_flush of one lock", lock, flush, unlock, true},
    {"MPI_Win_flush_all", lock_all, flush_all, unlock_all, true},
    {"MPI_Win_flush_local", lock_all, flush_local, unlock_all, true},
    {"MPI_Win_flush_local_all", lock_all, flush_local_all, unlock_all, true},
};

/* ---- every operation in every epoch ---- */

/* Among requests of the MPI's own. */
static void wait_among_others(MPI_Request *r)
{
    int out = my_rank + 5, in = 0;
    MPI_Request all[4] = {MPI_REQUEST_NULL, *r, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Irecv(&in, 1, MPI_INT, my_rank, 3, MPI_COMM_WORLD, &all[0]);
    MPI_Isend(&out, 1, MPI_INT, my_rank, 3, MPI_COMM_WORLD, &all[3]);
    MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 4; i++) expect(all[i] == MPI_REQUEST_NULL, "request %d stays set", i);
    expect_equal(in, out, "a host message");
}

/* late: the request is waited for when the synchronisation has completed its operation. */
static void run(struct side *s, const struct operation *op, const struct epoch *e, int target, bool late)
{
    MPI_Request r = MPI_REQUEST_NULL;
    e->open(s->win, target);
    op->run(s, target, &r);
    if (op->request && !late) {
        wait_among_others(&r);
        /* MPICH 4.0.2 alone brings the data of MPI_Rget later. */
        if (s == &device && !host_mode) same_buffers("after MPI_Waitall");
    }
    e->synchronise(s->win, target);
    if (s == &device) same_buffers("after the synchronisation");
    if (op->request && late) {
        wait_among_others(&r);
        if (s == &device) same_buffers("after MPI_Waitall, behind the synchronisation");
    }
    e->close(s->win, target);
}

static void try_operation(const struct operation *op, const struct epoch *e)
{
    int target = op->single ? my_rank : (my_rank + 1) % num_ranks;
    for (int round = 0; round < 2 * LISTS; round++, target = (target + 1) % num_ranks) {
        side_fill(&host, round, op->single), side_fill(&device, round, op->single);
        MPI_Barrier(MPI_COMM_WORLD);
        run(&host, op, e, target, round % 2);
        run(&device, op, e, target, round % 2);
        same_windows(op->name);
        side_empty(&host), side_empty(&device);
    }
    report("%s until %s", op->name, e->name);
}

/* ---- what needs more than one operation ---- */

/* A Get from each rank; flushing one rank brings its data. */
static void flush_one_by_one(void)
{
    struct buf b[16], want[16];
    int n = num_ranks < 16 ? num_ranks : 16;
    for (int i = 0; i < WIN_BYTES; i++) device.memory[i] = (unsigned char)(i * 3 + 50 * my_rank);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, device.win);
    MPI_Win_lock_all(0, device.win);
    for (int i = 0; i < n; i++) {
        const struct layout *l = &lists[i % LISTS];
        buf_make(&b[i], MEM_DEVICE, l, 0, (uint64_t)i);
        buf_make(&want[i], MEM_HOST, l, 0, (uint64_t)i);
        MPI_Get(want[i].origin, l->count, l->type, i, AT, INTS, MPI_INT, device.win);
    }
    MPI_Win_flush_all(device.win);
    for (int i = 0; i < n; i++)
        MPI_Get(b[i].origin, lists[i % LISTS].count, lists[i % LISTS].type, i, AT, INTS, MPI_INT, device.win);
    for (int i = n - 1; i >= 0; i--) {
        MPI_Win_flush(i, device.win);
        same(&b[i], &want[i], "flushed");
    }
    MPI_Win_unlock_all(device.win);
    for (int i = 0; i < n; i++) {
        same(&b[i], &want[i], "unlocked");
        buf_free(&b[i]), buf_free(&want[i]);
    }
    report("ranks flushed one by one");
}

/* A Get before a long Put of the same target: MPICH 4.0 alone may miss the Get in a local flush. */
static void flush_locally(void)
{
    enum { LONG = 1000, TIMES = 60 };
    int target = (my_rank + 1) % num_ranks, at = WIN_BYTES / 2;
    static int ints[LONG];
    for (int i = 0; i < TIMES; i++) {
        struct buf b, want;
        for (int k = 0; k < WIN_BYTES; k++) device.memory[k] = (unsigned char)(k * 3 + i);
        buf_make(&b, MEM_DEVICE, &lists[0], 0, 1), buf_make(&want, MEM_HOST, &lists[0], 0, 1);
        MPI_Win_fence(0, device.win);
        MPI_Get(want.origin, lists[0].count, lists[0].type, target, AT, INTS, MPI_INT, device.win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, device.win);
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, device.win);
        MPI_Get(b.origin, lists[0].count, lists[0].type, target, AT, INTS, MPI_INT, device.win);
        MPI_Put(ints, LONG, MPI_INT, target, at, LONG, MPI_INT, device.win);
        if (i % 2) MPI_Win_flush_local_all(device.win);
        else MPI_Win_flush_local(target, device.win);
        if (!host_mode) same(&b, &want, "flushed locally");
        MPI_Win_unlock(target, device.win);
        same(&b, &want, "unlocked");
        buf_free(&b), buf_free(&want);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    report("a Get before a Put, flushed locally");
}

/* Two windows with operations pending, synchronised one after the other, and many operations on each. */
static void two_windows(void)
{
    enum { MANY = 20 };
    struct buf a[MANY], b[MANY], want;
    const struct layout *l = &lists[0];
    int target = (my_rank + 1) % num_ranks;
    for (int i = 0; i < WIN_BYTES; i++) device.memory[i] = host.memory[i] = (unsigned char)(i * 5 + 9 * my_rank);
    buf_make(&want, MEM_HOST, l, 0, 1);
    MPI_Win_fence(0, device.win), MPI_Win_fence(0, host.win);
    MPI_Get(want.origin, l->count, l->type, target, AT, INTS, MPI_INT, host.win);
    for (int i = 0; i < MANY; i++) {
        buf_make(&a[i], MEM_DEVICE, l, 0, 1), buf_make(&b[i], MEM_DEVICE, l, 0, 1);
        MPI_Get(a[i].origin, l->count, l->type, target, AT, INTS, MPI_INT, device.win);
        MPI_Get(b[i].origin, l->count, l->type, target, AT, INTS, MPI_INT, host.win);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, host.win);
    for (int i = 0; i < MANY; i++) same(&b[i], &want, "the first window");
    MPI_Win_fence(MPI_MODE_NOSUCCEED, device.win);
    for (int i = 0; i < MANY; i++) {
        same(&a[i], &want, "the second window");
        buf_free(&a[i]), buf_free(&b[i]);
    }
    buf_free(&want);
    report("two windows");
}

/* Two reads and a write, waited for in this order: those that are complete at once may have one handle. */
static void waited_one_by_one(void)
{
    const struct layout *of[2] = {&lists[1], &lists[2]};
    for (int i = 0; i < WIN_BYTES; i++) device.memory[i] = (unsigned char)(i * 3 + 50 * my_rank);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, device.win);
    MPI_Win_lock_all(0, device.win);
    for (int to = 0; to < num_ranks; to++) {
        struct buf b[2], want[2], out;
        MPI_Request r[3];
        for (int i = 0; i < 2; i++) {
            buf_make(&b[i], MEM_DEVICE, of[i], 0, 4), buf_make(&want[i], MEM_HOST, of[i], 0, 4);
            MPI_Get(want[i].origin, of[i]->count, of[i]->type, to, AT, INTS, MPI_INT, device.win);
        }
        MPI_Win_flush_all(device.win);
        for (int i = 0; i < 2; i++) MPI_Rget(b[i].origin, of[i]->count, of[i]->type, to, AT, INTS, MPI_INT, device.win, &r[i]);
        buf_make(&out, MEM_DEVICE, of[0], 0, 9);
        MPI_Rput(out.origin, of[0]->count, of[0]->type, to, WIN_BYTES / 2 + 1024 * my_rank, INTS, MPI_INT, device.win, &r[2]);
        for (int i = 0; i < 3; i++) {
            MPI_Wait(&r[i], MPI_STATUS_IGNORE);
            if (i < 2 && !host_mode) same(&b[i], &want[i], "after MPI_Wait");   /* host_mode: as above */
        }
        MPI_Win_flush_all(device.win);
        for (int i = 0; i < 2; i++) {
            same(&b[i], &want[i], "flushed");
            buf_free(&b[i]), buf_free(&want[i]);
        }
        buf_free(&out);
    }
    MPI_Win_unlock_all(device.win);
    report("requests waited for one by one");
}

/* What comes is less than the buffer has room for: the rest stays. `r` is not NULL: of the forms with a request. */
static void read_ints(bool accumulate, const struct buf *b, const struct layout *l, int ints, MPI_Win win, MPI_Request *r)
{
    if (!accumulate && !r) MPI_Get(b->origin, l->count, l->type, my_rank, AT, ints, MPI_INT, win);
    if (!accumulate && r) MPI_Rget(b->origin, l->count, l->type, my_rank, AT, ints, MPI_INT, win, r);
    if (accumulate && !r)
        MPI_Get_accumulate(NULL, 0, MPI_INT, b->origin, l->count, l->type, my_rank, AT, ints, MPI_INT, MPI_NO_OP, win);
    if (accumulate && r)
        MPI_Rget_accumulate(NULL, 0, MPI_INT, b->origin, l->count, l->type, my_rank, AT, ints, MPI_INT, MPI_NO_OP, win, r);
}

#ifdef OPEN_MPI
enum { ACCUMULATES_FEWER = 1 };
#else
enum { ACCUMULATES_FEWER = 0 };   /* MPICH 4.0 aborts, in host memory too */
#endif
static void fewer_than_fit(void)
{
    for (int i = 0; i < WIN_BYTES; i++) device.memory[i] = (unsigned char)(i * 13 + my_rank);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, device.win);
    MPI_Win_lock_all(0, device.win);
    for (int k = 0; k < 12; k++) {
        bool accumulate = ACCUMULATES_FEWER && k % 2, request = k / 2 % 2;
        int ints = (int[]){INTS / 2, 1, 0}[k / 4];
        const struct layout *l = &lists[k % LISTS];
        struct buf b[2];
        for (int i = 0; i < 2; i++) {
            MPI_Request r = MPI_REQUEST_NULL;
            buf_make(&b[i], i ? MEM_DEVICE : MEM_HOST, l, 0, 2);
            read_ints(accumulate, &b[i], l, ints, device.win, request ? &r : NULL);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
            MPI_Win_flush(my_rank, device.win);
        }
        same(&b[1], &b[0], accumulate ? "MPI_Get_accumulate of fewer" : "MPI_Get of fewer");
        buf_free(&b[0]), buf_free(&b[1]);
    }
    MPI_Win_unlock_all(device.win);
    report("fewer elements than there is room for");
}

/* Ints in device memory and in the heap, accumulated where no address space is left to copy what lies between them. */
static void scattered(void)
{
    enum { EACH = 50 };
    int *ints[2] = {mem_alloc(MEM_DEVICE, EACH * sizeof(int)), malloc(EACH * sizeof(int))}, sent[2 * EACH];
    int lengths[2] = {EACH, EACH}, wrong = 0;
    MPI_Aint at[2];
    MPI_Datatype both;
    struct rlimit before, now;
    for (int i = 0; i < 2 * EACH; i++) sent[i] = 1000 * my_rank + i;
    mem_write(MEM_DEVICE, ints[0], sent, EACH * sizeof(int));
    memcpy(ints[1], sent + EACH, EACH * sizeof(int));
    for (int i = 0; i < 2; i++) MPI_Get_address(ints[i], &at[i]);
    MPI_Type_create_hindexed(2, lengths, at, MPI_INT, &both);
    type_commit(&both);
    for (int i = 0; i < WIN_BYTES; i++) device.memory[i] = 0;
    getrlimit(RLIMIT_AS, &before);
    now = before, now.rlim_cur = address_space() + ((rlim_t)1 << 30);
    setrlimit(RLIMIT_AS, &now);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, device.win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, my_rank, 0, device.win);
    MPI_Accumulate(MPI_BOTTOM, 1, both, my_rank, AT, 2 * EACH, MPI_INT, MPI_SUM, device.win);
    MPI_Win_unlock(my_rank, device.win);
    setrlimit(RLIMIT_AS, &before);
    for (int i = 0; i < 2 * EACH; i++) {
        int got;
        memcpy(&got, device.memory + AT + (size_t)i * sizeof got, sizeof got);
        wrong += got != sent[i];
    }
    expect_equal(wrong, 0, "ints that an accumulate got wrong");
    MPI_Type_free(&both);
    mem_free(MEM_DEVICE, ints[0]), free(ints[1]);
    report("accumulating from device memory and the heap");
}

/* MPI_PROC_NULL and no elements: nothing is moved, in either direction. */
static void to_nobody(void)
{
    struct buf b;
    MPI_Request r;
    const struct layout *l = &lists[1];
    buf_make(&b, MEM_DEVICE, l, 0, 7);
    MPI_Win_lock_all(0, device.win);
    MPI_Get(b.origin, l->count, l->type, MPI_PROC_NULL, 0, INTS, MPI_INT, device.win);
    MPI_Put(b.origin, l->count, l->type, MPI_PROC_NULL, 0, INTS, MPI_INT, device.win);
    MPI_Get(b.origin, 0, l->type, my_rank, 0, 0, MPI_INT, device.win);
    MPI_Rget(b.origin, l->count, l->type, MPI_PROC_NULL, 0, INTS, MPI_INT, device.win, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    buf_check(&b, "from MPI_PROC_NULL");
    MPI_Win_unlock_all(device.win);
    buf_check(&b, "from MPI_PROC_NULL, unlocked");
    buf_free(&b);
    report("MPI_PROC_NULL and no elements");
}

#ifdef OPEN_MPI
/* 4.1 has this as an error. */
static void flush_nobody(void) {}
#else
/* Flushing MPI_PROC_NULL completes nothing of what other ranks are still to send: rank 1 is away from the MPI meanwhile. */
static void flush_nobody(void)
{
    const struct layout *l = &lists[0], *there = &lists[1];
    MPI_Aint size;
    MPI_Win shared;
    struct buf b, want;
    int *step, unit;
    MPI_Win_allocate_shared(my_rank == 0 ? (MPI_Aint)sizeof *step : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &step, &shared);
    MPI_Win_shared_query(shared, 0, &size, &unit, &step);
    if (my_rank == 0) __atomic_store_n(step, 0, __ATOMIC_SEQ_CST);
    for (int i = 0; i < WIN_BYTES; i++) device.memory[i] = (unsigned char)(i * 11 + my_rank);
    buf_make(&b, MEM_DEVICE, l, 0, 3), buf_make(&want, MEM_HOST, l, 0, 3);
    MPI_Win_lock_all(0, device.win);
    if (my_rank == 0) {
        MPI_Get(want.origin, l->count, l->type, 1, AT, there->count, there->type, device.win);
        MPI_Win_flush(1, device.win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank == 0) {
        while (__atomic_load_n(step, __ATOMIC_SEQ_CST) != 1) {}
        MPI_Get(b.origin, l->count, l->type, 1, AT, there->count, there->type, device.win);
        MPI_Win_flush(MPI_PROC_NULL, device.win);
        __atomic_store_n(step, 2, __ATOMIC_SEQ_CST);
        MPI_Win_flush(1, device.win);
        same(&b, &want, "flushed after MPI_PROC_NULL");
    }
    if (my_rank == 1) {
        __atomic_store_n(step, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(step, __ATOMIC_SEQ_CST) != 2) {}
    }
    MPI_Win_unlock_all(device.win);
    buf_free(&b), buf_free(&want);
    MPI_Win_free(&shared);
    report("MPI_Win_flush of MPI_PROC_NULL");
}
#endif

/* ---- memory for the MPI to keep ---- */

static void device_window(void)
{
    void *p = mem_alloc(MEM_DEVICE, WIN_BYTES), *managed = mem_alloc(MEM_MANAGED, WIN_BYTES);
    bool fine = host_mode || cuda_aware();   /* MPI_Win_attach; MPI_Win_create: tests/mpi/windows.c */
    MPI_Win win = MPI_WIN_NULL;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Win_create(managed, WIN_BYTES, 1, MPI_INFO_NULL, comm, &win);
    MPI_Win_free(&win);
    MPI_Win_create(p, 0, 1, MPI_INFO_NULL, comm, &win);
    MPI_Win_free(&win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    int rc = error_class(MPI_Win_attach(win, p, WIN_BYTES));
    expect_equal(rc, fine ? MPI_SUCCESS : MPI_ERR_BASE, "MPI_Win_attach of device memory");
    if (rc == MPI_SUCCESS) MPI_Win_detach(win, p);
    MPI_Win_free(&win);
    MPI_Comm_free(&comm);
    mem_free(MEM_DEVICE, p), mem_free(MEM_MANAGED, managed);
    report("windows over device memory: %s", fine ? "the MPI's" : "an error");
}

static void device_bsend_buffer(void)
{
    enum { BYTES = 1 << 16 };
    void *p = mem_alloc(MEM_DEVICE, BYTES), *plain = malloc(BYTES), *back;
    int n;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int rc = error_class(MPI_Buffer_attach(p, BYTES));
    expect_equal(rc, host_mode ? MPI_SUCCESS : MPI_ERR_BUFFER, "MPI_Buffer_attach of device memory");
    if (rc == MPI_SUCCESS) MPI_Buffer_detach(&back, &n);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    expect_equal(MPI_Buffer_attach(plain, BYTES), MPI_SUCCESS, "MPI_Buffer_attach of host memory");
    MPI_Buffer_detach(&back, &n);
    expect(back == plain && n == BYTES, "another buffer comes back");
    mem_free(MEM_DEVICE, p), free(plain);
    report("an MPI_Bsend buffer in device memory");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    layouts_of_ints(lists);
    layout_of(&one, MPI_INT, 1, "int");
    side_window(&host, MEM_HOST), side_window(&device, MEM_DEVICE);
    bool few = argc > 1 && !strcmp(argv[argc - 1], "few");   /* of more ranks than processors */
    for (size_t i = 0; !few && i < sizeof operations / sizeof *operations; i++)
        for (size_t k = 0; k < sizeof epochs / sizeof *epochs; k++)
            if (epochs[k].passive || !operations[i].request) try_operation(&operations[i], &epochs[k]);
    flush_one_by_one();
    flush_locally();
    two_windows();
    waited_one_by_one();
    fewer_than_fit();
    scattered();
    to_nobody();
    flush_nobody();
    device_window();
    device_bsend_buffer();
    MPI_Win_free(&host.win), MPI_Win_free(&device.win);
    free(host.memory), free(device.memory);
    for (int i = 0; i < LISTS; i++) layout_free(&lists[i]);
    return check_finish();
}
