/* watched.c: messages in host memory of which little is kept until they complete. Receives by types that stridec leaves to the
 * MPI (long runs): what comes is an offer all the same where the sender's type has short ones. Brief messages, which are sent
 * and received packed. By every call that completes them, with the type freed before, many at once, shorter than the receive
 * and too long for it; to nobody, and without a buffer. Every byte is compared.
 *
 * usage: watched [ordinary | threads]: nothing is stridec's
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on MPIR_CVAR_REQUEST_BATCH_SIZE=4 -n 2 --host
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host threads
 * run: STRIDEC_HOST=on -n 2 --host
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=off -n 2 --host ordinary
 */
#include "check.h"
#include "../../runtime/api/stridec.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TAG = 3, AT_ONCE = 40, TURNS = 4, THREADS = 3, BYTES = 64 << 10, BRIEF = 1024, BURST = 8, ROUNDS = 4000 };
enum way { RECV, SENDRECV, REPLACED, WAIT, TEST, WAITANY, TESTANY, WAITSOME, TESTSOME, STATUS, WAYS };
static const char *const names[WAYS] = {"Recv",    "Sendrecv", "Sendrecv_replace", "Wait",     "Test",
                                        "Waitany", "Testany",  "Waitsome",         "Testsome", "Request_get_status"};

/* WINDOW, MIXED: too short for an offer, and long enough for an RTS header. */
enum layouts { CELLS, ROWS, FEW_ROWS, BITS, PIECES, FEW_BITS, FEW_PIECES, HALVES, WINDOW, MIXED, KINDS };
static struct layout layouts[KINDS];
static const struct { int runs, run, pitch; } shapes[KINDS] = {
    [CELLS] = {BYTES / 8, 8, 16},   [ROWS] = {BYTES / 2048, 2048, 3000}, [FEW_ROWS] = {BYTES / 4096, 2048, 3000},
    [BITS] = {BRIEF / 8, 8, 24},    [PIECES] = {BRIEF / 16, 16, 40},
    [FEW_BITS] = {BRIEF / 16, 8, 24}, [FEW_PIECES] = {BRIEF / 32, 16, 40}, [HALVES] = {2, BRIEF / 2, 700},
    [WINDOW] = {4032 / 8, 8, 24},
};
/* What is sent into what. */
static const struct pair { enum layouts from, to; } pairs[] = {{CELLS, ROWS}, {BITS, PIECES}, {FEW_BITS, PIECES}, {PIECES, BITS}, {BITS, HALVES}, {HALVES, PIECES},
                                                              {BITS, WINDOW}, {WINDOW, WINDOW}, {MIXED, MIXED}};
static int peer;
static bool ordinary, threads;
static long (*offers)(int in_place), (*packed)(void);
static int (*ready)(MPI_Datatype, int);

static void complete(enum way way, MPI_Request *r, MPI_Status *s)
{
    int done = 0, at = 0;
    if (way == WAIT) MPI_Wait(r, s);
    if (way == WAITANY) MPI_Waitany(1, r, &at, s);
    if (way == WAITSOME) MPI_Waitsome(1, r, &done, &at, s);
    while (way == STATUS && !done) MPI_Request_get_status(*r, &done, s);
    if (way == STATUS) MPI_Wait(r, s);
    while (way == TEST && !done) MPI_Test(r, &done, s);
    while (way == TESTANY && !done) MPI_Testany(1, r, &at, &done, s);
    while (way == TESTSOME && !done) MPI_Testsome(1, r, &done, &at, s);
}

static MPI_Datatype type_made(enum layouts which)
{
    MPI_Datatype type, part[2];
    if (which == MIXED) {   /* 4032 bytes of doubles and ints */
        MPI_Type_vector(336, 1, 3, MPI_DOUBLE, &part[0]), MPI_Type_vector(336, 1, 2, MPI_INT, &part[1]);
        MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8072}, part, &type);
        for (int i = 0; i < 2; i++) MPI_Type_free(&part[i]);
    } else {
        MPI_Type_vector(shapes[which].runs, shapes[which].run, shapes[which].pitch, MPI_BYTE, &type);
    }
    return type;
}

/* Others are made where a freed one was. */
static void free_type(MPI_Datatype type)
{
    MPI_Datatype other[4];
    MPI_Type_free(&type);
    for (int i = 0; i < 4; i++) MPI_Type_vector(3, 5, 7 + i, MPI_BYTE, &other[i]), MPI_Type_commit(&other[i]);
    for (int i = 0; i < 4; i++) MPI_Type_free(&other[i]);
}

/* Of `type`, which is freed before a request is completed where `frees`. */
static void receive(enum way way, void *to, MPI_Datatype type, bool frees, MPI_Comm comm, MPI_Status *s)
{
    MPI_Request r;
    if (way == RECV) MPI_Recv(to, 1, type, peer, TAG, comm, s);
    else if (way == SENDRECV) MPI_Sendrecv(to, 0, type, MPI_PROC_NULL, TAG, to, 1, type, MPI_ANY_SOURCE, TAG, comm, s);
    else if (way == REPLACED) MPI_Sendrecv_replace(to, 1, type, MPI_PROC_NULL, TAG, peer, TAG, comm, s);
    else {
        MPI_Irecv(to, 1, type, peer, TAG, comm, &r);
        if (frees) free_type(type);
        complete(way, &r, s);
        return;
    }
    if (frees) free_type(type);
}

static void send(int turn, const void *from, MPI_Datatype type, bool frees, MPI_Comm comm)
{
    MPI_Request r;
    if (turn == 0) MPI_Send(from, 1, type, peer, TAG, comm);
    else if (turn == 1) MPI_Ssend(from, 1, type, peer, TAG, comm);
    else {
        (turn == 2 ? MPI_Isend : MPI_Issend)(from, 1, type, peer, TAG, comm, &r);
        if (frees) free_type(type);
        complete(turn == 2 ? WAIT : TEST, &r, MPI_STATUS_IGNORE);
        return;
    }
    if (frees) free_type(type);
}

/* From rank 0 to rank 1, the types known to stridec from the first messages on. */
static void each(enum way way, const struct pair *p, bool frees, MPI_Comm comm)
{
    const struct layout *from = &layouts[p->from], *to = &layouts[p->to];
    MPI_Datatype type;
    MPI_Type_dup(my_rank ? to->type : from->type, &type);
    for (int turn = 0; turn < TURNS; turn++) {
        struct buf b;
        MPI_Status s;
        int n = -1;
        bool freed = frees && turn + 1 == TURNS;
        buf_make(&b, MEM_HOST, my_rank ? to : from, turn, my_rank ? 20 : 10 + (uint64_t)turn);
        if (my_rank == 0) send(turn, b.origin, type, freed, comm);
        else {
            receive(way, b.origin, type, freed, comm, &s);
            buf_expect_from(&b, to, from, 10 + (uint64_t)turn);
            MPI_Get_elements(&s, MPI_BYTE, &n);
            expect_equal(n, from->bytes, "the bytes received");
            expect_equal(s.MPI_SOURCE, peer, "the source");
            expect_equal(s.MPI_TAG, TAG, "the tag");
        }
        buf_check(&b, names[way]);
        buf_free(&b);
    }
    if (!frees) MPI_Type_free(&type);
}

static void all_ways(void)
{
    for (int way = 0; way < WAYS; way++) {
        for (size_t i = 0; i < 2 * sizeof pairs / sizeof *pairs; i++) each((enum way)way, &pairs[i / 2], i % 2, MPI_COMM_WORLD);
        report("%s", names[way]);
    }
}

/* Both ways in one call. */
static void exchanged(const struct pair *p)
{
    const struct layout *from = &layouts[p->from], *to = &layouts[p->to];
    struct buf out, in;
    MPI_Status s;
    buf_make(&out, MEM_HOST, from, 0, 70 + (uint64_t)my_rank), buf_make(&in, MEM_HOST, to, 3, 80);
    MPI_Sendrecv(out.origin, 1, from->type, peer, TAG, in.origin, 1, to->type, peer, TAG, MPI_COMM_WORLD, &s);
    buf_expect_from(&in, to, from, 70 + (uint64_t)peer);
    buf_check(&in, "what was received"), buf_check(&out, "what was sent");
    MPI_Sendrecv_replace(out.origin, 1, from->type, peer, TAG, peer, TAG, MPI_COMM_WORLD, &s);
    buf_expect_from(&out, from, from, 70 + (uint64_t)peer);
    buf_check(&out, "what was replaced");
    buf_free(&out), buf_free(&in);
}

/* More than one call takes to its stack, every fifth of them too short; both ranks send. Not with threads: under
 * MPI_THREAD_MULTIPLE Open MPI 4.1 waits for ever in MPI_Waitall where a receive has failed before, without stridec too. */
static void at_once(int n, enum layouts sent, enum layouts received, enum layouts fewer)
{
    MPI_Request r[2 * AT_ONCE];
    MPI_Status s[2 * AT_ONCE];
    struct buf out, in[AT_ONCE];
    bool fail_some = n > 4;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    buf_make(&out, MEM_HOST, &layouts[sent], 0, 5);
    for (int i = 0; i < n; i++) {
        const struct layout *l = &layouts[i % 5 == 4 ? fewer : received];
        buf_make(&in[i], MEM_HOST, l, 0, 30 + (uint64_t)i);
        MPI_Irecv(in[i].origin, 1, l->type, peer, TAG + i, MPI_COMM_WORLD, &r[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        (i % 2 ? MPI_Isend : MPI_Issend)(out.origin, 1, layouts[sent].type, peer, TAG + i, MPI_COMM_WORLD, &r[n + i]);
    int class = error_class(MPI_Waitall(2 * n, r, s));
    expect(class == (fail_some ? MPI_ERR_IN_STATUS : MPI_SUCCESS), "Waitall gives %s", error_name(class));
    for (int i = 0; i < n; i++) {
        const struct layout *l = &layouts[i % 5 == 4 ? fewer : received];
        int error = fail_some ? error_class(s[i].MPI_ERROR) : MPI_SUCCESS;
        if (error == MPI_ERR_PENDING) error = error_class(MPI_Wait(&r[i], &s[i]));
        expect(error == (i % 5 == 4 ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "receive %d: %s", i, error_name(error));
        if (i % 5 != 4) buf_expect_from(&in[i], l, &layouts[sent], 5), buf_check(&in[i], "one of many");
        buf_free(&in[i]);
    }
    for (int i = n; i < 2 * n; i++)
        if (r[i] != MPI_REQUEST_NULL) MPI_Wait(&r[i], MPI_STATUS_IGNORE);
    buf_check(&out, "what was sent");
    buf_free(&out);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    report("%d of %d B at once", n, layouts[sent].bytes);
}

/* A call that the MPI refuses for another of its requests, or for its other arguments, completes nothing. */
static void refused(const struct pair *p)
{
    const struct layout *from = &layouts[p->from], *to = &layouts[p->to];
    struct buf out, in;
    MPI_Request r[2] = {0};   /* the second one is no request */
    MPI_Status s[2];
    buf_make(&out, MEM_HOST, from, 0, 80 + (uint64_t)my_rank);
    buf_make(&in, MEM_HOST, to, 0, 90);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Irecv(in.origin, 1, to->type, peer, TAG, MPI_COMM_WORLD, &r[0]);
    int class = error_class(MPI_Waitall(2, r, s));
    expect(class == MPI_ERR_REQUEST, "Waitall gives %s", error_name(class));
    class = error_class(MPI_Test(&r[0], NULL, s));
    expect(class == MPI_ERR_ARG, "Test gives %s", error_name(class));
#ifndef OPEN_MPI   /* which wants no status then */
    class = error_class(MPI_Wait(&r[0], NULL));
    expect(class == MPI_ERR_ARG, "Wait gives %s", error_name(class));
#endif
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(out.origin, 1, from->type, peer, TAG, MPI_COMM_WORLD);
    MPI_Wait(&r[0], s);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL), MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    buf_expect_from(&in, to, from, 80 + (uint64_t)peer);
    buf_check(&in, "what was received after a call that was refused");
    buf_free(&out), buf_free(&in);
}

/* Nobody looks at a buffer that goes nowhere, and one that is none is the MPI's to refuse. */
static void no_memory(const struct layout *l)
{
    char *gone = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *there = calloc(1, 1 << 20);
    MPI_Request r;
    MPI_Status s;
    MPI_Send(gone, 1, l->type, MPI_PROC_NULL, TAG, MPI_COMM_WORLD), MPI_Ssend(gone, 1, l->type, MPI_PROC_NULL, TAG, MPI_COMM_WORLD);
    MPI_Isend(gone, 1, l->type, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &r), MPI_Wait(&r, &s);
    MPI_Recv(gone, 1, l->type, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &s);
    MPI_Irecv(gone, 1, l->type, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &r), MPI_Wait(&r, &s);
    MPI_Sendrecv(gone, 1, l->type, MPI_PROC_NULL, TAG, gone, 1, l->type, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &s);
    expect_equal(s.MPI_SOURCE, MPI_PROC_NULL, "the source");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int class[] = {
        error_class(MPI_Send(NULL, 1, l->type, peer, TAG, MPI_COMM_WORLD)),
        error_class(MPI_Ssend(NULL, 1, l->type, peer, TAG, MPI_COMM_WORLD)),
        error_class(MPI_Isend(NULL, 1, l->type, peer, TAG, MPI_COMM_WORLD, &r)),
        error_class(MPI_Sendrecv(NULL, 1, l->type, peer, TAG, there, 1, l->type, peer, TAG, MPI_COMM_WORLD, &s)),
        error_class(MPI_Sendrecv(there, 1, l->type, peer, TAG, NULL, 1, l->type, peer, TAG, MPI_COMM_WORLD, &s)),
        error_class(MPI_Send_init(NULL, 1, l->type, peer, TAG, MPI_COMM_WORLD, &r)),
        error_class(MPI_Recv(NULL, 1, l->type, peer, TAG, MPI_COMM_WORLD, &s)),
        error_class(MPI_Irecv(NULL, 1, l->type, peer, TAG, MPI_COMM_WORLD, &r)),
#if MPI_VERSION >= 4
        error_class(MPI_Isendrecv(NULL, 1, l->type, peer, TAG, there, 1, l->type, peer, TAG, MPI_COMM_WORLD, &r)),
#endif
    };
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    for (size_t i = 0; i < sizeof class / sizeof *class; i++) expect(class[i] == MPI_ERR_BUFFER, "call %zu gives %s", i, error_name(class[i]));
    munmap(gone, 1 << 20), free(there);
}

/* Sends that are over at once may share a handle, for which several threads then wait at the same time. */
static void to_itself(int thread, MPI_Comm comm)
{
    const struct layout *l = &layouts[BITS];
    size_t span = (size_t)l->span;
    unsigned char *out = malloc(BURST * span), *in = malloc(BURST * span), *want = malloc(span);
    MPI_Request received[BURST], sent[BURST];
    int wrong = 0;
    for (int round = 0; round < ROUNDS && !wrong; round++) {
        for (int m = 0; m < BURST; m++) {
            memset(out + (size_t)m * span, 1 + (round * BURST + m + 100 * thread) % 250, span), memset(in + (size_t)m * span, 0, span);
            MPI_Irecv(in + (size_t)m * span - l->low, 1, l->type, my_rank, m, comm, &received[m]);
        }
        for (int m = 0; m < BURST; m++) MPI_Isend(out + (size_t)m * span - l->low, 1, l->type, my_rank, m, comm, &sent[m]);
        for (int m = 0; m < BURST; m++) MPI_Wait(&sent[m], MPI_STATUS_IGNORE);
        for (int m = 0; m < BURST; m++) {
            MPI_Wait(&received[m], MPI_STATUS_IGNORE);
            memset(want, 0, span);
            for (int i = 0; i < l->bytes; i++) want[l->map[i]] = out[(size_t)m * span];
            wrong += memcmp(in + (size_t)m * span, want, span) != 0;
        }
    }
    expect(!wrong, "%d messages of a thread to its own rank are wrong", wrong);
    free(out), free(in), free(want);
}

static void *one_thread(void *comm)
{
    static atomic_int threads_begun;
    to_itself(atomic_fetch_add(&threads_begun, 1), *(MPI_Comm *)comm);
    for (int i = 0; i < 4 * WAYS; i++) each((enum way)(i % WAYS), &pairs[i / WAYS], i % 2, *(MPI_Comm *)comm);
    return NULL;
}

/* That they went as they should: nothing above would have shown it. */
static void took_the_way(void)
{
    long offered = offers ? offers(0) + offers(1) : 0, brief = packed ? packed() : 0;
    if (!offers || !packed) {
        note("stridec is not there");
        return;
    }
    expect(my_rank || (ordinary ? !offered : offered > WAYS * TURNS), "%ld messages were offered", offered);
    expect(ordinary ? !brief : brief > WAYS * TURNS, "%ld messages were packed", brief);
    /* Only where STRIDEC_HOST=on has short messages packed. With the simulated GPU every process has a driver, and
     * short messages have records. */
    const char *host = getenv("STRIDEC_HOST");
    if (host && !strcmp(host, "on") && !dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
        static char memory[3 * BRIEF];
        enum stridec_path path;
        char why[200];
        int rc = stridec_query(memory, 1, layouts[BITS].type, peer, MPI_COMM_WORLD, &path, why, sizeof why);
        expect(rc == STRIDEC_OK && path == STRIDEC_PATH_PACKED, "a brief message goes %s: %s", rc ? "?" : stridec_path_name(path), why);
    }
    report("they went the way that they should");
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) ordinary |= !strcmp(argv[i], "ordinary"), threads |= !strcmp(argv[i], "threads");
    int level = check_start(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : -1);
    *(void **)&offers = dlsym(RTLD_DEFAULT, "stridec_host_offers");
    *(void **)&packed = dlsym(RTLD_DEFAULT, "stridec_host_packed");
    *(void **)&ready = dlsym(RTLD_DEFAULT, "stridec_host_ready");
    peer = 1 - my_rank;
    for (int i = 0; i < KINDS; i++) {
        MPI_Datatype type = type_made((enum layouts)i);
        type_commit(&type);
        layout_of(&layouts[i], type, 1, "runs");
        if (ready && !ordinary) ready(type, 1);
    }
    all_ways();
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) exchanged(&pairs[i]), exchanged(&pairs[i]);
    report("exchanged");
    for (int n = 4; n <= (threads ? 4 : AT_ONCE); n += 12) at_once(n, CELLS, ROWS, FEW_ROWS), at_once(n, BITS, PIECES, FEW_PIECES);
    for (int n = 4; n <= (threads ? 4 : AT_ONCE); n += 12) at_once(n, CELLS, CELLS, WINDOW), at_once(n, WINDOW, WINDOW, BITS);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) refused(&pairs[i]), refused(&pairs[i]);
    report("refused");
    for (int i = 0; i < KINDS; i++) no_memory(&layouts[i]);
    report("no memory");
    expect_cancelled(MEM_HOST, &layouts[PIECES], peer, TAG + 100, MPI_COMM_WORLD);
    report("cancelled");
    if (threads && level == MPI_THREAD_MULTIPLE) {
        in_threads(THREADS, one_thread);
        report("threads");
    }
    took_the_way();
    for (int i = 0; i < KINDS; i++) layout_free(&layouts[i]);
    return check_finish();
}
