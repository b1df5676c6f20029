/* parts.c: datatypes whose parts lie in several memories, and absolute addresses with MPI_BOTTOM.
 *
 * Each case has some buffers in memory of any kind and a type over them, built twice: on the buffers themselves and on
 * their shadows, which all are in host memory, where the MPI alone packs (the oracle).
 *
 * run: -n 2
 * run: SIMGPU_DEVICES=1 -n 2
 * run: SIMGPU_DEVICES=4 STRIDEC_TRANSPORT=staged -n 2
 * run: SIMGPU_NVRTC_FAIL=1 STRIDEC_CACHE_DIR=@NEW STRIDEC_LOG=error -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: LD_PRELOAD=@ADDRESS SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "parts.h"
#include "../sim/simgpu.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int peer, devices = 1;
static bool packs_bottom;   /* the MPI itself: MPICH 4.0's MPI_Pack takes MPI_BOTTOM for a null pointer */
static uint64_t salt = 1;

static MPI_Datatype base_type(enum base b)
{
    return b == INTS ? MPI_INT : b == DOUBLES ? MPI_DOUBLE : MPI_BYTE;
}

static int base_size(enum base b)
{
    return b == INTS ? 4 : b == DOUBLES ? 8 : 1;
}

/* ---- types ---- */

static int piece_span(const struct piece *p)
{
    int size = base_size(p->base);
    return p->n ? (p->n - 1) * (p->step ? p->step : size) + size : 0;
}

static void make_piece(const struct piece *p, MPI_Datatype *type)
{
    if (p->step) MPI_Type_create_hvector(p->n, 1, p->step, base_type(p->base), type);
    else MPI_Type_contiguous(p->n, base_type(p->base), type);
}

static MPI_Datatype make_struct(const struct given *g, const MPI_Aint at[])
{
    MPI_Datatype parts[PIECES], type;
    int ones[PIECES];
    for (int i = 0; i < g->npieces; i++) make_piece(&g->piece[i], &parts[i]), ones[i] = 1;
    MPI_Type_create_struct(g->npieces, ones, at, parts, &type);
    for (int i = 0; i < g->npieces; i++) MPI_Type_free(&parts[i]);
    return type;
}

static MPI_Datatype make_hindexed(const struct given *g, const MPI_Aint at[])
{
    MPI_Datatype type;
    int n[PIECES];
    for (int i = 0; i < g->npieces; i++) n[i] = g->piece[i].n;
    MPI_Type_create_hindexed(g->npieces, n, at, base_type(g->piece[0].base), &type);
    return type;
}

/* An hvector whose step leads from one allocation to the other, and a struct of one that gives it its place. */
static MPI_Datatype make_hvector(const struct given *g, const MPI_Aint at[])
{
    MPI_Datatype vector, type;
    int one = 1;
    MPI_Type_create_hvector(2, g->piece[0].n, at[1] - at[0], base_type(g->piece[0].base), &vector);
    MPI_Type_create_hindexed(1, &one, at, vector, &type);
    MPI_Type_free(&vector);
    return type;
}

/* The type on memory at these origins, which lie `from` the address that is given with it. */
static MPI_Datatype make_type(const struct given *g, unsigned char *const origin[], const void *from)
{
    static MPI_Datatype (*const makers[])(const struct given *, const MPI_Aint[]) = {make_struct, make_hindexed,
                                                                                     make_hvector};   /* ORDER make */
    MPI_Aint at[PIECES];
    for (int i = 0; i < g->npieces; i++) {
        MPI_Aint zero = 0;
        MPI_Get_address(origin[g->piece[i].memory] + g->piece[i].at, &at[i]);
        if (from) MPI_Get_address(from, &zero);
        at[i] -= zero;
    }
    MPI_Datatype type = makers[g->make](g, at);
    if (g->extent) {
        MPI_Datatype old = type;
        MPI_Type_create_resized(old, 0, g->extent, &type);
        MPI_Type_free(&old);
    }
    if (g->blocks) {
        MPI_Datatype old = type;
        MPI_Type_vector(g->blocks, 2, 3, old, &type);
        MPI_Type_free(&old);
    }
    type_commit(&type);
    return type;
}

/* ---- one case at work ---- */

struct work {
    const struct given *given;
    struct buf buf[MEMORIES];
    int memories, bytes, count;
    MPI_Datatype type;
    const void *at;
    struct place {
        int memory, offset;   /* in the shadow */
    } *map;                   /* of each packed byte, as the MPI packs it */
};

static size_t memory_span(const struct given *g, int memory)
{
    int elements = g->blocks ? 3 * g->blocks : g->count, span = 0, reach = (elements - 1) * abs(g->extent);
    for (int i = 0; i < g->npieces; i++) {
        int end = g->piece[i].at + piece_span(&g->piece[i]) + (g->extent > 0 ? reach : 0);
        if (g->piece[i].memory == memory && end > span) span = end;
    }
    return (size_t)span;
}

static void use_device(int d)
{
    if (!host_mode) expect(cudaSetDevice(d % devices) == cudaSuccess, "cudaSetDevice(%d)", d % devices);
}

/* The MPI packs shadows whose bytes tell their number, one byte of it at a time. */
static void find_map(struct work *w, MPI_Datatype shadow_type, const void *from)
{
    unsigned char *packed = malloc((size_t)w->bytes);
    uint32_t *number = calloc((size_t)w->bytes, sizeof *number);
    for (int plane = 0; plane < 4; plane++) {
        uint32_t next = 0;
        int position = 0;
        for (int m = 0; m < w->memories; m++)
            for (size_t i = 0; i < w->buf[m].bytes; i++) w->buf[m].shadow[i] = (unsigned char)(next++ >> 8 * plane);
        MPI_Pack(from, w->count, shadow_type, packed, w->bytes, &position, MPI_COMM_SELF);
        for (int i = 0; i < w->bytes; i++) number[i] |= (uint32_t)packed[i] << 8 * plane;
    }
    w->map = malloc((size_t)w->bytes * sizeof *w->map);
    for (int i = 0; i < w->bytes; i++) {
        uint32_t m = 0, n = number[i];
        while (n >= w->buf[m].bytes) n -= (uint32_t)w->buf[m++].bytes;
        w->map[i] = (struct place){(int)m, (int)n};
    }
    free(packed);
    free(number);
}

static void fill(struct work *w, uint64_t with)
{
    for (int m = 0; m < w->memories; m++) buf_fill(&w->buf[m], with + (uint64_t)m);
}

static void open_work(struct work *w, const struct given *g)
{
    unsigned char *origin[MEMORIES], *shadow[MEMORIES];
    int size;
    *w = (struct work){.given = g, .count = g->count};
    for (int i = 0; i < g->npieces; i++)
        if (g->piece[i].memory >= w->memories) w->memories = g->piece[i].memory + 1;
    for (int m = 0; m < w->memories; m++) {
        use_device(g->memory[m].device);
        buf_bytes(&w->buf[m], g->memory[m].kind, memory_span(g, m), 0, 0);
        origin[m] = w->buf[m].origin;
        shadow[m] = w->buf[m].shadow + w->buf[m].lead;
    }
    use_device(0);
    w->at = g->relative ? origin[0] : MPI_BOTTOM;
    w->type = make_type(g, origin, w->at);
    MPI_Datatype shadow_type = make_type(g, shadow, shadow[0]);
    MPI_Type_size(w->type, &size);
    w->bytes = size * g->count;
    find_map(w, shadow_type, shadow[0]);
    MPI_Type_free(&shadow_type);
    fill(w, salt);
}

static void close_work(struct work *w)
{
    for (int m = 0; m < w->memories; m++) buf_free(&w->buf[m]);
    MPI_Type_free(&w->type);
    free(w->map);
    salt += 100;
}

/* The packed bytes of the buffers as their shadows are. */
static unsigned char *wanted(const struct work *w)
{
    unsigned char *p = malloc((size_t)w->bytes);
    for (int i = 0; i < w->bytes; i++) p[i] = w->buf[w->map[i].memory].shadow[w->map[i].offset];
    return p;
}

static void expect_packed(struct work *w, const unsigned char *packed, int n)
{
    for (int i = 0; i < n; i++) w->buf[w->map[i].memory].shadow[w->map[i].offset] = packed[i];
}

static void check_all(const struct work *w, const char *what)
{
    for (int m = 0; m < w->memories; m++) buf_check(&w->buf[m], what);
}

static void open_packed(struct buf *b, const struct work *w, enum mem_kind kind, int device)
{
    use_device(device);
    buf_bytes(b, kind, (size_t)w->bytes, 0, salt + 50);
    use_device(0);
}

/* ---- what is done with each ---- */

static const struct memory sides[] = {HOST, DEV0, DEV1, PINNED};
#define SIDES ((int)(sizeof sides / sizeof *sides))

static bool all_on_host(const struct work *w)
{
    for (int i = 0; i < w->given->npieces; i++) {
        enum mem_kind kind = w->buf[w->given->piece[i].memory].kind;
        if (w->given->piece[i].n && (kind == MEM_DEVICE || kind == MEM_MANAGED)) return host_mode;
    }
    return true;
}

static void pack_and_unpack(struct work *w, const struct memory *side)
{
    struct buf b;
    int position = 0;
    if (!packs_bottom && w->at == MPI_BOTTOM && all_on_host(w)) return;
    open_packed(&b, w, side->kind, side->device);
    unsigned char *want = wanted(w);
    MPI_Pack(w->at, w->count, w->type, b.origin, w->bytes, &position, MPI_COMM_WORLD);
    expect_equal(position, w->bytes, "the position after MPI_Pack");
    memcpy(b.shadow + b.lead, want, (size_t)w->bytes);
    buf_check(&b, "MPI_Pack's bytes");
    check_all(w, "the buffers after MPI_Pack");

    buf_fill(&b, salt + 60);
    expect_packed(w, b.shadow + b.lead, w->bytes);
    position = 0;
    MPI_Unpack(b.origin, w->bytes, &position, (void *)w->at, w->count, w->type, MPI_COMM_WORLD);
    expect_equal(position, w->bytes, "the position after MPI_Unpack");
    check_all(w, "MPI_Unpack's bytes");
    buf_check(&b, "the packed bytes after MPI_Unpack");
    free(want);
    buf_free(&b);
}

/* Both ranks fill alike but for their own number. What the peer's buffers pack to: */
static unsigned char *from_peer(struct work *w)
{
    fill(w, salt + 10 * (uint64_t)peer);
    unsigned char *p = wanted(w);
    fill(w, salt + 10 * (uint64_t)my_rank);
    return p;
}

static void send_to_bytes(struct work *w, enum mem_kind kind)
{
    struct buf b;
    MPI_Request r;
    unsigned char *theirs = from_peer(w);
    open_packed(&b, w, kind, 0);
    MPI_Irecv(b.origin, w->bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &r);
    MPI_Ssend(w->at, w->count, w->type, peer, 1, MPI_COMM_WORLD);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    memcpy(b.shadow + b.lead, theirs, (size_t)w->bytes);
    buf_check(&b, "sent parts, received bytes");
    check_all(w, "the buffers after MPI_Ssend");
    free(theirs);
    buf_free(&b);
}

/* `bytes` of a message into the whole type: the rest stays. */
static void receive_from_bytes(struct work *w, enum mem_kind kind, int bytes)
{
    struct buf b;
    MPI_Request r;
    MPI_Status s;
    int got;
    open_packed(&b, w, kind, 0);
    fill(w, salt + 30);
    buf_fill(&b, salt + 31);
    MPI_Isend(b.origin, bytes, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &r);
    MPI_Recv((void *)w->at, w->count, w->type, peer, 2, MPI_COMM_WORLD, &s);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Get_count(&s, MPI_BYTE, &got);
    expect_equal(got, bytes, "the status's bytes");
    expect_packed(w, b.shadow + b.lead, bytes);
    check_all(w, bytes < w->bytes ? "a short message" : "sent bytes, received parts");

    fill(w, salt + 32);
    MPI_Irecv((void *)w->at, w->count, w->type, peer, 3, MPI_COMM_WORLD, &r);
    MPI_Send(b.origin, bytes, MPI_BYTE, peer, 3, MPI_COMM_WORLD);
    MPI_Wait(&r, &s);
    expect_packed(w, b.shadow + b.lead, bytes);
    check_all(w, bytes < w->bytes ? "a short message to an Irecv" : "sent bytes, Irecv'd parts");

    fill(w, salt + 33);
    MPI_Recv_init((void *)w->at, w->count, w->type, peer, 9, MPI_COMM_WORLD, &r);
    for (int i = 0; i < 2; i++) {
        MPI_Start(&r);
        MPI_Send(b.origin, bytes, MPI_BYTE, peer, 9, MPI_COMM_WORLD);
        MPI_Wait(&r, &s);
    }
    MPI_Request_free(&r);
    expect_packed(w, b.shadow + b.lead, bytes);
    check_all(w, bytes < w->bytes ? "a short message to a persistent receive" : "sent bytes, parts received again and again");
    buf_free(&b);
}

/* Where a short message ends. MPICH takes it for truncated where that is within a basic element. */
static int cut(const struct work *w)
{
    const struct given *g = w->given;
    int at = (int)roll((uint32_t)w->bytes), element = w->bytes / w->count, end = at / element * element;
    for (int i = 0; all_on_host(w) && i < g->npieces; i++) {
        const struct piece *p = &g->piece[i];
        int size = base_size(p->base), whole = (at - end) / size;
        if (whole < p->n) return end + whole * size;
        end += p->n * size;
    }
    return at;
}

/* The peer's layout is `other`, of as many bytes. */
static void parts_to_parts(struct work *w, struct work *other)
{
    MPI_Request r[2];
    MPI_Message handle;
    unsigned char *theirs = from_peer(w);
    int bytes = w->bytes < other->bytes ? w->bytes : other->bytes;
    fill(other, salt + 70);
    MPI_Irecv((void *)other->at, other->count, other->type, peer, 4, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(w->at, w->count, w->type, peer, 4, MPI_COMM_WORLD, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    expect_packed(other, theirs, bytes);
    check_all(other, "Isend and Irecv of parts");

    fill(other, salt + 71);
    MPI_Sendrecv(w->at, w->count, w->type, peer, 5, (void *)other->at, other->count, other->type, peer, 5,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect_packed(other, theirs, bytes);
    check_all(other, "Sendrecv of parts");

    fill(other, salt + 72);
    MPI_Isend(w->at, w->count, w->type, peer, 6, MPI_COMM_WORLD, &r[0]);
    MPI_Mprobe(peer, 6, MPI_COMM_WORLD, &handle, MPI_STATUS_IGNORE);
    MPI_Mrecv((void *)other->at, other->count, other->type, &handle, MPI_STATUS_IGNORE);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    expect_packed(other, theirs, bytes);
    check_all(other, "Mrecv of parts");
    check_all(w, "the buffers after three sends");
    free(theirs);
}

static void replace(struct work *w)
{
    unsigned char *theirs = from_peer(w);
    MPI_Sendrecv_replace((void *)w->at, w->count, w->type, peer, 7, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect_packed(w, theirs, w->bytes);
    check_all(w, "Sendrecv_replace of parts");
    free(theirs);
}

static void to_self(struct work *w, struct work *other)
{
    unsigned char *theirs = from_peer(w), *own = wanted(w);
    fill(other, salt + 80);
    MPI_Sendrecv(w->at, w->count, w->type, 0, 8, (void *)other->at, other->count, other->type, 0, 8, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    expect_packed(other, own, w->bytes < other->bytes ? w->bytes : other->bytes);
    check_all(other, "parts sent to the own rank");
    free(theirs);
    free(own);
}

/* The same pieces in other memories, never all of them the host's. */
static struct given moved_on(const struct given *g)
{
    struct given other = *g;
    struct memory kinds[] = {DEV1, HOST, DEV0, MANAGED};
    int turn = (int)roll(4);
    for (int m = 0; m < MEMORIES; m++) other.memory[m] = kinds[(m + turn) % 4];
    return other;
}

/* MPICH 4.0 itself cuts messages short that it receives as bytes into many small structs. */
static bool cut_short(const struct given *g)
{
    return host_mode && !packs_bottom && (g->count + 2 * g->blocks) * g->npieces > 700;
}

static void all_of(const struct given *g)
{
    struct work w, other;
    if (cut_short(g)) return;
    struct given elsewhere = moved_on(g);
    open_work(&w, g);
    open_work(&other, &elsewhere);
    for (int i = 0; i < SIDES; i++) pack_and_unpack(&w, &sides[i]);
    for (int i = 0; i < 2; i++) {
        send_to_bytes(&w, sides[i].kind);
        receive_from_bytes(&w, sides[i].kind, w.bytes);
        receive_from_bytes(&w, sides[i].kind, cut(&w));
    }
    parts_to_parts(&w, &other);
    replace(&w);
    to_self(&w, &other);
    close_work(&w);
    close_work(&other);
}

/* ---- random ones ---- */

/* MPICH counts where empty pieces are to a type's true extent. Where all bytes are in host memory and the call goes down as
 * it is, @ADDRESS would take one on a device for the type's first byte. */
static void bring_empty_home(struct given *g)
{
    for (int i = 0; i < g->npieces; i++)
        if (g->piece[i].n && g->memory[g->piece[i].memory].kind != MEM_HOST
            && g->memory[g->piece[i].memory].kind != MEM_PINNED) return;
    for (int i = 0; i < g->npieces; i++)
        if (!g->piece[i].n) g->piece[i].memory = g->piece[0].memory;
}

/* Pieces in a random order of memories, one after another in each, so that none overlap. */
static void random_given(struct given *g)
{
    static const struct memory kinds[] = {HOST, DEV0, DEV1, PINNED, MANAGED};
    int used[MEMORIES] = {0}, most = 0;
    *g = (struct given){.npieces = 2 + (int)roll(PIECES - 1), .count = 1 + (int)roll(6)};
    g->make = roll(3) ? STRUCT : HINDEXED;
    for (int m = 0; m < MEMORIES; m++) g->memory[m] = kinds[roll(5)];
    for (int i = 0; i < g->npieces; i++) {
        struct piece *p = &g->piece[i];
        p->base = g->make == HINDEXED ? INTS : (enum base)roll(3);
        p->memory = (int)roll(MEMORIES);
        p->n = (int)roll(40);
        p->step = g->make == STRUCT && roll(2) ? base_size(p->base) + 8 * (int)roll(5) : 0;
        p->at = used[p->memory] + (roll(2) ? 8 * (int)roll(9) : 0);
        used[p->memory] = (p->at + piece_span(p) + 7) / 8 * 8;
        if (used[p->memory] > most) most = used[p->memory];
    }
    g->piece[0].n = 40;   /* not all empty */
    g->piece[0].at = most;
    g->extent = most + piece_span(&g->piece[0]) + 8 * (int)roll(4);
    g->extent = (g->extent + 7) / 8 * 8;
    bring_empty_home(g);
}

static void random_types(void)
{
    double since = 0;
    int n = 0;
    for (; n < 40; n++) {
        struct given g;
        int more = within(&since, 2);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!more) break;
        random_given(&g);
        all_of(&g);
    }
    report("%d random types over several memories", n);
}

/* ---- what it costs ---- */

/* Launches and copies that packing takes, where the simulated GPU tells. */
static void bounded(const struct given *g, uint64_t most)
{
    void (*counts)(struct simgpu_counts *);
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    struct simgpu_counts before, after;
    struct work w;
    int position = 0;
    if (lib) *(void **)&counts = dlsym(lib, "simgpu_counts");
    if (host_mode || !lib || !counts) return;
    open_work(&w, g);
    unsigned char *want = wanted(&w), *got = malloc((size_t)w.bytes);
    counts(&before);
    MPI_Pack(w.at, w.count, w.type, got, w.bytes, &position, MPI_COMM_WORLD);
    counts(&after);
    uint64_t taken = after.launches + after.copies - before.launches - before.copies;
    expect(!memcmp(got, want, (size_t)w.bytes), "wrong bytes");
    expect(taken >= 1 && taken <= most, "%llu launches and copies, not at most %llu", (unsigned long long)taken,
           (unsigned long long)most);
    free(want);
    free(got);
    close_work(&w);
    report("%s: at most %llu launches", g->name, (unsigned long long)most);
}

static void costs(void)
{
    static const struct given arrays = {"packing 5000 records of host and device",
                                        {HOST, DEV0}, 2, {{0, 0, 1, 0, INTS}, {1, 0, 1, 0, DOUBLES}}, STRUCT, 8, 5000,
                                        false, 0};
    static const struct given gaps = {"packing 1400 records with gaps of host and two devices",
                                      {HOST, DEV0, DEV1}, 3,
                                      {{0, 0, 1, 0, INTS}, {1, 0, 1, 0, DOUBLES}, {2, 0, 1, 0, DOUBLES}}, STRUCT, 8, 1,
                                      false, 700};
    bounded(&arrays, 1);
    bounded(&gaps, 8);   /* uploads included */
}

static void ask_mpi(void)
{
    MPI_Datatype type;
    MPI_Aint at;
    int data = 0, packed, position = 0, one = 1;
    MPI_Get_address(&data, &at);
    MPI_Type_create_hindexed(1, &one, &at, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    packs_bottom = MPI_Pack(MPI_BOTTOM, 1, type, &packed, sizeof packed, &position, MPI_COMM_SELF) == MPI_SUCCESS;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Type_free(&type);
    if (!packs_bottom) note("this MPI's MPI_Pack refuses MPI_BOTTOM: left out where all parts are on the host");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    peer = my_rank ^ 1;
    if (!host_mode) expect(cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0, "no CUDA device");
    note("%d devices", devices);
    ask_mpi();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        all_of(&table[i]);
        report("%s", table[i].name);
    }
    costs();
    random_types();
    return check_finish();
}
