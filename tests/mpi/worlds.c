/* worlds.c: messages of derived types between two groups: an intercommunicator of this job's ranks, ranks that
 * connect by a port, and children that it spawns, one with stridec and one without, whose buffers lie in host
 * memory; they connect once more by a port.
 *
 * run: -n 2
 */
#include "check.h"
#include <stdlib.h>

#define COUNT 3

/* Each side (0 or 1) sends the other a message, in a layout of its own. */
static void exchange(MPI_Comm between, int peer, enum mem_kind kind, int side)
{
    struct layout l;
    struct buf in, out;
    MPI_Status s;
    MPI_Request r;
    layout_number(&l, 1 + side, COUNT);
    struct layout other;
    layout_number(&other, 2 - side, COUNT);
    buf_make(&out, kind, &l, 0, 10 + (uint64_t)side);
    buf_make(&in, kind, &l, 0, 12);
    MPI_Irecv(in.origin, COUNT, l.type, peer, 1, between, &r);
    MPI_Send(out.origin, COUNT, l.type, peer, 1, between);
    MPI_Wait(&r, &s);
    buf_expect_from(&in, &l, &other, 11 - (uint64_t)side);
    buf_check(&in, "between two groups");
    expect_equal(s.MPI_SOURCE, peer, "source");
    buf_free(&in);
    buf_free(&out);
    layout_free(&l);
    layout_free(&other);
}

static void intercommunicator(void)
{
    MPI_Comm between;
    MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, my_rank ^ 1, 7, &between);
    exchange(between, 0, MEM_DEVICE, my_rank);
    MPI_Comm_free(&between);
    report("an intercommunicator");
}

/* Connects two processes that `between` joins: the accepting side sends the name of its port, or none: Debian's
 * MPICH 4.0 has ports by no network that it uses. */
static void connect_by_port(MPI_Comm between, int peer, bool accepts, int side)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm connected;
    int rc = MPI_SUCCESS;
    if (accepts) {
        rc = MPI_Open_port(MPI_INFO_NULL, port);
        if (rc != MPI_SUCCESS) note("this MPI can't open a port here: %s", error_name(error_class(rc)));
        MPI_Send(port, sizeof port, MPI_CHAR, peer, 2, between);
        if (rc != MPI_SUCCESS) return;
        rc = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &connected);
        MPI_Close_port(port);
    } else {
        MPI_Recv(port, sizeof port, MPI_CHAR, peer, 2, between, MPI_STATUS_IGNORE);
        if (!*port) return;
        rc = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &connected);
    }
    expect(rc == MPI_SUCCESS, "%s: %s", accepts ? "MPI_Comm_accept" : "MPI_Comm_connect", error_name(error_class(rc)));
    if (rc != MPI_SUCCESS) return;
    exchange(connected, 0, MEM_DEVICE, side);
    MPI_Comm_disconnect(&connected);
}

static void connected(void)
{
    connect_by_port(MPI_COMM_WORLD, my_rank ^ 1, my_rank == 0, my_rank);
    report("MPI_Comm_accept and MPI_Comm_connect");
}

/* Of a job of its own. */
static int child(MPI_Comm parent)
{
    host_mode = !getenv("LD_PRELOAD");
    exchange(parent, 0, MEM_DEVICE, 1);
    connect_by_port(parent, 0, false, 1);
    MPI_Comm_disconnect(&parent);
    report("the child's side");
    return check_finish();
}

static void spawned(char *program, bool with)
{
    char *args[] = {"-u", "LD_PRELOAD", program, NULL};
    MPI_Comm between;
    int error = MPI_SUCCESS;
    if (my_rank == 0) {
        int rc = MPI_Comm_spawn(with ? program : "env", with ? MPI_ARGV_NULL : args, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF,
                                &between, &error);
        /* Not every MPI can in a container; stridec has no part in it. */
        if (rc != MPI_SUCCESS) {
            note("this MPI can't start a child here: %s", error_name(error_class(rc)));
        } else {
            exchange(between, 0, MEM_DEVICE, 0);
            connect_by_port(between, 0, true, 0);
            MPI_Comm_disconnect(&between);
        }
    }
    report("a child %s stridec", with ? "with" : "without");
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    check_start(&argc, &argv, -1);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) return child(parent);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    intercommunicator();
    connected();
    if (!host_mode) spawned(argv[0], true);
    spawned(argv[0], false);
    return check_finish();
}
