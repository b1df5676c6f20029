/* handles.c: datatype handles: freed while in use, used again for another layout, duplicated, committed early.
 *
 * run: -n 2
 * run: MPI_TEST_SIM=0 -n 2 --host
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int peer;
static uint64_t salt = 1;

/* Committed before the first CUDA call of the process, by main. */
static MPI_Datatype early;

static void commit_before_cuda(void)
{
    struct layout l;
    struct buf a, b;
    layout_of(&l, early, 3, "committed before CUDA");
    buf_make(&a, MEM_DEVICE, &l, 0, 1 + (uint64_t)my_rank);
    buf_make(&b, MEM_DEVICE, &l, 0, 5);
    MPI_Sendrecv(a.origin, 3, early, peer, 1, b.origin, 3, early, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    buf_expect_from(&b, &l, &l, 1 + (uint64_t)peer);
    buf_check(&b, "a type committed before CUDA");
    buf_free(&a);
    buf_free(&b);
    layout_free(&l);
    report("type committed before any CUDA call");
}

/* The types of a pending send and receive are freed at once; 460 KB each way are past eager limits. */
static void freed_while_pending(void)
{
    for (int number = 0; number < LAYOUTS; number++) {
        struct layout l, other;
        struct buf a, b;
        MPI_Datatype send_type, recv_type;
        MPI_Request r[2];
        layout_number(&l, number, 400);
        /* Past five elements the column overlaps itself, which MPI forbids to a receive. */
        layout_number(&other, number == 4 ? 0 : (number + 1) % LAYOUTS, 400);
        MPI_Type_dup(l.type, &send_type);
        MPI_Type_dup(other.type, &recv_type);
        buf_make(&a, MEM_DEVICE, &l, 0, salt + (uint64_t)my_rank);
        buf_make(&b, MEM_DEVICE, &other, 0, salt + 10);
        MPI_Isend(a.origin, 400, send_type, peer, 1, MPI_COMM_WORLD, &r[0]);
        MPI_Type_free(&send_type);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Irecv(b.origin, 400, recv_type, peer, 1, MPI_COMM_WORLD, &r[1]);
        MPI_Type_free(&recv_type);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        buf_expect_from(&b, &other, &l, salt + (uint64_t)peer);
        buf_check(&b, other.text);
        buf_free(&a);
        buf_free(&b);
        layout_free(&l);
        layout_free(&other);
        salt += 20;
    }
    report("types freed while their messages are pending");
}

/* Committed, used and freed, a thousand layouts in turn: MPI gives the same handle again and again. */
static void reused(void)
{
    struct buf user, packed;
    struct layout whole;
    int same = 0;
    MPI_Datatype last = MPI_DATATYPE_NULL;
    layout_of(&whole, MPI_INT, 512, "int");
    buf_make(&user, MEM_DEVICE, &whole, 0, salt);
    buf_bytes(&packed, MEM_DEVICE, 4096, 0, salt + 1);
    for (int i = 0; i < 1000; i++) {
        struct layout l;
        MPI_Datatype t;
        int position = 0;
        MPI_Type_vector(1 + i % 7, 1 + i % 5, 5 + i % 11, MPI_INT, &t);
        type_commit(&t);
        same += t == last;
        last = t;
        layout_of(&l, t, 1 + i % 3, "vector");
        buf_fill(&packed, salt + (uint64_t)i);
        MPI_Pack(user.origin, l.count, t, packed.origin, 4096, &position, MPI_COMM_WORLD);
        expect_equal(position, l.bytes, "position");
        for (int k = 0; k < l.bytes; k++)
            packed.shadow[packed.lead + (size_t)k] = user.shadow[user.lead + (size_t)l.map[k]];
        buf_check(&packed, "packed by a type whose handle had another layout before");
        layout_free(&l);
    }
    buf_free(&user);
    buf_free(&packed);
    layout_free(&whole);
    note("%d of 1000 handles were the one just freed", same);
    report("handles used again for another layout");
}

/* A duplicate of a committed type is committed (MPI-4.1, 5.1.10), and outlives the original. */
static void duplicated(void)
{
    for (int number = 0; number < LAYOUTS; number++) {
        struct layout l;
        struct buf a, b;
        MPI_Datatype d, dd;
        layout_number(&l, number, 2);
        MPI_Type_dup(l.type, &d);
        MPI_Type_dup(d, &dd);
        MPI_Type_free(&d);
        buf_make(&a, MEM_DEVICE, &l, 0, salt + (uint64_t)my_rank);
        buf_make(&b, MEM_DEVICE, &l, 0, salt + 10);
        MPI_Datatype original = l.type;
        l.type = dd;
        MPI_Type_free(&original);
        MPI_Sendrecv(a.origin, 2, dd, peer, 1, b.origin, 2, dd, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        buf_expect_from(&b, &l, &l, salt + (uint64_t)peer);
        buf_check(&b, l.text);
        buf_free(&a);
        buf_free(&b);
        layout_free(&l);
        salt += 20;
    }
    report("duplicates of committed types");
}

/* Equal types from different constructors, both alive; freeing one must not harm the other. */
static void siblings(void)
{
    for (int i = 0; i < 50; i++) {
        int sizes[2] = {8, 9}, sub[2] = {5, 3}, starts[2] = {0, 0};
        struct layout a, b;
        MPI_Datatype v, s;
        struct buf user, packed;
        MPI_Type_vector(5, 3, 9, MPI_FLOAT, &v);
        MPI_Type_create_subarray(2, sizes, sub, starts, MPI_ORDER_C, MPI_FLOAT, &s);
        type_commit(&v);
        type_commit(&s);
        layout_of(&a, v, 1, "vector");
        layout_of(&b, s, 2, "subarray of the same shape");
        layout_free(&a);
        buf_make(&user, MEM_DEVICE, &b, 0, salt);
        buf_bytes(&packed, MEM_DEVICE, (size_t)b.bytes, 0, salt + 1);
        int position = 0;
        MPI_Pack(user.origin, 2, s, packed.origin, b.bytes, &position, MPI_COMM_WORLD);
        unsigned char *want = layout_packed(&b, salt);
        memcpy(packed.shadow + packed.lead, want, (size_t)b.bytes);
        free(want);
        buf_check(&packed, "a type whose twin was freed");
        buf_free(&user);
        buf_free(&packed);
        layout_free(&b);
        salt += 2;
    }
    report("equal types, one freed");
}

/* One face, edge or corner of a halo of width 2 around an inner 12 x 10 x 8 block of floats. */
static MPI_Datatype face(const int direction[3], bool halo)
{
    const int inner[3] = {12, 10, 8}, width = 2;
    int sizes[3], sub[3], starts[3];
    MPI_Datatype t;
    for (int i = 0; i < 3; i++) {
        int d = direction[i];
        sizes[i] = inner[i] + 2 * width;
        sub[i] = d ? width : inner[i];
        starts[i] = d == 0 ? width : d < 0 ? (halo ? 0 : width) : (halo ? width + inner[i] : inner[i]);
    }
    MPI_Type_create_subarray(3, sizes, sub, starts, MPI_ORDER_C, MPI_FLOAT, &t);
    type_commit(&t);
    return t;
}

/* A halo with all 26 neighbours, which here are all the same peer; the oracle is the same on host memory. */
static void halo(void)
{
    struct layout whole, send[26], recv[26];
    struct buf b;
    MPI_Request r[52];
    int n = 0;
    layout_of(&whole, MPI_FLOAT, 16 * 14 * 12, "float");
    buf_make(&b, MEM_DEVICE, &whole, 0, salt + (uint64_t)my_rank);
    for (int k = 0; k < 27; k++) {
        int to[3] = {k / 9 - 1, k / 3 % 3 - 1, k % 3 - 1}, from[3] = {-to[0], -to[1], -to[2]};
        if (k == 13) continue;
        layout_of(&send[n], face(to, false), 1, "face");
        layout_of(&recv[n], face(from, true), 1, "halo");
        n++;
    }
    for (int i = 0; i < 26; i++) MPI_Irecv(b.origin, 1, recv[i].type, peer, i, MPI_COMM_WORLD, &r[i]);
    for (int i = 0; i < 26; i++) MPI_Isend(b.origin, 1, send[i].type, peer, i, MPI_COMM_WORLD, &r[26 + i]);
    MPI_Waitall(52, r, MPI_STATUSES_IGNORE);
    struct buf theirs; /* what the peer's array held */
    buf_make(&theirs, MEM_HOST, &whole, 0, salt + (uint64_t)peer);
    for (int i = 0; i < 26; i++)
        for (int k = 0; k < recv[i].bytes; k++)
            b.shadow[b.lead + (size_t)(recv[i].low + recv[i].map[k])] =
                theirs.shadow[theirs.lead + (size_t)(send[i].low + send[i].map[k])];
    buf_check(&b, "a halo of 26 subarrays");
    for (int i = 0; i < 26; i++) layout_free(&send[i]), layout_free(&recv[i]);
    buf_free(&theirs);
    buf_free(&b);
    layout_free(&whole);
    report("halo of 26 subarray faces");
}

#define HELD 8

/* Duplicates of a named type are not named: their handles may come to be those of types with gaps, which are received
 * into host memory here. */
static void named_no_more(void)
{
    double *pair = mem_alloc(MEM_DEVICE, 2 * sizeof *pair);
    for (int i = 0; i < 40; i++) {
        MPI_Datatype same[HELD], wide[HELD];
        for (int k = 0; k < HELD; k++) {
            MPI_Sendrecv(pair, 1, MPI_DOUBLE, my_rank, 2, pair + 1, 1, MPI_DOUBLE, my_rank, 2, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            MPI_Type_dup(MPI_DOUBLE, &same[k]);
            MPI_Sendrecv(pair, 1, same[k], my_rank, 2, pair + 1, 1, same[k], my_rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        for (int k = 0; k < HELD; k++) MPI_Type_free(&same[k]);
        for (int k = 0; k < HELD; k++) MPI_Type_vector(100, 1, 3, MPI_DOUBLE, &wide[k]), MPI_Type_commit(&wide[k]);
        for (int k = 0; k < HELD; k++) {
            struct layout l;
            struct buf a, b;
            layout_of(&l, wide[k], 1, "a type in place of a named one");
            buf_make(&a, MEM_DEVICE, &l, 0, salt + (uint64_t)my_rank);
            buf_make(&b, MEM_HOST, &l, 0, salt + 10);
            MPI_Request r;
            MPI_Isend(a.origin, 1, l.type, peer, 1, MPI_COMM_WORLD, &r);
            MPI_Recv(b.origin, 1, l.type, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
            buf_expect_from(&b, &l, &l, salt + (uint64_t)peer);
            buf_check(&b, l.text);
            buf_free(&a), buf_free(&b);
            layout_free(&l);
            salt += 20;
        }
    }
    mem_free(MEM_DEVICE, pair);
    report("handles that were duplicates of a named type");
}

static int free_type(void *type)
{
    return MPI_Type_free(type);
}

/* A generalized request frees a type of 8 bytes; another one has its handle, and 192,000. */
static void freed_in_a_function(void)
{
    double sent[4096] = {0}, got[2048];
    struct layout l;
    layout_number(&l, 1, 200);
    for (int i = 0; i < 40; i++) {
        MPI_Datatype small, one = l.type, other;
        MPI_Request waits, own, r;
        struct buf a, b;
        buf_make(&a, MEM_HOST, &l, 0, salt + (uint64_t)my_rank);
        buf_make(&b, MEM_HOST, &l, 0, salt + 2);
        MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &small);
        type_commit(&small);
        MPI_Sendrecv(sent, 2048, small, peer, 2, got, 2048, MPI_DOUBLE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(got, 2048, MPI_DOUBLE, peer, 3, MPI_COMM_WORLD, &waits);   /* stridec looks at each MPI_Wait */
        MPI_Grequest_start(nothing_to_tell, free_type, nothing_to_cancel, &small, &own);
        MPI_Grequest_complete(own);
        MPI_Wait(&own, MPI_STATUS_IGNORE);
        MPI_Type_contiguous(200, one, &other);
        type_commit(&other);
        MPI_Irecv(b.origin, 1, other, peer, 4, MPI_COMM_WORLD, &r);
        MPI_Send(a.origin, 200, one, peer, 4, MPI_COMM_WORLD);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        buf_expect_from(&b, &l, &l, salt + (uint64_t)peer);
        buf_check(&b, "a type whose handle was freed in a callback");
        MPI_Send(sent, 2048, MPI_DOUBLE, peer, 3, MPI_COMM_WORLD);
        MPI_Wait(&waits, MPI_STATUS_IGNORE);
        MPI_Type_free(&other);
        buf_free(&a), buf_free(&b);
        salt += 20;
    }
    layout_free(&l);
    report("types that a generalized request's function frees");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    peer = my_rank ^ 1;
    MPI_Type_vector(12, 3, 5, MPI_DOUBLE, &early);
    MPI_Type_commit(&early);
    commit_before_cuda();
    freed_while_pending();
    reused();
    duplicated();
    named_no_more();
    siblings();
    freed_in_a_function();
    for (int i = 0; i < 3; i++) halo();
    return check_finish();
}
