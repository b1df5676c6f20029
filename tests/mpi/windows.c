/* windows.c: windows over device memory, which kernels of stridec's serve on any MPI: every call, in every kind of
 * epoch, of derived types on both sides, from origins in all kinds of memory, against results computed here. Every byte
 * of the windows and of the buffers is compared. Besides: all operations on all types; accumulates of all ranks at
 * once; attributes; errors; launches; windows that come and go; windows that are not served so.
 *
 * run: OMPI_MCA_osc=pt2pt -n 1
 * run: OMPI_MCA_osc=pt2pt OMPI_MCA_btl_vader_single_copy_mechanism=none -n 2
 * run: OMPI_MCA_osc=pt2pt -n 3
 * run: OMPI_MCA_osc=pt2pt -n 4
 * run: OMPI_MCA_osc=pt2pt STRIDEC_TRANSPORT=staged -n 2 few
 * run: OMPI_MCA_osc=pt2pt STRIDEC_ENGINE=copy -n 2 slow
 * run: OMPI_MCA_osc=pt2pt SIMGPU_DEVICES=2 -n 3 few
 * run: OMPI_MCA_osc=pt2pt -n 2 threads
 * run: OMPI_MCA_osc=pt2pt LD_PRELOAD=@AWARE SIMGPU_OPEN=1 -n 2 few
 * run: OMPI_MCA_osc=pt2pt SIMGPU_FAIL=cuIpcOpenMemHandle -n 2 refused
 */
#include "check.h"
#include "reference.h"
#include "resources.h"
#include <cuda_runtime.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 100
/* Windows begin BEHIND bytes after the first byte of an allocation. */
enum { SLICE = 8192, AT = 256, UNIT = 4, INTS = 240, BEHIND = 64 };

static struct layout lists[LISTS], one;
static bool few, slow, refused;   /* slow: no kernels reduce; refused: peers' memory can't be opened */

/* ---- a window, and what it ought to hold ---- */

struct window {
    MPI_Win win;
    unsigned char *memory, *image;
    size_t bytes;
};

static void window_make(struct window *w, size_t bytes)
{
    w->bytes = bytes;
    w->memory = mem_alloc(MEM_DEVICE, bytes + BEHIND), w->image = malloc(bytes + 1);
    w->memory += BEHIND;
    int rc = MPI_Win_create(w->memory, (MPI_Aint)bytes, UNIT, MPI_INFO_NULL, MPI_COMM_WORLD, &w->win);
    expect_equal(rc, MPI_SUCCESS, "MPI_Win_create");
}

/* The memory goes at once: no rank has anything to do with it any more. */
static void window_end(struct window *w)
{
    MPI_Win_free(&w->win);
    mem_free(MEM_DEVICE, w->memory - BEHIND);
    free(w->image);
}

static unsigned char content(uint64_t salt, int rank, int64_t at)
{
    return pattern_at(salt * 1000 + (uint64_t)rank, at);
}

static void window_fill(struct window *w, uint64_t salt)
{
    for (size_t i = 0; i < w->bytes; i++) w->image[i] = content(salt, my_rank, (int64_t)i);
    mem_write(MEM_DEVICE, w->memory, w->image, w->bytes);
}

static void window_check(const struct window *w, const char *what)
{
    unsigned char *is = malloc(w->bytes + 1);
    size_t at = 0;
    mem_read(MEM_DEVICE, is, w->memory, w->bytes);
    while (at < w->bytes && is[at] == w->image[at]) at++;
    expect(at == w->bytes, "%s: byte %zu of the window is 0x%02x, not 0x%02x", what, at, is[at], w->image[at]);
    free(is);
}

/* ---- operations: each rank on a slice of its own at its target ---- */

enum call { PUT, GET, SUMS, REPLACES, GET_SUMS, GET_REPLACES, NOTHING, FETCHES, SWAPS };
static const struct act {
    const char *name;
    enum call call;
    bool request, large;
} acts[] = {
    {"MPI_Put", PUT, false, false},
    {"MPI_Get", GET, false, false},
    {"MPI_Accumulate, sum", SUMS, false, false},
    {"MPI_Accumulate, replace", REPLACES, false, false},
    {"MPI_Get_accumulate, sum", GET_SUMS, false, false},
    {"MPI_Get_accumulate, replace", GET_REPLACES, false, false},
    {"MPI_Get_accumulate, no operation", NOTHING, false, false},
    {"MPI_Fetch_and_op", FETCHES, false, false},
    {"MPI_Compare_and_swap", SWAPS, false, false},
    {"MPI_Rput", PUT, true, false},
    {"MPI_Rget", GET, true, false},
    {"MPI_Raccumulate", SUMS, true, false},
    {"MPI_Rget_accumulate", GET_SUMS, true, false},
#if MPI_VERSION >= 4
    {"MPI_Put_c", PUT, false, true},
    {"MPI_Get_c", GET, false, true},
    {"MPI_Accumulate_c", SUMS, false, true},
    {"MPI_Get_accumulate_c", GET_SUMS, false, true},
    {"MPI_Rput_c", PUT, true, true},
    {"MPI_Rget_c", GET, true, true},
#endif
};

/* One rank's operation in a round, as all ranks know it. */
struct plan {
    const struct act *act;
    int origin, target;
    bool single, fetches;
    uint64_t salt;
    const struct layout *from, *to, *there;
    MPI_Aint disp;
};

static struct plan plan_of(const struct act *a, int origin, int round)
{
    struct plan p = {.act = a, .origin = origin, .target = (origin + round) % num_ranks, .salt = (uint64_t)round};
    p.single = a->call == FETCHES || a->call == SWAPS;
    p.fetches = a->call == GET || a->call >= GET_SUMS;
    p.from = p.single ? &one : &lists[(round + origin) % LISTS];
    p.to = p.single ? &one : &lists[(round + origin + 1) % LISTS];
    p.there = p.single ? &one : &lists[(round / 2 + 2) % LISTS];
    p.disp = (origin * SLICE + AT) / UNIT;
    return p;
}

static uint64_t salt_of(const struct plan *p, int operand)
{
    return p->salt * 100 + (uint64_t)(p->origin * 10 + operand);
}

static int64_t there_at(const struct plan *p, int i)
{
    return p->disp * UNIT + p->there->low + p->there->map[i];
}

/* The ints that the target holds there before. */
static void ints_before(const struct plan *p, int *ints)
{
    unsigned char *bytes = (unsigned char *)ints;
    for (int i = 0; i < p->there->bytes; i++) bytes[i] = content(p->salt, p->target, there_at(p, i));
}

static bool swaps(const struct plan *p)
{
    return p->salt % 2;
}

/* `ints` become what the target holds after. */
static void ints_after(const struct plan *p, int *ints)
{
    unsigned char *packed = layout_packed(p->from, salt_of(p, 0));
    for (int i = 0; i < p->there->bytes / (int)sizeof(int); i++) {
        int by;
        memcpy(&by, packed + (size_t)i * sizeof by, sizeof by);
        switch (p->act->call) {
        case SUMS:
        case GET_SUMS:
        case FETCHES: ints[i] = (int)((unsigned)ints[i] + (unsigned)by); break;
        case PUT:
        case REPLACES:
        case GET_REPLACES: ints[i] = by; break;
        case SWAPS: ints[i] = swaps(p) ? by : ints[i]; break;
        case GET:
        case NOTHING: break;
        }
    }
    free(packed);
}

struct operands {
    struct buf origin, result, compare;
};

static void operands_make(struct operands *o, const struct plan *p, enum mem_kind kind)
{
    int before[INTS];
    buf_make(&o->origin, kind, p->from, 0, salt_of(p, 0));
    buf_make(&o->result, kind, p->to, 0, salt_of(p, 1));
    buf_make(&o->compare, kind, p->from, 0, salt_of(p, 2));
    if (!p->single || !swaps(p)) return;
    ints_before(p, before);
    buf_expect(&o->compare, p->from, (unsigned char *)before, (int)sizeof(int));
    mem_write(kind, o->compare.base, o->compare.shadow, o->compare.bytes);
}

static void operands_check(struct operands *o, const struct plan *p)
{
    int before[INTS];
    ints_before(p, before);
    if (p->fetches) buf_expect(&o->result, p->to, (unsigned char *)before, p->there->bytes);
    buf_check(&o->origin, p->act->name);
    buf_check(&o->result, p->act->name);
    buf_check(&o->compare, p->act->name);
}

static void operands_end(struct operands *o)
{
    buf_free(&o->origin), buf_free(&o->result), buf_free(&o->compare);
}

#define FROM o->origin.origin, p->from->count, p->from->type
#define TO o->result.origin, p->to->count, p->to->type
#define THERE p->target, p->disp, p->there->count, p->there->type
#define SMALL_OR_LARGE(name, ...) \
    if (!p->act->large) MPI_##name(__VA_ARGS__); \
    LARGE(name, __VA_ARGS__)
#if MPI_VERSION >= 4
#define LARGE(name, ...) else MPI_##name##_c(__VA_ARGS__)
#else
#define LARGE(name, ...)
#endif

static void begin(const struct plan *p, struct operands *o, MPI_Win win, MPI_Request *r)
{
    MPI_Op op = p->act->call == SUMS || p->act->call == GET_SUMS ? MPI_SUM
                : p->act->call == NOTHING                        ? MPI_NO_OP
                                                                 : MPI_REPLACE;
    bool request = p->act->request;
    switch (p->act->call) {
    case PUT:
        if (request) { SMALL_OR_LARGE(Rput, FROM, THERE, win, r); }
        else { SMALL_OR_LARGE(Put, FROM, THERE, win); }
        break;
    case GET:
        if (request) { SMALL_OR_LARGE(Rget, TO, THERE, win, r); }
        else { SMALL_OR_LARGE(Get, TO, THERE, win); }
        break;
    case SUMS:
    case REPLACES:
        if (request) { SMALL_OR_LARGE(Raccumulate, FROM, THERE, op, win, r); }
        else { SMALL_OR_LARGE(Accumulate, FROM, THERE, op, win); }
        break;
    case GET_SUMS:
    case GET_REPLACES:
        if (request) { SMALL_OR_LARGE(Rget_accumulate, FROM, TO, THERE, op, win, r); }
        else { SMALL_OR_LARGE(Get_accumulate, FROM, TO, THERE, op, win); }
        break;
    case NOTHING: MPI_Get_accumulate(NULL, 0, MPI_INT, TO, THERE, MPI_NO_OP, win); break;
    case FETCHES:
        MPI_Fetch_and_op(o->origin.origin, o->result.origin, MPI_INT, p->target, p->disp, MPI_SUM, win);
        break;
    case SWAPS:
        MPI_Compare_and_swap(o->origin.origin, o->compare.origin, o->result.origin, MPI_INT, p->target, p->disp, win);
        break;
    }
}

/* ---- epochs ---- */

/* The ranks `by` on from this one. */
static MPI_Group neighbor(MPI_Win win, int by)
{
    MPI_Group all, single;
    int rank = ((my_rank + by) % num_ranks + num_ranks) % num_ranks;
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &rank, &single);
    MPI_Group_free(&all);
    return single;
}

static void post_start(MPI_Win win, int target)
{
    int by = target - my_rank;
    MPI_Group to = neighbor(win, by), from = neighbor(win, -by);
    MPI_Win_post(from, 0, win);
    MPI_Win_start(to, 0, win);
    MPI_Group_free(&to), MPI_Group_free(&from);
}

static void test_until(MPI_Win win, int target)
{
    int flag = 0;
    (void)target;
    while (!flag) MPI_Win_test(win, &flag);
}

/* Asserts tell only what is true. */
#define STEP(name, call) \
    static void name(MPI_Win win, int target) \
    { \
        (void)win, (void)target; \
        call; \
    }
STEP(fence, MPI_Win_fence(MPI_MODE_NOPRECEDE, win))
STEP(last_fence, MPI_Win_fence(MPI_MODE_NOSUCCEED, win))
STEP(complete, MPI_Win_complete(win))
STEP(wait, MPI_Win_wait(win))
STEP(lock, MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win))
STEP(lock_alone, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win))
STEP(lock_unchecked, MPI_Win_lock(MPI_LOCK_SHARED, target, MPI_MODE_NOCHECK, win))
STEP(unlock, MPI_Win_unlock(target, win))
STEP(lock_all, MPI_Win_lock_all(0, win))
STEP(unlock_all, MPI_Win_unlock_all(win))
STEP(flush, MPI_Win_flush(target, win))
STEP(flush_all, MPI_Win_flush_all(win))
STEP(flush_local, MPI_Win_flush_local(target, win))
STEP(flush_local_all, MPI_Win_flush_local_all(win))
STEP(nothing, (void)0)

typedef void step(MPI_Win win, int target);
static const struct epoch {
    const char *name;
    step *open, *synchronise, *close;
    bool exposes;   /* the target takes part at the end: its memory is complete */
} epochs[] = {
    {"MPI_Win_fence", fence, last_fence, nothing, true},
    {"MPI_Win_complete", post_start, complete, wait, true},
    {"MPI_Win_test", post_start, complete, test_until, true},
    {"MPI_Win_unlock", lock, unlock, nothing, false},
    {"MPI_Win_unlock, exclusive", lock_alone, unlock, nothing, false},
    {"MPI_Win_unlock, not checked", lock_unchecked, unlock, nothing, false},
    {"MPI_Win_unlock_all", lock_all, unlock_all, nothing, false},
    {"MPI_Win_flush", lock_all, flush, unlock_all, false},
    {"MPI_Win_flush of one lock", lock, flush, unlock, false},
    {"MPI_Win_flush_all", lock_all, flush_all, unlock_all, false},
    {"MPI_Win_flush_local", lock_all, flush_local, unlock_all, false},
    {"MPI_Win_flush_local_all", lock_all, flush_local_all, unlock_all, false},
};

static void once(struct window *w, const struct act *a, const struct epoch *e, int round)
{
    struct plan p = plan_of(a, my_rank, round);
    struct operands o;
    MPI_Request r = MPI_REQUEST_NULL;
    operands_make(&o, &p, (enum mem_kind)((round + my_rank) % MEM_KINDS));
    window_fill(w, (uint64_t)round);
    if (!e->exposes) MPI_Barrier(MPI_COMM_WORLD);
    e->open(w->win, p.target);
    begin(&p, &o, w->win, &r);
    if (a->request && round % 2) {
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (!host_mode) operands_check(&o, &p);
    }
    e->synchronise(w->win, p.target);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    operands_check(&o, &p);
    e->close(w->win, p.target);
    if (!e->exposes) MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < num_ranks; i++) {
        int ints[INTS];
        struct plan by = plan_of(a, i, round);
        if (by.target != my_rank) continue;
        ints_before(&by, ints), ints_after(&by, ints);
        for (int k = 0; k < by.there->bytes; k++) w->image[there_at(&by, k)] = ((unsigned char *)ints)[k];
    }
    window_check(w, a->name);
    MPI_Barrier(MPI_COMM_WORLD);
    operands_end(&o);
}

static void all_operations(void)
{
    struct window w;
    window_make(&w, (size_t)num_ranks * SLICE);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        for (size_t k = 0; k < sizeof epochs / sizeof *epochs; k++)
            for (int round = 0; round < (few ? 2 : 2 * LISTS); round++)
                once(&w, &acts[i], &epochs[k], round + (int)k);
        report("%s in epochs of all kinds", acts[i].name);
    }
    window_end(&w);
    report("a window that ends");
}

/* ---- all operations on all types ---- */

enum { ELEMENTS = 53, ELEMENT_MOST = 16 };

static struct resources before, after;
static char *operand[2];   /* on the device, in host memory */

/* Each rank combines its elements with those of the next one. Returns true if it took one launch and no copy. */
static bool combine(struct window *w, const struct number *t, MPI_Datatype there, int step, MPI_Op op, enum operation o)
{
    size_t bytes = ELEMENTS * t->extent;
    int next = (my_rank + 1) % num_ranks, last = (my_rank + num_ranks - 1) % num_ranks;
    enum mem_kind kind = step == 1 ? MEM_DEVICE : MEM_HOST;
    char *from = calloc(1, bytes), *other = malloc(bytes), *at = operand[step - 1];
    memset(w->image, 0xa5, w->bytes);
    t->fill(w->image, w->bytes / t->extent);
    mem_write(MEM_DEVICE, w->memory, w->image, w->bytes);
    t->fill(from, ELEMENTS);
    mem_write(kind, at, from, bytes);
    MPI_Sendrecv(from, (int)bytes, MPI_BYTE, next, 1, other, (int)bytes, MPI_BYTE, last, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Win_fence(0, w->win);
    resources_now(&before);
    MPI_Accumulate(at, ELEMENTS, t->type, next, 0, ELEMENTS / (step == 1 ? 1 : ELEMENTS), there, op, w->win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
    resources_now(&after);
    for (size_t i = 0; i < ELEMENTS; i++)
        t->reduce(o, other + i * t->extent, w->image + i * (size_t)step * t->extent, 1);
    window_check(w, operation_name[o]);
    free(other), free(from);
    MPI_Barrier(MPI_COMM_WORLD);
    return after.launches - before.launches == 1 && after.copies == before.copies;
}

static bool everywhere(bool mine)
{
    int all, is = mine;
    MPI_Allreduce(&is, &all, 1, MPI_INT, MPI_MIN, check_comm);
    return all;
}

/* Open MPI 4.1's vector code saturates sums of 8 and 16 bits; MPICH 4.0 compares unsigned numbers as signed ones: as
 * long as the host combines. */
static bool mpi_right(const struct number *t, enum operation op)
{
    if (op == SUM && t->extent <= 2) return false;
    return (op != MAX && op != MIN) || (!strstr(t->name, "UNSIGNED") && !strstr(t->name, "UINT"));
}

/* Each kernel takes a compile: those of two types are waited for, so that all is combined by them. They come first. */
static bool is_waited_for(const struct number *t)
{
    return t->type == MPI_INT || t->type == MPI_DOUBLE_INT;
}

static void all_types(void)
{
    struct window w;
    resources_now(&before);
    bool able = before.simulated && !slow && !host_mode;
    window_make(&w, ELEMENTS * 2 * ELEMENT_MOST);
    operand[0] = mem_alloc(MEM_DEVICE, ELEMENTS * ELEMENT_MOST), operand[1] = malloc(ELEMENTS * ELEMENT_MOST);
    for (int i = 0; i < 2 * number_total; i++) {
        const struct number *t = &numbers[i % number_total];
        enum operation first = 0;
        MPI_Datatype spread;
        double since = 0;
        bool kernels = able && is_waited_for(t);
        int size = 0;
        if (t->type != MPI_DATATYPE_NULL) MPI_Type_size(t->type, &size);
        if (size != t->bytes || is_waited_for(t) != (i < number_total)) continue;   /* size: an MPI without Fortran */
        MPI_Type_vector(ELEMENTS, 1, 2, t->type, &spread);
        type_commit(&spread);
        while (!(t->operations >> first & 1) || !mpi_right(t, first)) first++;   /* by the host meanwhile */
        while (!everywhere(combine(&w, t, t->type, 1, operation_mpi[first], first)) && kernels &&
               everywhere(within(&since, SECONDS)))
            sched_yield();   /* the compiler wants the cores too */
        for (enum operation op = 0; op < OPERATIONS; op++) {
            if (!(t->operations >> op & 1) || (!kernels && !mpi_right(t, op))) continue;
            bool single = combine(&w, t, t->type, 1, operation_mpi[op], op);
            if (kernels) expect(single, "%s: more than one launch, or copies", operation_name[op]);
            combine(&w, t, spread, 2, operation_mpi[op], op);
        }
        MPI_Type_free(&spread);
        report("MPI_Accumulate of %s", t->name);
    }
    mem_free(MEM_DEVICE, operand[0]), free(operand[1]);
    window_end(&w);
}

/* No kernel adds these. */
static void long_doubles(void)
{
    enum { N = 20 };
    long double from[N], is[N];
    int next = (my_rank + 1) % num_ranks, last = (my_rank + num_ranks - 1) % num_ranks, wrong = 0;
    struct window w;
    window_make(&w, sizeof is);
    memset(is, 0, sizeof is), memset(from, 0, sizeof from);
    for (int i = 0; i < N; i++) from[i] = my_rank + i / 4.0L, is[i] = 100 * my_rank;
    mem_write(MEM_DEVICE, w.memory, is, sizeof is);
    MPI_Win_fence(0, w.win);
    MPI_Accumulate(from, N, MPI_LONG_DOUBLE, next, 0, N, MPI_LONG_DOUBLE, MPI_SUM, w.win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
    mem_read(MEM_DEVICE, is, w.memory, sizeof is);
    for (int i = 0; i < N; i++) wrong += is[i] != 100 * my_rank + last + i / 4.0L;
    expect_equal(wrong, 0, "wrong numbers");
    window_end(&w);
    report("MPI_Accumulate of long double");
}

/* A struct that names ints, and has none. */
static void named_in_vain(void)
{
    enum { N = 20 };
    double from[N], is[N];
    int next = (my_rank + 1) % num_ranks, last = (my_rank + num_ranks - 1) % num_ranks, wrong = 0, lengths[] = {0, 1};
    MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE}, one;
    struct window w;
    MPI_Type_create_struct(2, lengths, (MPI_Aint[]){0, 0}, types, &one);
    type_commit(&one);
    window_make(&w, sizeof is);
    for (int i = 0; i < N; i++) from[i] = my_rank + i / 4.0, is[i] = 100 * my_rank;
    mem_write(MEM_DEVICE, w.memory, is, sizeof is);
    MPI_Win_fence(0, w.win);
    MPI_Accumulate(from, N, MPI_DOUBLE, next, 0, N, one, MPI_SUM, w.win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
    mem_read(MEM_DEVICE, is, w.memory, sizeof is);
    for (int i = 0; i < N; i++) wrong += is[i] != 100 * my_rank + last + i / 4.0;
    expect_equal(wrong, 0, "wrong numbers");
    MPI_Type_free(&one);
    window_end(&w);
    report("MPI_Accumulate by a type that names another one in vain");
}

/* ---- all ranks at once ---- */

enum { TIMES = 60, WIDE = 700 };

static void add_together(MPI_Win win)
{
    int plain[WIDE];
    struct buf b;
    buf_bytes(&b, MEM_DEVICE, sizeof plain, 0, 0);
    for (int i = 0; i < WIDE; i++) plain[i] = my_rank + i;
    mem_write(b.kind, b.origin, plain, sizeof plain);
    for (int k = 0; k < TIMES; k++) {
        MPI_Accumulate(k % 2 ? (void *)plain : b.origin, WIDE, MPI_INT, 0, 4, WIDE, MPI_INT, MPI_SUM, win);
        if (k % 7 == 0) MPI_Win_flush(0, win);
    }
    buf_free(&b);
}

/* A rank fetches each number once, and no other rank gets it. */
static int64_t count_up(MPI_Win win)
{
    int one_more = 1, got, last = -1;
    int64_t sum = 0;
    for (int k = 0; k < TIMES; k++) {
        MPI_Fetch_and_op(&one_more, &got, MPI_INT, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        expect(got > last, "%d is fetched after %d", got, last);
        last = got, sum += got;
    }
    return sum;
}

static void swap_up(MPI_Win win)
{
    for (int k = 0; k < TIMES; k++) {
        int is = 0, found = -1, next;
        for (bool done = false; !done; is = found) {
            next = is + 1;
            MPI_Compare_and_swap(&next, &is, &found, MPI_INT, 0, 1, win);
            MPI_Win_flush(0, win);
            done = found == is;
        }
    }
}

/* An exclusive lock keeps a Get and a Put together. */
static void lock_up(MPI_Win win)
{
    for (int k = 0; k < TIMES; k++) {
        int is, next;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&is, 1, MPI_INT, 0, 2, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
        next = is + 1;
        MPI_Put(&next, 1, MPI_INT, 0, 2, 1, MPI_INT, win);
        MPI_Win_unlock(0, win);
    }
}

static void together(void)
{
    struct window w;
    int ints[4 + WIDE], wrong = 0, n = num_ranks;
    int64_t sum, total;
    window_make(&w, sizeof ints);
    memset(ints, 0, sizeof ints);
    mem_write(MEM_DEVICE, w.memory, ints, sizeof ints);
    MPI_Barrier(MPI_COMM_WORLD);
    lock_up(w.win);
    MPI_Win_lock_all(0, w.win);
    add_together(w.win);
    sum = count_up(w.win);
    swap_up(w.win);
    MPI_Win_unlock_all(w.win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(&sum, &total, 1, MPI_INT64_T, MPI_SUM, check_comm);
    expect_equal(total, (int64_t)n * TIMES * (n * TIMES - 1) / 2, "the sum of what was fetched");
    mem_read(MEM_DEVICE, ints, w.memory, sizeof ints);
    if (my_rank == 0) {
        expect_equal(ints[0], n * TIMES, "what MPI_Fetch_and_op counted");
        expect_equal(ints[1], n * TIMES, "what MPI_Compare_and_swap counted");
        expect_equal(ints[2], n * TIMES, "what locks counted");
        for (int i = 0; i < WIDE; i++) wrong += ints[4 + i] != TIMES * (n * (n - 1) / 2 + n * i);
        expect_equal(wrong, 0, "wrong sums");
    }
    window_end(&w);
    report("accumulates of all ranks at once");
}

/* ---- threads ---- */

enum { THREADS = 3 };
static struct window shared;

/* Each thread of each rank counts in a place of all threads, and writes to one of its own. */
static void *in_thread(void *comm)
{
    static atomic_int number;
    int one_more = 1, got, mine = 1 + my_rank * THREADS + atomic_fetch_add(&number, 1), target = mine % num_ranks;
    (void)comm;
    for (int k = 0; k < TIMES; k++) {
        struct buf b;
        buf_bytes(&b, MEM_DEVICE, sizeof k, 0, 0);
        mem_write(MEM_DEVICE, b.origin, &k, sizeof k);
        MPI_Fetch_and_op(&one_more, &got, MPI_INT, target, 0, MPI_SUM, shared.win);
        MPI_Put(b.origin, 1, MPI_INT, target, mine, 1, MPI_INT, shared.win);
        MPI_Win_flush(target, shared.win);
        MPI_Get(&got, 1, MPI_INT, target, mine, 1, MPI_INT, shared.win);
        MPI_Win_flush(target, shared.win);
        expect_equal(got, k, "what the thread has put");
        buf_free(&b);
    }
    return NULL;
}

static void threads(void)
{
    int all = num_ranks * THREADS, counted, total;
    size_t bytes = (size_t)(all + 1) * sizeof(int);
    window_make(&shared, bytes);
    memset(shared.image, 0, bytes);
    mem_write(MEM_DEVICE, shared.memory, shared.image, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, shared.win);
    in_threads(THREADS, in_thread);
    MPI_Win_unlock_all(shared.win);
    MPI_Barrier(MPI_COMM_WORLD);
    mem_read(MEM_DEVICE, &counted, shared.memory, sizeof counted);
    MPI_Allreduce(&counted, &total, 1, MPI_INT, MPI_SUM, check_comm);
    expect_equal(total, all * TIMES, "what all threads counted");
    window_end(&shared);
    report("threads");
}

/* The target does nothing while others read and write its memory. */
static void passive(void)
{
    struct window w;
    int done = 0, all = 0, value = my_rank + 7, got = -1;
    window_make(&w, (size_t)num_ranks * sizeof(int));
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank != 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win);
        MPI_Put(&value, 1, MPI_INT, 0, my_rank, 1, MPI_INT, w.win);
        MPI_Win_flush(0, w.win);
        MPI_Get(&got, 1, MPI_INT, 0, my_rank, 1, MPI_INT, w.win);
        MPI_Win_unlock(0, w.win);
        expect_equal(got, value, "what was put");
        MPI_Fetch_and_op(&value, &got, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, w.win);
    }
    MPI_Reduce(&done, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    window_end(&w);
    report("a target that does nothing");
}

/* ---- operands of several memories, or on another device than the window ---- */

enum { EACH = 90 };

/* Ints of three allocations go to the next rank, are added there to what they are, and come back. */
static void there_and_back(int *const part[3], const enum mem_kind kind[3], const char *what)
{
    int ints[3 * EACH], lengths[3] = {EACH, EACH, EACH}, next = (my_rank + 1) % num_ranks, wrong = 0;
    MPI_Aint at[3];
    MPI_Datatype all;
    struct window w;
    for (int i = 0; i < 3; i++) MPI_Get_address(part[i], &at[i]);
    MPI_Type_create_hindexed(3, lengths, at, MPI_INT, &all);
    type_commit(&all);
    window_make(&w, sizeof ints);
    for (int i = 0; i < 3 * EACH; i++) ints[i] = 1000 * my_rank + i;
    for (int i = 0; i < 3; i++) mem_write(kind[i], part[i], ints + i * EACH, EACH * sizeof(int));
    MPI_Win_fence(0, w.win);
    MPI_Put(MPI_BOTTOM, 1, all, next, 0, 3 * EACH, MPI_INT, w.win);
    MPI_Win_fence(0, w.win);
    MPI_Accumulate(MPI_BOTTOM, 1, all, next, 0, 3 * EACH, MPI_INT, MPI_SUM, w.win);
    MPI_Win_fence(0, w.win);
    MPI_Get(MPI_BOTTOM, 1, all, my_rank, EACH, 2 * EACH, MPI_INT, w.win);   /* fewer: the last part stays */
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
    int from = 1000 * ((my_rank + num_ranks - 1) % num_ranks);
    for (int i = 0; i < 3; i++) mem_read(kind[i], ints + i * EACH, part[i], EACH * sizeof(int));
    for (int i = 0; i < 3 * EACH; i++) wrong += ints[i] != (i < 2 * EACH ? 2 * (from + i + EACH) : 1000 * my_rank + i);
    expect_equal(wrong, 0, "wrong ints");
    MPI_Type_free(&all);
    window_end(&w);
    report("%s", what);
}

static void operands_elsewhere(int devices, int device)
{
    enum mem_kind kind[3] = {MEM_DEVICE, MEM_HOST, MEM_DEVICE};
    int *part[3];
    for (int i = 0; i < 3; i++) part[i] = mem_alloc(kind[i], EACH * sizeof **part);
    there_and_back(part, kind, "operands on the device and in host memory");
    for (int i = 0; i < 3; i++) mem_free(kind[i], part[i]);
    if (devices < 2) return;
    kind[1] = MEM_DEVICE;
    for (int alike = 0; alike < 2; alike++) {
        for (int i = 0; i < 3; i++) {
            cudaSetDevice((device + (alike || i == 1)) % devices);
            part[i] = mem_alloc(MEM_DEVICE, EACH * sizeof **part);
        }
        cudaSetDevice(device);
        there_and_back(part, kind, alike ? "operands on another device" : "operands on two devices");
        for (int i = 0; i < 3; i++) mem_free(MEM_DEVICE, part[i]);
    }
}

/* ---- launches ---- */

static void puts_and_gets(MPI_Win win, const struct buf *b, int64_t launches[2])
{
    int next = (my_rank + 1) % num_ranks;
    for (int get = 0; get < 2; get++) {
        MPI_Win_fence(0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        resources_now(&before);
        if (my_rank == 0 && get)
            MPI_Get(b->origin, lists[0].count, lists[0].type, next, AT, lists[2].count, lists[2].type, win);
        if (my_rank == 0 && !get)
            MPI_Put(b->origin, lists[0].count, lists[0].type, next, AT, lists[2].count, lists[2].type, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        resources_now(&after);
        launches[get] = after.launches - before.launches + after.copies - before.copies;
    }
}

static void launches(void)
{
    struct window w;
    struct buf b;
    int64_t is[2];
    double since = 0;
    window_make(&w, SLICE);
    buf_make(&b, MEM_DEVICE, &lists[0], 0, 3);
    resources_now(&before);
    bool counts = before.simulated && !host_mode && !slow;
    do {   /* until the kernels are compiled */
        puts_and_gets(w.win, &b, is);
        sched_yield();
    } while (everywhere(counts) && !everywhere(is[0] == !my_rank && is[1] == !my_rank) &&
           everywhere(within(&since, SECONDS)));
    if (counts) {
        expect_equal(is[0], my_rank == 0, "the launches of an MPI_Put");
        expect_equal(is[1], my_rank == 0, "the launches of an MPI_Get");
    }
    buf_free(&b);
    window_end(&w);
    report("one launch at the origin, none at the target");
}

/* ---- attributes, errors ---- */

static void attributes(void)
{
    struct window w;
    void *base;
    MPI_Aint *size;
    int *unit, *flavor, flag[4], same;
    MPI_Group a, b;
    window_make(&w, (size_t)SLICE * (size_t)(my_rank + 1));
    MPI_Win_get_attr(w.win, MPI_WIN_BASE, &base, &flag[0]);
    MPI_Win_get_attr(w.win, MPI_WIN_SIZE, &size, &flag[1]);
    MPI_Win_get_attr(w.win, MPI_WIN_DISP_UNIT, &unit, &flag[2]);
    MPI_Win_get_attr(w.win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag[3]);
    for (int i = 0; i < 4; i++) expect(flag[i], "no attribute %d", i);
    expect(base == w.memory, "the base is %p", base);
    expect_equal(*size, SLICE * (my_rank + 1), "the size");
    expect_equal(*unit, UNIT, "the unit");
    expect_equal(*flavor, MPI_WIN_FLAVOR_CREATE, "the flavor");
    MPI_Win_get_group(w.win, &a), MPI_Comm_group(MPI_COMM_WORLD, &b);
    MPI_Group_compare(a, b, &same);
    expect_equal(same, MPI_IDENT, "the group");
    MPI_Group_free(&a), MPI_Group_free(&b);
    window_end(&w);
    report("attributes");
}

static int handled;

static void handler(MPI_Win *win, int *code, ...)
{
    (void)win;
    handled = error_class(*code);
}

static void wrong(int rc, int class, const char *what)
{
    expect_equal(error_class(rc), class, what);
    expect_equal(handled, class, what);
    handled = MPI_SUCCESS;
}

static void errors(void)
{
    struct window w;
    MPI_Errhandler h;
    int i = 5, flag;
    window_make(&w, SLICE);
    window_fill(&w, 1);
    MPI_Win_create_errhandler(handler, &h);
    MPI_Win_set_errhandler(w.win, h);
    wrong(MPI_Put(&i, 1, MPI_INT, my_rank, 0, 1, MPI_INT, w.win), MPI_ERR_RMA_SYNC, "MPI_Put outside of an epoch");
    wrong(MPI_Win_unlock(my_rank, w.win), MPI_ERR_RMA_SYNC, "MPI_Win_unlock without a lock");
    wrong(MPI_Win_complete(w.win), MPI_ERR_RMA_SYNC, "MPI_Win_complete without MPI_Win_start");
    wrong(MPI_Win_wait(w.win), MPI_ERR_RMA_SYNC, "MPI_Win_wait without MPI_Win_post");
    wrong(MPI_Win_test(w.win, &flag), MPI_ERR_RMA_SYNC, "MPI_Win_test without MPI_Win_post");
    wrong(MPI_Win_flush(my_rank, w.win), MPI_ERR_RMA_SYNC, "MPI_Win_flush without a lock");
    wrong(MPI_Win_unlock_all(w.win), MPI_ERR_RMA_SYNC, "MPI_Win_unlock_all without a lock");
    wrong(MPI_Win_lock(MPI_LOCK_SHARED, num_ranks, 0, w.win), MPI_ERR_RANK, "MPI_Win_lock of a rank too high");
    wrong(MPI_Win_lock(-77, my_rank, 0, w.win), MPI_ERR_LOCKTYPE, "MPI_Win_lock of a strange type");
    MPI_Win_lock(MPI_LOCK_SHARED, my_rank, 0, w.win);
    wrong(MPI_Win_lock(MPI_LOCK_SHARED, my_rank, 0, w.win), MPI_ERR_RMA_SYNC, "MPI_Win_lock, twice");
    wrong(MPI_Win_lock_all(0, w.win), MPI_ERR_RMA_SYNC, "MPI_Win_lock_all after a lock");
    wrong(MPI_Put(&i, 1, MPI_INT, num_ranks, 0, 1, MPI_INT, w.win), MPI_ERR_RANK, "MPI_Put to a rank too high");
    wrong(MPI_Put(&i, -1, MPI_INT, my_rank, 0, 1, MPI_INT, w.win), MPI_ERR_COUNT, "MPI_Put of -1");
    wrong(MPI_Put(&i, 1, MPI_DATATYPE_NULL, my_rank, 0, 1, MPI_INT, w.win), MPI_ERR_TYPE, "MPI_Put without a type");
    wrong(MPI_Put(&i, 1, MPI_INT, my_rank, SLICE / UNIT, 1, MPI_INT, w.win), MPI_ERR_RMA_RANGE,
          "MPI_Put behind the end");
    wrong(MPI_Put(&i, 1, MPI_INT, my_rank, -1, 1, MPI_INT, w.win), MPI_ERR_DISP, "MPI_Put before the beginning");
    expect_equal(MPI_Put(&i, 1, MPI_INT, my_rank, SLICE / UNIT - 1, 1, MPI_INT, w.win), MPI_SUCCESS, "the last int");
    MPI_Win_unlock(my_rank, w.win);
    expect_equal(handled, MPI_SUCCESS, "an error");
    memcpy(w.image + SLICE - sizeof i, &i, sizeof i);
    window_check(&w, "after errors");
    MPI_Errhandler_free(&h);
    window_end(&w);
    report("errors");
}

/* ---- windows that are not served so, and those that come and go ---- */

/* Kinds of memory of the ranks: the MPI decides, or all of them have an error. */
static void other_memory(enum mem_kind first, enum mem_kind rest, bool own, const char *what)
{
    enum mem_kind kind = my_rank ? rest : first;
    MPI_Comm comm;
    MPI_Win win = MPI_WIN_NULL;
    void *p = mem_alloc(kind, SLICE);
    bool fine = host_mode || cuda_aware() || own;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int rc = MPI_Win_create(p, SLICE, 1, MPI_INFO_NULL, comm, &win);
    expect_equal(error_class(rc), fine ? MPI_SUCCESS : MPI_ERR_BASE, what);
    if (rc == MPI_SUCCESS) MPI_Win_free(&win);
    MPI_Comm_free(&comm);
    mem_free(kind, p);
    report("a window: %s", what);
}

/* Some ranks expose nothing. */
static void empty_ranks(void)
{
    MPI_Win win;
    int value = 3 + my_rank, is = 0, n = num_ranks;
    int *memory = mem_alloc(MEM_DEVICE, (size_t)n * sizeof *memory);
    for (int root = 0; root < n; root++) {
        MPI_Win_create(my_rank == root ? memory : NULL, my_rank == root ? n * (int)sizeof *memory : 0, sizeof *memory,
                       MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_fence(0, win);
        MPI_Put(&value, 1, MPI_INT, root, my_rank, 1, MPI_INT, win);
        MPI_Win_fence(0, win);
        MPI_Get(&is, 1, MPI_INT, root, (my_rank + 1) % n, 1, MPI_INT, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        expect_equal(is, 3 + (my_rank + 1) % n, "what the next rank has put");
        MPI_Win_free(&win);
    }
    mem_free(MEM_DEVICE, memory);
    report("ranks without memory");
}

static void come_and_go(void)
{
    enum { ROUNDS = 40, BOTH = 2 };
    struct resources first, last;
    for (int k = 0; k < ROUNDS; k++) {
        struct window w[BOTH];
        int value = 10 * k + my_rank, next = (my_rank + 1) % num_ranks, is;
        for (int i = 0; i < BOTH; i++) window_make(&w[i], 4096);
        for (int i = 0; i < BOTH; i++) MPI_Win_fence(0, w[i].win);
        for (int i = 0; i < BOTH; i++) MPI_Put(&value, 1, MPI_INT, next, i, 1, MPI_INT, w[i].win), value++;
        for (int i = 0; i < BOTH; i++) MPI_Win_fence(MPI_MODE_NOSUCCEED, w[i].win);
        for (int i = 0; i < BOTH; i++) {
            mem_read(MEM_DEVICE, &is, w[i].memory + (size_t)i * sizeof is, sizeof is);
            expect_equal(is, 10 * k + (my_rank + num_ranks - 1) % num_ranks + i, "what was put");
        }
        for (int i = 0; i < BOTH; i++) window_end(&w[i]);
        if (k == 4) resources_now(&first);
    }
    resources_now(&last);
    /* Memory of peers stays open until other memory lies there. */
    expect(last.descriptors <= first.descriptors + ROUNDS / 4, "%lld files more are open",
           (long long)(last.descriptors - first.descriptors));
    report("windows that come and go");
}

/* A rank that has one lock exclusively and asks for another does not meet one that waits with the other in hand. */
static void all_locks(void)
{
    struct window w;
    window_make(&w, 64);
    for (int round = 0; round < 300; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (my_rank == 1) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, w.win);
            for (volatile int i = 0; i < 500 * round; i++) continue;
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win);
            MPI_Win_unlock(0, w.win), MPI_Win_unlock(1, w.win);
        } else {
            MPI_Win_lock_all(0, w.win);
            MPI_Win_unlock_all(w.win);
        }
    }
    window_end(&w);
    report("locks of all ranks beside exclusive ones");
}

/* A rank that only looks into a window lets its messages progress. */
static void looks(void)
{
    enum { LENGTH = 8 << 20 };
    struct window w;
    MPI_Request q;
    int one = 1, is = 0;
    double since = 0;
    char *bytes = calloc(1, LENGTH);
    window_make(&w, 64);
    mem_write(MEM_DEVICE, w.memory, bytes, 64);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, w.win);
    if (my_rank == 0) {
        MPI_Isend(bytes, LENGTH, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &q);
        while (!is && within(&since, SECONDS)) {
            MPI_Fetch_and_op(NULL, &is, MPI_INT, 0, 0, MPI_NO_OP, w.win);
            MPI_Win_flush(0, w.win);
        }
        expect(is == 1, "the other rank has not got its message");
        MPI_Wait(&q, MPI_STATUS_IGNORE);
    } else if (my_rank == 1) {
        MPI_Recv(bytes, LENGTH, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_REPLACE, w.win);
    }
    MPI_Win_unlock_all(w.win);
    window_end(&w);
    free(bytes);
    report("messages progress while a rank looks into a window");
}

#ifdef OPEN_MPI
enum { HAS_THREADS = 0 };   /* osc/pt2pt makes no windows where threads may call the MPI */
#else
enum { HAS_THREADS = 1 };
#endif

int main(int argc, char **argv)
{
    bool threaded = !strcmp(argv[argc - 1], "threads");
    check_start(&argc, &argv, threaded ? MPI_THREAD_MULTIPLE : -1);
    int devices = 1;
    if (threaded) {
        if (HAS_THREADS) threads();
        else report("threads: left out, this MPI makes no windows among them");
        return check_finish();
    }
    for (int i = 1; i < argc; i++) {
        slow = slow || !strcmp(argv[i], "slow");
        refused = refused || !strcmp(argv[i], "refused");
        few = few || slow || !strcmp(argv[i], "few");
    }
    if (!host_mode && cudaGetDeviceCount(&devices) == cudaSuccess && devices > 1) cudaSetDevice(my_rank % devices);
    layouts_of_ints(lists);
    layout_of(&one, MPI_INT, 1, "int");
    other_memory(MEM_DEVICE, MEM_DEVICE, !refused, "device memory on all ranks");
    other_memory(MEM_DEVICE, MEM_HOST, num_ranks == 1 && !refused, "device memory on one rank, host memory on others");
    other_memory(MEM_HOST, MEM_PINNED, true, "host memory");
    if (!refused) {
        all_operations();
        if (!few || slow) all_types();
        long_doubles();
        named_in_vain();
        together();
        passive();
        operands_elsewhere(host_mode ? 1 : devices, my_rank % devices);
        if (num_ranks > 1) launches();
        attributes();
        if (!host_mode) errors();
        empty_ranks();
        come_and_go();
        if (num_ranks > 1) all_locks(), looks();
    }
    for (int i = 0; i < LISTS; i++) layout_free(&lists[i]);
    return check_finish();
}
