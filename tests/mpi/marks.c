/* marks.c: long messages of short blocks, which their sender packs while the receiver reads: between two GPUs one kernel of
 * the receiver's goes in step with the sender's; on one GPU, and behind a sender that comes late, pieces do.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy STRIDEC_SPECIAL=0 -n 2 apart
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 launches
 * run: STRIDEC_TRANSPORT=zerocopy STRIDEC_SPECIAL=0 -n 2 apart launches
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_CLOCK=0 -n 2 apart
 * run: STRIDEC_TRANSPORT=zerocopy STRIDEC_SPECIAL=0 -n 2 apart broken
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_NVRTC_FAIL=1 STRIDEC_CACHE_DIR=@NEW -n 2 apart
 * run: STRIDEC_TRANSPORT=zerocopy STRIDEC_SPECIAL=0 -n 2 apart limited
 * run: STRIDEC_TRANSPORT=zerocopy STRIDEC_SPECIAL=0 -n 2 apart synchronous
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 pools
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 apart pools
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 apart pools launches
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_CLOCK=0 -n 2 apart pools
 *
 * "limited": the receiver keeps to some multiprocessors, and waits on none. "synchronous": by MPI_Ssend. "pools": of
 * any layout and length, in memory that no other process can open.
 */
#include "check.h"
#include "offers.h"
#include "resources.h"
#include "../../runtime/node/segment.h"
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 100
#define ROUNDS 2
#define BROKEN 12   /* messages */

static uint64_t salt = 20;
static enum mem_kind kind = MEM_DEVICE;   /* of all buffers */
static int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm) = MPI_Send;
static int64_t waits;   /* of the last message, for the driver */
static bool all_marked;   /* takes: what is sent has to be */

/* ---- layouts of 4-byte words, so that any may be received as any ---- */

static MPI_Datatype every_other(int blocks)
{
    MPI_Datatype t;
    MPI_Type_vector(blocks, 1, 2, MPI_INT, &t);
    return t;
}

/* Blocks of 32 bytes. */
static MPI_Datatype sectors(int blocks)
{
    MPI_Datatype t;
    MPI_Type_create_hvector(blocks / 8, 8, 96, MPI_INT, &t);
    return t;
}

/* Of 16. */
static MPI_Datatype halves(int blocks)
{
    MPI_Datatype t;
    MPI_Type_create_hvector(blocks / 4, 4, 80, MPI_INT, &t);
    return t;
}

/* Two elements, the second one far from where the first would go on. */
static MPI_Datatype pairs(int blocks)
{
    MPI_Datatype row, t;
    MPI_Type_create_hvector(blocks / 4, 2, 24, MPI_INT, &row);
    MPI_Type_create_resized(row, 0, blocks / 4 * 24 + 400, &t);
    MPI_Type_free(&row);
    return t;
}

static MPI_Datatype scattered(int blocks)
{
    static int at[1 << 20];
    MPI_Datatype t;
    for (int i = 0; i < blocks; i++) at[i] = 3 * i + (int)roll(3);
    MPI_Type_create_indexed_block(blocks, 1, at, MPI_INT, &t);
    return t;
}

static MPI_Datatype touching(int blocks)
{
    MPI_Datatype t;
    MPI_Type_contiguous(blocks, MPI_INT, &t);
    return t;
}

/* Shorts at odd places in steps of 6 bytes. */
static MPI_Datatype narrow(int blocks)
{
    MPI_Datatype t;
    MPI_Type_create_hvector(blocks * 2, 1, 6, MPI_SHORT, &t);
    return t;
}

static MPI_Datatype records(int blocks)
{
    MPI_Datatype record, t;
    const int lengths[] = {1, 1, 3};
    const MPI_Aint at[] = {0, 8, 12};
    MPI_Datatype of[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR};
    MPI_Type_create_struct(3, lengths, at, of, &record);
    MPI_Type_create_hvector(blocks * 4 / 15, 1, 16, record, &t);
    MPI_Type_free(&record);
    return t;
}

typedef MPI_Datatype maker(int blocks);
static const struct {
    const char *name;
    maker *sent, *received;
    int blocks, count;
} cases[] = {
    {"2.5 MiB of every other int", every_other, every_other, 5 << 17, 1},
    {"9 MiB of sectors", sectors, sectors, 9 << 18, 1},
    {"6.5 MiB of pairs", pairs, pairs, 13 << 17, 1},
    {"two elements of pairs", pairs, pairs, 1 << 19, 2},
    {"every other int, received scattered", every_other, scattered, 300000, 1},
    {"scattered ints, received as others", scattered, scattered, 300001, 1},
    {"every other int, received in one block", every_other, touching, 200000, 1},
    {"shorts", narrow, narrow, 150001, 1},
    {"records", records, records, 150000, 1},
};
#define FIRST 200   /* ints */
#define CASES (sizeof cases / sizeof *cases)

/* Regular layouts of any length go in step by the kernel that serves all of them, with a tail or without. */
static const struct {
    const char *name;
    maker *sent, *received;
    int blocks;
} pooled[] = {
    {"4 KB in one block", touching, touching, 1000},
    {"as every other int", touching, every_other, 1000},
    {"every other int, as one block", every_other, touching, 5001},
    {"1.2 MB in one block with a tail", touching, touching, 300001},
    {"sectors", sectors, sectors, 8 * 5001},
    {"sectors into every other int", sectors, every_other, 8 * 5001},
    {"pairs", pairs, pairs, 4 * 5001},
    {"shorts", narrow, narrow, 3001},
    {"9 MiB in one block", touching, touching, 9 << 18},
};
#define POOLED (sizeof pooled / sizeof *pooled)

static void make(struct layout *l, maker *m, int blocks, int count, const char *name)
{
    MPI_Datatype t = m(blocks);
    type_commit(&t);
    layout_of(l, t, count, name);
}

/* Sends from the buffer for the first time: later messages may be read in place. */
static void meet(int sender, const struct buf *b)
{
    int ints[FIRST];
    if (my_rank == sender) send(b->origin, FIRST, MPI_INT, 1 - my_rank, 4, MPI_COMM_WORLD);
    else MPI_Recv(ints, FIRST, MPI_INT, sender, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* One message; the own launches. */
static int64_t pass(int sender, const struct layout *sent, const struct layout *received, const char *what)
{
    struct resources before, after;
    struct buf b;
    const struct layout *own = my_rank == sender ? sent : received;
    salt++;
    buf_make(&b, kind, own, 0, my_rank == sender ? salt : 1);
    meet(sender, &b);
    MPI_Barrier(check_comm);
    resources_now(&before);
    if (my_rank == sender) send(b.origin, own->count, own->type, 1 - my_rank, 3, MPI_COMM_WORLD);
    else MPI_Recv(b.origin, own->count, own->type, sender, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    resources_now(&after);
    if (my_rank != sender) buf_expect_from(&b, received, sent, salt), buf_check(&b, what);
    buf_free(&b);
    waits = after.syncs - before.syncs;
    return after.launches - before.launches;
}

static void pass_all(size_t i)
{
    struct layout sent, received;
    make(&sent, cases[i].sent, cases[i].blocks, cases[i].count, cases[i].name);
    make(&received, cases[i].received, cases[i].blocks, cases[i].count, cases[i].name);
    for (int n = 0; n < 2 * ROUNDS; n++) pass(n % 2, &sent, &received, cases[i].name);
    layout_free(&sent), layout_free(&received);
    report("%s", cases[i].name);
}

/* Rank 0 has sent so many bytes in chunks that it marked, lately. */
static bool was_marked(int64_t bytes)
{
    bool marked = false;
    struct node_file *f = host_mode ? NULL : offers_file(0);
    for (int i = 0; f && i < SLOTS_STEP; i++) marked |= f->slot[i].bytes == bytes && f->slot[i].chunk;
    return marked;
}

/* So many launches of one rank's, and where that receives and has one it waits for it once; where all_marked the sender
 * marks what it packs. The kernels may still be compiled, the ranks not have met, and a receiver may come when all is
 * packed: once is enough. */
static void takes(int rank, int want, maker *sent, maker *received, int blocks, const char *what)
{
    struct layout from, to;
    double since = 0;
    int64_t took, most = rank == 1 && want == 1 ? 1 : INT64_MAX;
    bool marked = false;
    int again, any;
    make(&from, sent, blocks, 1, what);
    make(&to, received, blocks, 1, what);
    do {
        took = pass(0, &from, &to, what);
        again = my_rank == rank && (took != want || waits > most);
        if (my_rank == 0 && all_marked) again |= !(marked = was_marked(from.bytes));
        again = again && within(&since, SECONDS);
        MPI_Allreduce(&again, &any, 1, MPI_INT, MPI_MAX, check_comm);
    } while (any);
    if (my_rank == rank) expect_equal(took, want, "launches");
    if (my_rank == rank) expect(waits <= most, "%d waits for the driver, not %d", (int)waits, (int)most);
    if (my_rank == 0 && all_marked) expect(marked, "%lld bytes were not marked", (long long)from.bytes);
    layout_free(&from), layout_free(&to);
    report("%s", what);
}

static void pools(bool launches)
{
    for (size_t i = 0; i < POOLED; i++) {
        struct layout sent, received;
        for (int rank = 0; rank < 2 && launches; rank++)
            takes(rank, 1, pooled[i].sent, pooled[i].received, pooled[i].blocks, pooled[i].name);
        if (launches) continue;
        make(&sent, pooled[i].sent, pooled[i].blocks, 1, pooled[i].name);
        make(&received, pooled[i].received, pooled[i].blocks, 1, pooled[i].name);
        for (int n = 0; n < 2 * ROUNDS; n++) pass(n % 2, &sent, &received, pooled[i].name);
        layout_free(&sent), layout_free(&received);
        report("%s", pooled[i].name);
    }
}

/* The sender has no second stream, which it packs in turn with: what it does not pack never arrives as if it were right. */
static void broken_sender(void)
{
    struct layout l;
    int failures = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    make(&l, every_other, 5 << 17, 1, "a sender that fails");
    for (int n = 0; n < BROKEN; n++) {
        struct buf b;
        salt++;
        buf_make(&b, MEM_DEVICE, &l, 0, my_rank == 0 ? salt : 1);
        MPI_Barrier(check_comm);
        if (my_rank == 0) {
            failures += send(b.origin, 1, l.type, 1, 3, MPI_COMM_WORLD) != MPI_SUCCESS;
        } else if (MPI_Recv(b.origin, 1, l.type, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
            buf_expect_from(&b, &l, &l, salt), buf_check(&b, "what came");
        } else {
            failures++;
        }
        buf_free(&b);
    }
    expect(failures, "nothing failed");
    layout_free(&l);
    report("a sender that fails");
}

/* Two fields in allocations of their own, by absolute addresses, a piece of one and a piece of the other in turn: too
 * many to be read where they lie. The bytes, and whether a sender of such a message marks the chunks it packs, so that
 * the receiver goes in step. The first messages come before the ranks have met. */
static void fields(bool apart)
{
    enum { INTS = 20000, PIECES = 40, MESSAGES = 10 };
    int lengths[2 * PIECES];
    MPI_Datatype every, types[2 * PIECES], both;
    MPI_Aint at[2 * PIECES];
    void *field[2];
    static int is[2 * INTS];
    int marked = 0, any = 0;
    double since = 0;
    MPI_Type_vector(INTS / PIECES, 1, 2, MPI_INT, &every);
    for (int i = 0; i < 2; i++) field[i] = mem_alloc(MEM_DEVICE, sizeof is);
    for (int i = 0; i < 2 * PIECES; i++) {
        MPI_Get_address((int *)field[i % 2] + i / 2 * (2 * INTS / PIECES), &at[i]);
        types[i] = every, lengths[i] = 1;
    }
    MPI_Type_create_struct(2 * PIECES, lengths, at, types, &both);
    type_commit(&both);
    for (int n = 0; n < MESSAGES || (apart && !any); n++) {
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < 2 * INTS; k++) is[k] = my_rank ? -1 : (n * 2 + i) * 2 * INTS + k;
            mem_write(MEM_DEVICE, field[i], is, sizeof is);
        }
        MPI_Barrier(check_comm);
        if (my_rank == 0) send(MPI_BOTTOM, 1, both, 1, 5, MPI_COMM_WORLD);
        else MPI_Recv(MPI_BOTTOM, 1, both, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 2 && my_rank; i++) {
            mem_read(MEM_DEVICE, is, field[i], sizeof is);
            int wrong = 0;
            for (int k = 0; k < 2 * INTS; k++) wrong += is[k] != (k % 2 ? -1 : (n * 2 + i) * 2 * INTS + k);
            expect(!wrong, "%d ints of field %d are wrong in message %d", wrong, i, n);
        }
        marked |= my_rank == 0 && was_marked(2 * INTS * 4);
        int over = marked || (!my_rank && !within(&since, SECONDS));
        MPI_Allreduce(&over, &any, 1, MPI_INT, MPI_MAX, check_comm);
    }
    if (apart && !my_rank) expect(marked, "no message was marked");
    MPI_Type_free(&both), MPI_Type_free(&every);
    for (int i = 0; i < 2; i++) mem_free(MEM_DEVICE, field[i]);
    report("fields in two allocations");
}

int main(int argc, char **argv)
{
    bool apart = false, launches = false, broken = false, pool = false, limited = false;
    struct resources r;
    for (int i = 1; i < argc; i++) {
        apart |= !strcmp(argv[i], "apart"), launches |= !strcmp(argv[i], "launches");
        limited |= !strcmp(argv[i], "limited");
        if (!strcmp(argv[i], "synchronous")) send = MPI_Ssend;
        broken |= !strcmp(argv[i], "broken"), pool |= !strcmp(argv[i], "pools");
    }
    if (broken && rank_given() == 0) setenv("SIMGPU_FAIL", "cuStreamCreateWithPriority:2+,cuStreamCreate", 1);
    if (limited && rank_given() == 1) setenv("STRIDEC_SM_LIMIT", "8", 1);
    check_start(&argc, &argv, -1);
    if (apart && !host_mode) cudaSetDevice(my_rank);
    resources_now(&r);
    if (broken) {
        if (r.simulated) broken_sender();
        return check_finish();
    }
    if (limited && r.simulated) {
        takes(0, 1, every_other, touching, 5 << 18, "a sender marks what it packs ...");
        takes(0, 4, every_other, touching, 5 << 18, "... but goes by pieces for who can't go in step");
        return check_finish();
    }
    if (pool) {
        kind = MEM_POOL, all_marked = launches;
        pools(r.simulated && launches);
        return check_finish();
    }
    if (r.simulated && launches) {
        takes(1, apart ? 1 : 3, every_other, every_other, 5 << 17,
              apart ? "one launch goes in step with the sender" : "three pieces on one GPU");
        takes(0, apart, sectors, sectors, 9 << 18, apart ? "whole sectors are packed to go in step" : "or are read in place");
        takes(0, 0, sectors, sectors, 7 << 18, "fewer sectors are read in place");
        if (apart) {
            takes(0, 1, halves, halves, 10 << 18, "halves of sectors go in step to 16 MiB ...");
            takes(0, 6, halves, halves, 17 << 18, "... and no further");
            takes(0, 9, halves, halves, 32 << 18, "the first piece is a sixteenth");
            takes(0, 1, pairs, pairs, 15 << 18, "quarters of sectors go as far as halves ...");
            takes(0, 6, every_other, every_other, 15 << 18, "... and shorter blocks to 8 MiB");
            takes(0, 1, every_other, touching, 5 << 18, "a sender marks what it packs in one piece ...");
            takes(1, 1, every_other, touching, 5 << 18, "... and one piece goes in step with it");
        }
    }
    for (size_t i = 0; i < CASES && !launches; i++) pass_all(i);
    fields(r.simulated && apart && launches);
    return check_finish();
}
