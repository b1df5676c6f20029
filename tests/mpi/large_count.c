/* large_count.c: the large-count forms (MPI_Send_c ...) of sends, receives, exchanges, packing. Where the MPI has none,
 * the same with the plain ones.
 *
 * usage: large_count [past]: with `past`, counts, positions and a message past 2^31 as well. The message takes 2 GiB of
 * device memory, and 4 of the host's: it is left to machines with a GPU.
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: SIMGPU_MEMORY=65536 -n 1 past
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "check.h"
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#if MPI_VERSION >= 4
#define X(name) name##_c
typedef MPI_Count number;
#else
#define X(name) name
typedef int number;
#endif

#define COUNT 3

static int peer;
static struct layout from, to;
static uint64_t salt = 10;

/* ---- one message, by each send and each receive ---- */

typedef void send_by(const void *buf, int tag);
typedef void receive_by(void *buf, int tag, MPI_Status *s);

static void by_send(const void *buf, int tag) { X(MPI_Send)(buf, COUNT, from.type, peer, tag, MPI_COMM_WORLD); }
static void by_ssend(const void *buf, int tag) { X(MPI_Ssend)(buf, COUNT, from.type, peer, tag, MPI_COMM_WORLD); }
static void by_rsend(const void *buf, int tag) { X(MPI_Rsend)(buf, COUNT, from.type, peer, tag, MPI_COMM_WORLD); }
static void by_bsend(const void *buf, int tag) { X(MPI_Bsend)(buf, COUNT, from.type, peer, tag, MPI_COMM_WORLD); }

#define BY_ISEND(function, name) \
    static void function(const void *buf, int tag) \
    { \
        MPI_Request r; \
        X(name)(buf, COUNT, from.type, peer, tag, MPI_COMM_WORLD, &r); \
        MPI_Wait(&r, MPI_STATUS_IGNORE); \
    }
BY_ISEND(by_isend, MPI_Isend)
BY_ISEND(by_issend, MPI_Issend)
BY_ISEND(by_irsend, MPI_Irsend)
BY_ISEND(by_ibsend, MPI_Ibsend)

static void by_recv(void *buf, int tag, MPI_Status *s)
{
    X(MPI_Recv)(buf, COUNT, to.type, peer, tag, MPI_COMM_WORLD, s);
}

static void by_irecv(void *buf, int tag, MPI_Status *s)
{
    MPI_Request r;
    X(MPI_Irecv)(buf, COUNT, to.type, peer, tag, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, s);
}

static void by_mrecv(void *buf, int tag, MPI_Status *s)
{
    MPI_Message m;
    MPI_Mprobe(peer, tag, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE);
    X(MPI_Mrecv)(buf, COUNT, to.type, &m, s);
}

static void by_imrecv(void *buf, int tag, MPI_Status *s)
{
    MPI_Message m;
    MPI_Request r;
    MPI_Mprobe(peer, tag, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE);
    X(MPI_Imrecv)(buf, COUNT, to.type, &m, &r);
    MPI_Wait(&r, s);
}

static const struct {
    send_by *by;
    const char *name;
    bool ready;
} SENDS[] = {
    {by_send, "Send", false},   {by_ssend, "Ssend", false},   {by_rsend, "Rsend", true},   {by_bsend, "Bsend", false},
    {by_isend, "Isend", false}, {by_issend, "Issend", false}, {by_irsend, "Irsend", true}, {by_ibsend, "Ibsend", false},
};
static receive_by *const RECEIVES[] = {by_recv, by_irecv, by_mrecv, by_imrecv};
#define SEND_TOTAL (sizeof SENDS / sizeof *SENDS)
#define RECEIVE_TOTAL (sizeof RECEIVES / sizeof *RECEIVES)

static void check_status(const MPI_Status *s, int tag)
{
    int n = -1;
    MPI_Get_count(s, to.type, &n);
    expect_equal(n, COUNT, "the count received");
    expect(s->MPI_SOURCE == peer && s->MPI_TAG == tag, "source %d, tag %d", s->MPI_SOURCE, s->MPI_TAG);
}

/* Rank 0 sends; a ready send finds its receive posted. */
static void message(size_t send, size_t receive)
{
    struct buf b;
    MPI_Status s;
    int tag = (int)(send * RECEIVE_TOTAL + receive);
    buf_make(&b, MEM_DEVICE, my_rank == 0 ? &from : &to, 0, salt + (uint64_t)my_rank);
    if (my_rank == 0) {
        if (SENDS[send].ready) MPI_Recv(NULL, 0, MPI_INT, peer, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SENDS[send].by(b.origin, tag);
    } else if (SENDS[send].ready) {
        MPI_Request r;
        X(MPI_Irecv)(b.origin, COUNT, to.type, peer, tag, MPI_COMM_WORLD, &r);
        MPI_Send(NULL, 0, MPI_INT, peer, 99, MPI_COMM_WORLD);
        MPI_Wait(&r, &s);
    } else {
        RECEIVES[receive](b.origin, tag, &s);
    }
    if (my_rank == 1) {
        check_status(&s, tag);
        buf_expect_from(&b, &to, &from, salt);
    }
    buf_check(&b, "a buffer");
    buf_free(&b);
    salt += 10;
}

static void messages(void)
{
    int size;
    MPI_Pack_size(COUNT, from.type, MPI_COMM_WORLD, &size);
    size += MPI_BSEND_OVERHEAD;
    void *attached = malloc((size_t)size);
    MPI_Buffer_attach(attached, size);
    for (size_t send = 0; send < SEND_TOTAL; send++) {
        for (size_t receive = 0; receive < (SENDS[send].ready ? 1 : RECEIVE_TOTAL); receive++) message(send, receive);
        report("%s", SENDS[send].name);
    }
    MPI_Buffer_detach(&attached, &size);
    free(attached);
}

/* ---- exchanges ---- */

static void sendrecv(void)
{
    struct buf a, b;
    MPI_Status s;
    buf_make(&a, MEM_DEVICE, &from, 0, salt + (uint64_t)my_rank);
    buf_make(&b, MEM_DEVICE, &to, 0, salt + 5);
    X(MPI_Sendrecv)(a.origin, COUNT, from.type, peer, 7, b.origin, COUNT, to.type, peer, 7, MPI_COMM_WORLD, &s);
    check_status(&s, 7);
    buf_expect_from(&b, &to, &from, salt + (uint64_t)peer);
    buf_check(&a, "what was sent"), buf_check(&b, "what was received");
    X(MPI_Sendrecv_replace)(a.origin, COUNT, from.type, peer, 8, peer, 8, MPI_COMM_WORLD, &s);
    buf_expect_from(&a, &from, &from, salt + (uint64_t)peer);
    buf_check(&a, "what was replaced");
    buf_free(&a), buf_free(&b);
    report("Sendrecv and Sendrecv_replace");
}

/* ---- packing ---- */

#define LEAD 24 /* where packing begins */

/* Typed and packed side of each kind; two packs one behind the other, and back. */
static void packing(enum mem_kind typed, enum mem_kind packed)
{
    struct buf b, p;
    int each = from.bytes;
    unsigned char *bytes = layout_packed(&from, salt);
    number position = LEAD;
    buf_make(&b, typed, &from, 0, salt);
    buf_bytes(&p, packed, (size_t)(LEAD + 2 * each), 0, salt + 1);
    for (int i = 0; i < 2; i++)
        X(MPI_Pack)(b.origin, COUNT, from.type, p.origin, LEAD + 2 * each, &position, MPI_COMM_WORLD);
    expect_equal(position, LEAD + 2 * each, "the position after packing");
    for (int i = 0; i < 2; i++) memcpy(p.shadow + p.lead + LEAD + i * each, bytes, (size_t)each);
    buf_check(&p, "packed bytes");
    buf_fill(&b, salt + 2);
    position = LEAD + each;
    X(MPI_Unpack)(p.origin, LEAD + 2 * each, &position, b.origin, COUNT, from.type, MPI_COMM_WORLD);
    expect_equal(position, LEAD + 2 * each, "the position after unpacking");
    buf_expect(&b, &from, bytes, each);
    buf_check(&b, "unpacked bytes");
    buf_free(&b), buf_free(&p);
    free(bytes);
    salt += 10;
    report("Pack and Unpack, typed on the %s, packed on the %s", mem_name[typed], mem_name[packed]);
}

/* Whose envelope the plain call refuses to tell. */
static void made_by_large_counts(void)
{
#if MPI_VERSION >= 4
    enum { BLOCKS = 64 };
    struct buf b, p;
    MPI_Datatype t;
    MPI_Count position = 0;
    buf_bytes(&b, MEM_DEVICE, 2 * BLOCKS * sizeof(int), 0, salt);
    buf_bytes(&p, MEM_DEVICE, BLOCKS * sizeof(int), 0, salt + 1);
    MPI_Type_vector_c(BLOCKS, 1, 2, MPI_INT, &t);
    MPI_Type_commit(&t);
    MPI_Pack_c(b.origin, 1, t, p.origin, BLOCKS * sizeof(int), &position, MPI_COMM_WORLD);
    for (size_t i = 0; i < BLOCKS; i++)
        memcpy(p.shadow + p.lead + i * sizeof(int), b.shadow + b.lead + 2 * i * sizeof(int), sizeof(int));
    buf_check(&p, "packed bytes");
    MPI_Type_free(&t);
    buf_free(&b), buf_free(&p);
    salt += 10;
    report("a type made by a large-count constructor");
#endif
}

/* What does not fit is refused, and the position stays; MPICH itself would write past the end. */
static void too_small(void)
{
    struct buf b, p;
    number position = 1;
    if (host_mode) return;
    buf_make(&b, MEM_DEVICE, &from, 0, salt);
    buf_bytes(&p, MEM_DEVICE, (size_t)from.bytes, 0, salt);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rc = X(MPI_Pack)(b.origin, COUNT, from.type, p.origin, from.bytes, &position, MPI_COMM_WORLD);
    expect(error_class(rc) == MPI_ERR_TRUNCATE, "MPI_Pack returns %s", error_name(error_class(rc)));
    expect_equal(position, 1, "the position");
    buf_check(&p, "the packed buffer");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    buf_free(&b), buf_free(&p);
    report("a packed buffer that is too small");
}

/* ---- past 2^31 ---- */

#if MPI_VERSION >= 4
#define PAST (((MPI_Count)1 << 31) + 64)

/* Packs at a position past 2^31, of which nothing before is touched; and refuses a count past it, cut to no int. */
static void past_positions(void)
{
    unsigned char *packed = mem_alloc(MEM_DEVICE, (size_t)(PAST + 4 * from.bytes)), *got = malloc((size_t)from.bytes);
    unsigned char *bytes = layout_packed(&from, salt);
    struct buf b;
    MPI_Count position = PAST;
    buf_make(&b, MEM_DEVICE, &from, 0, salt);
    MPI_Pack_c(b.origin, COUNT, from.type, packed, PAST + 4 * from.bytes, &position, MPI_COMM_WORLD);
    expect_equal(position, PAST + from.bytes, "the position after packing");
    mem_read(MEM_DEVICE, got, packed + PAST, (size_t)from.bytes);
    expect(memcmp(got, bytes, (size_t)from.bytes) == 0, "packed bytes are wrong");
    buf_fill(&b, salt + 1);
    position = PAST;
    MPI_Unpack_c(packed, PAST + 4 * from.bytes, &position, b.origin, COUNT, from.type, MPI_COMM_WORLD);
    expect_equal(position, PAST + from.bytes, "the position after unpacking");
    buf_expect(&b, &from, bytes, from.bytes);
    buf_check(&b, "unpacked bytes");
    report("positions past 2^31");
    if (!host_mode) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        position = 0;
        int rc = MPI_Pack_c(b.origin, ((MPI_Count)1 << 32) + 1, from.type, packed, PAST, &position, MPI_COMM_WORLD);
        expect(error_class(rc) == MPI_ERR_TRUNCATE, "MPI_Pack_c returns %s", error_name(error_class(rc)));
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        report("a count past 2^32 that does not fit");
    }
    buf_free(&b);
    mem_free(MEM_DEVICE, packed);
    free(got), free(bytes);
}

/* PAST bytes from the device into host memory. */
static void past_message(void)
{
    MPI_Status s;
    MPI_Count n = 0;
    if (my_rank == 0) {
        unsigned char *source = mem_alloc(MEM_DEVICE, (size_t)PAST), last = 0x5a;
        mem_write(MEM_DEVICE, source + PAST - 1, &last, 1);
        MPI_Send_c(source, PAST, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
        mem_free(MEM_DEVICE, source);
    } else {
        unsigned char *got = malloc((size_t)PAST);
        MPI_Recv_c(got, PAST, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &s);
        MPI_Get_count_c(&s, MPI_BYTE, &n);
        expect_equal(n, PAST, "bytes received");
        expect_equal(got[PAST - 1], 0x5a, "the last byte");
        free(got);
    }
    report("a message of more than 2^31 elements");
}
#endif

static void past(void)
{
#if MPI_VERSION >= 4
    past_positions();
    if (num_ranks == 2) past_message();
#else
    note("this MPI has no large-count forms");
    too_small();
#endif
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    peer = 1 - my_rank;
    layout_number(&from, 1, COUNT), layout_number(&to, 2, COUNT);
    if (argc > 1 && !strcmp(argv[argc - 1], "past")) {
        past();
    } else {
        messages();
        sendrecv();
        packing(MEM_DEVICE, MEM_HOST), packing(MEM_DEVICE, MEM_DEVICE), packing(MEM_HOST, MEM_DEVICE);
        made_by_large_counts();
        too_small();
    }
    layout_free(&from), layout_free(&to);
    return check_finish();
}
