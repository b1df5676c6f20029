/* churn.c: types without end: committed, some of them used, and freed. Nothing stays behind on the host, the device
 * or the disk, and a type that comes again finds what there was of it.
 *
 * usage: churn [TYPES]
 *
 * run: STRIDEC_CACHE_DIR=@NEW STRIDEC_SPECIAL=0 -n 1 60000
 */
#include "check.h"
#include "resources.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define USED_EVERY 500   /* of so many types, one packs */
#define FIRST_TYPES 6000 /* more than are kept unused: from here on, one goes for each that comes */
/* Kernels that no type uses are kept, 4096 of them: which ones, and so their size, depends on the worker's pace. The full
 * run of a million types finds leaks of 9 bytes a type. */
#define SLACK_BYTES (4 << 20)
#define PATIENCE_S 20

static struct buf user, packed;
static int64_t familiar_compiles;   /* until the familiar type's kernel was there */

/* ---- types: no two numbers give the same layout ---- */

static MPI_Datatype a_vector(int i)
{
    MPI_Datatype t;
    MPI_Type_create_hvector(2 + i % 7, 1 + i % 3, 32 + 4 * (MPI_Aint)i, MPI_INT, &t);
    return t;
}

static MPI_Datatype a_struct(int i)
{
    int lengths[3] = {1 + i % 2, 3, 1};
    MPI_Aint at[3] = {0, 16, 40 + 8 * (MPI_Aint)i};
    MPI_Datatype types[3] = {MPI_DOUBLE, MPI_INT, MPI_CHAR}, t;
    MPI_Type_create_struct(3, lengths, at, types, &t);
    return t;
}

static MPI_Datatype a_list(int i)
{
    enum { N = 40 };
    int lengths[N];
    MPI_Aint at[N];
    MPI_Datatype t;
    for (int k = 0; k < N; k++) {
        lengths[k] = 1 + (k * k + i) % 3;
        at[k] = 16 * (MPI_Aint)k + (k == N - 1 ? 4 * (MPI_Aint)i : 0);
    }
    MPI_Type_create_hindexed(N, lengths, at, MPI_INT, &t);
    return t;
}

static MPI_Datatype a_plane(int i)
{
    int sizes[3] = {3, 4, 8 + i}, sub[3] = {2, 3, 4}, starts[3] = {1, 0, 2};
    MPI_Datatype t;
    MPI_Type_create_subarray(3, sizes, sub, starts, MPI_ORDER_C, MPI_FLOAT, &t);
    return t;
}

static MPI_Datatype numbered(int i)
{
    static MPI_Datatype (*const makers[])(int) = {a_vector, a_struct, a_list, a_plane};
    MPI_Datatype t = makers[i % 4](i / 4);
    type_commit(&t);
    return t;
}

/* ---- use ---- */

/* Packs where the type's span fits into the buffer, and looks at the bytes. */
static void use(MPI_Datatype t)
{
    MPI_Aint lb, extent;
    int position = 0;
    MPI_Type_get_true_extent(t, &lb, &extent);
    if (lb + extent > 1 << 20) return;
    struct layout l;
    layout_of(&l, t, 1, "one of many types");
    MPI_Pack(user.origin, 1, t, packed.origin, 4096, &position, MPI_COMM_WORLD);
    expect_equal(position, l.bytes, "position");
    for (int i = 0; i < l.bytes; i++)
        packed.shadow[packed.lead + (size_t)i] = user.shadow[user.lead + (size_t)(l.low + l.map[i])];
    buf_check(&packed, "packed by one of many types");
    free(l.map);
}

static void churn(int from, int to)
{
    for (int i = from; i < to; i++) {
        MPI_Datatype t = numbered(i);
        if (i % USED_EVERY < 4) use(t);
        MPI_Type_free(&t);
    }
}

/* ---- what is left ---- */

static int64_t heap_allowed(const struct resources *half, const struct resources *end)
{
    return half->heap + SLACK_BYTES + 200000 * (end->modules - half->modules);
}

static int64_t descriptors_allowed(const struct resources *half, const struct resources *end)
{
    return half->descriptors + end->modules - half->modules;
}

static int64_t resident_allowed(const struct resources *half, const struct resources *end)
{
    return half->resident + (8 << 20) + (4 << 20) * (end->modules - half->modules);
}

/* NVRTC may be at a last kernel: it has some megabytes meanwhile, and files open. */
static void look_until_settled(struct resources *end, const struct resources *half)
{
    time_t until = time(NULL) + PATIENCE_S;
    for (resources_now(end); time(NULL) < until; resources_now(end)) {
        bool small = !end->heap || (end->heap <= heap_allowed(half, end) && end->resident <= resident_allowed(half, end));
        if (small && end->descriptors <= descriptors_allowed(half, end)) return;
        sched_yield();
    }
}

static void compare(const struct resources *half, const struct resources *end)
{
    expect(end->heap <= heap_allowed(half, end), "%lld bytes more on the heap, of %lld",
           (long long)(end->heap - half->heap), (long long)end->heap);
    /* A sanitizer keeps what is freed: it tells of no heap, and leaks are its own to find. */
    if (end->heap) expect(end->resident <= resident_allowed(half, end), "%lld bytes more are resident",
                          (long long)(end->resident - half->resident));
    /* The pool keeps a buffer once a layout was interpreted; in which half depends on the worker's pace. On a GPU others
     * have memory, too, and modules. */
    int64_t others = end->simulated ? 8192 : 64 << 20;
    expect(end->device_bytes <= half->device_bytes + others, "%lld bytes more of device memory",
           (long long)(end->device_bytes - half->device_bytes));
    expect(end->descriptors <= descriptors_allowed(half, end), "%lld more open files",
           (long long)(end->descriptors - half->descriptors));
    expect_equal(end->threads, half->threads, "the number of threads");
    expect(end->files <= half->files + end->compiles - half->compiles, "%lld more files in the cache",
           (long long)(end->files - half->files));
}

/* The type whose kernel is waited for; it comes again later. Long enough that plain copies would be too many. */
static MPI_Datatype familiar(void)
{
    MPI_Datatype t;
    MPI_Type_vector(6000, 1, 3, MPI_INT, &t);
    type_commit(&t);
    return t;
}

static void pack_familiar(MPI_Datatype t)
{
    static unsigned char want[24000];
    struct buf out;
    int position = 0;
    buf_bytes(&out, MEM_DEVICE, sizeof want, 0, 3);
    MPI_Pack(user.origin, 1, t, out.origin, sizeof want, &position, MPI_COMM_WORLD);
    for (int i = 0; i < 24000; i++)
        out.shadow[out.lead + (size_t)i] = user.shadow[user.lead + (size_t)(i / 4 * 12 + i % 4)];
    buf_check(&out, "packed by a familiar type");
    buf_free(&out);
}

/* One launch, no copy, and its own kernel, which is not compiled once more, served at once. The compiler may still be at another
 * type's. */
static void again(const char *when)
{
    struct resources before, after;
    resources_now(&before);
    MPI_Datatype t = familiar();
    pack_familiar(t);
    MPI_Type_free(&t);
    resources_now(&after);
    expect_equal(resources_compiled_again(familiar_compiles, before.compiles), 0, "compiles for a type that came before");
    if (after.simulated) expect_equal(after.launches - before.launches, 1, "launches");
    report("a type committed again, %s", when);
}

int main(int argc, char **argv)
{
    struct resources half, end;
    struct layout all = {.span = 1 << 20};
    int types = 60000;
    check_start(&argc, &argv, -1);
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-') types = atoi(argv[i]);
    resources_watch_compiles();
    buf_make(&user, MEM_DEVICE, &all, 0, 1);
    buf_bytes(&packed, MEM_DEVICE, 4096, 0, 2);

    MPI_Datatype t = familiar();
    resources_wait_modules(2, t, pack_familiar); /* the one for messages comes first */
    MPI_Type_free(&t);
    resources_now(&half);
    familiar_compiles = half.compiles;
    again("at once");
    churn(0, FIRST_TYPES / 4);
    again("after some others");
    churn(FIRST_TYPES / 4, types / 2);
    resources_now(&half);
    churn(types / 2, types);
    look_until_settled(&end, &half);
    compare(&half, &end);
    note("of %d types %lld were compiled; heap %lld bytes, resident %lld, device %lld, open files %lld", types,
         (long long)end.compiles, (long long)end.heap, (long long)end.resident, (long long)end.device_bytes,
         (long long)end.descriptors);
    report("%d types committed and freed leave nothing behind", types);
    again("after all others");
    buf_free(&user), buf_free(&packed);
    return check_finish();
}
