/* reduce_task.c: see reduce_task.h. */
#include "reduce_task.h"
#include "persistent.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void elements_make(struct elements *r, enum mem_kind kind, const struct number *t, int count)
{
    r->kind = host_mode ? MEM_HOST : kind;
    r->bytes = (size_t)(count + 2 * ELEMENTS_GUARD) * t->extent;
    r->base = mem_alloc(r->kind, r->bytes), r->image = malloc(r->bytes);
    r->at = r->base + ELEMENTS_GUARD * t->extent;
}

void elements_fill(struct elements *r, const struct number *t)
{
    memset(r->image, 0xa5, r->bytes);
    t->fill(r->image, r->bytes / t->extent);
    mem_write(r->kind, r->base, r->image, r->bytes);
}

void elements_check(const struct elements *r, const char *what)
{
    char *is = malloc(r->bytes);
    size_t at = 0;
    mem_read(r->kind, is, r->base, r->bytes);
    while (at < r->bytes && is[at] == r->image[at]) at++;
    expect(at == r->bytes, "%s: byte %zu of %zu is %02x, not %02x", what, at, r->bytes, is[at] & 0xff,
           r->image[at] & 0xff);
    free(is);
}

void elements_free(struct elements *r)
{
    mem_free(r->kind, r->base);
    free(r->image);
}

const char *const call_name[CALLS] = {"Reduce", "Allreduce", "Reduce_scatter_block", "Reduce_scatter", "Scan",
                                             "Exscan"};

static bool scatters(const struct task *k)
{
    return k->call == REDUCE_SCATTER_BLOCK || k->call == REDUCE_SCATTER;
}

void task_counts(struct task *k, int count)
{
    k->count = k->all = k->own = count, k->first = 0;
    if (!scatters(k)) return;
    for (int i = k->all = 0; i < num_ranks; i++) {
        bool lists = k->call == REDUCE_SCATTER;
        k->counts[i] = !lists ? count : i == 1 ? 0 : count + i * 37;
        if (i == my_rank) k->first = k->all, k->own = k->counts[i];
        k->all += k->counts[i];
    }
}

static bool placed(const struct task *k)
{
    return k->in_place && (k->call != REDUCE || my_rank == k->root);
}

bool task_gets(const struct task *k)
{
    return k->call == EXSCAN ? my_rank > 0 : k->call != REDUCE || my_rank == k->root;
}

void task_make(const struct task *k, struct elements *from, struct elements *to)
{
    elements_make(from, k->from, k->t, k->all), elements_make(to, k->to, k->t, k->in_place ? k->all : k->own);
}

#define CALL(N, I, ...) \
    form == BLOCKING ? MPI_##N(__VA_ARGS__) \
    : form == NONBLOCKING ? MPI_##I(__VA_ARGS__, q) : PERSISTENT_INIT(N, q, __VA_ARGS__)

int task_run(const struct task *k, enum form form, void *from, void *to, MPI_Comm comm, MPI_Request *q)
{
    MPI_Datatype type = k->t->type;
    MPI_Op op = operation_mpi[k->op];
    void *in = placed(k) ? MPI_IN_PLACE : from;
#ifndef MPICH_VERSION   /* it refuses what need not be there */
    if (k->call == EXSCAN && my_rank == 0 && in != MPI_IN_PLACE) to = NULL;
#endif
    switch (k->call) {
    case REDUCE: return CALL(Reduce, Ireduce, in, my_rank == k->root ? to : NULL, k->count, type, op, k->root, comm);
    case ALLREDUCE: return CALL(Allreduce, Iallreduce, in, to, k->count, type, op, comm);
    case REDUCE_SCATTER_BLOCK:
        return CALL(Reduce_scatter_block, Ireduce_scatter_block, in, to, k->count, type, op, comm);
    case REDUCE_SCATTER: return CALL(Reduce_scatter, Ireduce_scatter, in, to, k->counts, type, op, comm);
    case SCAN: return CALL(Scan, Iscan, in, to, k->count, type, op, comm);
    default: return CALL(Exscan, Iexscan, in, to, k->count, type, op, comm);
    }
}

/* Sets `to`'s image to what the call must leave, from all ranks' elements. */
static void task_expect(const struct task *k, const struct elements *in, struct elements *to)
{
    size_t extent = k->t->extent, bytes = (size_t)k->all * extent, skip = ELEMENTS_GUARD * extent;
    char *all = malloc(bytes * (size_t)num_ranks);
    MPI_Allgather(in->image + skip, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    int last = k->call == SCAN ? my_rank : k->call == EXSCAN ? my_rank - 1 : num_ranks - 1;
    for (int i = 1; i <= last; i++)
        k->t->reduce(k->op, all + (size_t)(i - 1) * bytes, all + (size_t)i * bytes, (size_t)k->all);
    for (int i = 0; task_gets(k) && i < k->own; i++) {   /* gaps stay as they were */
        char *at = all + (size_t)last * bytes + (size_t)(k->first + i) * extent;
        k->t->copy(to->image + skip + (size_t)i * extent, at);
    }
    free(all);
}

long task_exchanges(void)
{
    static long (*calls)(void);
    if (!calls) *(void **)&calls = dlsym(RTLD_DEFAULT, "stridec_exchanges");
    return calls ? calls() : 0;
}

/* In place a scattered result stands before elements that the MPI may change (MPI-4.1 section 6.10.1). */
void task_check(const struct task *k, struct elements *from, struct elements *to, const char *what)
{
    size_t after = (size_t)(ELEMENTS_GUARD + k->own) * k->t->extent,
           past = (size_t)(ELEMENTS_GUARD + k->all) * k->t->extent;
    task_expect(k, placed(k) ? to : from, to);
    elements_check(from, what);
    if (k->in_place && scatters(k)) mem_read(to->kind, to->image + after, to->base + after, past - after);
    elements_check(to, what);
}

const struct task_type task_types[] = {
    {"MPI_INT", SUM}, {"MPI_DOUBLE", SUM}, {"MPI_DOUBLE_INT", MINLOC}, {"MPI_C_FLOAT_COMPLEX", SUM},
    {"MPI_UINT8_T", BXOR}, {"MPI_C_BOOL", LXOR}, {"MPI_SHORT_INT", MAXLOC}, {"MPI_FLOAT", MIN}};
const size_t task_type_total = sizeof task_types / sizeof *task_types;

const struct number *number_named(const char *name)
{
    const struct number *t = numbers;
    while (strcmp(t->name, name)) t++;
    return t;
}

/* MPICH 4.0 alone crashes in MPI_Reduce in place of some vectors, if the root is not rank 0, and in a long
 * MPI_Reduce_scatter in place. */
bool task_mpi_can_place(const struct task *k)
{
#ifdef MPICH_VERSION
    if (k->call == REDUCE_SCATTER) return (size_t)k->all * k->t->extent < 1 << 20;
    return k->call != REDUCE || k->root == 0;
#else
    return k != NULL;
#endif
}

