/* commit_lists.c: what a type of an irregular list costs until its first use: MPI_Type_commit, and the first MPI_Pack
 * after it, in nanoseconds a block. All types are new, of layouts that no other has. The first of a row is the
 * process's first of its kind and length: with an empty cache no code for it has been compiled (`commit --lists` in a
 * fresh STRIDEC_CACHE_DIR: cold). The median of those after it is that of a warm process. */
#include "commit_lists.h"
#include "common.h"
#include <stdlib.h>

#define LATER 9   /* types after the first of a row */

static uint64_t seed = 88172645463325252;

static int below(int n)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (int)(seed % (uint64_t)n);
}

/* n blocks of 1 to 8 elements, 1 to 8 apart. */
struct blocks {
    int n;
    int *length, *at;
    MPI_Aint *byte_at;
};

static struct blocks blocks_new(int n)
{
    struct blocks b = { n, host_new((size_t)n * sizeof(int)), host_new((size_t)n * sizeof(int)),
                        host_new((size_t)n * sizeof(MPI_Aint)) };
    int end = 0;

    for (int i = 0; i < n; i++) {
        b.length[i] = 1 + below(8);
        b.at[i] = end;
        b.byte_at[i] = (MPI_Aint)end * (MPI_Aint)sizeof(double);
        end += b.length[i] + 1 + below(8);
    }
    return b;
}

static void blocks_free(struct blocks *b)
{
    free(b->length), free(b->at), free(b->byte_at);
}

static void make_indexed(struct blocks *b, MPI_Datatype *type)
{
    MPI_Type_indexed(b->n, b->length, b->at, MPI_DOUBLE, type);
}

static void make_hindexed(struct blocks *b, MPI_Datatype *type)
{
    MPI_Type_create_hindexed(b->n, b->length, b->byte_at, MPI_DOUBLE, type);
}

static void make_block_sorted(struct blocks *b, MPI_Datatype *type)
{
    MPI_Type_create_hindexed_block(b->n, 1, b->byte_at, MPI_DOUBLE, type);
}

static void make_block_shuffled(struct blocks *b, MPI_Datatype *type)
{
    for (int i = b->n - 1; i > 0; i--) {
        int j = below(i + 1), at = b->at[i];

        b->at[i] = b->at[j], b->at[j] = at;
    }
    MPI_Type_create_indexed_block(b->n, 1, b->at, MPI_DOUBLE, type);
}

static void make_struct(struct blocks *b, MPI_Datatype *type)
{
    MPI_Datatype *types = host_new((size_t)b->n * sizeof(MPI_Datatype));

    for (int i = 0; i < b->n; i++)
        types[i] = below(2) ? MPI_DOUBLE : MPI_INT;
    MPI_Type_create_struct(b->n, b->length, b->byte_at, types, type);
    free(types);
}

static const struct {
    const char *name;
    void (*make)(struct blocks *b, MPI_Datatype *type);
} kinds[] = {
    { "indexed", make_indexed },
    { "hindexed", make_hindexed },
    { "hindexed_block, sorted", make_block_sorted },
    { "indexed_block, shuffled", make_block_shuffled },
    { "struct of doubles and ints", make_struct },
};
#define KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

static void new_type(int kind, int n, MPI_Datatype *type)
{
    struct blocks b = blocks_new(n);

    kinds[kind].make(&b, type);
    blocks_free(&b);
}

static double own_commit(int kind, int n, commit_function *own)
{
    double us[LATER];

    for (int i = 0; i < LATER; i++) {
        MPI_Datatype type;

        new_type(kind, n, &type);
        us[i] = now_us();
        own(&type);
        us[i] = now_us() - us[i];
        MPI_Type_free(&type);
    }
    return median_of(us, LATER);
}

struct use {
    double commit, both;   /* microseconds: of the commit, and with the first pack */
};

static struct use first_use(int kind, int n, char *user, char *packed, int room)
{
    MPI_Datatype type;
    struct use u;
    int position = 0;

    new_type(kind, n, &type);
    double begin = now_us();
    MPI_Type_commit(&type);
    u.commit = now_us() - begin;
    MPI_Pack(user, 1, type, packed, room, &position, MPI_COMM_WORLD);
    u.both = now_us() - begin;
    MPI_Type_free(&type);
    return u;
}

static void row(FILE *f, int kind, int n, commit_function *own, bool more)
{
    size_t room = (size_t)n * 8 * sizeof(double);
    char *user = device_new(2 * room), *packed = device_new(room);
    double commit[LATER], both[LATER], mine = own_commit(kind, n, own);
    struct use first = first_use(kind, n, user, packed, (int)room);

    for (int i = 0; i < LATER; i++) {
        struct use u = first_use(kind, n, user, packed, (int)room);

        commit[i] = u.commit, both[i] = u.both;
    }
    double later = median_of(commit, LATER), used = median_of(both, LATER);
    fprintf(f, "{\"case\": \"%s\", \"blocks\": %d, \"own_ns\": %.2f, \"commit_ns\": %.2f, \"first_ns\": %.2f, "
            "\"later_ns\": %.2f}%s", kinds[kind].name, n, 1e3 * mine / n, 1e3 * later / n, 1e3 * first.both / n,
            1e3 * used / n, more ? ",\n" : "");
    fprintf(stderr, "commit: %-27s %7d blocks: the MPI's own %6.1f ns a block, with stridec %6.1f; with the first pack "
            "%8.1f, of later types %6.1f\n", kinds[kind].name, n, 1e3 * mine / n, 1e3 * later / n, 1e3 * first.both / n,
            1e3 * used / n);
    CUDA(cudaFree(packed));
    CUDA(cudaFree(user));
}

void lists_rows(FILE *f, commit_function *own, int most)
{
    static const int blocks[] = { 1024, 32768, 524288 };

    fprintf(f, "\"lists\": [\n");
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 3 && blocks[i] <= most; i++)
            row(f, kind, blocks[i], own, kind < KINDS - 1 || (i < 2 && blocks[i + 1] <= most));
    fprintf(f, "\n]");
}
