/* reduced.c: reductions by kernels: MPI_Reduce_local of all predefined operations on all types that MPI defines them
 * for, in one launch and without a copy; among several ranks the collectives, once the ranks have agreed. Results are
 * computed here. Every byte is compared, those in gaps too.
 *
 * run: -n 1
 * run: STRIDEC_ENGINE=copy -n 1 staged
 * run: SIMGPU_NVRTC_FAIL=1 STRIDEC_CACHE_DIR=@NEW -n 1 staged => warns
 * run: -n 2
 * run: -n 3
 * run: -n 4
 * run: STRIDEC_TRANSPORT=oneshot -n 3
 * run: SIMGPU_FAIL=cuIpcOpenMemHandle -n 2
 * run: STRIDEC_ENGINE=copy -n 2 staged
 * run: SIMGPU_NVRTC_DELAY_MS=200 STRIDEC_CACHE_DIR=@NEW -n 2 early
 * run: -n 3 lacking
 * run: -n 3 failing
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 3
 */
#include "check.h"
#include "reduce_task.h"
#include "resources.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 100

static bool staged;      /* there are no kernels; `lacking`: at one rank; `failing`: of one rank one fails */
static bool lacking, failing, earlier;

/* Returns true if it took one launch and no copy. */
static bool once(const struct number *t, enum operation op, struct elements *in, struct elements *inout, int count)
{
    struct resources before, after;
    elements_fill(in, t), elements_fill(inout, t);
    resources_now(&before);
    int rc = MPI_Reduce_local(in->at, inout->at, count, t->type, operation_mpi[op]);
    resources_now(&after);
    expect_equal(rc, MPI_SUCCESS, operation_name[op]);
    size_t skip = ELEMENTS_GUARD * t->extent;
    t->reduce(op, in->image + skip, inout->image + skip, (size_t)count);
    elements_check(in, operation_name[op]), elements_check(inout, operation_name[op]);
    return after.launches - before.launches == 1 && after.copies == before.copies;
}

/* Open MPI 4.1's vector code saturates sums of 8 and 16 bits; MPICH 4.0 compares unsigned numbers as signed ones. */
static bool mpi_right(const struct number *t, enum operation op)
{
#ifdef MPICH_VERSION
    return (op != MAX && op != MIN) || (!strstr(t->name, "UNSIGNED") && !strstr(t->name, "UINT"));
#else
    return op != SUM || t->extent > 2;
#endif
}

/* Until a kernel does it: the module is compiled in the background. */
static void warm(const struct number *t, struct elements *in, struct elements *inout)
{
    enum operation op = OPERATIONS - 1;
    struct resources now;
    double since = 0;
    resources_now(&now);
    while (!(t->operations >> op & 1)) op--;
    while (!once(t, op, in, inout, 5) && !staged && now.simulated && within(&since, SECONDS)) continue;
}

#define MOST 4099

static void all_operations(const struct number *t, enum mem_kind kind)
{
    static const int counts[] = {1, 2, 17, 1000, MOST};
    struct resources now;
    struct elements in, inout;
    elements_make(&in, kind, t, MOST), elements_make(&inout, kind, t, MOST);
    resources_now(&now);
    warm(t, &in, &inout);
    for (enum operation op = 0; op < OPERATIONS; op++) {
        if (!(t->operations >> op & 1) || (staged && !mpi_right(t, op))) continue;
        bool one = true;
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) one &= once(t, op, &in, &inout, counts[i]);
        if (now.simulated && !host_mode)
            expect(one != staged, "%s: more than one launch, or copies", operation_name[op]);
    }
    elements_free(&in), elements_free(&inout);
    report("MPI_Reduce_local of %s, %s memory", t->name, mem_name[kind]);
}

/* The MPI does these: host memory on one side, what is not aligned, own operations, wrong ones. */
static void left_alone(void)
{
    const struct number *t = number_of(MPI_INT);
    struct elements in, inout;
    char what[] = "one side in host memory";
    elements_make(&in, MEM_DEVICE, t, 100), elements_make(&inout, MEM_HOST, t, 100);
    elements_fill(&in, t), elements_fill(&inout, t);
    expect_equal(MPI_Reduce_local(in.at, inout.at, 100, MPI_INT, MPI_SUM), MPI_SUCCESS, what);
    t->reduce(SUM, in.image + ELEMENTS_GUARD * t->extent, inout.image + ELEMENTS_GUARD * t->extent, 100);
    elements_check(&inout, what);
    elements_fill(&inout, t);
    expect_equal(MPI_Reduce_local(inout.at, in.at, 100, MPI_INT, MPI_SUM), MPI_SUCCESS, what);
    t->reduce(SUM, inout.image + ELEMENTS_GUARD * t->extent, in.image + ELEMENTS_GUARD * t->extent, 100);
    elements_check(&in, what);
    expect_equal(MPI_Reduce_local(in.at, in.at, 0, MPI_INT, MPI_SUM), MPI_SUCCESS, "no elements");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int rc = MPI_Reduce_local(in.at, in.at + 4 * t->extent, 3, MPI_FLOAT, MPI_BAND);
    expect(rc != MPI_SUCCESS, "MPI_BAND of floats is no error");
    elements_check(&in, "after an error");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    elements_free(&in), elements_free(&inout);
    report("what the MPI does");
}

/* Elements at odd addresses, which kernels can't load. */
static void not_aligned(void)
{
    struct elements in, inout;
    const struct number *t = number_of(MPI_INT);
    elements_make(&in, MEM_DEVICE, t, 10), elements_make(&inout, MEM_DEVICE, t, 10);
    elements_fill(&in, t), elements_fill(&inout, t);
    expect_equal(MPI_Reduce_local(in.at + 1, inout.at + 1, 10, MPI_INT, MPI_BXOR), MPI_SUCCESS, "at odd addresses");
    size_t skip = ELEMENTS_GUARD * t->extent;
    for (size_t i = skip + 1; i < skip + 41; i++) inout.image[i] ^= in.image[i];
    elements_check(&inout, "at odd addresses");
    elements_free(&in), elements_free(&inout);
    report("elements at odd addresses");
}

/* C's products of complex numbers that are infinite or no numbers, as the MPI has them. */
static void infinite(void)
{
    static const float parts[] = {0, -0.0f, 1, -2, __builtin_inff(), -__builtin_inff(), __builtin_nanf("")};
    enum { PARTS = sizeof parts / sizeof *parts, ALL = PARTS * PARTS * PARTS * PARTS };
    float in[ALL][2], inout[ALL][2], by_mpi[ALL][2];
    char *d_in = mem_alloc(host_mode ? MEM_HOST : MEM_DEVICE, sizeof in),
         *d_inout = mem_alloc(host_mode ? MEM_HOST : MEM_DEVICE, sizeof in);
    for (int i = 0; i < ALL; i++) {
        in[i][0] = parts[i % PARTS], in[i][1] = parts[i / PARTS % PARTS];
        inout[i][0] = parts[i / PARTS / PARTS % PARTS], inout[i][1] = parts[i / PARTS / PARTS / PARTS];
    }
    memcpy(by_mpi, inout, sizeof inout);
    mem_write(host_mode ? MEM_HOST : MEM_DEVICE, d_in, in, sizeof in);
    mem_write(host_mode ? MEM_HOST : MEM_DEVICE, d_inout, inout, sizeof inout);
    MPI_Reduce_local(in, by_mpi, ALL, MPI_C_FLOAT_COMPLEX, MPI_PROD);
    MPI_Reduce_local(d_in, d_inout, ALL, MPI_C_FLOAT_COMPLEX, MPI_PROD);
    mem_read(host_mode ? MEM_HOST : MEM_DEVICE, inout, d_inout, sizeof inout);
    for (int i = 0; i < 2 * ALL; i++) {
        float is = (&inout[0][0])[i], want = (&by_mpi[0][0])[i];
        expect(is == want || (is != is && want != want), "part %d is %g, not %g", i, (double)is, (double)want);
    }
    mem_free(host_mode ? MEM_HOST : MEM_DEVICE, d_in), mem_free(host_mode ? MEM_HOST : MEM_DEVICE, d_inout);
    report("infinite products");
}

/* ---- collectives ---- */

/* Returns true if it went by kernels. */
static bool task_once(const struct task *k, struct elements *from, struct elements *to, const char *what)
{
    long before = task_exchanges();
    elements_fill(from, k->t), elements_fill(to, k->t);
    int rc = task_run(k, BLOCKING, from->at, to->at, MPI_COMM_WORLD, NULL);
    expect_equal(rc, MPI_SUCCESS, what);
    task_check(k, from, to, what);
    return task_exchanges() > before;
}

/* Until it goes by kernels; all ranks know it alike. */
static void task_repeat(const struct task *k)
{
    struct resources now;
    char what[120];
    double since = 0;
    static bool more = true;   /* else time is over */
    bool waits = !staged && !lacking, went;
    struct elements from, to;
    task_make(k, &from, &to);
    resources_now(&now);
    snprintf(what, sizeof what, "MPI_%s%s, %s of %s", call_name[k->call], k->in_place ? " in place" : "",
             operation_name[k->op], k->t->name);
    while (!(went = task_once(k, &from, &to, what)) && waits && more && now.simulated && !host_mode) {
        more = within(&since, SECONDS);
        MPI_Bcast(&more, 1, MPI_C_BOOL, 0, MPI_COMM_WORLD);
    }
    if (now.simulated && !host_mode) expect_equal(went, waits, what);
    elements_free(&from), elements_free(&to);
}

static void collective(enum call c, enum mem_kind from, enum mem_kind to, int bytes, size_t types, const char *what)
{
    for (size_t i = 0; i < types; i++) {
        struct task k = {.t = number_named(task_types[i].name), .call = c, .op = task_types[i].op,
                         .root = (int)i % num_ranks, .from = from, .to = to};
        task_counts(&k, bytes / (c == REDUCE_SCATTER_BLOCK || bytes > 1 << 20 ? num_ranks : 1) / (int)k.t->extent + 13);
        task_repeat(&k);
        k.in_place = true;
        if (task_mpi_can_place(&k)) task_repeat(&k);
    }
    report("MPI_%s, %s", call_name[c], what);
}

static void collectives(enum mem_kind from, enum mem_kind to, int bytes, size_t types, const char *what)
{
    for (enum call c = 0; c < CALLS; c++) collective(c, from, to, bytes, types, what);
}

/* Sums that depend on the order are the same on all ranks, and those of the ranks' order. */
static void same_bits(void)
{
    enum { N = 20011 };
    double *in = malloc(N * sizeof *in), *all = malloc(N * sizeof *in * (size_t)num_ranks),
           *sums = malloc(N * sizeof *in);
    enum mem_kind kind = host_mode ? MEM_HOST : MEM_DEVICE;
    double *from = mem_alloc(kind, N * sizeof *in), *to = mem_alloc(kind, N * sizeof *in);
    for (int i = 0; i < N; i++) in[i] = (double)(1 + i % 100) / (3 + my_rank) * (i % 2 ? 1e10 : 1e-10);
    mem_write(kind, from, in, N * sizeof *in);
    long before = task_exchanges();
    MPI_Allreduce(from, to, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    bool went = task_exchanges() > before;
    mem_read(kind, sums, to, N * sizeof *in);
    MPI_Allgather(sums, N, MPI_DOUBLE, all, N, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int r = 1; r < num_ranks; r++)
        expect(!memcmp(all, all + (size_t)r * N, N * sizeof *in), "ranks 0 and %d have other bits", r);
    MPI_Allgather(in, N, MPI_DOUBLE, all, N, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int i = 0; went && i < N; i++) {
        double sum = all[i];
        for (int r = 1; r < num_ranks; r++) sum += all[(size_t)r * N + (size_t)i];
        expect(sum == sums[i], "sum %d is %g, not %g", i, sums[i], sum);
    }
    mem_free(kind, from), mem_free(kind, to);
    free(in), free(all), free(sums);
    report("the same bits on all ranks");
}

/* Calls that stay with the MPI, on all ranks alike: short ones, own operations, one rank, two groups. */
static void maximum(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++)
        ((int *)inout)[i] = ((int *)in)[i] > ((int *)inout)[i] ? ((int *)in)[i] : ((int *)inout)[i];
}

static void not_by_kernels(void)
{
    enum { N = 20000 };
    enum mem_kind kind = host_mode ? MEM_HOST : MEM_DEVICE;
    int *ints = malloc(N * sizeof *ints), *from = mem_alloc(kind, N * sizeof *ints),
        *to = mem_alloc(kind, N * sizeof *ints);
    long before = task_exchanges();
    MPI_Op own;
    MPI_Op_create(maximum, 1, &own);
    for (int i = 0; i < N; i++) ints[i] = my_rank;
    mem_write(kind, from, ints, N * sizeof *ints);
    for (int i = 0; i < 3; i++) MPI_Allreduce(from, to, 100, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) MPI_Allreduce(from, to, N, MPI_INT, own, MPI_COMM_WORLD);
    mem_read(kind, ints, to, N * sizeof *ints);
    for (int i = 0; i < N; i++) expect_equal(ints[i], num_ranks - 1, "the maximum");
    MPI_Allreduce(from, to, N, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    mem_read(kind, ints, to, N * sizeof *ints);
    for (int i = 0; i < N; i++) expect_equal(ints[i], my_rank, "the sum of one rank");
    MPI_Comm apart, inter;
    MPI_Comm_split(MPI_COMM_WORLD, my_rank == 0, 0, &apart);
    MPI_Intercomm_create(apart, 0, MPI_COMM_WORLD, my_rank == 0, 9, &inter);
    MPI_Allreduce(from, to, N, MPI_INT, MPI_MAX, inter);
    mem_read(kind, ints, to, N * sizeof *ints);
    for (int i = 0; i < N; i++) expect_equal(ints[i], my_rank ? 0 : num_ranks - 1, "the other group's maximum");
    expect_equal(task_exchanges(), before, "calls by kernels");
    MPI_Comm_free(&inter), MPI_Comm_free(&apart), MPI_Op_free(&own);
    mem_free(kind, from), mem_free(kind, to), free(ints);
    report("short ones, an own operation, one rank, two groups");
}

/* A CUDA-aware Open MPI would reduce on the host, by pageable memory: short vectors of device memory are packed. */
static void short_ones(void)
{
    enum { N = 300 };
    struct resources before, after;
    int *from = mem_alloc(MEM_DEVICE, N * sizeof *from), *to = mem_alloc(MEM_DEVICE, N * sizeof *from), got[N];
    int own[N];
    for (int i = 0; i < N; i++) own[i] = (my_rank + 1) * (i + 3);
    mem_write(MEM_DEVICE, from, own, sizeof own);
    resources_now(&before);
    MPI_Allreduce(from, to, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    resources_now(&after);
    mem_read(MEM_DEVICE, got, to, sizeof got);
    for (int i = 0; i < N; i++) expect_equal(got[i], num_ranks * (num_ranks + 1) / 2 * (i + 3), "the sum");
    bool packed = after.copies + after.launches > before.copies + before.launches;
#ifndef MPICH_VERSION
    if (cuda_aware() && after.simulated) expect(packed, "a short vector passed to the MPI");
#endif
    (void)packed;
    mem_free(MEM_DEVICE, from), mem_free(MEM_DEVICE, to);
    report("short vectors");
}

static void among_ranks(void)
{
    size_t types = task_type_total;
    MPI_Barrier(MPI_COMM_WORLD);
    collectives(MEM_DEVICE, MEM_DEVICE, 70000, types, "device memory");
    if (lacking) return;   /* rank 1 lacks no kernel where all its memory is the host's */
    collectives(my_rank % 2 ? MEM_HOST : MEM_DEVICE, my_rank % 2 ? MEM_HOST : MEM_DEVICE, 70000, 3,
                "host memory on every second rank");
    collectives(MEM_HOST, MEM_DEVICE, 70000, 2, "from host to device memory");
    collectives(MEM_MANAGED, MEM_MANAGED, 70000, 2, "managed memory");
    for (enum call c = 0; c < CALLS; c++)   /* more than the rows' 32 MiB */
        if (c != REDUCE && c != SCAN) collective(c, MEM_DEVICE, MEM_DEVICE, 34 << 20, 1, "several rounds");
    same_bits(), not_by_kernels(), short_ones();
}

/* Makes a call of n elements; returns true if it went by kernels. */
static bool went(MPI_Datatype type, const void *from, void *to, int n)
{
    long before = task_exchanges();
    MPI_Allreduce(from, to, n, type, MPI_SUM, MPI_COMM_WORLD);
    return task_exchanges() > before;
}

/* Returns true once all ranks have loaded n modules since, and a kernel reduces the type. */
static bool loaded(const struct resources *since, int n, MPI_Datatype type, const void *from, void *to)
{
    struct resources now, after;
    resources_now(&now);
    if (!everywhere(now.modules >= since->modules + n)) return false;
    MPI_Reduce_local(from, to, 1, type, MPI_SUM);
    resources_now(&after);
    return everywhere(after.launches == now.launches + 1 && after.copies == now.copies);
}

/* Reduces vectors of so many elements until n modules are loaded. Returns the number of calls. */
static int load(int n, MPI_Datatype type, const void *from, void *to, int elements)
{
    struct resources before;
    double since = 0;
    int calls = 0;
    bool is = false;
    resources_now(&before);
    for (; !is && everywhere(within(&since, SECONDS)); is = loaded(&before, n, type, from, to), calls++)
        went(type, from, to, elements);
    expect(is, "%d modules are not loaded in %d s", n, SECONDS);
    return calls;
}

/* Short vectors have the kernel compiled: the first long one goes by it. Where long ones come first, they need not wait
 * for a vote once it is compiled. */
static void early(void)
{
    enum { N = 20000 };
    int *from = mem_alloc(MEM_DEVICE, N * sizeof *from), *to = mem_alloc(MEM_DEVICE, N * sizeof *from), more = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    load(cuda_aware() ? 1 : 2, MPI_INT, from, to, 1);   /* the interpreter too, where vectors may be packed */
    expect(went(MPI_INT, from, to, N), "the first long vector goes by the MPI");
    report("a kernel for short vectors");
    int n = load(1, MPI_UNSIGNED, from, to, N / 2);
    while (!went(MPI_UNSIGNED, from, to, N / 2) && more < 100) more++;
    expect(more <= n / 8 + 1, "%d calls, %d more by the MPI", n, more);
    mem_free(MEM_DEVICE, from), mem_free(MEM_DEVICE, to);
    report("a kernel while long vectors go by the MPI");
}

/* A kernel of one rank fails behind the agreement: its call and maybe others' fail, and none waits for another. */
static void one_fails(void)
{
    enum { N = 20000, TRIES = 300 };
    int *from = mem_alloc(MEM_DEVICE, N * sizeof *from), *to = mem_alloc(MEM_DEVICE, N * sizeof *from), failures = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < TRIES; i++) {
        int rc = MPI_Allreduce(from, to, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        failures += rc != MPI_SUCCESS;
    }
    expect(my_rank != 1 || failures, "no call failed at the rank whose kernels fail");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    report("a rank whose kernels fail");
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        staged |= !strcmp(argv[i], "staged"), lacking |= !strcmp(argv[i], "lacking");
        failing |= !strcmp(argv[i], "failing"), earlier |= !strcmp(argv[i], "early");
    }
    if (lacking && rank_given() == 1) setenv("STRIDEC_ENGINE", "copy", 1);
    if (failing && rank_given() == 1) setenv("SIMGPU_FAIL", "cuGraphLaunch:40+,cuLaunchKernel:40+", 1);
    check_start(&argc, &argv, -1);
    if (failing) return one_fails(), check_finish();
    if (earlier && !host_mode) early();
    if (earlier) return check_finish();
    if (num_ranks > 1) return among_ranks(), check_finish();
    for (int i = 0; i < number_total; i++) {
        int size = 0;
        if (numbers[i].type != MPI_DATATYPE_NULL) MPI_Type_size(numbers[i].type, &size);
        if (size != numbers[i].bytes) continue;
        all_operations(&numbers[i], MEM_DEVICE);
        if (i % 5 == 0) all_operations(&numbers[i], MEM_MANAGED);
    }
    left_alone(), not_aligned(), infinite();
    return check_finish();
}
