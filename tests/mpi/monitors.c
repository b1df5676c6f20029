/* monitors.c: MPI_THREAD_MULTIPLE: several threads of a rank probe for messages of one communicator, source and tag, and receive
 * them, by all kinds of calls and wildcards, while another thread only looks at what is there. All messages have one length, which
 * each probe has to tell. Each message arrives once and whole, those of one thread in their order. What one thread does not receive
 * any more, another one finds.
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy -n 2 --host
 * run: STRIDEC_HOST=on -n 2
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 */
#include "check.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4   /* of each rank, but for the one that looks */
#define EACH 70     /* messages that one of them sends, or receives */
#define AT_ONCE 5   /* nonblocking sends */
#define COUNT 12    /* elements of LAYOUT_DOUBLES */

enum { TAG = 7, LATE, GO, OTHER };

static MPI_Comm comm;
static struct layout sent, room[THREADS];
static enum mem_kind kind;
static unsigned char *packed[THREADS][EACH];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool came[THREADS][EACH];

static void tell(const MPI_Status *s, const char *what)
{
    int bytes = -1;
    MPI_Get_count(s, MPI_BYTE, &bytes);
    expect(bytes == sent.bytes, "%s tells %d bytes, not %d", what, bytes, sent.bytes);
    expect(s->MPI_SOURCE == 0 && s->MPI_TAG == TAG, "%s tells of source %d, tag %d", what, s->MPI_SOURCE, s->MPI_TAG);
}

static void probe(bool waits, int source, int tag)
{
    MPI_Status s;
    int there = waits;
    if (waits) MPI_Probe(source, tag, comm, &s);
    while (!there) MPI_Iprobe(source, tag, comm, &there, &s);
    tell(&s, waits ? "MPI_Probe" : "MPI_Iprobe");
}

static const char *const ways[] = {"Recv", "Irecv", "Sendrecv", "Sendrecv_replace", "Recv_init", "Mprobe", "Improbe"};
#define WAYS (int)(sizeof ways / sizeof *ways)

static void receive(int way, void *at, const struct layout *l, int source, int tag, MPI_Status *s)
{
    MPI_Request r;
    MPI_Message m;
    int there = 0;
    switch (way) {
    case 0:
        MPI_Recv(at, l->count, l->type, source, tag, comm, s);
        return;
    case 1:
        MPI_Irecv(at, l->count, l->type, source, tag, comm, &r);
        break;
    case 2:
        MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, at, l->count, l->type, source, tag, comm, s);
        return;
    case 3:
        MPI_Sendrecv_replace(at, l->count, l->type, MPI_PROC_NULL, 0, source, tag, comm, s);
        return;
    case 4:
        MPI_Recv_init(at, l->count, l->type, source, tag, comm, &r);
        MPI_Start(&r);
        MPI_Wait(&r, s);
        MPI_Request_free(&r);
        return;
    case 5:
        MPI_Mprobe(source, tag, comm, &m, s);
        tell(s, "MPI_Mprobe");
        MPI_Mrecv(at, l->count, l->type, &m, s);
        return;
    default:
        while (!there) MPI_Improbe(source, tag, comm, &there, &m, s);
        tell(s, "MPI_Improbe");
        MPI_Imrecv(at, l->count, l->type, &m, &r);
    }
    MPI_Wait(&r, s);
}

static int matches(const struct layout *l, const unsigned char *got, const unsigned char *want)
{
    for (int i = 0; i < (int)sizeof(double); i++)
        if (got[l->map[i]] != want[i]) return 0;
    return 1;
}

/* The sender of a message, and its number. */
static bool known(const struct buf *b, const struct layout *l, int *thread, int *number)
{
    unsigned char *got = malloc((size_t)l->span);
    bool found = false;
    mem_read(kind, got, (char *)b->origin + l->low, (size_t)l->span);
    for (int t = 0; t < THREADS && !found; t++)
        for (int i = 0; i < EACH && !found; i++)
            if (matches(l, got, packed[t][i])) *thread = t, *number = i, found = true;
    free(got);
    return found;
}

static void check(struct buf *b, const struct layout *l, int next[THREADS], const char *how)
{
    int thread, number;
    if (!known(b, l, &thread, &number)) {
        fail("%s brings nothing that was sent", how);
        return;
    }
    expect(number >= next[thread], "%s brings message %d of a thread behind message %d", how, number, next[thread] - 1);
    next[thread] = number + 1;
    pthread_mutex_lock(&lock);
    expect(!came[thread][number], "%s brings a message again", how);
    came[thread][number] = true;
    pthread_mutex_unlock(&lock);
    buf_expect(b, l, packed[thread][number], l->bytes);
    buf_check(b, how);
}

static void *receives(void *arg)
{
    int me = (int)(intptr_t)arg, next[THREADS] = {0};
    const struct layout *l = &room[me];
    for (int i = 0; i < EACH; i++) {
        int source = i % 3 == 2 ? MPI_ANY_SOURCE : 0, tag = i % 5 == 4 ? MPI_ANY_TAG : TAG, way = (i + me) % WAYS;
        struct buf b;
        MPI_Status s;
        buf_make(&b, kind, l, 0, 99);
        if (i % 4) probe(i % 2, source, tag);
        receive(way, b.origin, l, source, tag, &s);
        tell(&s, ways[way]);
        check(&b, l, next, ways[way]);
        buf_free(&b);
    }
    return NULL;
}

static void *sends(void *arg)
{
    int me = (int)(intptr_t)arg;
    for (int i = 0; i < EACH; i += AT_ONCE) {
        struct buf b[AT_ONCE];
        MPI_Request r[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) buf_make(&b[k], kind, &sent, 0, (uint64_t)(1000 * me + i + k));
        if (i % 2) for (int k = 0; k < AT_ONCE; k++) MPI_Send(b[k].origin, sent.count, sent.type, 1, TAG, comm);
        else for (int k = 0; k < AT_ONCE; k++) MPI_Isend(b[k].origin, sent.count, sent.type, 1, TAG, comm, &r[k]);
        if (i % 2 == 0) MPI_Waitall(AT_ONCE, r, MPI_STATUSES_IGNORE);
        for (int k = 0; k < AT_ONCE; k++) buf_free(&b[k]);
    }
    return NULL;
}

/* Until there is a message by the other tag. */
static void *looks(void *arg)
{
    MPI_Status s;
    int there = 1;
    MPI_Probe(MPI_PROC_NULL, TAG, comm, &s);
    expect(s.MPI_SOURCE == MPI_PROC_NULL, "a probe of nobody tells of rank %d", s.MPI_SOURCE);
    s.MPI_TAG = TAG;
    for (int i = 0; s.MPI_TAG != LATE; i++) {
        if (i % 2) MPI_Probe(0, MPI_ANY_TAG, comm, &s);
        else MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &s);
        if (!there) s.MPI_TAG = TAG;
        there = 1;
        if (s.MPI_TAG == LATE) MPI_Recv(NULL, 0, MPI_INT, 0, LATE, comm, &s);
        else if (i % 2) tell(&s, "MPI_Probe");
    }
    return arg;
}

static void all_at_once(const char *name)
{
    pthread_t id[THREADS], looker;
    memset(came, 0, sizeof came);
    if (my_rank == 1) pthread_create(&looker, NULL, looks, NULL);
    for (int i = 0; my_rank < 2 && i < THREADS; i++) pthread_create(&id[i], NULL, my_rank ? receives : sends, (void *)(intptr_t)i);
    for (int i = 0; my_rank < 2 && i < THREADS; i++) pthread_join(id[i], NULL);
    MPI_Barrier(check_comm);
    if (my_rank == 0) MPI_Send(NULL, 0, MPI_INT, 1, LATE, comm);
    if (my_rank == 1) pthread_join(looker, NULL);
    report("%d threads that probe and receive, one that looks, %s", THREADS, name);
}

/* Rank 1 exchanges in one thread, and its send waits; the other thread probes for what the exchange has left. */
static void *exchanges(void *at)
{
    struct buf b;
    MPI_Request r;
    buf_make(&b, kind, &room[1], 0, 3);
    MPI_Isend(NULL, 0, MPI_INT, 0, GO, check_comm, &r);
    MPI_Sendrecv(at, 1 << 20, MPI_DOUBLE, 0, OTHER, b.origin, room[1].count, room[1].type, 0, TAG, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    buf_free(&b);
    return NULL;
}

static void waiting_sends(const char *name)
{
    void *large = calloc(1 << 20, sizeof(double));
    struct buf b;
    buf_make(&b, kind, &sent, 0, 4);
    if (my_rank == 0) {
        MPI_Recv(NULL, 0, MPI_INT, 1, GO, check_comm, MPI_STATUS_IGNORE);
        for (int i = 0; i < 2; i++) MPI_Send(b.origin, sent.count, sent.type, 1, TAG, comm);
        MPI_Recv(NULL, 0, MPI_INT, 1, LATE, comm, MPI_STATUS_IGNORE);
        MPI_Recv(large, 1 << 20, MPI_DOUBLE, 1, OTHER, comm, MPI_STATUS_IGNORE);
    } else if (my_rank == 1) {
        pthread_t id;
        pthread_create(&id, NULL, exchanges, large);
        probe(true, 0, TAG);
        MPI_Recv(b.origin, sent.count, sent.type, 0, TAG, comm, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_INT, 0, LATE, comm);
        pthread_join(id, NULL);
    }
    buf_free(&b), free(large);
    report("a probe beside an exchange whose send waits, %s", name);
}

int main(int argc, char **argv)
{
    int provided = check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    if (provided < MPI_THREAD_MULTIPLE) {
        note("this MPI gives no MPI_THREAD_MULTIPLE");
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    layout_number(&sent, 2, COUNT);
    for (int i = 0; i < THREADS; i++) layout_number(&room[i], i + 1, COUNT);
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < EACH; i++) packed[t][i] = layout_packed(&sent, (uint64_t)(1000 * t + i));
    for (int i = 0; i < 2; i++) {
        kind = i ? MEM_DEVICE : MEM_HOST;
        all_at_once(mem_name[kind]);
        waiting_sends(mem_name[kind]);
    }
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < EACH; i++) free(packed[t][i]);
    for (int i = 0; i < THREADS; i++) layout_free(&room[i]);
    layout_free(&sent);
    MPI_Comm_free(&comm);
    return check_finish();
}
