/* requests.c: every Wait and Test over mixes of derived device messages, host messages and idle requests.
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host
 * run: -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "check.h"
#include <stdio.h>

#define N 12 /* requests in a mix: receives, then two idle ones */
#define IDLE 2
#define COUNT 2

static MPI_Comm comm;
static int peer;
static struct layout layouts[LAYOUTS];
static uint64_t salt = 10;

/* What request i of a mix receives, from which layout, in which memory. */
static int to_of(int i)
{
    return i % LAYOUTS;
}

static int from_of(int i)
{
    return (i * 3 + 1) % LAYOUTS;
}

static enum mem_kind kind_of(int i)
{
    return i % 4 == 3 ? MEM_HOST : MEM_DEVICE;
}

/* A mix under way: this rank receives N messages of which the peer sends in an order of its own, and sends
 * as many; tag i carries message i. */
struct mix {
    MPI_Request recv[N + IDLE], send[N];
    struct buf target[N], source[N];
    bool done[N + IDLE];
    int idle_at; /* where the persistent request lies that is never started */
};

static void start_recvs(struct mix *m)
{
    for (int i = 0; i < N; i++) {
        struct layout *l = &layouts[to_of(i)];
        buf_make(&m->target[i], kind_of(i), l, 0, salt + 500);
        MPI_Irecv(m->target[i].origin, COUNT, l->type, peer, i, comm, &m->recv[i]);
        buf_expect_from(&m->target[i], l, &layouts[from_of(i)], salt + (uint64_t)(peer * 100 + i));
        m->done[i] = false;
    }
    m->recv[N] = MPI_REQUEST_NULL;
    MPI_Recv_init(NULL, 0, MPI_INT, peer, 99, comm, &m->recv[N + 1]);
    m->done[N] = m->done[N + 1] = true;
}

static void start_sends(struct mix *m)
{
    int order[N];
    for (int i = 0; i < N; i++) order[i] = i;
    for (int i = N - 1; i > 0; i--) {
        int j = (int)roll((uint32_t)i + 1), t = order[i];
        order[i] = order[j], order[j] = t;
    }
    for (int k = 0; k < N; k++) {
        int i = order[k];
        struct layout *l = &layouts[from_of(i)];
        buf_make(&m->source[i], kind_of(i + 1), l, 0, salt + (uint64_t)(my_rank * 100 + i));
        MPI_Isend(m->source[i].origin, COUNT, l->type, peer, i, comm, &m->send[i]);
    }
}

/* Request i has completed, so say Wait or Test with this status. */
static void completed(struct mix *m, int i, const MPI_Status *s, const char *how)
{
    int n = -1;
    if (i < 0 || i >= N + IDLE || m->done[i]) {
        fail("%s completes request %d, which is %s", how, i, i < 0 || i >= N + IDLE ? "none" : "idle or was complete");
        return;
    }
    m->done[i] = true;
    expect(m->recv[i] == MPI_REQUEST_NULL, "%s leaves request %d set", how, i);
    if (s) {
        MPI_Get_count(s, layouts[to_of(i)].type, &n);
        expect(n == COUNT, "%s: MPI_Get_count of request %d is %d", how, i, n);
        expect(s->MPI_SOURCE == peer && s->MPI_TAG == i, "%s: request %d has source %d, tag %d", how, i, s->MPI_SOURCE,
               s->MPI_TAG);
    }
    buf_check(&m->target[i], how);
}

static void end_mix(struct mix *m, const char *how)
{
    for (int i = 0; i < N; i++) expect(m->done[i], "%s never completes request %d", how, i);
    MPI_Waitall(N, m->send, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++) {
        buf_check(&m->source[i], "a send buffer");
        buf_free(&m->source[i]);
        buf_free(&m->target[i]);
    }
    MPI_Request_free(&m->recv[N + 1]);
    salt += 1000;
    report("%s", how);
}

static void empty_status(const MPI_Status *s, const char *how)
{
    int n = -1;
    MPI_Get_count(s, MPI_BYTE, &n);
    expect(s->MPI_SOURCE == MPI_ANY_SOURCE && s->MPI_TAG == MPI_ANY_TAG && n == 0, "%s: an idle request's status", how);
}

/* Each way completes all of a mix. */
typedef void finish(struct mix *m, const char *how);

static void by_wait(struct mix *m, const char *how)
{
    MPI_Status s;
    for (int i = N + IDLE - 1; i >= 0; i--) {
        MPI_Wait(&m->recv[i], &s);
        if (i < N)
            completed(m, i, &s, how);
        else
            empty_status(&s, how);
    }
}

static void by_wait_ignore(struct mix *m, const char *how)
{
    for (int i = 0; i < N; i++) {
        MPI_Wait(&m->recv[i], MPI_STATUS_IGNORE);
        completed(m, i, NULL, how);
    }
}

static void by_test(struct mix *m, const char *how)
{
    for (int left = N; left > 0;)
        for (int i = 0; i < N; i++) {
            MPI_Status s;
            int flag = 0;
            if (m->done[i]) continue;
            MPI_Test(&m->recv[i], &flag, &s);
            if (flag) completed(m, i, &s, how), left--;
        }
    for (int i = N; i < N + IDLE; i++) {
        MPI_Status s;
        int flag = 0;
        MPI_Test(&m->recv[i], &flag, &s);
        expect(flag, "MPI_Test of an idle request");
        empty_status(&s, how);
    }
}

static void by_waitall(struct mix *m, const char *how)
{
    MPI_Status s[N + IDLE];
    MPI_Waitall(N + IDLE, m->recv, s);
    for (int i = 0; i < N; i++) completed(m, i, &s[i], how);
    empty_status(&s[N], how);
    empty_status(&s[N + 1], how);
}

static void by_waitall_ignore(struct mix *m, const char *how)
{
    MPI_Waitall(N + IDLE, m->recv, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++) completed(m, i, NULL, how);
}

static void by_waitany(struct mix *m, const char *how)
{
    MPI_Status s;
    int i = 0;
    for (int k = 0; k < N; k++) {
        MPI_Waitany(N + IDLE, m->recv, &i, &s);
        completed(m, i, &s, how);
    }
    MPI_Waitany(N + IDLE, m->recv, &i, &s);
    expect(i == MPI_UNDEFINED, "Waitany of idle requests gives %d", i);
}

static void by_testany(struct mix *m, const char *how)
{
    MPI_Status s;
    int i = 0, flag = 0;
    for (int left = N; left > 0;) {
        MPI_Testany(N + IDLE, m->recv, &i, &flag, &s);
        if (flag) completed(m, i, &s, how), left--;
        if (flag && i == MPI_UNDEFINED) return; /* a failure is noted: all seem idle */
    }
    MPI_Testany(N + IDLE, m->recv, &i, &flag, &s);
    expect(flag && i == MPI_UNDEFINED, "Testany of idle requests gives %d, %d", flag, i);
}

static void by_some(struct mix *m, const char *how, bool wait)
{
    MPI_Status s[N + IDLE];
    int at[N + IDLE], n = 0;
    for (int left = N; left > 0;) {
        if (wait)
            MPI_Waitsome(N + IDLE, m->recv, &n, at, s);
        else
            MPI_Testsome(N + IDLE, m->recv, &n, at, s);
        expect(n != MPI_UNDEFINED && (n > 0 || !wait), "%s gives %d with %d requests active", how, n, left);
        if (n == MPI_UNDEFINED) return;
        for (int k = 0; k < n; k++) completed(m, at[k], &s[k], how);
        left -= n;
    }
    if (wait)
        MPI_Waitsome(N + IDLE, m->recv, &n, at, s);
    else
        MPI_Testsome(N + IDLE, m->recv, &n, at, s);
    expect(n == MPI_UNDEFINED, "%s of idle requests gives %d", how, n);
}

static void by_waitsome(struct mix *m, const char *how)
{
    by_some(m, how, true);
}

static void by_testsome(struct mix *m, const char *how)
{
    by_some(m, how, false);
}

static void by_testall(struct mix *m, const char *how)
{
    MPI_Status s[N + IDLE];
    int flag = 0;
    while (!flag) MPI_Testall(N + IDLE, m->recv, &flag, s);
    for (int i = 0; i < N; i++) completed(m, i, &s[i], how);
}

/* MPI_Request_get_status leaves the request; a Wait afterwards must give the same. */
static void by_get_status(struct mix *m, const char *how)
{
    for (int i = 0; i < N; i++) {
        MPI_Status s, again;
        int flag = 0, n = -1;
        while (!flag) MPI_Request_get_status(m->recv[i], &flag, &s);
        MPI_Get_count(&s, layouts[to_of(i)].type, &n);
        expect(n == COUNT && s.MPI_SOURCE == peer && s.MPI_TAG == i, "status by MPI_Request_get_status");
        buf_check(&m->target[i], "after MPI_Request_get_status says complete");
        expect(m->recv[i] != MPI_REQUEST_NULL, "MPI_Request_get_status resets the request");
        MPI_Wait(&m->recv[i], &again);
        completed(m, i, &again, how);
    }
}

static void mixes(void)
{
    static const struct {
        const char *name;
        finish *finish;
    } ways[] = {{"Wait", by_wait},
                {"Wait, status ignored", by_wait_ignore},
                {"Test", by_test},
                {"Waitall", by_waitall},
                {"Waitany", by_waitany},
                {"Waitall, statuses ignored", by_waitall_ignore},
                {"Testany", by_testany},
                {"Waitsome", by_waitsome},
                {"Testall", by_testall},
                {"Testsome", by_testsome},
                {"Request_get_status", by_get_status}};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int early = 0; early < 2; early++) {
            struct mix m;
            char how[80];
            snprintf(how, sizeof how, "%s, %s posted first", ways[w].name, early ? "receives" : "sends");
            if (!early) start_sends(&m);
            start_recvs(&m);
            if (early) start_sends(&m);
            ways[w].finish(&m, how);
            end_mix(&m, how);
        }
}

/* Sends completed by the same calls: their requests mixed with the receives' in one array. */
static void sends_too(void)
{
    struct mix m;
    MPI_Request all[2 * N];
    start_recvs(&m);
    start_sends(&m);
    for (int i = 0; i < N; i++) all[2 * i] = m.recv[i], all[2 * i + 1] = m.send[i];
    for (int k = 0; k < 2 * N; k++) {
        int i = -1;
        MPI_Status s;
        MPI_Waitany(2 * N, all, &i, &s);
        if (i < 0 || i >= 2 * N) {
            fail("Waitany of sends and receives gives %d", i);
            break;
        }
        if (i % 2 == 0)
            m.recv[i / 2] = all[i], completed(&m, i / 2, &s, "sends and receives in one Waitany");
        else
            m.send[i / 2] = all[i];
    }
    end_mix(&m, "sends and receives in one Waitany");
}

/* MPI_Request_get_status of persistent requests before each start: nothing of it is left for what they bring then. */
static void idle_seen(void)
{
    struct layout *l = &layouts[2], *k = &layouts[1];
    struct buf target, source;
    MPI_Request r[2];
    buf_make(&source, MEM_DEVICE, l, 0, salt + (uint64_t)my_rank);
    buf_make(&target, MEM_DEVICE, k, 0, salt + 500);
    MPI_Recv_init(target.origin, COUNT, k->type, peer, 0, comm, &r[0]);
    MPI_Send_init(source.origin, COUNT, l->type, peer, 0, comm, &r[1]);
    for (int round = 0; round < 2; round++) {
        MPI_Status s[2];
        int flag, n = -1;
        salt += 1000;
        buf_fill(&source, salt + (uint64_t)my_rank);
        for (int i = 0; i < 2; i++) {
            MPI_Request_get_status(r[i], &flag, &s[i]);
            expect(flag, "MPI_Request_get_status of an idle request");
            empty_status(&s[i], "MPI_Request_get_status");
        }
        MPI_Startall(2, r);
        MPI_Waitall(2, r, s);
        MPI_Get_count(&s[0], k->type, &n);
        expect(n == COUNT && s[0].MPI_SOURCE == peer, "status after a start");
        buf_expect_from(&target, k, l, salt + (uint64_t)peer);
        buf_check(&target, "started after MPI_Request_get_status");
    }
    for (int i = 0; i < 2; i++) MPI_Request_free(&r[i]);
    buf_free(&source), buf_free(&target);
    report("persistent requests, seen idle before each start");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    peer = my_rank ^ 1;
    for (int i = 0; i < LAYOUTS; i++) layout_number(&layouts[i], i, COUNT);
    mixes();
    sends_too();
    idle_seen();
    for (int i = 0; i < LAYOUTS; i++) layout_free(&layouts[i]);
    MPI_Comm_free(&comm);
    return check_finish();
}
