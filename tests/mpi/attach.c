/* attach.c: messages of derived types in host memory between the ranks of a node: packed into shared memory, read in place,
 * and on their ordinary way where reading is refused or fails. Every byte is compared.
 *
 * usage: attach [shared | placed | refused | failing | ordinary | apart]: what
 * becomes of them
 * Messages that are only packed are counted if STRIDEC_HOST is set; else their number depends on what is quicker here.
 *
 * run: STRIDEC_HOST=on -n 2 --host shared
 * run: STRIDEC_HOST=on -n 2 shared
 * run: STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@ATTACH -n 2 --host placed
 * run: STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@ATTACH ATTACH_FAIL=all -n 2 --host refused
 * run: STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@ATTACH ATTACH_FAIL=30 -n 2 --host failing
 * run: STRIDEC_HOST=off -n 2 --host ordinary
 * run: STRIDEC_HOST=on -n 2 --host apart
 */
#include "check.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 5, COUNT = 80, ROUNDS = 12, RANDOM_TYPES = 120, THREADS = 3 };
enum way { BLOCKING, NONBLOCKING, EXCHANGE, SYNCHRONOUS, PROBED, MATCHED, PERSISTENT, REPLACED, WAYS };

static const char *what = "shared";
static int peer;
static long (*offers)(int in_place);

static bool is(const char *name)
{
    return !strcmp(what, name);
}

/* One way, from rank 0 to rank 1 or, exchanges, both ways. */
static void message(enum way way, const struct buf *out, const struct layout *l, struct buf *in, const struct layout *m,
                    MPI_Comm comm, MPI_Status *s)
{
    MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Message found;
    MPI_Status both[2];
    bool sends = my_rank == 0;
    int n = -1;
    switch (way) {
    case BLOCKING:
    case SYNCHRONOUS:
        if (sends) (way == BLOCKING ? MPI_Send : MPI_Ssend)(out->origin, l->count, l->type, peer, TAG, comm);
        else MPI_Recv(in->origin, m->count, m->type, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, s);
        break;
    case NONBLOCKING:
        MPI_Irecv(in->origin, m->count, m->type, peer, TAG, comm, &r[0]);
        MPI_Isend(out->origin, l->count, l->type, peer, TAG, comm, &r[1]);
        MPI_Waitall(2, r, both);
        *s = both[0];
        break;
    case EXCHANGE:
        MPI_Sendrecv(out->origin, l->count, l->type, peer, TAG, in->origin, m->count, m->type, peer, TAG, comm, s);
        break;
    case REPLACED:
        MPI_Isend(out->origin, l->count, l->type, peer, TAG, comm, &r[1]);
        if (l != m) MPI_Probe(peer, TAG, comm, s);
        MPI_Sendrecv_replace(in->origin, m->count, m->type, MPI_PROC_NULL, TAG, peer, TAG, comm, s);
        MPI_Wait(&r[1], MPI_STATUS_IGNORE);
        break;
    case PROBED:
    case MATCHED:
        if (sends) {
            MPI_Isend(out->origin, l->count, l->type, peer, TAG, comm, &r[1]);
        } else if (way == PROBED) {
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, s);
            MPI_Get_elements(s, MPI_BYTE, &n);
            expect_equal(n, l->bytes, "the bytes probed");
            MPI_Recv(in->origin, m->count, m->type, s->MPI_SOURCE, s->MPI_TAG, comm, s);
        } else {
            MPI_Mprobe(peer, TAG, comm, &found, s);
            MPI_Get_elements(s, MPI_BYTE, &n);
            expect_equal(n, l->bytes, "the bytes matched");
            MPI_Imrecv(in->origin, m->count, m->type, &found, &r[0]);
            MPI_Wait(&r[0], s);
        }
        MPI_Wait(&r[1], MPI_STATUS_IGNORE);
        break;
    case PERSISTENT:
    case WAYS:
        if (sends) MPI_Send_init(out->origin, l->count, l->type, peer, TAG, comm, &r[0]);
        else MPI_Recv_init(in->origin, m->count, m->type, peer, TAG, comm, &r[0]);
        for (int i = 0; i < 3; i++) MPI_Start(&r[0]), MPI_Wait(&r[0], s);
        MPI_Request_free(&r[0]);
        break;
    }
}

static bool both_ways(enum way way)
{
    return way == NONBLOCKING || way == EXCHANGE || way == REPLACED;
}

/* A message of l, filled with `salt` and its rank, into m, which has the same signature. */
static void try(enum way way, const struct layout *l, const struct layout *m, MPI_Comm comm, uint64_t salt)
{
    struct buf out, in;
    MPI_Status s;
    int n = -1;
    buf_make(&out, MEM_HOST, l, (int)(salt % 5), salt + (uint64_t)my_rank);
    buf_make(&in, MEM_HOST, m, (int)(salt % 3), salt + 7);
    message(way, &out, l, &in, m, comm, &s);
    if (my_rank == 1 || both_ways(way)) {
        buf_expect_from(&in, m, l, salt + (uint64_t)peer);
        MPI_Get_elements(&s, MPI_BYTE, &n);
        expect_equal(n, l->bytes, "the bytes received");
        expect_equal(s.MPI_SOURCE, peer, "the source");
        expect_equal(s.MPI_TAG, TAG, "the tag");
        buf_check(&in, m->text);
    }
    buf_check(&out, "what was sent");
    buf_free(&out), buf_free(&in);
}

/* Types of 120 doubles, COUNT of them: 75 KiB. */
static void all_ways(struct layout layouts[])
{
    for (int way = 0; way < WAYS; way++) {
        for (int i = 0; i < ROUNDS; i++)
            try((enum way)way, &layouts[1 + (i + way) % 5], &layouts[i % LAYOUT_FAMILY_B], MPI_COMM_WORLD, (uint64_t)(20 * i + way));
        report("way %d", way);
    }
}

/* Blocks of some KiB, whose runs are merged or cut otherwise at the other end, and more runs than one call reads. */
static void long_blocks(void)
{
    MPI_Datatype type[3];
    struct layout l[3];
    MPI_Type_vector(40, 1 << 12, 5000, MPI_BYTE, &type[0]);
    MPI_Type_vector(20, 1 << 13, 10001, MPI_BYTE, &type[1]);
    MPI_Type_vector(5 << 9, 1 << 6, 100, MPI_BYTE, &type[2]);
    for (int i = 0; i < 3; i++) type_commit(&type[i]), layout_of(&l[i], type[i], 1, "a vector");
    for (int i = 0; i < 18; i++) try(i % 2 ? BLOCKING : EXCHANGE, &l[i % 3], &l[i / 3 % 3], MPI_COMM_WORLD, (uint64_t)i);
    for (int i = 0; i < 3; i++) layout_free(&l[i]);
    report("long blocks");
}

/* Runs of 72 bytes, which lie across the lines of a block of shared memory: hardly more than comes with the RTS header,
 * one piece of the block, several, and what goes no way round (runtime/protocol/shm_fill.c). */
static void across_lines(void)
{
    static const int blocks[] = {57, 60, 200, 2000, 9000};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        MPI_Datatype type;
        struct layout l;
        MPI_Type_vector(blocks[i], 9, 11, MPI_DOUBLE, &type);
        type_commit(&type), layout_of(&l, type, 1, "72 B blocks");
        for (int k = 0; k < 6; k++) try(k % 2 ? NONBLOCKING : BLOCKING, &l, &l, MPI_COMM_WORLD, 3 * i + (uint64_t)k);
        layout_free(&l);
    }
    report("blocks across lines");
}

static void random_types(void)
{
    for (int i = 0; i < RANDOM_TYPES; i++) {
        struct layout l;
        layout_random(&l, FAMILY_A, 1 + (int)roll(4), true);
        for (int k = 0; k < 4; k++) try(k % 2 ? NONBLOCKING : BLOCKING, &l, &l, MPI_COMM_WORLD, (uint64_t)(9 * i + k));
        layout_free(&l);
    }
    report("random types");
}

/* Receives that are too short for the payload, or even for its RTS header. */
static void too_short(const struct layout *l)
{
    static const int room[] = {100, 1 << 12, 1 << 14};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 6; i++) {
        struct buf out, in;
        buf_make(&out, MEM_HOST, l, 0, 3);
        buf_bytes(&in, MEM_HOST, (size_t)room[i % 3], 0, 4);
        if (my_rank == 0) {
            MPI_Send(out.origin, l->count, l->type, 1, TAG, MPI_COMM_WORLD);
        } else {
            MPI_Request r = MPI_REQUEST_NULL;
            int rc = i < 3 ? MPI_Recv(in.origin, room[i % 3], MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
                           : MPI_Irecv(in.origin, room[i % 3], MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &r);
            if (i >= 3) rc = MPI_Wait(&r, MPI_STATUS_IGNORE);
            expect(error_class(rc) == MPI_ERR_TRUNCATE, "a receive of %d bytes: %s", room[i % 3], error_name(error_class(rc)));
            buf_check_but(&in, 0, (size_t)room[i % 3], "beside a receive that is too short");
        }
        buf_free(&out), buf_free(&in);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    report("receives that are too short");
}

/* The receiver waits for something else that is sent later, and sends first: nobody waits for ever. */
static void late(const struct layout *l)
{
    struct buf out, in;
    MPI_Request r[2];
    int word = my_rank;
    buf_make(&out, MEM_HOST, l, 0, 30 + (uint64_t)my_rank), buf_make(&in, MEM_HOST, l, 0, 40);
    MPI_Irecv(in.origin, l->count, l->type, peer, TAG, MPI_COMM_WORLD, &r[0]);
    MPI_Send(out.origin, l->count, l->type, peer, TAG, MPI_COMM_WORLD);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    buf_expect_from(&in, l, l, 30 + (uint64_t)peer);
    buf_check(&in, "both send first");
    buf_fill(&in, 41);
    if (my_rank == 0) {
        MPI_Isend(out.origin, l->count, l->type, 1, TAG, MPI_COMM_WORLD, &r[0]);
        MPI_Send(&word, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&word, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(in.origin, l->count, l->type, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        buf_expect_from(&in, l, l, 30);
    }
    buf_check(&in, "a late receiver's");
    buf_free(&out), buf_free(&in);
    report("late receivers");
}

/* What is cancelled is not received; what isn't, is. */
static void cancelled(const struct layout *l)
{
    struct buf out, in;
    MPI_Request r;
    MPI_Status s;
    int was = 0;
    buf_make(&out, MEM_HOST, l, 0, 50), buf_make(&in, MEM_HOST, l, 0, 51);
    if (my_rank == 0) {
        MPI_Isend(out.origin, l->count, l->type, 1, TAG, MPI_COMM_WORLD, &r);
        MPI_Cancel(&r);
        MPI_Wait(&r, &s);
        MPI_Test_cancelled(&s, &was);
        MPI_Send(&was, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD);
    } else {
        MPI_Irecv(in.origin, l->count, l->type, 0, TAG, MPI_COMM_WORLD, &r);
        MPI_Recv(&was, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (was) MPI_Cancel(&r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (!was) buf_expect_from(&in, l, l, 50);
        buf_check(&in, "after a cancel");
    }
    buf_free(&out), buf_free(&in);
    report("a cancelled send");
}

/* What a counter of stridec's says; -1 without it. */
static long counted(const char *name)
{
    long (*count)(void) = NULL;
    *(void **)&count = dlsym(RTLD_DEFAULT, name);
    return count ? count() : -1;
}

/* How often something was packed or unpacked without an offer; -1 where that is not told, or not fixed. */
static long packings(void)
{
    return getenv("STRIDEC_HOST") ? counted("stridec_host_packed") : -1;
}

/* So many doubles, `step` apart. */
static void doubles(struct layout *l, int n, int step)
{
    MPI_Datatype type;
    MPI_Type_vector(n, 1, step, MPI_DOUBLE, &type);
    type_commit(&type), layout_of(l, type, 1, "doubles");
}

/* Short runs, in a call that doesn't offer: packed both ways, or not at all. */
static void short_runs(void)
{
    struct layout l;
    struct buf b;
    doubles(&l, 2048, 2);
    long before = packings();
    buf_make(&b, MEM_HOST, &l, 0, 60 + (uint64_t)my_rank);
    MPI_Sendrecv_replace(b.origin, l.count, l.type, peer, TAG, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    long packed = packings() - before;
    buf_expect_from(&b, &l, &l, 60 + (uint64_t)peer);
    buf_check(&b, "what was exchanged");
    if (before >= 0) expect(is("apart") || (is("ordinary") ? !packed : packed >= 2), "packed and unpacked %ld times", packed);
    buf_free(&b);
    layout_free(&l);
    report("short runs in a call that doesn't offer");
}

/* Longer than the ring of a block (runtime/node/shm_pool.h): to a receiver who keeps up, and to one who has not
 * begun. */
static void past_the_ring(void)
{
    MPI_Request sent;
    struct layout l;
    struct buf out, in;
    doubles(&l, 400000, 2);
    buf_make(&out, MEM_HOST, &l, 0, 50 + (uint64_t)my_rank);
    for (int round = 0; round < 6; round++) {
        buf_make(&in, MEM_HOST, &l, 0, 52 + (uint64_t)my_rank);
        bool first = (round + my_rank) % 2, both = round >= 4;
        if (both) MPI_Isend(out.origin, l.count, l.type, peer, TAG, MPI_COMM_WORLD, &sent);
        if (!both && first) MPI_Send(out.origin, l.count, l.type, peer, TAG, MPI_COMM_WORLD);
        MPI_Recv(in.origin, l.count, l.type, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!both && !first) MPI_Send(out.origin, l.count, l.type, peer, TAG, MPI_COMM_WORLD);
        if (both) MPI_Wait(&sent, MPI_STATUS_IGNORE);
        buf_expect_from(&in, &l, &l, 50 + (uint64_t)peer);
        buf_check(&in, "what was received");
        buf_free(&in);
    }
    buf_check(&out, "what was sent");
    buf_free(&out), layout_free(&l);
    report("longer than the ring");
}

/* Messages that are too short to be offered, of short runs: packed and unpacked once there is code for them. */
static void brief_runs(void)
{
    static const int runs[] = {31, 32, 200, 512};
    int (*ready)(MPI_Datatype, int) = NULL;
    *(void **)&ready = dlsym(RTLD_DEFAULT, "stridec_host_ready");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        MPI_Request sent;
        struct layout l;
        struct buf out, in;
        doubles(&l, runs[i], 3);
        bool code = ready && ready(l.type, 1) == 1;
        long before = packings();
        buf_make(&out, MEM_HOST, &l, 0, 80 + (uint64_t)my_rank), buf_make(&in, MEM_HOST, &l, 0, 90 + (uint64_t)my_rank);
        MPI_Isend(out.origin, l.count, l.type, peer, TAG, MPI_COMM_WORLD, &sent);
        MPI_Recv(in.origin, l.count, l.type, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        long packed = packings() - before;
        buf_expect_from(&in, &l, &l, 80 + (uint64_t)peer);
        buf_check(&in, "what was received"), buf_check(&out, "what was sent");
        bool all = code && runs[i] >= 32 && !is("ordinary");
        if (before >= 0 && !is("apart")) expect(packed == (all ? 2 : 0), "%d doubles were packed and unpacked %ld times", runs[i], packed);
        buf_free(&out), buf_free(&in), layout_free(&l);
    }
    report("brief messages of short runs");
}

/* From places far apart, there and back: more lists than are kept (runtime/node/cma.c). */
static void far_apart(void)
{
    enum { PLACES = 270, APART = 4 << 20, DOUBLES = 2000 };
    char *all = mem_alloc(MEM_HOST, (size_t)PLACES * APART + 2 * DOUBLES * sizeof(double));
    double in[DOUBLES];
    MPI_Datatype type;
    int wrong = 0;
    MPI_Type_vector(DOUBLES, 1, 2, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 2 * PLACES; i++) {
        double *at = (double *)(all + (size_t)(i < PLACES ? i : 2 * PLACES - 1 - i) * APART);
        for (int k = 0; k < DOUBLES; k++) at[2 * k] = 1e4 * i + k;
        if (my_rank == 0) MPI_Send(at, 1, type, 1, TAG, MPI_COMM_WORLD);
        else MPI_Recv(in, DOUBLES, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int k = 0; k < DOUBLES && my_rank == 1; k++) wrong += in[k] != 1e4 * i + k;
    }
    expect(!wrong, "%d doubles", wrong);
    MPI_Type_free(&type);
    mem_free(MEM_HOST, all);
    report("from places far apart");
}

/* Started again and again, while code for the type comes: it goes the same way before and after. */
static void many_starts(void)
{
    enum { STARTS = 100 };
    MPI_Request r;
    struct layout l;
    struct buf b;
    doubles(&l, 5000, 3);
    buf_make(&b, MEM_HOST, &l, 0, 70 + (uint64_t)my_rank);
    if (my_rank == 0) MPI_Send_init(b.origin, l.count, l.type, 1, TAG, MPI_COMM_WORLD, &r);
    else MPI_Recv_init(b.origin, l.count, l.type, 0, TAG, MPI_COMM_WORLD, &r);
    for (int i = 0; i < STARTS; i++) {
        if (my_rank == 1) buf_fill(&b, 71);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Start(&r), MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (my_rank == 1 && i % 20 == 19) buf_expect_from(&b, &l, &l, 70), buf_check(&b, "what was started");
    }
    MPI_Request_free(&r);
    buf_free(&b), layout_free(&l);
    report("many starts");
}

static struct layout *of_threads;

static void *one_thread(void *comm)
{
    for (int i = 0; i < ROUNDS; i++)
        try(i % 3 ? NONBLOCKING : EXCHANGE, &of_threads[1 + i % 5], &of_threads[i % 6], *(MPI_Comm *)comm, (uint64_t)i);
    return NULL;
}

static void threads(struct layout layouts[])
{
    of_threads = layouts;
    in_threads(THREADS, one_thread);
    report("threads");
}

/* Blocks of shared memory are filled past the caches, then through them, then by the quicker way
 * (runtime/protocol/nontemporal.h). */
static void stored(void)
{
    long (*past)(int way) = NULL;
    *(void **)&past = dlsym(RTLD_DEFAULT, "stridec_host_past");
    for (int way = is("shared") ? 1 : -1; way >= -1; way--) {
        long before = past ? past(way) : 0;
        across_lines(), random_types(), past_the_ring();
        long more = past ? past(way) - before : 0;
        if (is("shared") && my_rank == 0 && way == 0) expect_equal(more, 0, "messages past the caches");
#ifdef __SSE2__
        if (is("shared") && my_rank == 0 && way == 1) expect(more > 20, "%ld messages went past the caches", more);
#endif
        report("stored past the caches: %s", way < 0 ? "as is found out" : way ? "all" : "none");
    }
}

static long number(const char *name)
{
    const int *n = dlsym(RTLD_DEFAULT, name);
    return n ? *n : -1;
}

/* That it went as it should: nothing above would have shown it. */
static void took_the_way(void)
{
    long shared = offers ? offers(0) : 0, placed = offers ? offers(1) : 0;
    bool hidden = number("attach_calls") == 0 && (dlsym(RTLD_DEFAULT, "__asan_init") || dlsym(RTLD_DEFAULT, "__tsan_init"));
    if (!offers || is("apart") || hidden) {
        note("stridec is not there, a rank may be apart, or calls can't be counted");
        return;
    }
    if (is("shared")) expect(shared > 50 && !placed, "%ld messages were shared, %ld offered in place", shared, placed);
    if (is("placed")) expect(placed > 50 && !shared, "%ld messages were shared, %ld offered in place", shared, placed);
    if (is("placed")) expect(number("attach_calls") > 50, "%ld calls of process_vm_readv", number("attach_calls"));
    if (is("refused")) expect(!placed && number("attach_calls") == 1, "%ld placed, %ld tries", placed, number("attach_calls"));
    if (is("failing")) expect(placed > 0 && shared > 30 && number("attach_failures") > 0, "%ld shared, %ld placed, %ld failures", shared, placed, number("attach_failures"));
    if (is("ordinary")) expect(!placed && !shared, "%ld messages were shared, %ld offered in place", shared, placed);
    report("they went the way that they should: %s", what);
}

/* Rank 1 as the launcher has it, before MPI_Init, begins anew in a namespace of process numbers of its own. Of Open MPI alone:
 * MPICH does not start there (UCX opens the other's /proc/PID/fd). */
static void go_apart(char **argv)
{
    char *in[16] = {"unshare", "-pf"}, exe[4096];
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (!rank || strcmp(rank, "1") || getenv("APART") || n < 0 || system("unshare -pf true 2>/dev/null")) return;
    exe[n] = '\0', in[2] = exe;
    for (int i = 1; argv[i] && i < 12; i++) in[2 + i] = argv[i];
    setenv("APART", "1", 1);
    execvp(in[0], in);
}

int main(int argc, char **argv)
{
    struct layout layouts[LAYOUTS];
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-') what = argv[i];
    if (is("apart")) go_apart(argv);
    int level = check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    peer = 1 - my_rank;
    *(void **)&offers = dlsym(RTLD_DEFAULT, "stridec_host_offers");
    for (int i = 0; i < LAYOUTS; i++) layout_number(&layouts[i], i, COUNT);
    all_ways(layouts);
    long_blocks();
    stored();
    too_short(&layouts[2]);
    late(&layouts[2]);
    cancelled(&layouts[2]);
    short_runs();
    brief_runs();
    if (is("placed")) far_apart();
    many_starts();
    if (level == MPI_THREAD_MULTIPLE) threads(layouts);
    took_the_way();
    for (int i = 0; i < LAYOUTS; i++) layout_free(&layouts[i]);
    return check_finish();
}
