/* soak.c: messages at random: sizes from nothing to 4 MiB, layouts, memory, tags, wildcards, probes, cancels, persistent and
 * freed requests, and threads; in some rounds a neighbourhood collective goes on meanwhile. Before some rounds a type and a
 * communicator are made, used once and freed, the type as one that was there before or as one that comes again seldom.
 *
 * usage: soak [MESSAGES [THREADS]]
 * Each thread has a communicator and goes through rounds whose messages all ranks know beforehand; what a rank does with
 * its part of them is left to its own chance. Every byte of every buffer is compared, and the second half of the messages
 * may not leave more in use than the first: of the heap, of memory that is resident, of the device's, of files.
 * SOAK_MESSAGES in the environment counts in place of MESSAGES; with SOAK_LARGE=1 some messages are up to 64 MiB long. `make soak` runs a million.
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 3 900 2 --host
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy -n 3 480 2 --host
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 360 1
 * run: STRIDEC_TRANSPORT=zerocopy -n 3 300 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 4 300 1
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_EAGER=1 -n 2 150 2
 * run: STRIDEC_TRANSPORT=staged -n 2 150 2
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=20000 -n 3 180 2
 * run: STRIDEC_TRANSPORT=zerocopy STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=20000,least=600 -n 3 180 1
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=20000 LD_PRELOAD=@AWARE SIMGPU_OPEN=1 -n 2 150 1
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 3 180 1
 */
#include "check.h"
#include "resources.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ROUND 24          /* messages of a round, over all ranks */
#define CLASSES 4
#define LARGE 3           /* the class whose messages are few, since each needs hundreds of MB */
#define RARE 8192
#define SLACK_HEAP ((8 + 32) << 20)   /* with the blocks of host memory that are kept (runtime/base/bounce.c) */
#define SLACK_DEVICE ((int64_t)64 << 20)   /* of what is kept for the next message (runtime/device/mempool.c); with large messages, */
#define SLACK_LARGE ((int64_t)512 << 20)   /* and where fewer than these have gone before, that and more: what is lost bit by */
#define WARM 800                           /* bit the heap and the files show */
#define MODULE_BYTES ((int64_t)1 << 20)    /* of a kernel that was loaded meanwhile */
#define GUESTS 24         /* layouts of types that come for one message */
#define POOLED 64         /* allocations of pools, which grow now and then */
#define SLACK_EACH 64     /* bytes of a message: less than anything that is kept for one */
#define NUMBERS 5         /* layouts (types.c); Open MPI 4.1 itself delivers the next one wrong to the own rank */
#define THREADS_MAX 8
#define TAGS 3
#define NEVER 999         /* no message has this tag */
#define FEW 90            /* doubles that are sent as such: some are as long as an RTS header */

static const int ELEMENTS[CLASSES] = {8, 128, 4369, 69905}, LAYOUTS_OF[CLASSES] = {NUMBERS, NUMBERS, NUMBERS, 1};
static bool large, circles;
static struct layout layouts[CLASSES][NUMBERS], doubles;

struct message {
    int from, to, tag, doubles;
    const struct layout *sent;   /* its count is the most that it has */
    uint64_t salt;
};

/* A receive or a send of this rank. */
struct end {
    const struct message *m;
    const struct layout *l;
    struct buf b;
    MPI_Request request;
    bool receives, over, persistent;
};

/* Around the ring of all ranks: half of a layout to each neighbour. */
struct circle {
    struct buf out, in;
    MPI_Request request;
};

struct round {
    MPI_Comm comm, ring;
    int beside[2];
    struct circle circle;
    struct message messages[ROUND];
    struct end ends[2 * ROUND];
    int n, receives;             /* ends: the receives come first */
    bool any;                    /* they take what comes */
    struct chance own;
};

/* Mostly short ones; `may`: it may be a large one. */
static void choose_size(struct message *m, struct chance *c, bool may)
{
    uint32_t kind = below(c, 64);
    int class = kind < 48 ? 0 : kind < 63 ? 1 : large && may && !below(c, RARE / 64) ? LARGE : 2;
    if (kind < 12) {
        m->doubles = (int)below(c, FEW + 1), m->sent = &doubles;
        return;
    }
    m->sent = &layouts[class][below(c, (uint32_t)LAYOUTS_OF[class])];
    m->doubles = LAYOUT_DOUBLES * (int)below(c, (uint32_t)ELEMENTS[class] + 1);
}

/* The same on every rank. Ranks that take what comes tell messages apart by their tags. */
static void plan(struct round *r, struct chance *c)
{
    uint32_t any = below(c, 1u << num_ranks);
    r->any = any >> my_rank & 1;
    for (int i = 0; i < ROUND; i++) {
        struct message *m = &r->messages[i];
        m->from = (int)below(c, (uint32_t)num_ranks), m->to = (int)below(c, (uint32_t)num_ranks);
        m->tag = any >> m->to & 1 ? TAGS + i : (int)below(c, TAGS);
        m->salt = (uint64_t)below(c, UINT32_MAX) << 8;
        choose_size(m, c, !(any >> m->to & 1));
    }
}

/* The most that a receive may have to take. */
static int room_for(const struct round *r, const struct message *m)
{
    int most = m->doubles;
    for (int i = 0; r->any && i < ROUND; i++)
        if (r->messages[i].to == my_rank && r->messages[i].doubles > most) most = r->messages[i].doubles;
    return most;
}

static void add(struct round *r, const struct message *m, bool receives)
{
    struct end *e = &r->ends[r->n++];
    enum mem_kind kind = below(&r->own, 8) ? MEM_DEVICE : (enum mem_kind)below(&r->own, MEM_KINDS);
    *e = (struct end){.m = m, .l = m->sent, .receives = receives, .request = MPI_REQUEST_NULL};
    if (receives) {
        int room = room_for(r, m), class = 0;
        while (ELEMENTS[class] * LAYOUT_DOUBLES < room) class++;
        e->l = &layouts[class][below(&r->own, (uint32_t)LAYOUTS_OF[class])];
    }
    buf_make(&e->b, kind, e->l, (int)below(&r->own, 2) * 8, receives ? m->salt + 1 : m->salt);
}

/* Receives in the order of their messages; sends tag by tag, in an order of the rank's own. */
static void deal(struct round *r)
{
    r->n = 0;
    for (int i = 0; i < ROUND; i++)
        if (r->messages[i].to == my_rank) add(r, &r->messages[i], true);
    r->receives = r->n;
    int first = (int)below(&r->own, TAGS + ROUND);
    for (int k = 0; k < TAGS + ROUND; k++)
        for (int i = 0; i < ROUND; i++)
            if (r->messages[i].from == my_rank && r->messages[i].tag == (first + k) % (TAGS + ROUND))
                add(r, &r->messages[i], false);
}

static void send(struct round *r, struct end *e)
{
    int count = e->l == &doubles ? e->m->doubles : e->m->doubles / LAYOUT_DOUBLES, way = (int)below(&r->own, 8);
    int (*form)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) =
        way < 2 ? MPI_Issend : way == 2 ? MPI_Send_init : way == 3 ? MPI_Ssend_init : MPI_Isend;
    form(e->b.origin, count, e->l->type, e->m->to, e->m->tag, r->comm, &e->request);
    e->persistent = way == 2 || way == 3;
    if (e->persistent) MPI_Start(&e->request);
    if (way == 4) MPI_Request_free(&e->request);
}

static int source(const struct round *r, const struct end *e)
{
    return r->any ? MPI_ANY_SOURCE : e->m->from;
}

static int tag(const struct round *r, const struct end *e)
{
    return r->any ? MPI_ANY_TAG : e->m->tag;
}

/* What has come, and where it belongs. */
static void arrived(struct round *r, struct end *e, const MPI_Status *s)
{
    const struct message *m = r->any ? NULL : e->m;
    int n = -1;
    if (r->any && s->MPI_TAG >= TAGS && s->MPI_TAG < TAGS + ROUND) m = &r->messages[s->MPI_TAG - TAGS];
    expect(!e->over, "a request is complete twice");
    e->over = true;
    if (!m || m->to != my_rank || s->MPI_SOURCE != m->from || s->MPI_TAG != m->tag) {
        fail("a message with source %d and tag %d has come to rank %d", s->MPI_SOURCE, s->MPI_TAG, my_rank);
        return;
    }
    MPI_Get_elements(s, MPI_DOUBLE, &n);
    expect(n == m->doubles, "%d doubles have come, not %d", n, m->doubles);
    struct layout part = *m->sent;
    part.bytes = m->doubles * (int)sizeof(double);
    buf_expect_from(&e->b, e->l, &part, m->salt);
    buf_check(&e->b, "received");
}

static void post(struct round *r, struct end *e)
{
    MPI_Irecv(e->b.origin, e->l->count, e->l->type, source(r, e), tag(r, e), r->comm, &e->request);
}

/* At once, one way or another. */
static void receive(struct round *r, struct end *e)
{
    MPI_Status s;
    MPI_Message message;
    MPI_Request q;
    int there = 0, n = -1, told = -1;
    uint32_t way = below(&r->own, 6);
    if (way == 2) MPI_Probe(source(r, e), tag(r, e), r->comm, &s);
    while (way == 3 && !there) MPI_Iprobe(source(r, e), tag(r, e), r->comm, &there, &s);
    if (way == 4) MPI_Mprobe(source(r, e), tag(r, e), r->comm, &message, &s);
    while (way == 5 && !there) MPI_Improbe(source(r, e), tag(r, e), r->comm, &there, &message, &s);
    if (way >= 2) MPI_Get_elements(&s, MPI_DOUBLE, &told);
    if (way == 2) MPI_Recv(e->b.origin, e->l->count, e->l->type, s.MPI_SOURCE, s.MPI_TAG, r->comm, &s);
    if (way == 0) MPI_Recv(e->b.origin, e->l->count, e->l->type, source(r, e), tag(r, e), r->comm, &s);
    if (way == 1) MPI_Irecv(e->b.origin, e->l->count, e->l->type, source(r, e), tag(r, e), r->comm, &q);
    if (way == 3) MPI_Irecv(e->b.origin, e->l->count, e->l->type, s.MPI_SOURCE, s.MPI_TAG, r->comm, &q);
    if (way == 4) MPI_Mrecv(e->b.origin, e->l->count, e->l->type, &message, &s);
    if (way == 5) MPI_Imrecv(e->b.origin, e->l->count, e->l->type, &message, &q);
    if (way == 1 || way == 3 || way == 5) MPI_Wait(&q, &s);
    MPI_Get_elements(&s, MPI_DOUBLE, &n);
    expect(way < 2 || told == n, "a probe tells of %d doubles, and %d come", told, n);
    arrived(r, e, &s);
}

/* All that is still under way. */
static void complete(struct round *r)
{
    MPI_Request q[2 * ROUND];
    MPI_Status s[2 * ROUND];
    int which[2 * ROUND], done = 0, n = 0, left = 0;
    uint32_t way = below(&r->own, 4);
    for (int i = 0; i < r->n; i++) q[i] = r->ends[i].request, left += q[i] != MPI_REQUEST_NULL;
    while (left > 0) {
        if (way == 0) MPI_Waitall(r->n, q, s), done = 1;
        if (way == 1) MPI_Testall(r->n, q, &done, s);
        if (way == 2) MPI_Waitany(r->n, q, which, s), n = 1;
        if (way == 3) MPI_Testsome(r->n, q, &n, which, s);
        if (way < 2) n = done ? r->n : 0;
        for (int k = 0; k < n; k++) {
            int i = way < 2 ? k : which[k];
            if (r->ends[i].request == MPI_REQUEST_NULL) continue;
            if (r->ends[i].receives) arrived(r, &r->ends[i], &s[k]);
            left--;
        }
    }
}

static void circle_begin(struct round *r)
{
    struct circle *c = &r->circle;
    const struct layout *l = &layouts[0][1];
    uint64_t salt = r->messages[0].salt;
    buf_make(&c->out, below(&r->own, 4) ? MEM_DEVICE : MEM_HOST, l, 0, salt + (uint64_t)my_rank);
    buf_make(&c->in, below(&r->own, 4) ? MEM_DEVICE : MEM_HOST, l, 0, salt + 1000);
    MPI_Ineighbor_alltoall(c->out.origin, l->count / 2, l->type, c->in.origin, l->count / 2, l->type, r->ring, &c->request);
}

/* What goes down at the one rank comes from above at the other. */
static void circle_check(struct round *r)
{
    struct circle *c = &r->circle;
    const struct layout *l = &layouts[0][1];
    int half = l->bytes / 2;
    unsigned char *all = malloc((size_t)l->bytes);
    for (int side = 0; side < 2; side++) {
        unsigned char *theirs = layout_packed(l, r->messages[0].salt + (uint64_t)r->beside[side]);
        memcpy(all + side * half, theirs + (1 - side) * half, (size_t)half);
        free(theirs);
    }
    buf_expect(&c->in, l, all, l->bytes);
    buf_check(&c->in, "around the ring"), buf_check(&c->out, "around the ring");
    free(all);
    buf_free(&c->in), buf_free(&c->out);
}

static MPI_Comm guest_comm(const struct round *r, uint32_t way)
{
    MPI_Comm comm;
    if (way == 0) MPI_Comm_dup(r->comm, &comm);
    else if (way == 1) MPI_Comm_split(r->comm, 0, my_rank, &comm);
    else MPI_Cart_create(r->comm, 1, &num_ranks, &(int){1}, 0, &comm);
    return comm;
}

/* A type and a communicator for one message around all ranks. */
static void guests(struct round *r, struct chance *c)
{
    struct layout l;
    struct buf out, in;
    MPI_Datatype t;
    uint32_t number = below(c, 2) ? below(c, GUESTS) : 0, count = 1 + below(c, 40);
    uint64_t salt = (uint64_t)below(c, UINT32_MAX) << 8;
    MPI_Comm comm = guest_comm(r, below(c, 3));
    int next = (my_rank + 1) % num_ranks, last = (my_rank + num_ranks - 1) % num_ranks;
    MPI_Type_vector(12, 10, 11 + (int)number, MPI_DOUBLE, &t);
    type_commit(&t);
    layout_of(&l, t, (int)count, "a guest");
    buf_make(&out, below(&r->own, 4) ? MEM_DEVICE : MEM_HOST, &l, 0, salt + (uint64_t)my_rank);
    buf_make(&in, below(&r->own, 4) ? MEM_DEVICE : MEM_HOST, &l, 0, salt + 1000);
    MPI_Sendrecv(out.origin, l.count, l.type, next, 0, in.origin, l.count, l.type, last, 0, comm, MPI_STATUS_IGNORE);
    buf_expect_from(&in, &l, &l, salt + (uint64_t)last);
    buf_check(&in, "received by a guest"), buf_check(&out, "sent by a guest");
    layout_free(&l);
    MPI_Comm_free(&comm);
    buf_free(&in), buf_free(&out);
}

static void go_round(struct round *r, bool circles)
{
    deal(r);
    if (circles) circle_begin(r);
    /* So many receives are there when the sends begin, or soon; the others come one by one. */
    int posted = r->receives ? (int)below(&r->own, (uint32_t)r->receives + 1) : 0;
    int early = posted ? (int)below(&r->own, (uint32_t)posted + 1) : 0;
    for (int i = 0; i < early; i++) post(r, &r->ends[i]);
    for (int i = r->receives; i < r->n; i++) send(r, &r->ends[i]);
    for (int i = early; i < posted; i++) post(r, &r->ends[i]);
    if (!below(&r->own, 8)) expect_cancelled(MEM_DEVICE, &layouts[0][2], (my_rank + 1) % num_ranks, NEVER, r->comm);
    for (int i = posted; i < r->receives; i++) receive(r, &r->ends[i]);
    complete(r);
    if (circles) MPI_Wait(&r->circle.request, MPI_STATUS_IGNORE), circle_check(r);
    MPI_Barrier(r->comm);   /* what was sent by freed requests has been received */
    for (int i = 0; i < r->n; i++) {
        if (!r->ends[i].receives) buf_check(&r->ends[i].b, "sent");
        if (r->ends[i].persistent) MPI_Request_free(&r->ends[i].request);
        buf_free(&r->ends[i].b);
    }
}

struct job {
    int thread, rounds;
    MPI_Comm comm, ring;
    struct chance all, own;   /* where they go on */
};

static void *work(void *arg)
{
    struct job *j = arg;
    struct round *r = calloc(1, sizeof *r);
    /* A CUDA-aware MPI needs a context in each thread. */
    if (cuda_aware() && !host_mode) mem_free(MEM_DEVICE, mem_alloc(MEM_DEVICE, 1));
    r->comm = j->comm, r->ring = j->ring, r->own = j->own;
    MPI_Cart_shift(j->ring, 0, 1, &r->beside[0], &r->beside[1]);
    for (int i = 0; i < j->rounds; i++) {
        plan(r, &j->all);
        if (!below(&j->all, 2)) guests(r, &j->all);
        go_round(r, !below(&j->all, 4) && circles);
    }
    j->own = r->own;
    free(r);
    return NULL;
}

static void job_open(struct job *j, int thread, int rounds)
{
    *j = (struct job){.thread = thread, .rounds = rounds, .all = {test_seed + (uint64_t)thread * 7919}};
    j->own.state = j->all.state + (uint64_t)(my_rank + 1) * 104729;
    MPI_Comm_dup(MPI_COMM_WORLD, &j->comm);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &num_ranks, &(int){1}, 0, &j->ring);
}

static void run(struct job jobs[], int threads)
{
    pthread_t id[THREADS_MAX];
    for (int i = 0; i < threads; i++) pthread_create(&id[i], NULL, work, &jobs[i]);
    for (int i = 0; i < threads; i++) pthread_join(id[i], NULL);
}

/* By so many messages. */
static void check_growth(const struct resources *before, const struct resources *after, int messages)
{
    int64_t heap = after->heap - before->heap, files = after->descriptors - before->descriptors;
    int64_t anonymous = after->anonymous - before->anonymous, resident = after->resident - before->resident;
    int64_t device = after->device_bytes - before->device_bytes, others = after->simulated ? 0 : SLACK_LARGE;
    int64_t loaded = MODULE_BYTES * (after->modules - before->modules);
    int64_t slack = large || messages < WARM ? SLACK_LARGE : SLACK_DEVICE, each = SLACK_EACH * (int64_t)messages;
    expect(heap <= SLACK_HEAP + SLACK_EACH * (int64_t)messages, "%lld bytes of the heap more", (long long)heap);
    expect(files <= POOLED + messages / 1000, "%lld files more are open", (long long)files);   /* a file is an allocation */
    if (after->heap) {   /* a sanitizer keeps what is freed */
        expect(anonymous <= SLACK_HEAP + slack + loaded + each, "%lld bytes more are resident", (long long)anonymous);
        expect(resident <= SLACK_LARGE + 2 * slack + loaded + each, "%lld bytes more with what is shared",
               (long long)resident);
    }
    expect(device <= slack + others, "%lld bytes more of the device", (long long)device);
    report("the second half of %d messages leaves nothing: %lld KiB of the heap, %lld resident, %lld of the device",
           2 * messages, (long long)heap / 1024, (long long)anonymous / 1024, (long long)device / 1024);
}

static void layouts_make(void)
{
    for (int c = 0; c < CLASSES - !large; c++)
        for (int i = 0; i < LAYOUTS_OF[c]; i++) layout_number(&layouts[c][i], c == LARGE ? 1 : i, ELEMENTS[c]);
    layout_of(&doubles, MPI_DOUBLE, FEW, "doubles");
}

static void layouts_free(void)
{
    for (int c = 0; c < CLASSES - !large; c++)
        for (int i = 0; i < LAYOUTS_OF[c]; i++) layout_free(&layouts[c][i]);
}

int main(int argc, char **argv)
{
    int numbers[2] = {2000, 1}, given = 0;
    struct job jobs[THREADS_MAX];
    struct resources now[2];
    for (int i = 1; i < argc && given < 2; i++)
        if (argv[i][0] != '-') numbers[given++] = atoi(argv[i]);
    if (getenv("SOAK_MESSAGES")) numbers[0] = atoi(getenv("SOAK_MESSAGES"));
    large = getenv("SOAK_LARGE") != NULL;
    int threads = numbers[1] < THREADS_MAX ? numbers[1] : THREADS_MAX, half = numbers[0] / 2;
    int level = threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    if (check_start(&argc, &argv, level) < level) MPI_Abort(MPI_COMM_WORLD, 4);
    layouts_make();
    /* Around a ring of two ranks Open MPI's own nonblocking collectives deliver to the wrong side (open-mpi/ompi#14416):
     * stridec's serve communicators that are made when a driver is there. Without one there are none. */
    circles = !host_mode || num_ranks > 2;
    mem_free(MEM_DEVICE, mem_alloc(MEM_DEVICE, 1));
    for (int i = 0; i < threads; i++) job_open(&jobs[i], i, (half / threads + ROUND - 1) / ROUND);
    for (int i = 0; i < 2; i++) run(jobs, threads), malloc_trim(0), resources_now(&now[i]);
    report("%d messages, %d threads on each of %d ranks", numbers[0], threads, num_ranks);
    check_growth(&now[0], &now[1], half);
    for (int i = 0; i < threads; i++) MPI_Comm_free(&jobs[i].comm), MPI_Comm_free(&jobs[i].ring);
    layouts_free();
    return check_finish();
}
