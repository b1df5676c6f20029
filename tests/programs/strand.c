/* strand.c: what one thread of a program does: plans its operations, goes through their events, and completes what they have begun. */
#include "known.h"
#include "programs.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static const struct op_row *const rows[] = {&message_row, &wild_row, &collective_row, &exchange_row,
                                            &cancel_row, &pack_row, &reduction_row, &window_row, &file_row,
#if MPI_VERSION >= 4
                                            &partitioned_row,
#endif
};
enum { ROWS = sizeof rows / sizeof *rows };

void op_must(const struct op *o, int code, const char *call)
{
    digest_numbers(call, o->number, error_class(code), 0);
    if (code != MPI_SUCCESS) differ("op %d: %s returns error class %d", o->number, call, error_class(code));
}

void op_event(struct op *o, int time, int rank, enum phase phase, int what, int round)
{
    if (o->n == EVENTS) abort();
    o->event[o->n++] = (struct event){time, rank, phase, what, round, o->number};
}

/* ---- which operations ---- */

static const struct op_row *row_draw(struct chance *c)
{
    int all = 0, at;
    for (int i = 0; i < ROWS; i++) all += rows[i]->weight;
    at = draw(c, all);
    for (int i = 0; i < ROWS; i++) {
        if (at < rows[i]->weight) return rows[i];
        at -= rows[i]->weight;
    }
    return rows[0];
}

/* Whether --only names the operation. */
static bool wanted(int number)
{
    const char *at = setup.only;
    if (!at) return true;
    while (*at) {
        char *end;
        long n = strtol(at, &end, 10);
        if (end == at) return false;
        if (n == number) return true;
        at = *end ? end + 1 : end;
    }
    return false;
}

void strand_plan(struct strand *s, uint64_t seed, int number, struct comm *comms)
{
    struct chance c = chance_of(seed, (uint64_t)number);
    s->number = number, s->comms = comms, s->messages = s->wild_receivers = s->starts = s->files = 0, s->file_alone = false;
    s->seed = c.state;
    s->n = once_in(&c, 4) ? draw_in(&c, 1, OPS) : draw_in(&c, 1, 8);
    for (int i = 0; i < s->n; i++) {
        struct op *o = &s->op[i];
        struct chance own = chance_of(s->seed, (uint64_t)i + 1000);
        *o = (struct op){.row = row_draw(&own), .strand = s, .number = 100 * number + i};
        o->seed = own.state;
        o->dropped = !wanted(o->number);
        o->own = calloc(1, o->row->bytes);
        o->row->plan(o, &own);
    }
}

/* ---- completion ---- */

enum { GROUP = 16 };
struct group {
    int n;
    MPI_Request request[GROUP];
    const struct event *event[GROUP];   /* NULL: a null request */
    bool over[GROUP];
};

enum way { WAIT, WAITALL, WAITANY, WAITSOME, TESTALL, TESTANY, TESTSOME, TEST, GET_STATUS, WAIT_BACKWARDS, WAYS };
static const char *const way_name[WAYS] = {"Wait", "Waitall", "Waitany", "Waitsome", "Testall",
                                           "Testany", "Testsome", "Test", "Request_get_status", "Wait, backwards"};

static struct op *op_of(struct strand *s, const struct event *e)
{
    return &s->op[e->op % 100];
}

static void over(struct strand *s, struct group *g, int i, const MPI_Status *status, int code)
{
    const struct event *e = i >= 0 && i < g->n ? g->event[i] : NULL;
    if (!e || g->over[i]) {
        differ("a request is complete that is not under way: number %d of %d", i, g->n);
        return;
    }
    g->over[i] = true;
    digest_numbers("completion", e->op, 10 * e->what + e->round, error_class(code));
    *op_of(s, e)->row->request(op_of(s, e), e) = g->request[i];
    op_of(s, e)->row->done(op_of(s, e), e, status, code);
}

static void one(struct strand *s, struct group *g, int i, enum way way)
{
    MPI_Status status;
    int flag = 0, code = MPI_SUCCESS;
    if (!g->event[i]) return;
    while (way == GET_STATUS && !flag) {
        code = MPI_Request_get_status(g->request[i], &flag, &status);
        if (code != MPI_SUCCESS) break;
        if (!flag) sched_yield();
    }
    flag = 0;
    if (way == TEST)
        while (!flag) {
            code = MPI_Test(&g->request[i], &flag, &status);
            if (code != MPI_SUCCESS) break;
            if (!flag) sched_yield();
        }
    else
        code = MPI_Wait(&g->request[i], &status);
    over(s, g, i, &status, code);
}

static void all(struct strand *s, struct group *g, enum way way, bool ignore)
{
    MPI_Status status[GROUP];
    int flag = way == WAITALL, code = MPI_SUCCESS;
    for (int i = 0; i < g->n; i++) status[i].MPI_ERROR = MPI_SUCCESS;
    if (way == WAITALL) code = MPI_Waitall(g->n, g->request, ignore ? MPI_STATUSES_IGNORE : status);
    while (!flag && code == MPI_SUCCESS) {
        code = MPI_Testall(g->n, g->request, &flag, ignore ? MPI_STATUSES_IGNORE : status);
        if (!flag) sched_yield();
    }
    for (int i = 0; i < g->n; i++) {
        int own = error_class(code) == MPI_ERR_IN_STATUS && !ignore ? status[i].MPI_ERROR : code;
        if (!g->event[i]) continue;
        if (error_class(own) == MPI_ERR_PENDING) one(s, g, i, WAIT);   /* an error elsewhere ended the call before */
        else over(s, g, i, ignore ? NULL : &status[i], own);
    }
}

static void some(struct strand *s, struct group *g, enum way way, int left)
{
    MPI_Status status[GROUP];
    int which[GROUP], n, flag, code;
    while (left > 0) {
        n = 1, flag = 1;
        for (int i = 0; i < g->n; i++) status[i].MPI_ERROR = MPI_SUCCESS;
        if (way == WAITANY) code = MPI_Waitany(g->n, g->request, which, status);
        else if (way == TESTANY) code = MPI_Testany(g->n, g->request, which, &flag, status);
        else if (way == WAITSOME) code = MPI_Waitsome(g->n, g->request, &n, which, status);
        else code = MPI_Testsome(g->n, g->request, &n, which, status);
        if (n == MPI_UNDEFINED || (flag && n == 1 && which[0] == MPI_UNDEFINED)) {
            differ("%s finds nothing under way, and %d requests are", way_name[way], left);
            return;
        }
        if (!flag || n == 0) {
            sched_yield();
            if (code == MPI_SUCCESS) continue;
        }
        for (int k = 0; k < n; k++, left--)
            over(s, g, which[k], &status[k], error_class(code) == MPI_ERR_IN_STATUS ? status[k].MPI_ERROR : code);
    }
}

static void complete(struct strand *s, struct group *g, struct chance *c)
{
    enum way way = (enum way)draw(c, WAYS);
    bool ignore = once_in(c, 4);
    int left = 0;
    bool fails = false, files = false;
    for (int i = 0; i < g->n; i++) {
        if (!g->event[i]) continue;
        g->request[i] = *op_of(s, g->event[i])->row->request(op_of(s, g->event[i]), g->event[i]);
        left++;
        if (op_of(s, g->event[i])->told) ignore = false;
        if (op_of(s, g->event[i])->fails) fails = true, ignore = false;
        if (op_of(s, g->event[i])->row == &file_row) files = true;
    }
    if (g->event[0] && op_of(s, g->event[0])->alone) way = WAIT;
    if (KNOWN_ANY && fails && (way == TESTANY || way == WAITANY || way == TESTSOME || way == WAITSOME)) way = WAIT;
    if (KNOWN_FILE_FAILS && fails && files) way = WAIT;
    if (KNOWN_WAITALL_FAILS && fails && setup.threads > 1) way = once_in(c, 2) ? WAIT : TEST;
    tell("  rank %d, time %d: %s of %d requests%s", my_rank, g->event[0] ? g->event[0]->time : -1, way_name[way], g->n,
         ignore && (way == WAITALL || way == TESTALL) ? ", without statuses" : "");
    for (int i = 0; i < g->n && setup.tell; i++)
        if (g->event[i]) tell("    of op %d, event %d", g->event[i]->op, g->event[i]->what);
    switch (way) {
    case WAIT: case TEST: case GET_STATUS:
        for (int i = 0; i < g->n; i++) one(s, g, i, way);
        break;
    case WAIT_BACKWARDS:
        for (int i = g->n - 1; i >= 0; i--) one(s, g, i, WAIT);
        break;
    case WAITALL: case TESTALL: all(s, g, way, ignore); break;
    default: some(s, g, way, left);
    }
}

/* ---- the events ---- */

static int later(const void *a, const void *b)
{
    const struct event *x = *(const struct event *const *)a, *y = *(const struct event *const *)b;
    if (x->time != y->time) return x->time - y->time;
    if (x->phase != y->phase) return (int)x->phase - (int)y->phase;
    if (x->op != y->op) return x->op - y->op;
    return x < y ? -1 : x > y;
}

static void start_waiting(struct strand *s)
{
    MPI_Request list[STARTING];
    int code, n = s->starts;
    if (!n) return;
    for (int i = 0; i < n; i++) list[i] = *s->start[i];
    tell("  rank %d: MPI_Startall of %d requests", my_rank, n);
    code = MPI_Startall(n, list);
    for (int i = 0; i < n; i++) *s->start[i] = list[i];
    s->starts = 0;
    digest_numbers("MPI_Startall", n, error_class(code), 0);
    if (code != MPI_SUCCESS) differ("MPI_Startall of %d requests returns error class %d", n, error_class(code));
}

void op_start(const struct op *o, MPI_Request *request)
{
    struct strand *s = o->strand;
    if (s->starts == STARTING) start_waiting(s);
    if (s->starts_together) {
        s->start[s->starts++] = request;
        return;
    }
    int code = MPI_Start(request);
    digest_numbers("MPI_Start", o->number, error_class(code), 0);
    if (code != MPI_SUCCESS) differ("op %d: MPI_Start returns error class %d", o->number, error_class(code));
}

/* Those of this rank, in their order. */
static int collect(struct strand *s, const struct event *list[])
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; !s->op[i].dropped && k < s->op[i].n; k++)
            if (s->op[i].event[k].rank == my_rank) list[n++] = &s->op[i].event[k];
    qsort(list, (size_t)n, sizeof *list, later);
    return n;
}

/* Completes those from `at` on that are of one time, or some of them; returns how many. */
static int complete_from(struct strand *s, const struct event *list[], int at, int n)
{
    struct group g = {0};
    struct chance c = chance_of(s->seed + (uint64_t)my_rank * 977, (uint64_t)list[at]->time + 5000);
    int taken = 0, most = once_in(&c, 3) ? draw_in(&c, 1, 3) : GROUP - 3;
    if (op_of(s, list[at])->alone) most = 1;
    while (at + taken < n && taken < most && list[at + taken]->phase == DONE && list[at + taken]->time == list[at]->time) {
        if (taken && once_in(&c, 6) && g.n < GROUP - 1) g.request[g.n++] = MPI_REQUEST_NULL;
        if (g.n == GROUP || (taken && op_of(s, list[at + taken])->alone)) break;
        g.event[g.n++] = list[at + taken++];
    }
    complete(s, &g, &c);
    return taken;
}

/* All ranks draw alike: so collectives start in the same order everywhere. */
static bool starts_together(const struct strand *s, int time)
{
    struct chance c = chance_of(s->seed, (uint64_t)time + 9000);
    return !once_in(&c, 3);
}

static void go_through(struct strand *s)
{
    const struct event **list = malloc(OPS * EVENTS * sizeof *list);
    int n = collect(s, list), half = 0;
    for (int i = 0; i < n;) {
        if (i == 0 || list[i]->time != list[i - 1]->time || list[i]->phase != START) start_waiting(s);
        if (list[i]->time >= TIMES / 2 && !half++) MPI_Barrier(s->comms[COMM_WORLD].comm);
        struct op *o = op_of(s, list[i]);
        if (list[i]->phase == START) s->starts_together = starts_together(s, list[i]->time);
        if (list[i]->phase == DONE) i += complete_from(s, list, i, n);
        else {
            tell("  rank %d, time %d: op %d, event %d", my_rank, list[i]->time, o->number, list[i]->what);
            o->row->act(o, list[i++]);
        }
    }
    start_waiting(s);
    if (!half) MPI_Barrier(s->comms[COMM_WORLD].comm);
    free(list);
}

void strand_run(struct strand *s)
{
    for (int i = 0; i < s->n; i++)
        if (!s->op[i].dropped) s->op[i].row->prepare(&s->op[i]);
    go_through(s);
    MPI_Barrier(s->comms[COMM_WORLD].comm);
    for (int i = 0; i < s->n; i++) {
        if (!s->op[i].dropped) s->op[i].row->finish(&s->op[i]);
        free(s->op[i].own);
    }
    memory_reset(s->number);
}
