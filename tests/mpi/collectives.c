/* collectives.c: the collectives that move data, in every form, with typed device buffers on all or some ranks, and in host
 * memory, where stridec packs them on all ranks or on some.
 *
 * usage: collectives [packed | some | due]: in host memory on all ranks or on the even ones; where it is worth it
 *
 * run: -n 1
 * run: -n 3
 * run: -n 4
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 * run: STRIDEC_HOST=on -n 2
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 3 --host packed
 * run: STRIDEC_HOST=on -n 3 --host some
 * run: MPI_TEST_SIM=0 -n 2 --host due
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "jobs.h"
#include <stdlib.h>
#include <string.h>

#define ROUNDS 6

static const char *what = "";

static bool is(const char *name)
{
    return !strcmp(what, name);
}

/* In host memory: whether this rank's operands have been packed by stridec since. Those in place are not. */
static void check_hosted(const struct call *c, const struct round *r, enum form form, long before)
{
    bool packs = hosted_operands() > before, wanted = is("packed") || (is("some") && my_rank % 2 == 0);
    if (!*what || getenv("MPI_TEST_HOST") || (r->in_place && wanted)) return;
    expect(packs == wanted, "%s, %s: %s", c->name, form_name[form], packs ? "packed by stridec" : "not packed by stridec");
}

static void check_call(const struct call *c, struct round *r, const char *where)
{
    for (enum form form = 0; form < FORMS; form++) {
        if (!form_exists(form) || !mpi_can(c, r, form)) continue;
        long before = hosted_operands();
        for (r->number = 0; r->number < ROUNDS; r->number++) {
            r->named = r->number == ROUNDS - 1;
            run_data(c, r, form);
        }
        check_hosted(c, r, form, before);
        report("%s, %s%s", c->name, form_name[form], where);
    }
}

static bool can_be_in_place(const struct call *c)
{
    return c->flags & (IN_PLACE_ALL | IN_PLACE_ROOT | IN_PLACE_OUT);
}

static void within_one_group(void)
{
    struct round r;
    round_all(&r, MPI_COMM_WORLD);
    for (int i = 0; i < data_call_count; i++) {
        r.in_place = false;
        check_call(&data_calls[i], &r, "");
        r.in_place = true;
        if (can_be_in_place(&data_calls[i])) check_call(&data_calls[i], &r, ", in place");
    }
}

/* Messages larger than what MPIs send at once. */
static void large_blocks(void)
{
    struct round r;
    round_all(&r, MPI_COMM_WORLD);
    r.scale = 40, r.named = false;
    for (int i = 0; i < data_call_count; i++) {
        for (r.number = 1; r.number < 4; r.number += 2) {
            run_data(&data_calls[i], &r, BLOCKING);
            run_data(&data_calls[i], &r, NONBLOCKING);
        }
        report("%s of large blocks", data_calls[i].name);
    }
}

static void between_groups(void)
{
    MPI_Comm inter;
    struct round r;
    if (num_ranks < 2) return;
    bool first = two_groups(&inter);
    round_all(&r, inter);
    r.first = first;
    for (int i = 0; i < data_call_count; i++) check_call(&data_calls[i], &r, ", between two groups");
    MPI_Comm_free(&inter);
}

/*
 * When it is worth it.
 */

/* Calls of MPI_Alltoall of so many columns of 2048 ints, in which stridec packed something. */
static int packed_calls(MPI_Datatype column, int count, int calls)
{
    enum { ROWS = 2048, WIDE = 32 };
    size_t n = (size_t)ROWS * WIDE, block = (size_t)ROWS * (size_t)count;
    int *from = malloc(n * sizeof *from), *to = calloc(n, sizeof *to), packed = 0;
    int wrong = 0;
    for (size_t i = 0; i < n; i++) from[i] = (int)i + 7 * my_rank;
    for (int k = 0; k < calls; k++) {
        long before = hosted_operands();
        memset(to, 0, n * sizeof *to);
        MPI_Alltoall(from, count, column, to, count, column, MPI_COMM_WORLD);
        packed += hosted_operands() > before;
        for (size_t i = 0; i < block * (size_t)num_ranks; i++) {
            size_t at = i % ROWS * WIDE + i / ROWS, c = i / ROWS, rank = c / (size_t)count;
            size_t sent = i % ROWS * WIDE + c % (size_t)count + (size_t)(my_rank * count);
            wrong += to[at] != (int)sent + 7 * (int)rank;
        }
    }
    expect_equal(wrong, 0, "the number of wrong values");
    free(from), free(to);
    return packed;
}

/* Expects short runs of many bytes to be packed from the second call on: the first does not read the type. Few bytes
 * are never packed. */
static void when_due(void)
{
    MPI_Datatype t, column, few;
    MPI_Type_vector(2048, 1, 32, MPI_INT, &t);
    MPI_Type_create_resized(t, 0, sizeof(int), &column);
    MPI_Type_free(&t), type_commit(&column);
    int packed = packed_calls(column, 4, 4);
    expect_equal(packed, getenv("MPI_TEST_HOST") ? 0 : 3, "the number of calls packed");
    MPI_Type_free(&column);
    MPI_Type_vector(2048 / 64, 1, 32, MPI_INT, &t);
    MPI_Type_create_resized(t, 0, sizeof(int), &few);
    MPI_Type_free(&t), type_commit(&few);
    long before = hosted_operands();
    int buf[1024 * 2] = {0}, out[1024 * 2];
    for (int i = 0; i < 5; i++) MPI_Alltoall(buf, 1, few, out, 1, few, MPI_COMM_WORLD);
    expect_equal(hosted_operands(), before, "operands after calls of 128 bytes");
    MPI_Type_free(&few);
    report("packed where it is worth it");
}

/* What is freed here, the next allocations of such sizes find. */
static void litter(void)
{
    void *p[8];
    for (size_t i = 0; i < 8; i++) p[i] = memset(malloc(8 * i + 8), 0x62, 8 * i + 8);
    for (size_t i = 0; i < 8; i++) free(p[i]);
}

/* A grid of three dimensions has six neighbours, more than there are ranks; of a rank's types Open MPI looks at as many. */
static void on_a_grid(void)
{
    enum { MOST = 8, INTS = 100, BLOCK = 2 * INTS * (int)sizeof(int) };
    MPI_Datatype type, types[MOST] = {0};
    int counts[MOST], at[MOST], dims[3] = {num_ranks, 1, 1}, periods[3] = {0, 0, 0};
    struct buf out, in;
    MPI_Comm grid;
    MPI_Request r;
    if (num_ranks > MOST) return;
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid);
    MPI_Type_vector(INTS, 1, 2, MPI_INT, &type);
    type_commit(&type);
    for (int i = 0; i < num_ranks; i++) types[i] = type, counts[i] = 1, at[i] = i * BLOCK;
    for (int round = 0; round < 10; round++) {
        buf_bytes(&out, MEM_DEVICE, (size_t)(num_ranks * BLOCK), 0, 1);
        buf_bytes(&in, MEM_DEVICE, (size_t)(num_ranks * BLOCK), 0, 1);
        litter();
        MPI_Ialltoallw(out.origin, counts, at, types, in.origin, counts, at, types, grid, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        for (int i = 0; i < num_ranks; i++)
            for (int k = 0; k < INTS; k++)
                memcpy(in.shadow + in.lead + at[i] + 8 * k, out.shadow + out.lead + at[my_rank] + 8 * k, sizeof(int));
        buf_check(&in, "MPI_Ialltoallw on a grid");
        buf_free(&out), buf_free(&in);
    }
    MPI_Type_free(&type);
    MPI_Comm_free(&grid);
    report("a communicator with more neighbours than ranks");
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"packed", "some", "due"};
    for (size_t i = 0; i < 3; i++)
        if (!strcmp(argv[argc - 1], names[i])) what = names[i];
    if (is("some") && rank_given() > 0 && rank_given() % 2) setenv("STRIDEC_HOST", "off", 1);   /* before stridec looks */
    check_start(&argc, &argv, -1);
    if (is("due")) {
        when_due();
        return check_finish();
    }
    within_one_group();
    large_blocks();
    between_groups();
    on_a_grid();
    return check_finish();
}
