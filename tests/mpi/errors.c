/* errors.c: bad arguments and truncation with device buffers: the error class that this MPI gives a host buffer.
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int peer;
static struct layout vector;

/* ---- calls that are wrong in one argument ---- */

/* The arguments of a send or receive, right until a case spoils one. */
struct args {
    void *at;
    int count, peer, tag;
    MPI_Datatype type, other; /* other: not committed */
    MPI_Comm comm;
};

typedef void spoil(struct args *a);

static void negative_count(struct args *a)
{
    a->count = -1;
}

static void not_committed(struct args *a)
{
    a->type = a->other;
}

static void no_type(struct args *a)
{
    a->type = MPI_DATATYPE_NULL;
}

static void no_comm(struct args *a)
{
    a->comm = MPI_COMM_NULL;
}

static void bad_tag(struct args *a)
{
    a->tag = -7;
}

static void bad_rank(struct args *a)
{
    a->peer = num_ranks + 5;
}

static void null_buffer(struct args *a)
{
    a->at = NULL;
    a->type = MPI_INT;
}

typedef int call(struct args *a);

static int call_send(struct args *a)
{
    return MPI_Send(a->at, a->count, a->type, a->peer, a->tag, a->comm);
}

static int call_ssend(struct args *a)
{
    return MPI_Ssend(a->at, a->count, a->type, a->peer, a->tag, a->comm);
}

static int call_bsend(struct args *a)
{
    return MPI_Bsend(a->at, a->count, a->type, a->peer, a->tag, a->comm);
}

static int call_recv(struct args *a)
{
    return MPI_Recv(a->at, a->count, a->type, a->peer, a->tag, a->comm, MPI_STATUS_IGNORE);
}

static int call_isend(struct args *a)
{
    MPI_Request r;
    return MPI_Isend(a->at, a->count, a->type, a->peer, a->tag, a->comm, &r);
}

static int call_issend(struct args *a)
{
    MPI_Request r;
    return MPI_Issend(a->at, a->count, a->type, a->peer, a->tag, a->comm, &r);
}

static int call_irecv(struct args *a)
{
    MPI_Request r;
    return MPI_Irecv(a->at, a->count, a->type, a->peer, a->tag, a->comm, &r);
}

static int call_sendrecv(struct args *a)
{
    return MPI_Sendrecv(a->at, a->count, a->type, a->peer, a->tag, NULL, 0, MPI_INT, MPI_PROC_NULL, 0, a->comm,
                        MPI_STATUS_IGNORE);
}

static int call_pack(struct args *a)
{
    static char out[1 << 14];
    int position = 0;
    return MPI_Pack(a->at, a->count, a->type, out, sizeof out, &position, a->comm);
}

static int call_unpack(struct args *a)
{
    static char in[1 << 14];
    int position = 0;
    return MPI_Unpack(in, sizeof in, &position, a->at, a->count, a->type, a->comm);
}

static int call_pack_size(struct args *a)
{
    int size;
    return MPI_Pack_size(a->count, a->type, a->comm, &size);
}

/* tag, rank: the case concerns calls with such an argument; buffer: with a buffer. */
static const struct {
    const char *name;
    spoil *spoil;
    bool needs_envelope, needs_buffer;
} cases[] = {{"negative count", negative_count, false, false},
             {"uncommitted type", not_committed, false, true},
             {"MPI_DATATYPE_NULL", no_type, false, false},
             {"MPI_COMM_NULL", no_comm, false, false},
             {"bad tag", bad_tag, true, true},
             {"bad rank", bad_rank, true, true},
             {"null buffer", null_buffer, false, true}};

static const struct {
    const char *name;
    call *call;
    bool envelope, buffer;
} calls[] = {{"MPI_Send", call_send, true, true},
             {"MPI_Ssend", call_ssend, true, true},
             {"MPI_Bsend", call_bsend, true, true},
             {"MPI_Recv", call_recv, true, true},
             {"MPI_Isend", call_isend, true, true},
             {"MPI_Issend", call_issend, true, true},
             {"MPI_Irecv", call_irecv, true, true},
             {"MPI_Sendrecv", call_sendrecv, true, true},
             {"MPI_Pack", call_pack, false, true},
             {"MPI_Unpack", call_unpack, false, true},
             {"MPI_Pack_size", call_pack_size, false, false}};

/* What a wrong call gives with a buffer in that memory; the buffer must not change. */
static int class_of(size_t i, size_t k, enum mem_kind kind, MPI_Datatype uncommitted)
{
    struct buf b;
    buf_make(&b, kind, &vector, 0, 1);
    struct args a = {b.origin, vector.count, peer, 3, vector.type, uncommitted, MPI_COMM_WORLD};
    cases[k].spoil(&a);
    int class = error_class(calls[i].call(&a));
    buf_check(&b, "the buffer of a refused call");
    buf_free(&b);
    return class;
}

static void wrong_arguments(void)
{
    MPI_Datatype uncommitted;
    MPI_Type_vector(4, 2, 3, MPI_DOUBLE, &uncommitted);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            if ((cases[k].needs_envelope && !calls[i].envelope) || (cases[k].needs_buffer && !calls[i].buffer))
                continue;
            int host = class_of(i, k, MEM_HOST, uncommitted);
            /* MPICH 4.0 takes an uncommitted type, or a null buffer, in some calls; what it then does is its own. */
            if (host == MPI_SUCCESS) {
                note("%s, %s: this MPI does not check", cases[k].name, calls[i].name);
                continue;
            }
            int device = class_of(i, k, MEM_DEVICE, uncommitted);
            expect(host == device, "%s: %s with a device buffer, %s with a host buffer", calls[i].name,
                   error_name(device), error_name(host));
            if (device == MPI_SUCCESS) break; /* the next call might wait for a partner */
        }
        report("%s", cases[k].name);
    }
    MPI_Type_free(&uncommitted);
}

/* A handle that is none, as in a structure of zeros: an error, as without stridec. */
static void free_none(void)
{
    MPI_Datatype none = (MPI_Datatype)0;
    expect_equal(error_class(MPI_Type_free(&none)), MPI_ERR_TYPE, "the class of freeing no type");
    report("freeing no type");
}

/* A named type with a gap; what stridec makes for it goes with it: MPICH tells at its end of types that were not freed. */
static void pairs(void)
{
    struct {
        double d;
        int i;
    } out[2] = {{1, 2}, {3, 4}}, in[2] = {{0, 0}, {0, 0}};
    MPI_Sendrecv(out, 2, MPI_DOUBLE_INT, 0, 0, in, 2, MPI_DOUBLE_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    expect(in[0].i == 2 && in[1].d == 3 && in[1].i == 4, "pairs to the rank itself");
    report("pairs");
}

/* ---- truncation ---- */

/* Receives of fewer elements than are sent, in one of truncation()'s ways. Memory past what the receive may touch
 * stays as it was; what it may touch is undefined. */
static int truncated_class(enum mem_kind kind, int way)
{
    struct buf b;
    struct layout small;
    MPI_Status s;
    MPI_Request r;
    MPI_Message handle;
    int rc;
    layout_number(&small, 1, 1);
    buf_make(&b, kind, &small, 0, 2);
    if (way == 0) {
        rc = MPI_Recv(b.origin, 1, small.type, peer, 4, MPI_COMM_WORLD, &s);
    } else if (way == 1) {
        rc = MPI_Irecv(b.origin, 1, small.type, peer, 4, MPI_COMM_WORLD, &r);
        if (rc == MPI_SUCCESS) rc = MPI_Wait(&r, &s);
    } else if (way == 2) {
        MPI_Mprobe(peer, 4, MPI_COMM_WORLD, &handle, MPI_STATUS_IGNORE);
        rc = MPI_Mrecv(b.origin, 1, small.type, &handle, &s);
    } else {
        rc = MPI_Irecv(b.origin, 1, small.type, peer, 4, MPI_COMM_WORLD, &r);
        for (int seen = 0; rc == MPI_SUCCESS && !seen;) rc = MPI_Request_get_status(r, &seen, &s);
        int waited = MPI_Wait(&r, &s);   /* tells so, whatever MPI_Request_get_status told */
        if (rc == MPI_SUCCESS || waited == MPI_SUCCESS) rc = waited;
    }
    unsigned char *got = malloc(b.bytes), *gap = malloc(b.bytes);
    mem_read(kind, got, b.base, b.bytes);
    memset(gap, 1, b.bytes);
    for (int i = 0; i < small.bytes; i++) gap[b.lead + (size_t)small.map[i]] = 0;
    for (size_t i = 0; i < b.bytes; i++)
        expect(!gap[i] || got[i] == b.shadow[i], "a truncated receive changes byte %zu, not of its type", i);
    free(got);
    free(gap);
    buf_free(&b);
    layout_free(&small);
    return error_class(rc);
}

static void truncation(void)
{
    static const char *const ways[] = {"Recv", "Irecv and Wait", "Mrecv", "Irecv, Request_get_status and Wait"};
    static const int counts[] = {2, 400}; /* eager and not */
    for (int way = 0; way < 4; way++)
        for (int c = 0; c < 2; c++)
            for (int sender_kind = 0; sender_kind < 2; sender_kind++)
                for (int kind = 0; kind < 2; kind++) {
                    struct layout sent;
                    struct buf b;
                    MPI_Request r;
                    layout_number(&sent, 1, counts[c]);
                    buf_make(&b, sender_kind ? MEM_DEVICE : MEM_HOST, &sent, 0, 3);
                    MPI_Isend(b.origin, sent.count, sent.type, peer, 4, MPI_COMM_WORLD, &r);
                    int class = truncated_class(kind ? MEM_DEVICE : MEM_HOST, way);
                    expect(class == MPI_ERR_TRUNCATE, "%s on the %s of %d elements gives %s", ways[way],
                           kind ? "device" : "host", counts[c], error_name(class));
                    MPI_Wait(&r, MPI_STATUS_IGNORE);
                    buf_free(&b);
                    layout_free(&sent);
                }
    report("truncated receives give MPI_ERR_TRUNCATE");
}

/* Errors that stridec finds are raised where those of the MPI are: MPICH 4.0 raises those of some calls on MPI_COMM_WORLD. */
static int raised_here, raised_elsewhere;

/* MPICH 5.0's calls return MPI_SUCCESS after a handler of the program's, some of them. The header of the standard ABI does
 * not tell whose it is. */
#if defined MPICH_NUMVERSION ? MPICH_NUMVERSION >= 50000000 : !defined OPEN_MPI
static const bool handled_gives_success = true;
#else
static const bool handled_gives_success = false;
#endif

static void here(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    raised_here++;
}

static void elsewhere(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    raised_elsewhere++;
}

static int truncated_on(MPI_Comm comm, int way, enum mem_kind kind, const struct layout *room)
{
    struct buf b;
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Message m;
    MPI_Status s;
    int rc = MPI_SUCCESS, there = 0, index;
    buf_make(&b, kind, room, 0, 2);
    if (way == 0) rc = MPI_Recv(b.origin, room->count, room->type, peer, 4, comm, &s);
    if (way == 1) MPI_Mprobe(peer, 4, comm, &m, &s), rc = MPI_Mrecv(b.origin, room->count, room->type, &m, &s);
    if (way == 2) MPI_Recv_init(b.origin, room->count, room->type, peer, 4, comm, &r), MPI_Start(&r);
    if (way > 2) MPI_Irecv(b.origin, room->count, room->type, peer, 4, comm, &r);
    if (way == 2 || way == 3) rc = MPI_Wait(&r, &s);
    while (way == 4 && rc == MPI_SUCCESS && !there) rc = MPI_Test(&r, &there, &s);
    if (way == 5) rc = MPI_Waitany(1, &r, &index, &s);
    if (way == 6) rc = MPI_Waitall(1, &r, &s);
    if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
    buf_free(&b);
    return error_class(rc);
}

static void handlers(void)
{
    MPI_Comm comm;
    MPI_Errhandler on_comm, on_world;
    struct layout sent, room;
    struct buf b;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(here, &on_comm);
    MPI_Comm_create_errhandler(elsewhere, &on_world);
    MPI_Comm_set_errhandler(comm, on_comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, on_world);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, on_world);
    layout_number(&sent, 1, 400);
    layout_number(&room, 1, 80);
    for (int way = 0; way < 7; way++) {
        for (int kind = 0; kind < 2; kind++) {
            MPI_Request r;
            buf_make(&b, kind ? MEM_DEVICE : MEM_HOST, &sent, 0, 3);
            MPI_Isend(b.origin, sent.count, sent.type, peer, 4, comm, &r);
            raised_here = raised_elsewhere = 0;
            int class = truncated_on(comm, way, kind ? MEM_DEVICE : MEM_HOST, &room);
            expect(class == (way == 6 ? MPI_ERR_IN_STATUS : MPI_ERR_TRUNCATE) || (handled_gives_success && !class),
                   "way %d gives %s", way, error_name(class));
#ifdef OPEN_MPI
            expect(way == 2 || (raised_here == 1 && !raised_elsewhere), "way %d: raised %d times, and %d times elsewhere", way,
                   raised_here, raised_elsewhere);
#endif
            expect(raised_here + raised_elsewhere > 0, "way %d: raised nowhere", way);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
            buf_free(&b);
        }
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&on_comm), MPI_Errhandler_free(&on_world);
    MPI_Comm_free(&comm);
    layout_free(&sent), layout_free(&room);
    report("error handlers of communicators");
}

/* One of three receives is truncated: Waitall says which. */
static void in_status(void)
{
    MPI_Request recv[3], send[3];
    MPI_Status s[3];
    struct buf in[3], out[3];
    struct layout one, two;
    layout_number(&one, 1, 1);
    layout_number(&two, 2, 2);
    for (int i = 0; i < 3; i++) {
        buf_make(&in[i], MEM_DEVICE, &one, 0, 4);
        buf_make(&out[i], MEM_DEVICE, i == 1 ? &two : &one, 0, 5);
        MPI_Irecv(in[i].origin, 1, one.type, peer, i, MPI_COMM_WORLD, &recv[i]);
    }
    for (int i = 0; i < 3; i++) {
        struct layout *l = i == 1 ? &two : &one;
        s[i].MPI_ERROR = -1;
        MPI_Isend(out[i].origin, l->count, l->type, peer, i, MPI_COMM_WORLD, &send[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int class = error_class(MPI_Waitall(3, recv, s));
    expect(class == MPI_ERR_IN_STATUS, "Waitall gives %s", error_name(class));
    for (int i = 0; i < 3; i++) {
        int got = error_class(s[i].MPI_ERROR);
        if (i != 1 && got == MPI_ERR_PENDING) { /* allowed: it goes on */
            MPI_Wait(&recv[i], &s[i]);
            got = MPI_SUCCESS;
        }
        expect(got == (i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "status %d says %s", i, error_name(got));
        if (i != 1) {
            expect(s[i].MPI_SOURCE == peer && s[i].MPI_TAG == i, "status %d has source %d, tag %d", i, s[i].MPI_SOURCE,
                   s[i].MPI_TAG);
            buf_expect_from(&in[i], &one, &one, 5);
            buf_check(&in[i], "a good receive beside a truncated one");
        }
    }
    MPI_Waitall(3, send, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3; i++) buf_free(&in[i]), buf_free(&out[i]);
    layout_free(&one);
    layout_free(&two);
    report("MPI_ERR_IN_STATUS from Waitall");
}

/* After all the errors a right message still gets through. */
static void still_works(void)
{
    struct buf in, out;
    buf_make(&in, MEM_DEVICE, &vector, 0, 1);
    buf_make(&out, MEM_DEVICE, &vector, 0, 2);
    MPI_Sendrecv(out.origin, vector.count, vector.type, peer, 9, in.origin, vector.count, vector.type, peer, 9,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    buf_expect_from(&in, &vector, &vector, 2);
    buf_check(&in, "a message after errors");
    buf_free(&in);
    buf_free(&out);
    report("messages after errors");
}

int main(int argc, char **argv)
{
    static char space[1 << 16];
    check_start(&argc, &argv, -1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Buffer_attach(space, sizeof space);
    peer = my_rank ^ 1;
    layout_number(&vector, 1, 2);
    wrong_arguments();
    truncation();
    handlers();
    in_status();
    still_works();
    free_none();
    pairs();
    layout_free(&vector);
    void *detached;
    int n;
    MPI_Buffer_detach(&detached, &n);
    return check_finish();
}
