/* offers_rest.c: what offers.c tests beside single messages: faces together, order, lateness, errors, memory that is not
 * shared. */
#include "offers.h"
#include "../../runtime/node/segment.h"
#include "resources.h"
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 2
#define SECONDS 30
#define TAG 3000

static struct offers o;
static uint64_t salt = 100000;

/*
 * The files in shared memory.
 */

struct node_file *offers_file(int rank)
{
    char line[512], end[16];
    struct node_file *found = NULL;
    FILE *f = fopen("/proc/self/maps", "r");
    snprintf(end, sizeof end, ".%d\n", rank);
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *name = strstr(line, "/dev/shm/stridec.");
        uintptr_t at;
        if (name && !strcmp(strrchr(name, '.'), end) && sscanf(line, "%" SCNxPTR, &at) == 1) found = (void *)at;
    }
    if (f) fclose(f);
    return found && !memcmp(found->magic, "stridec", 7) && found->rank == rank ? found : NULL;
}

bool offers_accepted(const struct node_file *own, int rank)
{
    return own->accepts[rank] != 0;
}

/* True if a slot names memory between these addresses, or was used at all. */
static bool offered(const void *from, size_t bytes)
{
    struct node_file *f = offers_file(my_rank);
    bool any = false;
    for (int i = 0; f && i < SLOTS; i++)
        any |= f->slot[i].bytes && (!from || f->slot[i].user - (uintptr_t)from < bytes);
    return any;
}

bool offers_used(void)
{
    return offered(NULL, 0);
}

bool offers_sized(int64_t bytes)
{
    struct node_file *f = offers_file(my_rank);
    for (int i = 0; f && i < SLOTS; i++)
        if (f->slot[i].bytes == bytes) return true;
    return false;
}

/*
 * 26 faces of a cuboid, as a halo's are: one launch where they arrive, none where they come from.
 */

#define EDGE 32
#define HALO 8
#define FACES 26

struct cuboid {
    struct layout send[FACES], recv[FACES];
    struct buf mine, theirs;   /* theirs: what the peer's holds, on the host */
};

static MPI_Datatype region(const int at[3], const int size[3])
{
    const int sizes[3] = {EDGE, EDGE, EDGE};
    MPI_Datatype t;
    MPI_Type_create_subarray(3, sizes, size, at, MPI_ORDER_C, MPI_FLOAT, &t);
    type_commit(&t);
    return t;
}

/* Direction n of 27 without the middle: -1, 0 or 1 in each dimension. */
static void face(struct cuboid *c, int n)
{
    int size[3], from[3], to[3], d = n < FACES / 2 ? n : n + 1;
    for (int i = 0; i < 3; i++, d /= 3) {
        int way = d % 3 - 1;
        size[i] = way ? HALO : EDGE - 2 * HALO;
        from[i] = way > 0 ? EDGE - 2 * HALO : HALO;
        to[i] = way > 0 ? 0 : way < 0 ? EDGE - HALO : HALO;   /* from the other side */
    }
    layout_of(&c->send[n], region(from, size), 1, "face");
    layout_of(&c->recv[n], region(to, size), 1, "halo");
}

static void cuboid_make(struct cuboid *c)
{
    const size_t bytes = (size_t)EDGE * EDGE * EDGE * sizeof(float);
    for (int n = 0; n < FACES; n++) face(c, n);
    buf_bytes(&c->mine, MEM_DEVICE, bytes, 0, salt + (uint64_t)my_rank);
    buf_bytes(&c->theirs, MEM_HOST, bytes, 0, salt + (uint64_t)o.peer);
}

static void cuboid_free(struct cuboid *c)
{
    for (int n = 0; n < FACES; n++) layout_free(&c->send[n]), layout_free(&c->recv[n]);
    buf_free(&c->mine), buf_free(&c->theirs);
}

static void cuboid_expect(struct cuboid *c)
{
    for (int n = 0; n < FACES; n++) {
        const struct layout *s = &c->send[n], *r = &c->recv[n];
        unsigned char *to = c->mine.shadow + c->mine.lead + r->low;
        const unsigned char *from = c->theirs.shadow + c->theirs.lead + s->low;
        for (int i = 0; i < s->bytes; i++) to[r->map[i]] = from[s->map[i]];
    }
}

/* A sender has something to do before it first looks whether its messages were received; the receiver comes later. */
static void work(bool sends, int n, MPI_Request r[])
{
    int done = 0;
    if (sends) {
        for (double since = MPI_Wtime(); MPI_Wtime() - since < 0.001;) continue;
        MPI_Testall(n, r, &done, MPI_STATUSES_IGNORE);
        MPI_Send(&done, 1, MPI_INT, o.peer, FACES, o.comm);
    } else {
        MPI_Recv(&done, 1, MPI_INT, o.peer, FACES, o.comm, MPI_STATUS_IGNORE);
    }
}

/* Launches and copies of this rank. The sends begin only when all receives are there. */
static int64_t exchange(struct cuboid *c, bool sends, bool receives, bool works)
{
    MPI_Request r[2 * FACES];
    struct resources before, after;
    int n = 0;
    resources_now(&before);
    for (int i = 0; receives && i < FACES; i++)
        MPI_Irecv(c->mine.origin, 1, c->recv[i].type, o.peer, i, o.comm, &r[n++]);
    MPI_Barrier(o.comm);
    for (int i = 0; sends && i < FACES; i++)
        MPI_Isend(c->mine.origin, 1, c->send[i].type, o.peer, i, o.comm, &r[n++]);
    if (works) work(sends, n, r);
    MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
    resources_now(&after);
    MPI_Barrier(o.comm);
    return after.launches - before.launches + after.copies - before.copies;
}

/* The kernels may still be compiled, and a receiver that the system keeps waiting finds the faces packed: once is enough,
 * but never fewer than can be. Writes every round the same bytes. */
static void faces(const char *what, bool sends, bool receives, bool works)
{
    struct cuboid c;
    double since = 0;
    int64_t took, want = receives;
    bool again;
    salt += 10;
    cuboid_make(&c);
    if (receives) cuboid_expect(&c);
    do {
        took = exchange(&c, sends, receives, works);
        expect(o.packed || took >= want, "%s: %lld launches and copies", what, (long long)took);
        int more = took != want && within(&since, SECONDS), any;
        MPI_Allreduce(&more, &any, 1, MPI_INT, MPI_MAX, o.comm);
        again = any && !o.packed;
    } while (again);
    if (!o.packed) expect_equal(took, want, "launches and copies");
    buf_check(&c.mine, what);
    cuboid_free(&c);
    report("%s", what);
}

/* A type that was offered once is not written again. */
static void layouts_once(void)
{
    struct node_file *f = offers_file(my_rank);
    struct cuboid c;
    uint64_t arena = 0;
    salt += 10;
    for (int i = 0; i < 3; i++) {
        cuboid_make(&c);
        exchange(&c, true, true, false);
        if (f && i) expect_equal(atomic_load(&f->arena), arena, "bytes of layouts in the file");
        if (f) arena = atomic_load(&f->arena);
        cuboid_free(&c);
    }
    report("layouts are written once");
}

/*
 * Order, lateness, numbers.
 */

#define MANY 540   /* more than there are slots at first ... */
#define SOME 100   /* ... of which nothing is needed where little or nothing can be offered */

/* Sends from one buffer that is written anew as soon as it is free; the receiver comes only when all are sent. */
static void late_receiver(bool blocking)
{
    enum { N = 40 };
    const struct layout *l = &o.layouts[2];
    struct buf b;
    int word = 0;
    salt += 1000;
    buf_make(&b, MEM_DEVICE, l, 0, salt);
    for (int i = 0; i < N && my_rank == 0; i++) {
        MPI_Request r;
        buf_fill(&b, salt + (uint64_t)i);
        if (blocking) MPI_Send(b.origin, COUNT, l->type, 1, TAG + i, o.comm);
        else MPI_Isend(b.origin, COUNT, l->type, 1, TAG + i, o.comm, &r), MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    buf_fill(&b, salt + N);
    MPI_Bcast(&word, 1, MPI_INT, 0, o.comm);
    for (int i = N - 1; i >= 0 && my_rank == 1; i--) {
        buf_fill(&b, salt + N);
        MPI_Recv(b.origin, COUNT, l->type, 0, TAG + i, o.comm, MPI_STATUS_IGNORE);
        buf_expect_from(&b, l, l, salt + (uint64_t)i);
        buf_check(&b, "what was sent before the buffer was written again");
    }
    MPI_Barrier(o.comm);
    buf_free(&b);
    report("a sender that is through before its receiver, by %s", blocking ? "Send" : "Isend and Wait");
}

/* True if slots were used that were allocated later. */
static bool grown(void)
{
    struct node_file *f = offers_file(my_rank);
    for (int i = SLOTS_STEP; f && i < SLOTS; i++)
        if (f->slot[i].bytes) return true;
    return false;
}

static void many_messages(void)
{
    static MPI_Request r[MANY];
    static struct buf b[MANY];
    const struct layout *l = &o.layouts[3];
    const int many = o.packed || o.refused ? SOME : MANY;
    salt += 1000;
    for (int i = 0; i < many; i++) {
        buf_make(&b[i], MEM_DEVICE, l, 0, salt + (uint64_t)(my_rank ? many : i));
        if (my_rank == 0) MPI_Isend(b[i].origin, COUNT, l->type, 1, TAG, o.comm, &r[i]);
    }
    MPI_Barrier(o.comm);
    for (int i = 0; i < many && my_rank == 1; i++) MPI_Irecv(b[i].origin, COUNT, l->type, 0, TAG, o.comm, &r[i]);
    MPI_Waitall(many, r, MPI_STATUSES_IGNORE);
    /* Without space for more slots, the rest goes packed. */
    bool more = grown();
    if (my_rank == 0 && many == MANY)
        expect(more != !!getenv("FILES_FULL"), "slots %s more", more ? "became" : "did not become");
    for (int i = 0; i < many; i++) {
        if (my_rank == 1) buf_expect_from(&b[i], l, l, salt + (uint64_t)i);
        buf_check(&b[i], "one of many");
        buf_free(&b[i]);
    }
    report("%d messages at a time, in order", many);
}

/* Of one tag: offered, too small to be, contiguous and on the host. */
static void mixed_order(void)
{
    enum { N = 24 };
    struct buf b;
    salt += 1000;
    for (int i = 0; i < N; i++) {
        const struct layout *l = &o.layouts[i % LAYOUTS];
        int count = 1 + i % COUNT, got = -1;
        MPI_Status s;
        struct layout part = *l;
        part.count = count, part.bytes = l->bytes / COUNT * count;
        buf_make(&b, i % 5 == 4 ? MEM_HOST : MEM_DEVICE, l, 0, salt + (uint64_t)(my_rank ? N : i));
        if (my_rank == 0) {
            MPI_Send(b.origin, count, l->type, 1, TAG, o.comm);
        } else {
            MPI_Recv(b.origin, COUNT, l->type, MPI_ANY_SOURCE, MPI_ANY_TAG, o.comm, &s);
            MPI_Get_count(&s, l->type, &got);
            expect_equal(got, count, "elements");
            buf_expect_from(&b, &part, &part, salt + (uint64_t)i);
            buf_check(&b, "one of a row");
        }
        buf_free(&b);
    }
    report("messages of one tag by several ways");
}

/* The sender waits inside the MPI for what the receiver sends only when it has got the message. */
static void in_between(void)
{
    enum { N = 20 };
    const struct layout *l = &o.layouts[2];
    for (int i = 0; i < N; i++) {
        struct buf b;
        MPI_Request r;
        int word = 0;
        salt += 10;
        buf_make(&b, MEM_DEVICE, l, 0, salt + (uint64_t)my_rank);
        if (my_rank == i % 2) {
            MPI_Isend(b.origin, COUNT, l->type, o.peer, TAG, o.comm, &r);
            MPI_Recv(&word, 1, MPI_INT, o.peer, TAG + 1, o.comm, MPI_STATUS_IGNORE);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(b.origin, COUNT, l->type, o.peer, TAG, o.comm, MPI_STATUS_IGNORE);
            MPI_Send(&word, 1, MPI_INT, o.peer, TAG + 1, o.comm);
            buf_expect_from(&b, l, l, salt + (uint64_t)o.peer);
        }
        buf_check(&b, "from a sender that waits inside the MPI");
        buf_free(&b);
    }
    report("from senders that wait inside the MPI");
}

static void to_self(void)
{
    const struct layout *l = &o.layouts[2], *other = &o.layouts[4];
    struct buf out, in;
    MPI_Request r[2];
    salt += 10;
    for (int way = 0; way < 3; way++) {
        buf_make(&out, MEM_DEVICE, l, 0, salt), buf_make(&in, way == 2 ? MEM_HOST : MEM_DEVICE, other, 0, salt + 1);
        if (way == 0) {
            MPI_Sendrecv(out.origin, COUNT, l->type, my_rank, TAG, in.origin, COUNT, other->type, my_rank, TAG, o.comm,
                         MPI_STATUS_IGNORE);
        } else {
            MPI_Isend(out.origin, COUNT, l->type, my_rank, TAG, o.comm, &r[1]);
            MPI_Irecv(in.origin, COUNT, other->type, my_rank, TAG, o.comm, &r[0]);
            MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        }
        buf_expect_from(&in, other, l, salt);
        buf_check(&in, "a message to oneself");
        buf_free(&out), buf_free(&in);
    }
    report("messages to oneself");
}

/*
 * Errors.
 */

/* A whole message to a receive that has room for `bytes`. */
static void too_long(const struct buf *b, enum mem_kind kind, int bytes)
{
    const struct layout *l = &o.layouts[2];
    struct buf short_one;
    MPI_Request r[2] = {MPI_REQUEST_NULL};
    MPI_Status s[2];
    buf_bytes(&short_one, kind, (size_t)bytes, 0, salt + 1);
    for (int way = 0; way < 3; way++) {
        MPI_Barrier(o.comm);
        if (my_rank == 0) {
            MPI_Send(b->origin, COUNT, l->type, 1, TAG, o.comm);
            continue;
        }
        int rc = way ? MPI_Irecv(short_one.origin, bytes, MPI_BYTE, 0, TAG, o.comm, &r[1])
                     : MPI_Recv(short_one.origin, bytes, MPI_BYTE, 0, TAG, o.comm, &s[0]);
        if (way == 1) rc = MPI_Wait(&r[1], &s[1]);
        if (way == 2) {
            rc = MPI_Waitall(2, r, s);
            expect(error_class(rc) == MPI_ERR_IN_STATUS, "MPI_Waitall says %s", error_name(error_class(rc)));
            rc = s[1].MPI_ERROR;
        }
        expect(error_class(rc) == MPI_ERR_TRUNCATE, "%s memory, %d bytes: %s", mem_name[kind], bytes, error_name(error_class(rc)));
        buf_check_but(&short_one, 0, (size_t)bytes, "beside a receive that is too short");
    }
    buf_free(&short_one);
}

/* What an exchange sends arrives, though what it receives is too long. */
static void half_exchange(struct buf *b)
{
    const struct layout *l = &o.layouts[2];
    char words[8] = "";
    if (my_rank == 0) {
        int rc = MPI_Sendrecv(b->origin, COUNT, l->type, 1, TAG, words, 1, MPI_CHAR, 1, TAG, o.comm, MPI_STATUS_IGNORE);
        expect(error_class(rc) == MPI_ERR_TRUNCATE, "MPI_Sendrecv says %s", error_name(error_class(rc)));
    } else {
        MPI_Send(words, 8, MPI_CHAR, 0, TAG, o.comm);
        buf_fill(b, salt + 1);
        MPI_Recv(b->origin, COUNT, l->type, 0, TAG, o.comm, MPI_STATUS_IGNORE);
        buf_expect_from(b, l, l, salt);
        buf_check(b, "of an exchange that failed");
    }
}

/* Exchanges short blocks, packed in pieces, with a rank that sends only when it has received. */
static void relayed(void)
{
    MPI_Datatype t;
    struct layout l;
    struct buf out, in;
    salt += 10;
    MPI_Type_vector(1 << 18, 1, 2, MPI_INT, &t);
    type_commit(&t);
    layout_of(&l, t, 1, "vector(262144,1,2,int)");
    buf_make(&out, MEM_DEVICE, &l, 0, salt);
    buf_make(&in, MEM_DEVICE, &l, 0, salt + 1);
    if (my_rank == 0) {
        MPI_Sendrecv(out.origin, 1, t, 1, TAG, in.origin, 1, t, 1, TAG, o.comm, MPI_STATUS_IGNORE);
    } else if (my_rank == 1) {
        MPI_Recv(in.origin, 1, t, 0, TAG, o.comm, MPI_STATUS_IGNORE);
        MPI_Send(in.origin, 1, t, 0, TAG, o.comm);
    }
    if (my_rank < 2) buf_expect_from(&in, &l, &l, salt);
    buf_check(&in, "relayed");
    buf_free(&out), buf_free(&in);
    layout_free(&l);
    report("an exchange that waits for what it sends");
}

static void truncated(void)
{
    struct buf b;
    salt += 10;
    buf_make(&b, MEM_DEVICE, &o.layouts[2], 0, salt);
    half_exchange(&b);
    too_long(&b, MEM_DEVICE, o.layouts[2].bytes / 2);
    too_long(&b, MEM_HOST, o.layouts[2].bytes / 2);
    if (!getenv("SIMGPU_OPEN")) too_long(&b, MEM_DEVICE, 200);   /* else the MPI receives it, and too little to be looked at */
    buf_free(&b);
    report("receives that are too short");
}

/* A receive that is cancelled takes nothing; the message is the next one's. */
static void cancelled(void)
{
    const struct layout *l = &o.layouts[2];
    struct buf b;
    MPI_Request r;
    MPI_Status s;
    int gone = -1;
    salt += 10;
    buf_make(&b, MEM_DEVICE, l, 0, salt + (uint64_t)my_rank);
    if (my_rank == 1) {
        MPI_Irecv(b.origin, COUNT, l->type, 0, TAG, o.comm, &r);
        MPI_Cancel(&r);
        MPI_Wait(&r, &s);
        MPI_Test_cancelled(&s, &gone);
        expect_equal(gone, 1, "a cancelled receive");
        buf_check(&b, "a cancelled receive");
    }
    MPI_Barrier(o.comm);
    if (my_rank == 0) {
        MPI_Isend(b.origin, COUNT, l->type, 1, TAG, o.comm, &r);
        MPI_Cancel(&r);
        MPI_Wait(&r, &s);
        MPI_Test_cancelled(&s, &gone);
    }
    MPI_Bcast(&gone, 1, MPI_INT, 0, o.comm);
    if (my_rank == 0 && gone) MPI_Send(b.origin, COUNT, l->type, 1, TAG, o.comm);
    if (my_rank == 1) {
        MPI_Recv(b.origin, COUNT, l->type, 0, TAG, o.comm, MPI_STATUS_IGNORE);
        buf_expect_from(&b, l, l, salt);
        buf_check(&b, "after a cancelled message");
    }
    buf_free(&b);
    report("cancelled receives and sends");
}

/*
 * Memory that no other process can open.
 */

static void unshared(enum mem_kind kind)
{
    const struct layout *l = &o.layouts[2];
    struct buf out, in;
    MPI_Request r;
    salt += 10;
    buf_make(&out, kind, l, 0, salt), buf_make(&in, MEM_DEVICE, l, 0, salt + 1);
    MPI_Irecv(in.origin, COUNT, l->type, o.peer, TAG, o.comm, &r);
    MPI_Send(out.origin, COUNT, l->type, o.peer, TAG, o.comm);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    expect(!offered(out.base, out.bytes), "%s memory is offered", mem_name[kind]);
    buf_expect_from(&in, l, l, salt);
    buf_check(&in, mem_name[kind]);
    buf_free(&out), buf_free(&in);
    report("from %s memory", mem_name[kind]);
}

/* Memory that is given back and had anew is another allocation, wherever it lies. */
static void memory_anew(void)
{
    enum { ROUNDS = 300 };   /* more than handles are kept */
    const struct layout *l = &o.layouts[2];
    struct buf out, in;
    for (int i = 0; i < ROUNDS; i++) {
        salt += 10;
        buf_make(&out, MEM_DEVICE, l, 0, salt + (uint64_t)my_rank), buf_make(&in, MEM_DEVICE, l, 0, salt + 5);
        MPI_Sendrecv(out.origin, COUNT, l->type, o.peer, TAG, in.origin, COUNT, l->type, o.peer, TAG, o.comm,
                     MPI_STATUS_IGNORE);
        buf_expect_from(&in, l, l, salt + (uint64_t)o.peer);
        buf_check(&in, "from memory had anew");
        buf_free(&out), buf_free(&in);
    }
    report("from %d allocations, one after another", ROUNDS);
}

/* The driver opens no more of the peer's memory: what one allocation sends is refused once, and so is each buffer that it was
 * packed into where the receiver was late. */
static void refused_once(bool persistent)
{
    enum { N = 20, MOST = 5 };
    const struct layout *l = &o.layouts[2];
    struct resources before, after;
    struct buf b;
    MPI_Request r = MPI_REQUEST_NULL;
    salt += 10;
    buf_make(&b, MEM_DEVICE, l, 0, salt);
    if (persistent && my_rank == 0) MPI_Send_init(b.origin, COUNT, l->type, 1, TAG, o.comm, &r);
    resources_now(&before);
    for (int i = 0; i < N; i++) {
        if (my_rank == 1) {
            buf_fill(&b, salt + 5);
            MPI_Irecv(b.origin, COUNT, l->type, 0, TAG, o.comm, &r);
        }
        MPI_Barrier(o.comm);
        if (my_rank == 0 && persistent) MPI_Start(&r);
        if (my_rank == 0 && !persistent) MPI_Send(b.origin, COUNT, l->type, 1, TAG, o.comm);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (my_rank == 1) buf_expect_from(&b, l, l, salt), buf_check(&b, "from memory that can't be opened");
    }
    resources_now(&after);
    expect(after.failed - before.failed <= MOST, "%lld calls fail", (long long)(after.failed - before.failed));
    if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
    buf_free(&b);
    report("memory that can't be opened is refused once, %s", persistent ? "by a persistent send" : "by sends");
}

void offers_rest(struct offers *offers)
{
    struct resources now;
    o = *offers;
    late_receiver(true), late_receiver(false);
    many_messages(), mixed_order(), in_between(), truncated(), relayed(), cancelled(), memory_anew();
    if (host_mode) {
        to_self();
        return;
    }
    unshared(MEM_POOL), unshared(MEM_MANAGED), unshared(MEM_PINNED);
    layouts_once();
    if (o.refused) refused_once(false), refused_once(true);
    resources_now(&now);
    if (now.simulated && !o.refused) {
        faces("26 faces to rank 1", my_rank == 0, my_rank == 1, false);
        faces("26 faces to rank 0", my_rank == 1, my_rank == 0, false);
        faces("26 faces to rank 1, sent long before they are waited for", my_rank == 0, my_rank == 1, true);
        faces("26 faces both ways", true, true, false);
    }
    expect(offers_used() != o.packed, "messages are %soffered", o.packed ? "" : "not ");
    report("messages are %s", o.packed ? "packed" : "offered");
    to_self();   /* which is always offered */
}
