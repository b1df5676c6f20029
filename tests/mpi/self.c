/* self.c: messages of derived types in host memory from a rank to itself: copied from layout to layout, by code for both or
 * through a small buffer, and packed where a send ends before its receive. Every byte is compared.
 *
 * usage: self [ordinary]: the MPI does it
 *
 * run: STRIDEC_HOST=on -n 1 --host
 * run: STRIDEC_HOST=on -n 2
 * run: STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy -n 1
 * run: STRIDEC_HOST=off -n 1 --host ordinary
 */
#include "check.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 5, COUNT = 80, RANDOM_TYPES = 120, COMPILED = 6, THREADS = 3 };
enum way { PERSISTENT, EXCHANGE, REPLACED, POSTED, SYNCHRONOUS, SENT_FIRST, ALL, SEND_ENDS_FIRST, TESTED, PROBED, MATCHED, WAYS };
static const char *const names[WAYS] = {"persistent requests", "Sendrecv", "Sendrecv_replace", "Irecv, Send", "Irecv, Ssend", "Isend, Recv",
                                        "Irecv, Isend, Waitall", "Irecv, Isend, the send's Wait first", "Testall",
                                        "Probe", "Mprobe"};

static long (*offers)(int in_place);
static int (*ready)(MPI_Datatype, int);
static bool ordinary;

static void message(enum way way, const struct buf *out, const struct layout *l, struct buf *in, const struct layout *m,
                    MPI_Comm comm, MPI_Status *s)
{
    MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Message found;
    MPI_Status both[2];
    int me, n = -1, done = 0;
    MPI_Comm_rank(comm, &me);
    bool first = way == POSTED || way == SYNCHRONOUS || way == ALL || way == SEND_ENDS_FIRST || way == TESTED;
    if (first) MPI_Irecv(in->origin, m->count, m->type, way == ALL ? MPI_ANY_SOURCE : me, TAG, comm, &r[0]);
    switch (way) {
    case EXCHANGE:
        MPI_Sendrecv(out->origin, l->count, l->type, me, TAG, in->origin, m->count, m->type, me, TAG, comm, s);
        break;
    case REPLACED:
        MPI_Isend(out->origin, l->count, l->type, me, TAG, comm, &r[1]);
        MPI_Sendrecv_replace(in->origin, m->count, m->type, MPI_PROC_NULL, TAG, me, TAG, comm, s);
        MPI_Wait(&r[1], MPI_STATUS_IGNORE);
        break;
    case POSTED:
    case SYNCHRONOUS:
        (way == POSTED ? MPI_Send : MPI_Ssend)(out->origin, l->count, l->type, me, TAG, comm);
        MPI_Wait(&r[0], s);
        break;
    case ALL:
    case TESTED:
        MPI_Isend(out->origin, l->count, l->type, me, TAG, comm, &r[1]);
        while (way == TESTED && !done) MPI_Testall(2, r, &done, both);
        if (way == ALL) MPI_Waitall(2, r, both);
        *s = both[0];
        break;
    case SEND_ENDS_FIRST:
        MPI_Isend(out->origin, l->count, l->type, me, TAG, comm, &r[1]);
        MPI_Wait(&r[1], MPI_STATUS_IGNORE);
        MPI_Wait(&r[0], s);
        break;
    case SENT_FIRST:
    case PROBED:
    case MATCHED:
        MPI_Isend(out->origin, l->count, l->type, me, TAG, comm, &r[1]);
        if (way == PROBED) MPI_Probe(me, MPI_ANY_TAG, comm, s);
        if (way == MATCHED) MPI_Mprobe(me, TAG, comm, &found, s);
        if (way != SENT_FIRST) MPI_Get_elements(s, MPI_BYTE, &n), expect_equal(n, l->bytes, "the bytes probed");
        if (way == MATCHED) MPI_Mrecv(in->origin, m->count, m->type, &found, s);
        else MPI_Recv(in->origin, m->count, m->type, me, TAG, comm, s);
        MPI_Wait(&r[1], MPI_STATUS_IGNORE);
        break;
    case PERSISTENT:
    case WAYS:
        MPI_Recv_init(in->origin, m->count, m->type, me, TAG, comm, &r[0]);
        MPI_Send_init(out->origin, l->count, l->type, me, TAG, comm, &r[1]);
        for (int i = 0; i < 3; i++) MPI_Startall(2, r), MPI_Waitall(2, r, both);
        *s = both[0];
        MPI_Request_free(&r[0]), MPI_Request_free(&r[1]);
        break;
    }
}

/* A message of l, filled with `salt`, into m, which has the same signature, or a longer one. */
static void try(enum way way, const struct layout *l, const struct layout *m, MPI_Comm comm, uint64_t salt)
{
    struct buf out, in;
    MPI_Status s;
    int n = -1;
    buf_make(&out, MEM_HOST, l, (int)(salt % 5), salt);
    buf_make(&in, MEM_HOST, m, (int)(salt % 3), salt + 7);
    message(way, &out, l, &in, m, comm, &s);
    buf_expect_from(&in, m, l, salt);
    MPI_Get_elements(&s, MPI_BYTE, &n);
    expect_equal(n, l->bytes, "the bytes received");
    expect_equal(s.MPI_TAG, TAG, "the tag");
    buf_check(&in, m->text);
    buf_check(&out, "what was sent");
    buf_free(&out), buf_free(&in);
}

/* Types of 120 doubles, COUNT of them: 75 KiB; into others of the signature, those with and without code, and into more. */
static void all_ways(struct layout layouts[], struct layout longer[])
{
    for (int way = 0; way < WAYS; way++) {
        for (int i = 0; i < LAYOUTS * LAYOUT_FAMILY_B; i++) {
            const struct layout *from = &layouts[i / LAYOUT_FAMILY_B], *to = &(i % 5 ? layouts : longer)[i % LAYOUT_FAMILY_B];
            if (!to->overlaps) try((enum way)way, from, to, MPI_COMM_WORLD, (uint64_t)(50 * way + i));
        }
        report("%s", names[way]);
    }
}

/* Into the same layout, some once its code is there. */
static void alike(void)
{
    for (int i = 0; i < RANDOM_TYPES; i++) {
        struct layout l;
        layout_random(&l, FAMILY_A, 1 + (int)roll(4), true);
        if (ready && !ordinary && i < COMPILED) ready(l.type, 1);
        for (int k = 0; k < 3; k++) try(k == 1 ? POSTED : k == 2 ? PERSISTENT : EXCHANGE, &l, &l, k % 2 ? MPI_COMM_SELF : MPI_COMM_WORLD, (uint64_t)(9 * i + k));
        layout_free(&l);
    }
    report("random types into the same");
}

/* Parts of elements: of a type that another one's element is cut in. */
static void cut(void)
{
    MPI_Datatype type[3];
    struct layout l[3];
    MPI_Type_vector(1000, 1, 3, MPI_DOUBLE, &type[0]);
    MPI_Type_vector(700, 2, 3, MPI_DOUBLE, &type[1]);
    MPI_Type_vector(5000, 1, 2, MPI_DOUBLE, &type[2]);
    for (int i = 0; i < 3; i++) {
        type_commit(&type[i]);
        if (ready && !ordinary) ready(type[i], 1);
        layout_of(&l[i], type[i], i == 2 ? 1 : 3, "a vector");
    }
    for (int i = 0; i < 2 * WAYS; i++) try((enum way)(i / 2), &l[i % 2], &l[2], MPI_COMM_WORLD, (uint64_t)i);
    for (int i = 0; i < 3; i++) layout_free(&l[i]);
    report("into parts of an element");
}

/* A receive that is too short for the payload, or even for its RTS header. */
static void too_short(const struct layout *l)
{
    static const int room[] = {100, 1 << 12, 1 << 14};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 6; i++) {
        struct buf out, in;
        MPI_Request r[2];
        MPI_Status s;
        int rc;
        buf_make(&out, MEM_HOST, l, 0, 3);
        buf_bytes(&in, MEM_HOST, (size_t)room[i % 3], 0, 4);
        MPI_Irecv(in.origin, room[i % 3], MPI_BYTE, my_rank, TAG, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out.origin, l->count, l->type, my_rank, TAG, MPI_COMM_WORLD, &r[1]);
        if (i < 3) rc = MPI_Wait(&r[0], &s), MPI_Wait(&r[1], MPI_STATUS_IGNORE);
        else MPI_Wait(&r[1], MPI_STATUS_IGNORE), rc = MPI_Wait(&r[0], &s);
        expect(error_class(rc) == MPI_ERR_TRUNCATE, "a receive of %d bytes: %s", room[i % 3], error_name(error_class(rc)));
        buf_check_but(&in, 0, (size_t)room[i % 3], "beside a receive that is too short");
        buf_free(&out), buf_free(&in);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    report("receives that are too short");
}

static struct layout *of_threads;

static void *one_thread(void *comm)
{
    for (int i = 0; i < 4 * WAYS; i++)
        try((enum way)(i % WAYS), &of_threads[1 + i % 5], &of_threads[i % 5], *(MPI_Comm *)comm, (uint64_t)i);
    return NULL;
}

static void threads(struct layout layouts[])
{
    of_threads = layouts;
    in_threads(THREADS, one_thread);
    report("threads");
}

/* That it went as it should: nothing above would have shown it. */
static void took_the_way(void)
{
    long shared = offers ? offers(0) : 0, placed = offers ? offers(1) : 0;
    if (!offers) {
        note("stridec is not there");
        return;
    }
    expect(!shared && (ordinary ? !placed : placed > 300), "%ld messages were shared, %ld offered in place", shared, placed);
    report("they went the way that they should");
}

int main(int argc, char **argv)
{
    struct layout layouts[LAYOUTS], longer[LAYOUTS];
    for (int i = 1; i < argc; i++) ordinary |= !strcmp(argv[i], "ordinary");
    int level = check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    *(void **)&offers = dlsym(RTLD_DEFAULT, "stridec_host_offers");
    *(void **)&ready = dlsym(RTLD_DEFAULT, "stridec_host_ready");
    for (int i = 0; i < LAYOUTS; i++) layout_number(&layouts[i], i, COUNT), layout_number(&longer[i], i, COUNT + 3);
    all_ways(layouts, longer);
    alike();
    cut();
    too_short(&layouts[2]);
    if (level == MPI_THREAD_MULTIPLE) threads(layouts);
    took_the_way();
    for (int i = 0; i < LAYOUTS; i++) layout_free(&layouts[i]), layout_free(&longer[i]);
    return check_finish();
}
