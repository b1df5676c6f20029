/* pvars.c: the performance variables of stridec beside the MPI's: found by number and by name, before MPI_Init too, read
 * after MPI_Finalize, reset and written, by all handles of a session at once, in several sessions and threads; and what
 * they count.
 *
 * usage: pvars PROTOCOL: of most of the messages of 32 KiB from rank 0 to rank 1. "fallback": those that rank 1 reads
 * from files.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 get
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy -n 2 --host shared
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@ATTACH ATTACH_FAIL=2 -n 2 --host fallback
 * run: STRIDEC_DISABLE=1 -n 2 --host none
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 24, COUNT = 8192, THREADS = 3, READS = 2000 };

typedef unsigned long long value;

static bool none;   /* stridec is off */
static const char *protocol;

struct variable {
    int index;
    MPI_T_pvar_handle handle;
};

static void succeeds(int rc, const char *what)
{
    expect(rc == MPI_SUCCESS, "%s returns %d", what, rc);
}

/* Finds stridec's variables among all, by number; checks what is told of them. Returns how many there are. */
static int find_all(void)
{
    int n = 0, own = 0;
    succeeds(MPI_T_pvar_get_num(&n), "MPI_T_pvar_get_num");
    for (int i = 0; i < n; i++) {
        char name[256], text[512], cut[8];
        int name_len = sizeof name, text_len = sizeof text, verbosity, class, bind, readonly, continuous, atomic, index;
        int cut_len = sizeof cut;
        MPI_Datatype type;
        MPI_T_enum of;
        /* Open MPI 4.1 counts variables of which it tells nothing. */
        if (MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &of, text, &text_len, &bind, &readonly,
                                &continuous, &atomic)) continue;
        if (MPI_T_pvar_get_index(name, class, &index) == MPI_SUCCESS) expect_equal(index, i, name);
        else fail("%s is not found by its name", name);
        if (strncmp(name, "stridec_", 8)) continue;
        own++;
        expect(name_len == (int)strlen(name) + 1 && *text && class == MPI_T_PVAR_CLASS_COUNTER &&
                   type == MPI_UNSIGNED_LONG_LONG && bind == MPI_T_BIND_NO_OBJECT && continuous && !readonly,
               "what is told of %s", name);
        succeeds(MPI_T_pvar_get_info(i, cut, &cut_len, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                 name);
        expect(!strcmp(cut, "stridec") && cut_len == name_len, "a short name: %s, %d", cut, cut_len);
        expect(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_LEVEL, &index) != MPI_SUCCESS, "%s is of two classes", name);
    }
    MPI_T_pvar_session session;
    MPI_T_pvar_handle beyond;
    int count;
    succeeds(MPI_T_pvar_session_create(&session), "MPI_T_pvar_session_create");
    /* MPICH 4.0 crashes where it has none of its own. */
    if (n > own) expect(MPI_T_pvar_handle_alloc(session, n, NULL, &beyond, &count), "number %d is there", n);
    succeeds(MPI_T_pvar_session_free(&session), "MPI_T_pvar_session_free");
    return own;
}

static struct variable open_variable(MPI_T_pvar_session session, const char *name)
{
    struct variable v = {0, MPI_T_PVAR_HANDLE_NULL};
    int count = 0;
    succeeds(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &v.index), name);
    succeeds(MPI_T_pvar_handle_alloc(session, v.index, NULL, &v.handle, &count), name);
    expect_equal(count, 1, name);
    return v;
}

static value read_variable(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    value v = 0;
    succeeds(MPI_T_pvar_read(session, handle, &v), "MPI_T_pvar_read");
    return v;
}

static void send_all(void)
{
    struct layout l;
    MPI_Datatype column;
    MPI_Type_vector(COUNT / 2, 1, 3, MPI_DOUBLE, &column), type_commit(&column);
    layout_of(&l, column, 1, "a vector");
    for (int i = 0; my_rank < 2 && i < MESSAGES; i++) {
        struct buf b;
        buf_make(&b, MEM_DEVICE, &l, 0, (uint64_t)(7 + my_rank));
        if (my_rank == 0) MPI_Send(b.origin, l.count, l.type, 1, i, MPI_COMM_WORLD);
        else MPI_Recv(b.origin, l.count, l.type, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (my_rank == 1) buf_expect_from(&b, &l, &l, 7);
        buf_check(&b, my_rank ? "what came" : "what was sent");
        buf_free(&b);
    }
    layout_free(&l);
}

static const char *const protocols[] = {"get", "shared", "pipelined", "eager", "packed", "short", "pass"};
enum { PROTOCOLS = sizeof protocols / sizeof *protocols };

static void counts(MPI_T_pvar_session session)
{
    struct variable calls[PROTOCOLS], bytes[PROTOCOLS], fallbacks = open_variable(session, "stridec_fallbacks"),
        fallback_bytes = open_variable(session, "stridec_fallback_bytes");
    value all = 0, all_bytes = 0;
    char name[64];
    for (int i = 0; i < PROTOCOLS; i++) {
        snprintf(name, sizeof name, "stridec_calls_%s", protocols[i]), calls[i] = open_variable(session, name);
        snprintf(name, sizeof name, "stridec_bytes_%s", protocols[i]), bytes[i] = open_variable(session, name);
        expect_equal(read_variable(session, calls[i].handle), 0, name);
    }
    send_all();
    for (int i = 0; i < PROTOCOLS; i++) {
        value n = read_variable(session, calls[i].handle);
        all += n, all_bytes += read_variable(session, bytes[i].handle);
        if (my_rank == 0 && !strcmp(protocol, protocols[i])) expect(n > MESSAGES / 2, "%llu by %s", n, protocol);
    }
    /* A first message is read only after it was seen again and again, and is the MPI's until then. */
    expect(my_rank ? all == 0 : all > MESSAGES / 2 && all <= MESSAGES, "%llu messages are counted", all);
    expect_equal(all_bytes, all * COUNT / 2 * sizeof(double), "bytes");
    value n = read_variable(session, fallbacks.handle);
    expect(!strcmp(protocol, "fallback") && my_rank ? n > 0 : n == 0, "%llu fallback copies", n);
    expect_equal(read_variable(session, fallback_bytes.handle), n * COUNT / 2 * sizeof(double), "their bytes");
    report("messages by protocol");
}

/* Writes, resets, and handles that are not these. */
static void handles(MPI_T_pvar_session session)
{
    MPI_T_pvar_session other;
    const char *name = my_rank ? "stridec_fallbacks" : "stridec_calls_pass";
    value to = 77, was = 0;
    succeeds(MPI_T_pvar_session_create(&other), "MPI_T_pvar_session_create");
    struct variable a = open_variable(session, name), b = open_variable(other, name), c = open_variable(other, name);
    succeeds(MPI_T_pvar_write(session, a.handle, &to), "MPI_T_pvar_write");
    succeeds(MPI_T_pvar_write(other, b.handle, &to), "MPI_T_pvar_write");
    expect_equal(read_variable(session, a.handle), 77, "what was written");
    expect_equal(read_variable(other, c.handle), 0, "another handle");
    succeeds(MPI_T_pvar_readreset(session, a.handle, &was), "MPI_T_pvar_readreset");
    expect_equal(was, 77, "what was there at the reset");
    expect_equal(read_variable(session, a.handle), 0, "after the reset");
    succeeds(MPI_T_pvar_write(session, a.handle, &to), "MPI_T_pvar_write");
    succeeds(MPI_T_pvar_reset(other, MPI_T_PVAR_ALL_HANDLES), "MPI_T_pvar_reset");
    expect_equal(read_variable(other, b.handle), 0, "after the reset of all");
    expect_equal(read_variable(session, a.handle), 77, "of another session");
    succeeds(MPI_T_pvar_reset(session, a.handle), "MPI_T_pvar_reset");
    expect_equal(read_variable(session, a.handle), 0, "after its reset");
    expect_equal(MPI_T_pvar_start(session, a.handle), MPI_T_ERR_PVAR_NO_STARTSTOP, "MPI_T_pvar_start");
    expect_equal(MPI_T_pvar_stop(session, a.handle), MPI_T_ERR_PVAR_NO_STARTSTOP, "MPI_T_pvar_stop");
    succeeds(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES), "MPI_T_pvar_start of all");
    expect(MPI_T_pvar_read(other, a.handle, &was) != MPI_SUCCESS, "a handle of another session can be read");
    expect(MPI_T_pvar_handle_free(other, &a.handle) != MPI_SUCCESS, "a handle of another session can be freed");
    succeeds(MPI_T_pvar_handle_free(session, &a.handle), "MPI_T_pvar_handle_free");
    expect(a.handle == MPI_T_PVAR_HANDLE_NULL, "a freed handle is not null");
    succeeds(MPI_T_pvar_session_free(&other), "MPI_T_pvar_session_free");
    report("handles");
}

/* The MPI's own variables are as they were: one of each kind that needs no object can be opened and freed. */
static void others(MPI_T_pvar_session session)
{
    int n, opened = 0;
    MPI_T_pvar_get_num(&n);
    for (int i = 0; i < n; i++) {
        MPI_T_pvar_handle h;
        char name[256];
        int name_len = sizeof name, bind = -1, count;
        MPI_T_pvar_get_info(i, name, &name_len, NULL, NULL, NULL, NULL, NULL, NULL, &bind, NULL, NULL, NULL);
        if (bind != MPI_T_BIND_NO_OBJECT || !strncmp(name, "stridec_", 8)) continue;
        if (MPI_T_pvar_handle_alloc(session, i, NULL, &h, &count) != MPI_SUCCESS) continue;
        opened++;
        succeeds(MPI_T_pvar_handle_free(session, &h), name);
    }
    note("%d variables of the MPI's own", opened);
    int categories = 0;
    MPI_T_category_get_num(&categories);
    for (int i = 0; i < categories; i++) {
        int vars = 0, *list;
        if (MPI_T_category_get_info(i, NULL, NULL, NULL, NULL, NULL, &vars, NULL) != MPI_SUCCESS || vars < 0) continue;
        list = calloc((size_t)vars + 1, sizeof *list);
        list[vars] = 1 << 20;
        succeeds(MPI_T_category_get_pvars(i, vars + 1, list), "MPI_T_category_get_pvars");
        expect_equal(list[vars], 1 << 20, "what lies past the variables of a category");
        for (int k = 0; k < vars; k++) {
            char name[256] = "";
            int name_len = sizeof name;
            succeeds(MPI_T_pvar_get_info(list[k], name, &name_len, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                         NULL), "a variable of a category");
            expect(strncmp(name, "stridec_", 8) != 0, "%s is in a category of the MPI's", name);
        }
        free(list);
    }
    report("variables of the MPI's own");
}

static MPI_T_pvar_session shared_session;

static void *reads(void *comm)
{
    (void)comm;
    for (int i = 0; i < READS; i++) {
        struct variable v = open_variable(shared_session, i % 2 ? "stridec_calls_get" : "stridec_fallbacks");
        value was;
        succeeds(MPI_T_pvar_readreset(shared_session, v.handle, &was), "MPI_T_pvar_readreset");
        expect_equal(read_variable(shared_session, v.handle), 0, "a variable that is not used");
        succeeds(MPI_T_pvar_handle_free(shared_session, &v.handle), "MPI_T_pvar_handle_free");
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, own, level;
    MPI_T_pvar_session session;
    protocol = argv[argc - 1], none = !strcmp(protocol, "none");
    int early = MPI_T_pvar_get_num(&own);
    MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
    own = find_all();
    level = check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    expect(early == MPI_T_ERR_NOT_INITIALIZED, "before MPI_T_init_thread: %d", early);
    expect_equal(own, none ? 0 : 16, "variables before MPI_Init");
    expect_equal(find_all(), none ? 0 : 16, "variables");
    report("variables by number and by name");
    succeeds(MPI_T_pvar_session_create(&session), "MPI_T_pvar_session_create");
    if (!none) counts(session), handles(session);
    others(session);
    shared_session = session;
    if (!none && level == MPI_THREAD_MULTIPLE && provided == MPI_THREAD_MULTIPLE) in_threads(THREADS, reads);
    report("threads");
    struct variable last = {0, MPI_T_PVAR_HANDLE_NULL};
    if (!none) last = open_variable(session, "stridec_fallbacks");
    int status = check_finish();
    value v = 1;
    bool after = none || (MPI_T_pvar_read(session, last.handle, &v) == MPI_SUCCESS && v == 0);
    /* The session is left: Open MPI 4.1 crashes where one is freed after MPI_Finalize. */
    return status ? status : after ? 0 : 1;
}
