/* lifetimes.c: requests freed or cancelled while active, 500 at once, and of two threads a rank; a type freed before
 * its message comes.
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host
 * run: -n 2
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on LD_PRELOAD=@ATTRIBUTES -n 2 --host
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 2

static MPI_Comm comm;
static int peer;
static struct layout layouts[LAYOUTS];
static uint64_t salt = 10;

/* Freed requests go on by themselves: a send is delivered, a receive arrives. */
static void freed(void)
{
    struct layout big;
    struct buf source, target, *b = &target;
    MPI_Request r;
    double start = 0;
    int token = 0;
    layout_number(&big, 1, 300); /* larger than any eager limit */
    buf_make(&source, MEM_DEVICE, &big, 0, salt + (uint64_t)my_rank);
    buf_make(&target, MEM_DEVICE, &big, 0, salt + 500);
    MPI_Isend(source.origin, big.count, big.type, peer, 1, comm, &r);
    MPI_Request_free(&r);
    expect(r == MPI_REQUEST_NULL, "MPI_Request_free of a send leaves the request set");
    MPI_Sendrecv(&token, 1, MPI_INT, peer, 2, &token, 1, MPI_INT, peer, 2, comm, MPI_STATUS_IGNORE);
    MPI_Recv(target.origin, big.count, big.type, peer, 1, comm, MPI_STATUS_IGNORE);
    buf_expect_from(&target, &big, &big, salt + (uint64_t)peer);
    buf_check(&target, "sent by a freed request");
    MPI_Barrier(comm);
    report("a send whose request is freed");

    buf_fill(&target, salt + 600);
    MPI_Irecv(target.origin, big.count, big.type, peer, 1, comm, &r);
    MPI_Request_free(&r);
    MPI_Barrier(comm);
    MPI_Isend(source.origin, big.count, big.type, peer, 1, comm, &r);
    buf_expect_from(&target, &big, &big, salt + (uint64_t)peer);
    unsigned char *got = malloc(b->bytes);
    do { /* nothing says when a freed receive is done, but calls make it progress */
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 77, comm, &flag, MPI_STATUS_IGNORE);
        mem_read(b->kind, got, b->base, b->bytes);
    } while (memcmp(got, b->shadow, b->bytes) && within(&start, 10));
    free(got);
    buf_check(&target, "received by a freed request, after 10 s of progress");
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
    buf_free(&source);
    buf_free(&target);
    layout_free(&big);
    salt += 1000;
    report("a receive whose request is freed");
}

static void cancelled(void)
{
    for (int i = 0; i < LAYOUTS; i++) {
        struct buf b;
        MPI_Request r;
        MPI_Status s;
        int flag = 0;
        buf_make(&b, MEM_DEVICE, &layouts[i], 0, salt++);
        MPI_Irecv(b.origin, COUNT, layouts[i].type, peer, 50, comm, &r);
        MPI_Cancel(&r);
        if (i % 2)
            MPI_Wait(&r, &s);
        else
            while (!flag) MPI_Test(&r, &flag, &s);
        MPI_Test_cancelled(&s, &flag);
        expect(flag, "a cancelled receive of %s is not cancelled", layouts[i].text);
        expect(r == MPI_REQUEST_NULL, "a cancelled request stays set");
        MPI_Barrier(comm);
        MPI_Request sent;
        struct buf again;
        buf_make(&again, MEM_DEVICE, &layouts[i], 0, 1);
        MPI_Isend(again.origin, COUNT, layouts[i].type, peer, 50, comm, &sent);
        buf_check(&b, "buffer of a cancelled receive");
        MPI_Recv(b.origin, COUNT, layouts[i].type, peer, 50, comm, &s);
        MPI_Test_cancelled(&s, &flag);
        expect(!flag, "a receive after the cancelled one says cancelled");
        buf_expect_from(&b, &layouts[i], &layouts[i], 1);
        buf_check(&b, "the receive after a cancelled one");
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        buf_free(&b);
        buf_free(&again);
    }
    report("cancelled receives");
}

/* 500 requests at once, slices of one device array each way. Small sends complete at once, and MPIs then give
 * many requests one handle. */
static void many(int blocks)
{
    enum { MANY = 500 };
    static MPI_Request r[MANY];
    struct layout all, one;
    struct buf source, target;
    MPI_Aint lb, extent;
    MPI_Datatype t, slice;
    MPI_Type_vector(blocks, 2, 3, MPI_DOUBLE, &t);
    MPI_Type_create_resized(t, 0, (MPI_Aint)(blocks * 3 * (int)sizeof(double)), &slice);
    MPI_Type_free(&t);
    type_commit(&slice);
    MPI_Type_dup(slice, &t);
    layout_of(&all, slice, MANY / 2, "slices");
    layout_of(&one, t, 1, "slice");
    MPI_Type_get_extent(slice, &lb, &extent);
    buf_make(&source, MEM_DEVICE, &all, 0, salt + (uint64_t)my_rank);
    buf_make(&target, MEM_DEVICE, &all, 0, salt + 50);
    for (int i = 0; i < MANY / 2; i++) {
        int j = MANY / 2 - 1 - i;
        MPI_Irecv((char *)target.origin + i * extent, 1, one.type, peer, i, comm, &r[i]);
        MPI_Isend((char *)source.origin + j * extent, 1, one.type, peer, j, comm, &r[MANY / 2 + i]);
    }
    MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE);
    buf_expect_from(&target, &all, &all, salt + (uint64_t)peer);
    buf_check(&target, "500 requests at once");
    buf_check(&source, "500 requests at once, the sent array");
    for (int i = 0; i < MANY; i++) expect(r[i] == MPI_REQUEST_NULL, "request %d stays set", i);
    buf_free(&source);
    buf_free(&target);
    layout_free(&all);
    layout_free(&one);
    salt += 1000;
    report("500 requests of %d bytes at once", blocks * 2 * (int)sizeof(double));
}

struct thread {
    int number;
    MPI_Comm comm;
};

/* Handles that one thread gives back are at once the other's: messages with device and host buffers in turn,
 * since the latter are none of stridec's. Buffers are made beforehand: nothing but MPI calls between them. */
static void *exchange(void *arg)
{
    struct thread *t = arg;
    struct buf source[LAYOUTS], target[LAYOUTS];
    for (int i = 0; i < LAYOUTS; i++) {
        enum mem_kind kind = (i + t->number) % 2 ? MEM_DEVICE : MEM_HOST;
        buf_make(&source[i], kind, &layouts[i], 0, (uint64_t)(100 * t->number + 2 * i + my_rank));
        buf_make(&target[i], kind, &layouts[i], 0, 1 << 20);
    }
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < LAYOUTS; i++) {
            int from = (i + round) % LAYOUTS;
            MPI_Request r[2];
            MPI_Irecv(target[i].origin, COUNT, layouts[i].type, peer, i, t->comm, &r[0]);
            MPI_Isend(source[from].origin, COUNT, layouts[from].type, peer, i, t->comm, &r[1]);
            MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        }
        for (int i = 0; round % 10 == 0 && i < LAYOUTS; i++) {
            int from = (i + round) % LAYOUTS;
            buf_expect_from(&target[i], &layouts[i], &layouts[from], (uint64_t)(100 * t->number + 2 * from + peer));
            buf_check(&target[i], "received by one of two threads");
        }
    }
    for (int i = 0; i < LAYOUTS; i++) buf_free(&source[i]), buf_free(&target[i]);
    return NULL;
}

static void threads(int provided)
{
    pthread_t id[2];
    struct thread t[2];
    if (provided < MPI_THREAD_MULTIPLE) {
        note("this MPI gives no MPI_THREAD_MULTIPLE: two threads are not tested");
        return;
    }
    for (int i = 0; i < 2; i++) {
        t[i].number = i;
        MPI_Comm_dup(comm, &t[i].comm);
    }
    for (int i = 0; i < 2; i++) pthread_create(&id[i], NULL, exchange, &t[i]);
    for (int i = 0; i < 2; i++) pthread_join(id[i], NULL);
    for (int i = 0; i < 2; i++) MPI_Comm_free(&t[i].comm);
    report("two threads a rank");
}

/* Expects MPI_Type_free to delete stridec's attribute at once, while a receive of the type is pending: an MPI that
 * deletes it when the message comes calls stridec from its progress. */
static void type_freed(void)
{
    const int *deleted = dlsym(RTLD_DEFAULT, "attributes_deleted");
    int (*learn)(MPI_Datatype, int);
    int out[40], in[80] = {0}, before = deleted ? *deleted : 0, wrong = 0;
    MPI_Request r;
    MPI_Datatype type;
    for (int i = 0; i < 40; i++) out[i] = 100 * my_rank + i;
    MPI_Type_vector(40, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    *(void **)&learn = dlsym(RTLD_DEFAULT, "stridec_host_ready");
    if (learn) learn(type, 1);   /* some MPIs' commits leave it unread */
    MPI_Irecv(in, 1, type, peer, 9, comm, &r);
    MPI_Type_free(&type);
    if (deleted) expect_equal(*deleted, before + 1, "attributes deleted when MPI_Type_free returns");
    MPI_Barrier(comm);
    MPI_Send(out, 40, MPI_INT, peer, 9, comm);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    for (int i = 0; i < 80; i++) wrong += in[i] != (i % 2 ? 0 : 100 * peer + i / 2);
    expect_equal(wrong, 0, "wrong numbers");
    if (deleted) expect_equal(*deleted, before + 1, "attributes deleted in all");
    report("a type freed before its message comes");
}

int main(int argc, char **argv)
{
    int provided = check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    peer = my_rank ^ 1;
    for (int i = 0; i < LAYOUTS; i++) layout_number(&layouts[i], i, COUNT);
    freed();
    type_freed();
    cancelled();
    many(2);
    many(60);
    many(700);
    threads(provided);
    for (int i = 0; i < LAYOUTS; i++) layout_free(&layouts[i]);
    MPI_Comm_free(&comm);
    return check_finish();
}
