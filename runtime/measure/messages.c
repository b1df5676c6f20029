/* messages.c: see messages.h. A rank sends each message to the next one and receives one from the rank before it, both
 * nonblocking. It asks the protocols which path its message will take, right before it is sent. */
#include "messages.h"
#include "api/api.h"
#include "base/activity.h"
#include "base/env.h"
#include "device/device.h"
#include "node/peer_access.h"
#include "pack/transport.h"
#include "protocol/pipeline.h"
#include "ranks.h"
#include "timing.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 8 /* of a message, until it takes the wanted path: ranks first learn what they can read */
#define WHY_MAX 256

/* ---- layouts ---- */

/* Layouts of equally many blocks of the same length, so that a message of one may be received as another. */
enum placing { CONTIGUOUS, STRIDED, IRREGULAR, FORMS };
static const char *const form_names[FORMS] = {"contiguous", "strided", "irregular"};
#define STEP_MOST 3 /* a block's room, in blocks */

struct shape {
    enum placing form;
    int blocks, length; /* length: bytes of a block */
};

static size_t offset_of(const struct shape *s, int block)
{
    size_t length = (size_t)s->length, i = (size_t)block;
    switch (s->form) {
    case STRIDED: return 2 * i * length;
    case IRREGULAR: return STEP_MOST * i * length + (i * i % 7) * length / 4;
    default: return i * length;
    }
}

static size_t span_of(const struct shape *s)
{
    return (size_t)STEP_MOST * (size_t)s->length * (size_t)s->blocks + 2 * (size_t)s->length;
}

/* Returns the committed type; MPI_DATATYPE_NULL without memory. */
static MPI_Datatype type_of(const struct shape *s)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Aint *at = s->form == IRREGULAR ? malloc((size_t)s->blocks * sizeof *at) : NULL;
    if (s->form == CONTIGUOUS) PMPI_Type_contiguous(s->blocks * s->length, MPI_BYTE, &type);
    if (s->form == STRIDED) PMPI_Type_vector(s->blocks, s->length, 2 * s->length, MPI_BYTE, &type);
    for (int i = 0; at && i < s->blocks; i++) at[i] = (MPI_Aint)offset_of(s, i);
    if (at) PMPI_Type_create_hindexed_block(s->blocks, s->length, at, MPI_BYTE, &type);
    free(at);
    if (type != MPI_DATATYPE_NULL) MPI_Type_commit(&type);
    return type;
}

/* ---- cases ---- */

static const struct size {
    int blocks, length;
} sizes[] = {{24, 8}, {64, 36}, {700, 48}, {3000, 64}, {96, 4096}};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

static const struct {
    enum placing sent, received;
} forms[] = {{CONTIGUOUS, CONTIGUOUS}, {STRIDED, STRIDED}, {IRREGULAR, STRIDED}, {STRIDED, CONTIGUOUS}};
#define PAIRS ((int)(sizeof forms / sizeof *forms))

enum place { HOST, DEVICE };
static const char *const memories[] = {"host", "device"};

/* ORDER ROWS: paths, and the value of STRIDEC_TRANSPORT by which messages take them. */
static const struct row {
    enum place memory;
    enum stridec_path path;
    enum env_transport transport;
    bool zerocopy; /* ranks may read each other's device memory meanwhile */
    const char *without;
} rows[] = {
    {HOST, STRIDEC_PATH_MPI, ENV_AUTO, true,
     "it is the MPI's own way: STRIDEC_DISABLE=1 shows whether stridec is to blame"},
    {HOST, STRIDEC_PATH_PACKED, ENV_STAGED, false, "STRIDEC_HOST=off"},
    {HOST, STRIDEC_PATH_SHARED, ENV_AUTO, true, "STRIDEC_HOST=off"},
    {HOST, STRIDEC_PATH_ZEROCOPY, ENV_ZEROCOPY, true, "leave STRIDEC_TRANSPORT=zerocopy, or STRIDEC_HOST=off"},
    {DEVICE, STRIDEC_PATH_MPI, ENV_DEVICE, false, "STRIDEC_DISABLE=1 shows whether the MPI is to blame"},
    {DEVICE, STRIDEC_PATH_ZEROCOPY, ENV_ZEROCOPY, true, "STRIDEC_TRANSPORT=staged"},
    {DEVICE, STRIDEC_PATH_DEVICE, ENV_DEVICE, false, "STRIDEC_TRANSPORT=staged"},
    {DEVICE, STRIDEC_PATH_ONESHOT, ENV_ONESHOT, false, "STRIDEC_TRANSPORT=staged"},
    {DEVICE, STRIDEC_PATH_STAGED, ENV_STAGED, false, "STRIDEC_TRANSPORT=oneshot"},
    {DEVICE, STRIDEC_PATH_PIPELINED, ENV_PIPELINED, false, "STRIDEC_PIPELINE=0"},
};
#define ROWS ((int)(sizeof rows / sizeof *rows))

struct tally {
    long sent, wrong, bytes;
};

struct job {
    int rank, ranks, to, from;
    struct device *device; /* NULL: no GPU here */
    struct tally tally[ROWS];
    char wrong[ROWS][WHY_MAX], absent[ROWS][WHY_MAX]; /* the first wrong message; why none was sent */
};

static int find_row(enum place memory, enum stridec_path path)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].memory == memory && rows[i].path == path) return i;
    return -1;
}

/* ---- buffers ---- */

struct side {
    struct shape shape;
    MPI_Datatype type;
    unsigned char *host, *user; /* bytes to send or to compare; where the message lies, `host` itself in host memory */
};

/* Returns a byte of the message `seed`, so that shifted and exchanged bytes show. */
static unsigned char byte_of(uint64_t seed, size_t at)
{
    uint64_t x = (seed + at) * 0x9e3779b97f4a7c15u;
    return (unsigned char)(x >> 56 ^ x >> 32);
}

static void *device_bytes(struct device *d, size_t bytes)
{
    CUdeviceptr p = 0;
    if (device_enter(d)) return NULL;
    bool got = driver_get()->cuMemAlloc(&p, bytes) == CUDA_SUCCESS;
    device_leave(d);
    return got ? (void *)(uintptr_t)p : NULL;
}

static void free_bytes(struct device *d, void *p)
{
    if (!p || device_enter(d)) return;
    driver_get()->cuMemFree((CUdeviceptr)(uintptr_t)p);
    device_leave(d);
}

/* Copies between host and device memory. Returns false on failure. */
static bool copy(struct device *d, void *device, void *host, size_t bytes, bool up)
{
    const struct driver *cu = driver_get();
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)device;
    if (device_enter(d)) return false;
    CUresult r = up ? cu->cuMemcpyHtoDAsync(at, host, bytes, NULL) : cu->cuMemcpyDtoHAsync(host, at, bytes, NULL);
    bool done = r == CUDA_SUCCESS && cu->cuStreamSynchronize(NULL) == CUDA_SUCCESS;
    device_leave(d);
    return done;
}

static bool side_open(struct side *s, const struct job *j, enum place memory)
{
    size_t bytes = span_of(&s->shape);
    s->host = malloc(bytes);
    s->user = memory == DEVICE ? device_bytes(j->device, bytes) : s->host;
    s->type = s->host && s->user ? type_of(&s->shape) : MPI_DATATYPE_NULL;
    return s->type != MPI_DATATYPE_NULL;
}

static void side_close(struct side *s, const struct job *j, enum place memory)
{
    if (s->type != MPI_DATATYPE_NULL) MPI_Type_free(&s->type);
    if (memory == DEVICE) free_bytes(j->device, s->user);
    free(s->host);
}

static bool side_fill(struct side *s, const struct job *j, uint64_t seed)
{
    size_t bytes = span_of(&s->shape);
    for (size_t i = 0; i < bytes; i++) s->host[i] = byte_of(seed, i);
    return s->user == s->host || copy(j->device, s->user, s->host, bytes, true);
}

/* ---- one message ---- */

static uint64_t seed_of(int rank, int number)
{
    return (uint64_t)(rank + 1) << 40 | (uint64_t)number << 20;
}

/* Returns what should be at a byte of the received buffer: of the message, or what was there before. */
static void expect(const struct side *in, const struct shape *sent, uint64_t seed, uint64_t before, unsigned char *to)
{
    size_t bytes = span_of(&in->shape), length = (size_t)in->shape.length;
    for (size_t i = 0; i < bytes; i++) to[i] = byte_of(before, i);
    for (int b = 0; b < in->shape.blocks; b++)
        for (size_t k = 0; k < length; k++) to[offset_of(&in->shape, b) + k] = byte_of(seed, offset_of(sent, b) + k);
}

/* Compares all of the received buffer, its gaps too. Returns the first wrong byte, -1 if there is none, -2 without
 * memory. */
static long compare(struct side *in, const struct job *j, const struct shape *sent, uint64_t seed, uint64_t before)
{
    size_t bytes = span_of(&in->shape);
    unsigned char *wanted = malloc(bytes);
    long wrong = -2;
    if (wanted && (in->user == in->host || copy(j->device, in->user, in->host, bytes, false))) {
        expect(in, sent, seed, before, wanted);
        wrong = -1;
        for (size_t i = 0; wrong == -1 && i < bytes; i++)
            if (in->host[i] != wanted[i]) wrong = (long)i;
    }
    free(wanted);
    return wrong;
}

/* Notes a message that came by a path. */
static void note(struct job *j, int row, const struct side *in, const struct shape *sent, long wrong)
{
    struct tally *t = &j->tally[row];
    t->sent++, t->bytes += (long)sent->blocks * sent->length;
    if (wrong == -1 || t->wrong++) return;
    snprintf(j->wrong[row], WHY_MAX, "rank %d from rank %d, %d blocks of %d bytes, %s to %s: %s%ld", j->rank, j->from,
             sent->blocks, sent->length, form_names[sent->form], form_names[in->shape.form],
             wrong < 0 ? "not read: " : "first at byte ", wrong < 0 ? 0 : wrong);
}

/* Sends one message and receives one. Returns the row of the path that it took; -1 for another path, or a failure. */
static int send_one(struct job *j, struct side *out, struct side *in, int number, const struct row *want)
{
    const uint64_t before = 0x5ca1ab1e;
    enum stridec_path path = STRIDEC_PATH_MPI;
    MPI_Request request[2];
    MPI_Status statuses[2];   /* unused: gcc warns of MPICH's MPI_STATUSES_IGNORE */
    int found, theirs = -1;
    char why[WHY_MAX] = "";
    bool filled = side_fill(out, j, seed_of(j->rank, number)) && side_fill(in, j, before);
    MPI_Irecv(in->user, 1, in->type, j->from, number, MPI_COMM_WORLD, &request[0]);
    interpose_depth++;
    api_query_path(out->user, 1, out->type, j->to, MPI_COMM_WORLD, &path, why, sizeof why);
    interpose_depth--;
    found = filled ? find_row(want->memory, path) : -1;
    PMPI_Sendrecv(&found, 1, MPI_INT, j->to, 0, &theirs, 1, MPI_INT, j->from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Isend(out->user, 1, out->type, j->to, number, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, statuses);
    if (filled && theirs >= 0)
        note(j, theirs, in, &out->shape, compare(in, j, &out->shape, seed_of(j->from, number), before));
    int own = (int)(want - rows);
    if (path != want->path)
        snprintf(j->absent[own], WHY_MAX, "such messages go by %s: %s", stridec_path_name(path), why);
    return found;
}

/* ---- a path ---- */

static bool on_all(bool mine)
{
    int value = mine, all = 0;
    PMPI_Allreduce(&value, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* Sends messages of one kind until all ranks' took the wanted path. */
static void send_kind(struct job *j, const struct row *want, int size, int pair)
{
    static int number;
    struct shape shape = {forms[pair].sent, sizes[size].blocks, sizes[size].length};
    struct side out = {.shape = shape, .type = MPI_DATATYPE_NULL}, in = {.shape = shape, .type = MPI_DATATYPE_NULL};
    in.shape.form = forms[pair].received;
    bool settled = want->path == STRIDEC_PATH_MPI || (want->memory == HOST && shape.form == CONTIGUOUS);
    bool taken = false, open = side_open(&out, j, want->memory);
    open = side_open(&in, j, want->memory) && open;
    for (int i = 0; i < (settled ? 1 : TRIES) && !taken && on_all(open); i++)
        taken = on_all(send_one(j, &out, &in, number = (number + 1) % 16384, want) == want - rows);
    side_close(&out, j, want->memory), side_close(&in, j, want->memory);
}

/* Returns why no message can take the path, before any is sent; NULL if some may. */
static const char *obstacle(const struct job *j, const struct row *r)
{
    if (env_get()->disable) return "STRIDEC_DISABLE leaves all to the MPI";
    if (r->memory == DEVICE && !j->device) return "no GPU on every rank";
    if ((r->memory == HOST && r->path != STRIDEC_PATH_MPI) && !env_get()->on_host.serves) return "STRIDEC_HOST=off";
    if ((r->path == STRIDEC_PATH_DEVICE || (r->memory == DEVICE && r->path == STRIDEC_PATH_MPI)) && !mpi_cuda_aware())
        return "this MPI takes no device memory";
    if (r->path == STRIDEC_PATH_PIPELINED && !pipeline_get())
        return "the ranks have not agreed on chunks (STRIDEC_PIPELINE)";
    return NULL;
}

/* The memory that ranks read from each other is one more way of STRIDEC_TRANSPORT, which is decided at MPI_Init. */
static void force(const struct row *r, bool reads_device)
{
    PMPI_Barrier(MPI_COMM_WORLD);
    env_force(r->transport);
    atomic_store(&node_reads_device, reads_device && r->zerocopy);
    if (pipeline_get()) {
        struct chunk_params chunks = CHUNK_SETTINGS_DEFAULT;
        chunks.least = r->transport == ENV_PIPELINED ? 0 : INT64_MAX, chunks.chunk = 1 << 16;
        pipeline_try(&chunks);
    }
    PMPI_Barrier(MPI_COMM_WORLD);
}

static void check_row(struct job *j, const struct row *r, bool reads_device)
{
    const char *why = obstacle(j, r);
    char *absent = j->absent[r - rows];
    if (!on_all(!why)) {
        if (!j->tally[r - rows].sent) snprintf(absent, WHY_MAX, "%s", why ? why : "another rank lacks what it needs");
        return;
    }
    force(r, reads_device);
    for (int pair = 0; pair < PAIRS; pair++)
        for (int size = 0; size < SIZES; size++) send_kind(j, r, size, pair);
}

/* ---- the report ---- */

/* Returns the first rank's text that is not empty on rank 0; static. */
static const char *first_text(const char *own)
{
    static char text[WHY_MAX];
    char **list = ranks_gather(own);
    *text = '\0';
    for (int i = 0; list && i < ranks_count(); i++) {
        if (!*text) snprintf(text, sizeof text, "%s", list[i]);
        free(list[i]);
    }
    free(list);
    return text;
}

static void report(const struct job *j, int row, messages_visit *each, void *arg)
{
    const struct tally *t = &j->tally[row];
    long own[] = {t->sent, t->wrong, t->bytes}, all[3] = {0, 0, 0};
    PMPI_Allreduce(own, all, 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    const char *why = first_text(all[1] ? j->wrong[row] : j->absent[row]);
    struct messages_row r = {.memory = memories[rows[row].memory],
                             .path = stridec_path_name(rows[row].path),
                             .sent = all[0],
                             .wrong = all[1],
                             .bytes = (double)all[2],
                             .why = why,
                             .without = rows[row].without};
    if (j->rank == 0) each(arg, &r);
}

void messages_check(messages_visit *each, void *arg)
{
    struct job *j = calloc(1, sizeof *j);
    if (!on_all(j != NULL)) {
        free(j);
        return;
    }
    j->rank = ranks_own(), j->ranks = ranks_count();
    j->to = (j->rank + 1) % j->ranks, j->from = (j->rank + j->ranks - 1) % j->ranks;
    j->device = tune_take_gpu(j->rank);
    bool reads_device = node_zerocopy(), all = on_all(j->device);
    if (!all) j->device = NULL;
    for (int i = 0; i < ROWS; i++) check_row(j, &rows[i], reads_device);
    force(&rows[0], reads_device);
    for (int i = 0; i < ROWS; i++) report(j, i, each, arg);
    free(j);
}
