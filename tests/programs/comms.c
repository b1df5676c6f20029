/* comms.c: the communicators of a strand. */
#include "programs.h"
#include <string.h>

int comm_side(const struct comm *c, int world)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < c->n[side]; i++)
            if (c->world[side][i] == world) return side;
    return -1;
}

int comm_rank(const struct comm *c, int world)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < c->n[side]; i++)
            if (c->world[side][i] == world) return i;
    return -1;
}

static void all_of(struct comm *c)
{
    c->n[0] = ranks;
    for (int i = 0; i < ranks; i++) c->world[0][i] = i;
}

/* No two edges between the same ranks: the MPIs meet those in orders of their own (runtime/README.md). So a dimension of two is no ring. */
static void open_grid(struct comm *c)
{
    int dims[2] = {ranks, 1}, periods[2], n = 1;
    if (ranks == 4) dims[0] = dims[1] = 2, n = 2;
    for (int d = 0; d < n; d++) periods[d] = dims[d] > 2;
    MPI_Cart_create(MPI_COMM_WORLD, n, dims, periods, 0, &c->comm);
    for (int r = 0; r < ranks; r++) {
        int at[2] = {n == 1 ? r : r / dims[1], n == 1 ? 0 : r % dims[1]};
        for (int d = 0; d < n; d++)
            for (int step = -1; step <= 1; step += 2) {
                int to[2] = {at[0], at[1]}, rank;
                to[d] += step;
                if (periods[d]) to[d] = (to[d] + dims[d]) % dims[d];
                rank = to[d] < 0 || to[d] >= dims[d] ? MPI_PROC_NULL : n == 1 ? to[0] : to[0] * dims[1] + to[1];
                c->sources[r][c->nsources[r]++] = rank;
                c->targets[r][c->ntargets[r]++] = rank;
            }
    }
}

static void mix(struct chance *c, int n, int list[])
{
    for (int i = n - 1; i > 0; i--) {
        int j = draw(c, i + 1), k = list[i];
        list[i] = list[j], list[j] = k;
    }
}

static void open_graph(struct comm *c, struct chance chance)
{
    int weights[RANKS] = {1, 1, 1, 1, 1};
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++) {
            if (once_in(&chance, 3)) continue;
            c->targets[from][c->ntargets[from]++] = to;
            c->sources[to][c->nsources[to]++] = from;
        }
    for (int r = 0; r < ranks; r++) {
        mix(&chance, c->nsources[r], c->sources[r]);
        mix(&chance, c->ntargets[r], c->targets[r]);
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, c->nsources[my_rank], c->sources[my_rank], weights,
                                   c->ntargets[my_rank], c->targets[my_rank], weights, MPI_INFO_NULL, 0, &c->comm);
}

static void open_between(struct comm *c)
{
    MPI_Comm half;
    int first = (ranks + 1) / 2;
    bool low = my_rank < first;
    MPI_Comm_split(MPI_COMM_WORLD, low, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? first : 0, 0, &c->comm);
    MPI_Comm_free(&half);
    c->inter = true;
    for (int i = 0; i < ranks; i++) {
        int side = i >= first;
        c->world[side][c->n[side]++] = i;
    }
}

void comms_open(struct comm comms[COMMS], uint64_t seed)
{
    struct comm *c = comms;
    memset(comms, 0, COMMS * sizeof *comms);
    all_of(&c[COMM_WORLD]);
    MPI_Comm_dup(MPI_COMM_WORLD, &c[COMM_WORLD].comm);
    c[COMM_BACKWARDS].n[0] = ranks;
    for (int i = 0; i < ranks; i++) c[COMM_BACKWARDS].world[0][i] = ranks - 1 - i;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -my_rank, &c[COMM_BACKWARDS].comm);
    /* All but one, where that leaves two. */
    int without = ranks > 2 ? (int)(seed % (uint64_t)ranks) : -1;
    for (int i = 0; i < ranks; i++)
        if (i != without) c[COMM_PART].world[0][c[COMM_PART].n[0]++] = i;
    MPI_Comm_split(MPI_COMM_WORLD, my_rank == without ? MPI_UNDEFINED : 1, 0, &c[COMM_PART].comm);
    open_between(&c[COMM_BETWEEN]);
    all_of(&c[COMM_GRID]);
    open_grid(&c[COMM_GRID]);
    all_of(&c[COMM_GRAPH]);
    open_graph(&c[COMM_GRAPH], chance_of(seed, 3));
    all_of(&c[COMM_WILD]);
    MPI_Comm_dup(MPI_COMM_WORLD, &c[COMM_WILD].comm);
    for (int i = 0; i < COMMS; i++)
        if (c[i].comm != MPI_COMM_NULL) MPI_Comm_set_errhandler(c[i].comm, MPI_ERRORS_RETURN);
}

void comms_close(struct comm comms[COMMS])
{
    for (int i = 0; i < COMMS; i++)
        if (comms[i].comm != MPI_COMM_NULL) MPI_Comm_free(&comms[i].comm);
}
