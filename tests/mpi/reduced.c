/* reduced.c: reductions by kernels: MPI_Reduce_local of all predefined operations on all types that MPI defines them for, in
 * one launch and without a copy, against results computed here. Every byte is compared, those in gaps too.
 *
 * run: -n 1
 * run: STRIDEC_ENGINE=copy -n 1 staged
 * run: SIMGPU_NVRTC_FAIL=1 STRIDEC_CACHE_DIR=@NEW -n 1 staged => warns
 */
#include "check.h"
#include "reference.h"
#include "resources.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 100
#define GUARD 3          /* elements on both sides */

static bool staged;      /* there are no kernels */

/* Elements in memory of a kind, behind and before guards, and an image of them in host memory. */
struct row {
    enum mem_kind kind;
    char *base, *image, *at;   /* at: the first element */
    size_t bytes;
};

static void row_make(struct row *r, enum mem_kind kind, const struct number *t, int count)
{
    r->kind = host_mode ? MEM_HOST : kind;
    r->bytes = (size_t)(count + 2 * GUARD) * t->extent;
    r->base = mem_alloc(r->kind, r->bytes), r->image = malloc(r->bytes);
    r->at = r->base + GUARD * t->extent;
}

static void row_fill(struct row *r, const struct number *t)
{
    memset(r->image, 0xa5, r->bytes);
    t->fill(r->image, r->bytes / t->extent);
    mem_write(r->kind, r->base, r->image, r->bytes);
}

static void row_check(const struct row *r, const char *what)
{
    char *is = malloc(r->bytes);
    size_t at = 0;
    mem_read(r->kind, is, r->base, r->bytes);
    while (at < r->bytes && is[at] == r->image[at]) at++;
    expect(at == r->bytes, "%s: byte %zu of %zu is %02x, not %02x", what, at, r->bytes, is[at] & 0xff,
           r->image[at] & 0xff);
    free(is);
}

static void row_free(struct row *r)
{
    mem_free(r->kind, r->base);
    free(r->image);
}

/* Returns true if it took one launch and no copy. */
static bool once(const struct number *t, enum operation op, struct row *in, struct row *inout, int count)
{
    struct resources before, after;
    row_fill(in, t), row_fill(inout, t);
    resources_now(&before);
    int rc = MPI_Reduce_local(in->at, inout->at, count, t->type, operation_mpi[op]);
    resources_now(&after);
    expect_equal(rc, MPI_SUCCESS, operation_name[op]);
    size_t skip = GUARD * t->extent;
    t->reduce(op, in->image + skip, inout->image + skip, (size_t)count);
    row_check(in, operation_name[op]), row_check(inout, operation_name[op]);
    return after.launches - before.launches == 1 && after.copies == before.copies;
}

/* Open MPI 4.1's vector code saturates sums of 8 and 16 bits. */
static bool mpi_wraps(const struct number *t, enum operation op)
{
    return op != SUM || t->extent > 2;
}

/* Until a kernel does it: the module is compiled in the background. */
static void warm(const struct number *t, struct row *in, struct row *inout)
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
    struct row in, inout;
    row_make(&in, kind, t, MOST), row_make(&inout, kind, t, MOST);
    resources_now(&now);
    warm(t, &in, &inout);
    for (enum operation op = 0; op < OPERATIONS; op++) {
        if (!(t->operations >> op & 1) || (staged && !mpi_wraps(t, op))) continue;
        bool one = true;
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) one &= once(t, op, &in, &inout, counts[i]);
        if (now.simulated && !host_mode) expect(one != staged, "%s: more than one launch, or copies", operation_name[op]);
    }
    row_free(&in), row_free(&inout);
    report("MPI_Reduce_local of %s, %s memory", t->name, mem_name[kind]);
}

/* The MPI does these: host memory on one side, what is not aligned, own operations, wrong ones. */
static void left_alone(void)
{
    const struct number *t = number_of(MPI_INT);
    struct row in, inout;
    char what[] = "one side in host memory";
    row_make(&in, MEM_DEVICE, t, 100), row_make(&inout, MEM_HOST, t, 100);
    row_fill(&in, t), row_fill(&inout, t);
    expect_equal(MPI_Reduce_local(in.at, inout.at, 100, MPI_INT, MPI_SUM), MPI_SUCCESS, what);
    t->reduce(SUM, in.image + GUARD * t->extent, inout.image + GUARD * t->extent, 100);
    row_check(&inout, what);
    row_fill(&inout, t);
    expect_equal(MPI_Reduce_local(inout.at, in.at, 100, MPI_INT, MPI_SUM), MPI_SUCCESS, what);
    t->reduce(SUM, inout.image + GUARD * t->extent, in.image + GUARD * t->extent, 100);
    row_check(&in, what);
    expect_equal(MPI_Reduce_local(in.at, in.at, 0, MPI_INT, MPI_SUM), MPI_SUCCESS, "no elements");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int rc = MPI_Reduce_local(in.at, in.at + 4 * t->extent, 3, MPI_FLOAT, MPI_BAND);
    expect(rc != MPI_SUCCESS, "MPI_BAND of floats is no error");
    row_check(&in, "after an error");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    row_free(&in), row_free(&inout);
    report("what the MPI does");
}

/* Elements at odd addresses, which kernels can't load. */
static void not_aligned(void)
{
    struct row in, inout;
    const struct number *t = number_of(MPI_INT);
    row_make(&in, MEM_DEVICE, t, 10), row_make(&inout, MEM_DEVICE, t, 10);
    row_fill(&in, t), row_fill(&inout, t);
    expect_equal(MPI_Reduce_local(in.at + 1, inout.at + 1, 10, MPI_INT, MPI_BXOR), MPI_SUCCESS, "at odd addresses");
    for (size_t i = 1; i < 41; i++) inout.image[GUARD * t->extent + i] ^= in.image[GUARD * t->extent + i];
    row_check(&inout, "at odd addresses");
    row_free(&in), row_free(&inout);
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

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) staged |= !strcmp(argv[i], "staged");
    check_start(&argc, &argv, -1);
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
