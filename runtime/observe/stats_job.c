/* stats_job.c: sums the rows of the ranks, along a tree of ranks: rank 0 gets each type once. */
#include "stats_job.h"
#include "base/env.h"
#include "base/log.h"
#include "base/plain_locale.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ORDER STATS_STATE */
const char *const stats_state_names[STATS_STATES] = {"compiled", "cache", "ahead", "shared", "copy", "pending",
                                                     "failed"};
const char stats_version[] = STRIDEC_VERSION;

/* ---- reading ---- */

/* Returns the next field of a line, "" behind the last. */
static char *field(char **line)
{
    static char none[] = "";
    char *at = *line ? strsep(line, "\t") : NULL;
    return at ? at : none;
}

static int64_t number(char **line)
{
    return strtoll(field(line), NULL, 10);
}

static const char *or_null(const char *text)
{
    return text && *text ? text : NULL;
}

static struct stats_total *add_row(struct stats_job *job, char *line)
{
    struct stats_total *t;
    const char *signature = field(&line);
    HASH_FIND_STR(job->types, signature, t);
    if (!t) {
        if (!(t = calloc(1, sizeof *t))) return NULL;
        t->signature = signature;
        HASH_ADD_KEYPTR(hh, job->types, t->signature, strlen(signature), t);
    }
    t->family = field(&line), t->form = field(&line);
    int64_t size = number(&line), extent = number(&line);
    if (size) t->size = size;
    if (extent) t->extent = extent;
    t->calls += number(&line), t->bytes += number(&line), t->timed += number(&line);
    t->launches += number(&line), t->nanoseconds += number(&line);
    for (int i = 0; i < STATS_STATES; i++) t->states[i] += number(&line);
    return t;
}

static void add_name(struct stats_total *t, const char *name)
{
    int i = 0;
    while (i < STATS_NAMES && t->names[i] && strcmp(t->names[i], name) != 0) i++;
    if (i < STATS_NAMES) t->names[i] = name;
}

static void add_left(struct stats_total *t, char *line)
{
    int64_t calls = number(&line), bytes = number(&line);
    const char *why = field(&line);
    int i = 0;
    while (i < STATS_REASONS && t->left[i].why && strcmp(t->left[i].why, why) != 0) i++;
    if (i == STATS_REASONS) return;
    t->left[i].why = why;
    t->left[i].calls += calls, t->left[i].bytes += bytes;
}

static void add_way(struct stats_total *t, char *line)
{
    struct stats_way w = {.protocol = field(&line)}, *same = t->way;
    w.message_bytes = number(&line), w.calls = number(&line), w.bytes = number(&line), w.why = field(&line);
    while (same < t->way + t->ways && (strcmp(same->protocol, w.protocol) || same->message_bytes != w.message_bytes))
        same++;
    if (same < t->way + t->ways) {
        same->calls += w.calls, same->bytes += w.bytes;
        if (!*same->why) same->why = w.why;
        return;
    }
    struct stats_way *more = realloc(t->way, (size_t)(t->ways + 1) * sizeof *more);
    if (!more) return;
    t->way = more;
    t->way[t->ways++] = w;
}

/* Adds a line, once for all ranks. */
static void add_line(struct stats_total *t, const char *line)
{
    for (const struct stats_line *o = t->lines; o; o = o->next)
        if (!strcmp(o->text, line)) return;
    struct stats_line *one = malloc(sizeof *one);
    if (!one) return;
    *one = (struct stats_line){(char *)(uintptr_t)line, t->lines};
    t->lines = one;
}

static void add_pair(struct stats_job *job, char *line)
{
    if (job->pairs == job->pair_room) {
        size_t room = job->pair_room ? 2 * job->pair_room : 64;
        struct stats_pair *more = realloc(job->pair, room * sizeof *more);
        if (!more) return;
        job->pair = more, job->pair_room = room;
    }
    struct stats_pair *p = &job->pair[job->pairs++];
    p->from = (int)number(&line), p->to = (int)number(&line), p->bytes = number(&line);
}

static void add_gpu(struct stats_job *job, char *line)
{
    const char *name = field(&line);
    if (job->gpu || !*name) return;
    job->gpu = name;
    job->copy_rate = strtod(field(&line), NULL);
}

/* Adds a line of a type to *last, and of the job to that. */
static void add(struct stats_job *job, struct stats_total **last, char *line)
{
    const char kind = *field(&line);
    if (!line) return;
    if (kind == 'R') *last = add_row(job, line), job->incomplete |= !*last;
    else if (kind == 'p') add_pair(job, line);
    else if (kind == 'u') job->unread += (long)number(&line);
    else if (kind == 'g') add_gpu(job, line);
    else if (kind == 'i') job->incomplete = true;
    else if (!*last) return;
    else if (kind == 'n') add_name(*last, line);
    else if (kind == 'l') add_left(*last, line);
    else if (kind == 'w') add_way(*last, line);
    else if (kind == 'c' && !(*last)->reads) (*last)->reads = or_null(line);
    else if (kind == 'x' && !or_null((*last)->whole)) (*last)->whole = line;
    else if (kind == 'r') (*last)->rule = line;
    else if (kind == 't') add_line(*last, line);
}

void stats_job_add(struct stats_job *job, char *text)
{
    struct stats_total *last = NULL;
    char *rest = text, *line, **more = text ? realloc(job->text, (job->texts + 1) * sizeof *more) : NULL;
    if (more) job->text = more, job->text[job->texts++] = text;
    else free(text), job->incomplete = true;
    while (more && (line = strsep(&rest, "\n"))) add(job, &last, line);
}

/* ---- writing ---- */

void stats_write_total(FILE *f, const struct stats_total *t, bool whole)
{
    fprintf(f, "R\t%s\t%s\t%s\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld", t->signature, t->family, t->form,
            (long long)t->size, (long long)t->extent, (long long)t->calls, (long long)t->bytes, (long long)t->timed,
            (long long)t->launches, (long long)t->nanoseconds);
    for (int i = 0; i < STATS_STATES; i++) fprintf(f, "\t%lld", (long long)t->states[i]);
    fputc('\n', f);
    if (t->reads) fprintf(f, "c\t%s\n", t->reads);
    if (t->whole) fprintf(f, "x\t%s\n", whole ? t->whole : "");
    for (int i = 0; i < STATS_NAMES && t->names[i]; i++) fprintf(f, "n\t%s\n", t->names[i]);
    for (int i = 0; i < STATS_REASONS && t->left[i].why; i++)
        fprintf(f, "l\t%lld\t%lld\t%s\n", (long long)t->left[i].calls, (long long)t->left[i].bytes, t->left[i].why);
    for (int i = 0; i < t->ways; i++)
        fprintf(f, "w\t%s\t%lld\t%lld\t%lld\t%s\n", t->way[i].protocol, (long long)t->way[i].message_bytes,
                (long long)t->way[i].calls, (long long)t->way[i].bytes, t->way[i].why);
    if (t->rule) fprintf(f, "r\t%s\n", t->rule);
    for (const struct stats_line *l = t->lines; l; l = l->next) fprintf(f, "t\t%s\n", l->text);
}

void stats_job_write(const struct stats_job *job, FILE *f)
{
    size_t room = STATS_WHOLE_MAX;
    fprintf(f, "u\t%ld\n", job->unread);
    if (job->incomplete) fputs("i\t1\n", f);
    if (job->gpu) fprintf(f, "g\t%s\t%.6g\n", job->gpu, job->copy_rate);
    for (size_t i = 0; i < job->pairs; i++)
        fprintf(f, "p\t%d\t%d\t%lld\n", job->pair[i].from, job->pair[i].to, (long long)job->pair[i].bytes);
    for (const struct stats_total *t = job->types; t; t = t->hh.next) {
        size_t bytes = t->whole ? strlen(t->whole) : 0;
        bool whole = bytes <= room;
        stats_write_total(f, t, whole);
        if (whole) room -= bytes;
    }
}

static int64_t weight(const struct stats_total *t)
{
    int64_t bytes = t->bytes;
    for (int i = 0; i < STATS_REASONS; i++) bytes += t->left[i].bytes;
    return bytes;
}

static int by_bytes(const struct stats_total *a, const struct stats_total *b)
{
    return (weight(a) < weight(b)) - (weight(a) > weight(b));
}

void stats_job_sort(struct stats_job *job)
{
    HASH_SORT(job->types, by_bytes);
}

struct stats_sums stats_job_sums(const struct stats_job *job)
{
    struct stats_sums s = {0};
    for (const struct stats_total *t = job->types; t; t = t->hh.next) {
        s.calls += t->calls, s.bytes += t->bytes;
        for (int i = 0; i < STATS_REASONS; i++) s.left_calls += t->left[i].calls, s.left_bytes += t->left[i].bytes;
    }
    return s;
}

const char *stats_program(void)
{
    static char name[PATH_MAX];
    snprintf(name, sizeof name, "%s", program_invocation_name);
    for (char *c = name; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';
    return name;
}

/* Returns true if anything was counted for the type, or a rule or a remark tells why not. */
static bool counts(const struct stats_total *t)
{
    return t->calls || t->left[0].why || t->rule || t->lines;
}

static bool any_counts(const struct stats_job *job)
{
    for (const struct stats_total *t = job->types; t; t = t->hh.next)
        if (counts(t)) return true;
    return false;
}

static void total_end(struct stats_total *t)
{
    for (struct stats_line *l = t->lines, *next; l; l = next) next = l->next, free(l);
    free(t->way), free(t);
}

void stats_job_free(struct stats_job *job)
{
    struct stats_total *t, *next;
    HASH_END_ALL(job->types, t, next, total_end);
    for (size_t i = 0; i < job->texts; i++) free(job->text[i]);
    free(job->text), free(job->pair);
}

/* ---- between ranks ---- */

static void write_own(FILE *f, const struct stats_about *about)
{
    if (about->gpu) fprintf(f, "g\t%s\t%.6g\n", about->gpu, about->copy_rate);
    fprintf(f, "u\t%ld\n", about->unread);
    stats_write_rows(f);
}

/* Returns the text of a job, or of this rank's part if `about` is not NULL; NULL without memory for all of it. */
static char *text_of(const struct stats_job *job, const struct stats_about *about, size_t *size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    if (!f) return NULL;
    if (about) write_own(f, about);
    else stats_job_write(job, f);
    bool failed = ferror(f);
    if (!fclose(f) && !failed) return text;
    free(text);
    return NULL;
}

/* Bytes of a message between ranks: a rank without memory can still receive it. */
#define PART 65536

/* Sends the job to another rank: its length, -1 without memory for it, and its text in parts. */
static void send_job(const struct stats_job *job, int to, MPI_Comm comm)
{
    size_t size = 0;
    char *text = text_of(job, NULL, &size);
    long long length = text ? (long long)size : -1;
    PMPI_Send(&length, 1, MPI_LONG_LONG, to, 0, comm);
    for (long long at = 0; at < length; at += PART)
        PMPI_Send(text + at, (int)(length - at < PART ? length - at : PART), MPI_CHAR, to, 0, comm);
    free(text);
}

static void receive_job(struct stats_job *job, int from, MPI_Comm comm)
{
    static char dropped[PART];
    long long length = -1;
    PMPI_Recv(&length, 1, MPI_LONG_LONG, from, 0, comm, MPI_STATUS_IGNORE);
    char *text = length < 0 ? NULL : calloc(1, (size_t)length + 1);
    for (long long at = 0; at < length; at += PART)
        PMPI_Recv(text ? text + at : dropped, (int)(length - at < PART ? length - at : PART), MPI_CHAR, from, 0, comm,
                  MPI_STATUS_IGNORE);
    if (text) stats_job_add(job, text);
    else job->incomplete = true;
}

static void add_own(struct stats_job *job, const struct stats_about *about)
{
    size_t size = 0;
    char *text = text_of(NULL, about, &size);
    if (text) stats_job_add(job, text);
    else job->incomplete = true;
}

/* Sums the jobs of all ranks on rank 0, along a tree. */
static void gather(struct stats_job *job, int rank, MPI_Comm comm)
{
    for (int bit = 1; bit < job->ranks; bit <<= 1) {
        if (rank & bit) {
            send_job(job, rank - bit, comm);
            break;
        }
        if (rank + bit < job->ranks) receive_job(job, rank + bit, comm);
    }
}

/* Returns the number of hosts, on rank 0; 0 if the MPI can't tell. */
static int count_hosts(MPI_Comm comm)
{
    MPI_Comm node = MPI_COMM_NULL;
    int rank = 0, sums[2] = {0, 0};
    bool known = PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) == MPI_SUCCESS;
    if (known) PMPI_Comm_rank(node, &rank), PMPI_Comm_free(&node);
    const int own[] = {known && rank == 0, !known};
    PMPI_Reduce(own, sums, 2, MPI_INT, MPI_SUM, 0, comm);
    return sums[1] ? 0 : sums[0];
}

/* Returns a communicator that no message of the program's is in. Its errors return. Returns MPI_COMM_NULL on all ranks
 * if the MPI has none left, and says so. */
static MPI_Comm own_comm(MPI_Comm comm, int rank)
{
    MPI_Comm own = MPI_COMM_NULL;
    MPI_Errhandler raises = MPI_ERRHANDLER_NULL;
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int failed, any = 0, length;
    PMPI_Comm_get_errhandler(comm, &raises), PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int rc = PMPI_Comm_split(comm, 0, rank, &own);
    failed = rc != MPI_SUCCESS;
    PMPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, comm);
    PMPI_Comm_set_errhandler(comm, raises), PMPI_Errhandler_free(&raises);
    if (!failed) PMPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    if (!any) return own;
    if (!failed) PMPI_Comm_free(&own);
    else PMPI_Error_string(rc, text, &length), text[strcspn(text, "\n")] = 0;
    if (rank == 0)
        log_write(LOG_ERROR, "no statistics and no spec of the types: they need a communicator, and the MPI gives "
                             "none%s%s", *text ? ": " : "", text);
    return MPI_COMM_NULL;
}

static void say_failed(const char *what, const char *path)
{
    log_write(LOG_ERROR, "%s can't be written to %s: %s", what, path, strerror(errno));
}

static void tell(const struct stats_job *job)
{
    const struct env *e = env_get();
    if (job->incomplete) log_write(LOG_WARN, "the statistics are not whole: a rank had no memory for all of its part");
    switch (e->stats_form) {
    case ENV_STATS_SCREEN: stats_screen(job); break;
    case ENV_STATS_ALL: stats_table(job); break;
    case ENV_STATS_JSON:
        if (!stats_json(job, e->stats_file)) say_failed("the statistics", e->stats_file);
        break;
    case ENV_STATS_NONE: break;
    }
    if (e->record && !stats_record(job, e->record)) say_failed("a spec of the types", e->record);
}

void stats_report(MPI_Comm comm, const struct stats_about *about)
{
    struct stats_job job = {.seconds = stats_seconds(), .ranks = 1, .hosts = 1};
    int rank = 0;
    MPI_Comm own = MPI_COMM_NULL;
    if (comm != MPI_COMM_NULL) {
        PMPI_Comm_rank(comm, &rank), PMPI_Comm_size(comm, &job.ranks);
        if ((own = own_comm(comm, rank)) == MPI_COMM_NULL) return;
        job.hosts = count_hosts(own);
    }
    struct plain_locale plain = plain_locale_enter();
    add_own(&job, about);
    if (own != MPI_COMM_NULL) gather(&job, rank, own), PMPI_Comm_free(&own);
    stats_job_sort(&job);
    job.empty = any_counts(&job) ? NULL : about->empty;
    if (rank == 0) tell(&job);
    plain_locale_leave(plain);
    stats_job_free(&job);
}
