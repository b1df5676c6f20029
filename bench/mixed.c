/* mixed.c: contiguous and derived messages of the same device memory, by turns in one process.
 *
 * An MPI and stridec that both open memory of the other rank stand in each other's way where one keeps open what was
 * freed. So all rows share one pair of allocations, and each visit to a row follows one of the other kind. Rows named
 * "fresh" have a new pair at each visit, and count the first message alone. Fields are allocations of their own that
 * one type describes by absolute addresses. Compare a run with stridec and one of the MPI alone (bench/mixed.py).
 *
 * In the other mode each row's first message in the process is timed, in memory that was just allocated, and nothing
 * before: cold starts, with an empty or a full cache of kernels. */
#include "mixed.h"
#include "common.h"
#include "together.h"
#include <stdlib.h>
#include <string.h>

#define TAG 9
#define VISITS 12           /* to each row */
#define VISIT_US 4000.0     /* as long as that, but */
#define TRIPS_MOST 40
#define WARM_VISITS 3
#define FRESH_VISITS 24
#define FIELDS 4

/* The kinds alternate. */
static const struct row {
    const char *name;
    size_t bytes, block;    /* packed; of a contiguous run, which has as long a gap behind it. block 0: no gaps */
    bool fresh, again;      /* again: there is a row like it above */
    int fields;             /* allocations in which the runs lie, as many in each */
} rows[] = {
    { "contiguous 8 B", 8, 0, false, false, 1 },
    { "vector 1 KiB, 8 B", 1 << 10, 8, false, false, 1 },
    { "contiguous 256 B", 256, 0, false, false, 1 },
    { "vector 64 KiB, 256 B", 64 << 10, 256, false, false, 1 },
    { "contiguous 1 KiB", 1 << 10, 0, false, false, 1 },
    { "vector 1 MiB, 4 KiB", 1 << 20, 4 << 10, false, false, 1 },
    { "contiguous 8 KiB", 8 << 10, 0, false, false, 1 },
    { "vector 1 KiB, 8 B, again", 1 << 10, 8, false, true, 1 },
    { "contiguous 64 KiB", 64 << 10, 0, false, false, 1 },
    { "vector 4 KiB, 64 B", 4 << 10, 64, false, false, 1 },
    { "contiguous 1 MiB", 1 << 20, 0, false, false, 1 },
    { "vector 64 KiB, 256 B, again", 64 << 10, 256, false, true, 1 },
    { "contiguous 4 MiB", 4 << 20, 0, false, false, 1 },
    { "vector 4 KiB, 64 B, again", 4 << 10, 64, false, true, 1 },
    { "contiguous 64 MiB", 64 << 20, 0, false, false, 1 },
    { "4 fields 64 KiB, 256 B", 64 << 10, 256, false, false, FIELDS },
    { "vector 64 KiB, 256 B, fresh", 64 << 10, 256, true, false, 1 },
    { "contiguous 64 KiB, fresh", 64 << 10, 0, true, false, 1 },
    { "4 fields 64 KiB, 256 B, fresh", 64 << 10, 256, true, false, FIELDS },
    { "contiguous 4 MiB, fresh", 4 << 20, 0, true, false, 1 },
};
#define ROWS (sizeof rows / sizeof *rows)
#define SPAN_MOST ((size_t)64 << 20)
#define SPAN_FIELD ((size_t)1 << 20)   /* of the others than the first */

struct memory {
    char *from[FIELDS], *to[FIELDS];   /* rows without fields use the first ones */
};
struct message {
    const struct row *row;
    struct memory at;
    void *from, *to;
    MPI_Datatype type[2];   /* of from and to; the same without fields */
    int count, rank;
    bool nonblocking;
};

/* Returns the bytes that a field of the row spans. */
static size_t span_of(const struct row *r)
{
    return (r->block ? 2 * r->bytes : r->bytes) / (size_t)r->fields;
}

static MPI_Datatype fields_type(MPI_Datatype one, char *const at[FIELDS])
{
    MPI_Datatype type;
    MPI_Aint places[FIELDS];

    for (int i = 0; i < FIELDS; i++)
        MPI_Get_address(at[i], &places[i]);
    MPI_Type_create_hindexed_block(FIELDS, 1, places, one, &type);
    MPI_Type_commit(&type);
    return type;
}

static struct message message_new(const struct row *r, struct memory at, int rank, bool nonblocking)
{
    struct message m = { .row = r, .at = at, .from = at.from[0], .to = at.to[0], .type = { MPI_BYTE, MPI_BYTE },
                         .count = (int)r->bytes, .rank = rank, .nonblocking = nonblocking };
    MPI_Datatype vector;

    if (!r->block)
        return m;
    m.count = 1;
    MPI_Type_vector((int)(r->bytes / r->block) / r->fields, (int)r->block, (int)(2 * r->block), MPI_BYTE, &vector);
    if (r->fields > 1) {
        m.from = m.to = MPI_BOTTOM;
        m.type[0] = fields_type(vector, at.from);
        m.type[1] = fields_type(vector, at.to);
        MPI_Type_free(&vector);
    } else {
        MPI_Type_commit(&vector);
        m.type[0] = m.type[1] = vector;
    }
    return m;
}

static void message_free(struct message *m)
{
    if (m->row->fields > 1)
        MPI_Type_free(&m->type[1]);
    if (m->row->block)
        MPI_Type_free(&m->type[0]);
}

/* One round trip: rank 1 answers when it has received. */
static void trip(void *arg)
{
    struct message *m = arg;
    int other = 1 - m->rank;
    MPI_Request q[2];

    if (!m->nonblocking) {
        if (m->rank == 0)
            MPI_Send(m->from, m->count, m->type[0], other, TAG, MPI_COMM_WORLD);
        MPI_Recv(m->to, m->count, m->type[1], other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (m->rank == 1)
            MPI_Send(m->from, m->count, m->type[0], other, TAG, MPI_COMM_WORLD);
        return;
    }
    MPI_Irecv(m->to, m->count, m->type[1], other, TAG, MPI_COMM_WORLD, &q[0]);
    if (m->rank == 1)
        MPI_Waitall(1, q, MPI_STATUSES_IGNORE);
    MPI_Isend(m->from, m->count, m->type[0], other, TAG, MPI_COMM_WORLD, &q[1]);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
}

static bool right(struct message *m, double *us)
{
    const struct row *r = m->row;
    size_t span[FIELDS];
    struct together_fields d = { r->fields, m->at.from, m->at.to, span, r->block, 2 * r->block };

    for (int i = 0; i < r->fields; i++)
        span[i] = span_of(r);
    return together_right(&d, trip, m, r->name, us);
}

struct samples {
    double us[VISITS * TRIPS_MOST + FRESH_VISITS];
    int n, trips;
};

static void time_trips(struct message *m, struct samples *s, int trips)
{
    together_trips(trip, m, trips, s->us + s->n);
    s->n += trips;
}

/* For all rows, or for r alone. */
static struct memory memory_new(const struct row *r)
{
    struct memory m = { { NULL }, { NULL } };
    int fields = r ? r->fields : FIELDS;

    for (int i = 0; i < fields; i++) {
        size_t span = r ? span_of(r) : i ? SPAN_FIELD : SPAN_MOST;

        m.from[i] = device_new(span);
        m.to[i] = device_new(span);
    }
    return m;
}

static void memory_free(struct memory *m)
{
    for (int i = 0; i < FIELDS; i++) {
        CUDA(cudaFree(m->from[i]));
        CUDA(cudaFree(m->to[i]));
    }
}

/* A visit to a row with memory of its own; checks the bytes where s is NULL, and sets *first to its time. */
static bool visit_fresh(const struct row *r, int rank, bool nonblocking, struct samples *s, double *first)
{
    struct memory at = memory_new(r);
    struct message m = message_new(r, at, rank, nonblocking);
    bool ok = true;

    if (s)
        time_trips(&m, s, 1);
    else
        ok = right(&m, first);
    message_free(&m);
    MPI_Barrier(MPI_COMM_WORLD);
    memory_free(&at);
    return ok;
}

static void write_row(FILE *f, const struct row *r, const char *form, struct samples *s, bool ok)
{
    static bool any;
    double sum = 0, median;

    for (int i = 0; i < s->n; i++)
        sum += s->us[i];
    median = median_of(s->us, s->n);
    fprintf(f, "%s{\"case\": \"%s%s\", \"bytes\": %zu, \"block\": %zu, \"ok\": %s, \"us\": %.2f, \"mean_us\": %.2f}",
            any ? ",\n" : "", r->name, form, r->bytes, r->block, ok ? "true" : "false", median, sum / s->n);
    fprintf(stderr, "pingpong: mixed: %s%s: %.1f us, mean %.1f\n", r->name, form, median, sum / s->n);
    any = true;
}

static int run_form(FILE *f, bool timed, int rank, bool nonblocking, struct memory shared)
{
    struct samples *s = host_new(ROWS * sizeof *s);
    struct message m[ROWS];
    bool ok[ROWS];
    double us;
    int wrong = 0;

    memset(s, 0, ROWS * sizeof *s);
    for (size_t i = 0; i < ROWS; i++) {
        m[i] = message_new(&rows[i], shared, rank, nonblocking);
        ok[i] = rows[i].fresh ? visit_fresh(&rows[i], rank, nonblocking, NULL, &us) : right(&m[i], &us);
        if (timed && !rows[i].fresh)
            together_ready(2, m[i].type, shared.from[0]);
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
                visit_fresh(&rows[i], rank, nonblocking, &s[i], NULL);
    for (size_t i = 0; i < ROWS; i++) {
        if (timed && !rows[i].fresh)
            ok[i] = right(&m[i], &us) && ok[i];
        if (f)
            write_row(f, &rows[i], nonblocking ? ", Isend/Irecv/Waitall" : "", &s[i], ok[i]);
        message_free(&m[i]);
        wrong += !ok[i];
    }
    free(s);
    return wrong;
}

int mixed_run(FILE *f, int rank)
{
    struct memory shared = memory_new(NULL);
    int timed = f != NULL, wrong;

    MPI_Bcast(&timed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    wrong = run_form(f, timed, rank, false, shared);
    wrong += run_form(f, timed, rank, true, shared);
    memory_free(&shared);
    if (rank == 0)
        fprintf(stderr, "pingpong: mixed: %zu rows in two forms verified, %d wrong\n", ROWS, wrong);
    return wrong;
}

int mixed_first(FILE *f, int rank)
{
    int wrong = 0;

    for (size_t i = 0; i < ROWS; i++) {
        struct samples s = { .n = 1 };
        bool ok;

        if (rows[i].fresh || rows[i].again)
            continue;   /* the row without the word is alike here */
        ok = visit_fresh(&rows[i], rank, false, NULL, s.us);
        if (f)
            write_row(f, &rows[i], ", first", &s, ok);
        wrong += !ok;
    }
    if (rank == 0)
        fprintf(stderr, "pingpong: first messages verified, %d wrong\n", wrong);
    return wrong;
}
