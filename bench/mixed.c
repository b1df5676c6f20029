/* mixed.c: contiguous and derived messages of the same device memory, by turns in one process.
 *
 * An MPI and stridec that both open memory of the other rank stand in each other's way where one keeps open what was freed.
 * So all rows share one pair of allocations, and each visit to a row follows one of the other kind. Rows named
 * "fresh" have a new pair at each visit, and count the first message alone. Compare a run with stridec and one of the MPI
 * alone (bench/mixed.py). */
#include "mixed.h"
#include "common.h"
#include "together.h"
#include <stdlib.h>
#include <string.h>

#define TAG 9
#define GAP 0x5a
#define VISITS 12           /* to each row */
#define VISIT_US 4000.0     /* as long as that, but */
#define TRIPS_MOST 40
#define WARM_VISITS 3
#define FRESH_VISITS 24

/* ORDER ROW: the kinds alternate. */
static const struct row {
    const char *name;
    size_t bytes, block;    /* packed; of a contiguous run, which has as long a gap behind it. block 0: no gaps */
    bool fresh;
} rows[] = {
    { "contiguous 8 B", 8, 0, false },
    { "vector 1 KiB, 8 B", 1 << 10, 8, false },
    { "contiguous 256 B", 256, 0, false },
    { "vector 64 KiB, 256 B", 64 << 10, 256, false },
    { "contiguous 1 KiB", 1 << 10, 0, false },
    { "vector 1 MiB, 4 KiB", 1 << 20, 4 << 10, false },
    { "contiguous 8 KiB", 8 << 10, 0, false },
    { "vector 1 KiB, 8 B, again", 1 << 10, 8, false },
    { "contiguous 64 KiB", 64 << 10, 0, false },
    { "vector 4 KiB, 64 B", 4 << 10, 64, false },
    { "contiguous 1 MiB", 1 << 20, 0, false },
    { "vector 64 KiB, 256 B, again", 64 << 10, 256, false },
    { "contiguous 4 MiB", 4 << 20, 0, false },
    { "vector 4 KiB, 64 B, again", 4 << 10, 64, false },
    { "contiguous 64 MiB", 64 << 20, 0, false },
    { "vector 64 KiB, 256 B, fresh", 64 << 10, 256, true },
    { "contiguous 64 KiB, fresh", 64 << 10, 0, true },
    { "contiguous 4 MiB, fresh", 4 << 20, 0, true },
};
#define ROWS (sizeof rows / sizeof *rows)
#define SPAN_MOST ((size_t)64 << 20)

struct memory {
    char *from, *to;
};
struct message {
    const struct row *row;
    struct memory at;
    MPI_Datatype type;
    int count, rank;
    bool nonblocking;
};

static size_t span_of(const struct row *r)
{
    return r->block ? 2 * r->bytes : r->bytes;
}

static struct message message_new(const struct row *r, struct memory at, int rank, bool nonblocking)
{
    struct message m = { .row = r, .at = at, .type = MPI_BYTE, .count = (int)r->bytes, .rank = rank,
                         .nonblocking = nonblocking };

    if (r->block) {
        MPI_Type_vector((int)(r->bytes / r->block), (int)r->block, (int)(2 * r->block), MPI_BYTE, &m.type);
        MPI_Type_commit(&m.type);
        m.count = 1;
    }
    return m;
}

static void message_free(struct message *m)
{
    if (m->row->block)
        MPI_Type_free(&m->type);
}

/* One round trip: rank 1 answers when it has received. */
static void trip(void *arg)
{
    struct message *m = arg;
    int other = 1 - m->rank;
    MPI_Request q[2];

    if (!m->nonblocking) {
        if (m->rank == 0)
            MPI_Send(m->at.from, m->count, m->type, other, TAG, MPI_COMM_WORLD);
        MPI_Recv(m->at.to, m->count, m->type, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (m->rank == 1)
            MPI_Send(m->at.from, m->count, m->type, other, TAG, MPI_COMM_WORLD);
        return;
    }
    MPI_Irecv(m->at.to, m->count, m->type, other, TAG, MPI_COMM_WORLD, &q[0]);
    if (m->rank == 1)
        MPI_Waitall(1, q, MPI_STATUSES_IGNORE);
    MPI_Isend(m->at.from, m->count, m->type, other, TAG, MPI_COMM_WORLD, &q[1]);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
}

/* Whether a trip brings the bytes of the other rank, and leaves gaps alone. Collective. */
static bool right(struct message *m)
{
    static uint64_t seed;
    const struct row *r = m->row;
    size_t span = span_of(r);
    char *own = host_new(span), *want = host_new(span);
    bool ok;

    seed += 2;
    random_bytes(own, span, seed + (uint64_t)m->rank);
    random_bytes(want, span, seed + (uint64_t)(1 - m->rank));
    for (size_t at = r->block; r->block && at < span; at += 2 * r->block)
        memset(want + at, GAP, r->block);
    device_write(m->at.from, own, span);
    device_set(m->at.to, GAP, span);
    trip(m);
    ok = device_equals(m->at.to, want, span);
    if (!ok)
        fprintf(stderr, "pingpong: mixed: %s: rank %d has wrong bytes\n", r->name, m->rank);
    MPI_Allreduce(MPI_IN_PLACE, &ok, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    free(own);
    free(want);
    return ok;
}

struct samples {
    double us[VISITS * TRIPS_MOST + FRESH_VISITS];
    int n, trips;
};

static void time_trips(struct message *m, struct samples *s, int trips)
{
    for (int i = 0; i < trips; i++) {
        double begun;

        MPI_Barrier(MPI_COMM_WORLD);
        begun = now_us();
        trip(m);
        s->us[s->n++] = (now_us() - begun) / 2;
    }
}

static struct memory memory_new(size_t bytes)
{
    return (struct memory){ device_new(bytes), device_new(bytes) };
}

static void memory_free(struct memory *m)
{
    CUDA(cudaFree(m->from));
    CUDA(cudaFree(m->to));
}

/* A visit to a row with memory of its own. */
static bool visit_fresh(const struct row *r, int rank, bool nonblocking, struct samples *s)
{
    struct memory at = memory_new(span_of(r));
    struct message m = message_new(r, at, rank, nonblocking);
    bool ok = true;

    if (s)
        time_trips(&m, s, 1);
    else
        ok = right(&m);
    message_free(&m);
    MPI_Barrier(MPI_COMM_WORLD);
    memory_free(&at);
    return ok;
}

static void write_row(FILE *f, const struct row *r, bool nonblocking, struct samples *s, bool ok)
{
    static bool any;
    double sum = 0, median;

    for (int i = 0; i < s->n; i++)
        sum += s->us[i];
    median = median_of(s->us, s->n);
    fprintf(f, "%s{\"case\": \"%s%s\", \"bytes\": %zu, \"block\": %zu, \"ok\": %s, \"us\": %.2f, \"mean_us\": %.2f}",
            any ? ",\n" : "", r->name, nonblocking ? ", Isend/Irecv/Waitall" : "", r->bytes, r->block,
            ok ? "true" : "false", median, sum / s->n);
    fprintf(stderr, "pingpong: mixed: %s%s: %.1f us, mean %.1f\n", r->name, nonblocking ? ", Isend" : "", median,
            sum / s->n);
    any = true;
}

static int run_form(FILE *f, bool timed, int rank, bool nonblocking, struct memory shared)
{
    struct samples *s = host_new(ROWS * sizeof *s);
    struct message m[ROWS];
    bool ok[ROWS];
    int wrong = 0;

    memset(s, 0, ROWS * sizeof *s);
    for (size_t i = 0; i < ROWS; i++) {
        m[i] = message_new(&rows[i], shared, rank, nonblocking);
        ok[i] = rows[i].fresh ? visit_fresh(&rows[i], rank, nonblocking, NULL) : right(&m[i]);
        if (timed && !rows[i].fresh)
            together_ready(1, &m[i].type, shared.from);
    }
    for (int visit = 0; timed && visit < WARM_VISITS + VISITS; visit++)
        for (size_t i = 0; i < ROWS; i++) {
            if (rows[i].fresh)
                continue;
            if (!s[i].trips || visit == WARM_VISITS) {
                s[i].trips = together_calls(trip, &m[i], VISIT_US, 1);
                s[i].trips = s[i].trips < TRIPS_MOST ? s[i].trips : TRIPS_MOST;
                s[i].n = 0;
            }
            time_trips(&m[i], &s[i], s[i].trips);
            if (visit < WARM_VISITS)
                s[i].n = 0;
        }
    for (int visit = 0; timed && visit < FRESH_VISITS; visit++)
        for (size_t i = 0; i < ROWS; i++)
            if (rows[i].fresh)
                visit_fresh(&rows[i], rank, nonblocking, &s[i]);
    for (size_t i = 0; i < ROWS; i++) {
        if (timed && !rows[i].fresh)
            ok[i] = right(&m[i]) && ok[i];
        if (f)
            write_row(f, &rows[i], nonblocking, &s[i], ok[i]);
        message_free(&m[i]);
        wrong += !ok[i];
    }
    free(s);
    return wrong;
}

int mixed_run(FILE *f, int rank)
{
    struct memory shared = memory_new(SPAN_MOST);
    int timed = f != NULL, wrong;

    MPI_Bcast(&timed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    wrong = run_form(f, timed, rank, false, shared);
    wrong += run_form(f, timed, rank, true, shared);
    memory_free(&shared);
    if (rank == 0)
        fprintf(stderr, "pingpong: mixed: %zu rows in two forms verified, %d wrong\n", ROWS, wrong);
    return wrong;
}
