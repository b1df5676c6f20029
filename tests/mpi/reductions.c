/* reductions.c: the reductions, in every form, on device buffers: predefined operations on ints, and an operation of the
 * application's, which is not commutative, on derived types.
 *
 * run: -n 1
 * run: -n 3
 * run: -n 4
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 * run: LD_PRELOAD=@ADDRESS SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "jobs.h"
#include <stdio.h>
#include <string.h>

#define ROUNDS 6
#define SCALE 1

static struct layout layouts[SHAPES + 1];   /* one element each; the last is MPI_INT */
static MPI_Op affine, predefined[3];
static const struct layout *reduced;        /* by the affine operation */

static unsigned int_at(const char *element, int i)
{
    unsigned v;
    memcpy(&v, element + reduced->low + reduced->map[4 * i], sizeof v);
    return v;
}

static void put_int(char *element, int i, unsigned v)
{
    memcpy(element + reduced->low + reduced->map[4 * i], &v, sizeof v);
}

/* Pairs of ints are maps x -> a x + b; one after the other. */
static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    MPI_Aint low, extent;
    MPI_Type_get_extent(*type, &low, &extent);
    for (int e = 0; e < *len; e++) {
        const char *x = (const char *)in + e * extent;
        char *y = (char *)inout + e * extent;
        for (int i = 0; i < SHAPE_INTS; i += 2) {
            unsigned a = int_at(x, i), b = int_at(x, i + 1), c = int_at(y, i), d = int_at(y, i + 1);
            put_int(y, i, a * c);
            put_int(y, i + 1, c * b + d);
        }
    }
}

static int count_at(int number, int rank)
{
    return (number + rank) % 3;
}

static void lay(struct job *j, const struct call *c, const struct round *r, int n, MPI_Datatype type)
{
    j->s.type = j->r.type = type;
    j->s.count = j->r.count = c->flags & SCATTERS ? 1 + r->number % 2 : r->number % 4;
    for (int i = 0; i < n; i++) j->r.wide_counts[i] = j->r.counts[i] = count_at(r->number, i);
}

/* The part of the receive buffer that the standard leaves open: in place, what lay behind the own part of what is
 * scattered. */
static size_t defined_bytes(const struct call *c, const struct round *r, const struct job *j)
{
    MPI_Aint low, extent;
    if (!r->in_place || !(c->flags & SCATTERS)) return SIZE_MAX;
    MPI_Type_get_extent(j->r.type, &low, &extent);
    return (size_t)((c->flags & BY_SENDER ? j->r.counts[r->rank] : j->r.count) * extent);
}

static void check_parts(struct pair *t, size_t defined, const char *what)
{
    if (defined == SIZE_MAX) pair_check(t, what);
    else pair_check_but(t, SCALE, defined, 8192, what);
}

static void place(const struct call *c, const struct round *r, struct job *j)
{
    if (r->in_place && (c->flags & IN_PLACE_ALL || j->root == r->rank)) j->s.buf = MPI_IN_PLACE;
}

/* MPICH steps from block to block of MPI_Reduce_scatter_block by a type's true extent where the operation does not commute:
 * with types whose extent is another it reads and writes elsewhere. Of the first shapes they are the same. */
static int mpi_shapes(const struct call *c)
{
#ifdef MPICH_VERSION
    if (c->flags & SCATTERS) return 3;
#endif
    (void)c;
    return SHAPES;
}

static void run_reduction(const struct call *c, const struct round *r, enum form form, int root)
{
    static uint64_t salt = 1;
    struct pair s, t;
    struct job host = {.form = form, .comm = r->comm, .root = root}, tested;
    char what[100];
    int n;
    bool own = r->number % 2;   /* the own operation, on a derived type */
    snprintf(what, sizeof what, "%s, round %d", c->name, r->number);
    MPI_Comm_size(r->comm, &n);
    reduced = &layouts[own ? r->number % mpi_shapes(c) : SHAPES];
    lay(&host, c, r, n, reduced->type);
    host.op = own ? affine : predefined[r->number / 2 % 3];
    pair_make(&s, round_memory(r, false), SCALE);
    pair_make(&t, round_memory(r, true), SCALE);
    tested = host;
    host.s.buf = pair_origin(&s.host, SCALE), host.r.buf = pair_origin(&t.host, SCALE);
    tested.s.buf = pair_origin(&s.tested, SCALE), tested.r.buf = pair_origin(&t.tested, SCALE);
    place(c, r, &host), place(c, r, &tested);
    int starts = form_persists(form) ? STARTS : 1;
    for (int k = 0; k < starts; k++, salt++) {
        pair_fill(&s, salt * 32 + (uint64_t)my_rank);
        pair_fill(&t, salt * 32 + 16 + (uint64_t)my_rank);
        int rc = job_run(c, &host, k == 0, k == starts - 1);
        expect_equal(rc, MPI_SUCCESS, "on host memory, the return code");
        rc = job_run(c, &tested, k == 0, k == starts - 1);
        expect_equal(rc, MPI_SUCCESS, what);
        pair_check(&s, what);
        check_parts(&t, defined_bytes(c, r, &host), what);
    }
    pair_free(&s), pair_free(&t);
}

static bool goes(const struct call *c, const struct round *r, enum form form)
{
    if (!form_exists(form) || !mpi_can(c, r, form)) return false;
    return !(c->flags & BLOCKING_ONLY) || form == BLOCKING || form == LARGE;
}

static void check_call(const struct call *c, struct round *r, const char *where)
{
    for (enum form form = 0; form < FORMS; form++) {
        if (!goes(c, r, form)) continue;
        for (r->number = 0; r->number < ROUNDS; r->number++) run_reduction(c, r, form, r->number % num_ranks);
        report("%s, %s%s", c->name, form_name[form], where);
    }
}

static void within_one_group(void)
{
    struct round r;
    round_all(&r, MPI_COMM_WORLD);
    for (int i = 0; i < reduce_call_count; i++) {
        r.in_place = false;
        check_call(&reduce_calls[i], &r, "");
        r.in_place = true;
        if (!(reduce_calls[i].flags & BLOCKING_ONLY)) check_call(&reduce_calls[i], &r, ", in place");
    }
}

/* MPI_Reduce and MPI_Allreduce between two groups: operations that commute, on ints. */
static void between_groups(void)
{
    MPI_Comm inter;
    struct round r;
    if (num_ranks < 2) return;
    bool first = two_groups(&inter);
    round_all(&r, inter);
    int root = !first ? 0 : r.rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    for (int i = 0; i < 2; i++) {
        for (enum form form = BLOCKING; form <= NONBLOCKING; form++) {
            for (r.number = 2; r.number < 8; r.number += 2) run_reduction(&reduce_calls[i], &r, form, root);
            report("%s, %s, between two groups", reduce_calls[i].name, form_name[form]);
        }
    }
    MPI_Comm_free(&inter);
}

/* The first rank's output has no meaning: it may be shorter, and what others write there meanwhile stays. */
static void first_of_exscan(void)
{
    enum { INTS = 1000, LENT = 10 };
    for (enum form form = BLOCKING; form <= NONBLOCKING; form++) {
        int ones[INTS], sums[INTS], lent[LENT], wrong = 0, first = my_rank == 0, n = first ? LENT : INTS;
        MPI_Request q;
        for (int i = 0; i < INTS; i++) ones[i] = 1, sums[i] = -1;
        for (int i = 0; i < LENT; i++) lent[i] = 7;
        int *in = mem_alloc(MEM_DEVICE, sizeof ones), *out = mem_alloc(MEM_DEVICE, (size_t)n * sizeof *out);
        mem_write(MEM_DEVICE, in, ones, sizeof ones), mem_write(MEM_DEVICE, out, sums, (size_t)n * sizeof *out);
        if (form == BLOCKING) MPI_Exscan(in, out, INTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        else MPI_Iexscan(in, out, INTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &q);
        if (form == NONBLOCKING && first) mem_write(MEM_DEVICE, out, lent, sizeof lent);
        if (form == NONBLOCKING) MPI_Wait(&q, MPI_STATUS_IGNORE);
        mem_read(MEM_DEVICE, sums, out, (size_t)n * sizeof *out);
        for (int i = 0; i < n; i++) wrong += sums[i] != (first ? form == BLOCKING ? -1 : 7 : my_rank);
        expect_equal(wrong, 0, "wrong ints");
        mem_free(MEM_DEVICE, in), mem_free(MEM_DEVICE, out);
        report("the first rank's output of MPI_Exscan, %s", form_name[form]);
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    for (int i = 0; i < SHAPES; i++) layout_of(&layouts[i], shape_make(i, SCALE), 1, shape_name[i]);
    layout_of(&layouts[SHAPES], MPI_INT, 1, "int");
    MPI_Op_create(compose, 0, &affine);
    predefined[0] = MPI_BXOR, predefined[1] = MPI_MAX, predefined[2] = MPI_BAND;
    within_one_group();
    between_groups();
    first_of_exscan();
    MPI_Op_free(&affine);
    for (int i = 0; i <= SHAPES; i++) layout_free(&layouts[i]);
    return check_finish();
}
