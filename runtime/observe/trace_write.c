/* trace_write.c: writes a timeline in Chrome's trace event format. Each event is a line of its own, which `stridec
 * trace` relies on (command/trace.c). Times are CLOCK_MONOTONIC's, which the processes of a node share. */
#include "base/file.h"
#include "base/json_text.h"
#include "trace_internal.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Writes nanoseconds as the microseconds of the format. */
static void write_time(FILE *f, const char *key, int64_t ns)
{
    fprintf(f, ",\"%s\":%lld.%03d", key, (long long)(ns / 1000), (int)(ns % 1000));
}

static void write_args(FILE *f, const struct trace_span *s)
{
    int64_t ns = s->end - s->begin;
    const char *comma = "";
    fputs(",\"args\":{", f);
    if (s->type) fputs("\"type\":", f), json_text(f, s->type, "?"), comma = ",";
    if (s->bytes >= 0) fprintf(f, "%s\"bytes\":%lld", comma, (long long)s->bytes), comma = ",";
    if (s->peer == MPI_ANY_SOURCE) fprintf(f, "%s\"peer\":\"any\"", comma), comma = ",";
    else if (s->peer == MPI_PROC_NULL) fprintf(f, "%s\"peer\":\"none\"", comma), comma = ",";
    else if (s->peer != TRACE_NO_PEER) fprintf(f, "%s\"peer\":%d", comma, s->peer), comma = ",";
    if (s->way) fprintf(f, "%s\"protocol\":\"%s\"", comma, s->way), comma = ",";
    if (s->number)
        fprintf(f, "%s\"%s\":%d", comma, s->kind == TRACE_MOVE ? "launches" : "requests", s->number), comma = ",";
    if (s->kind == TRACE_MOVE && s->bytes > 0 && ns > 0)
        fprintf(f, "%s\"GB/s\":%.3g", comma, (double)s->bytes / (double)ns);
    fputc('}', f);
}

static void write_head(FILE *f, const struct trace_span *s, const char *name, const char *phase, int rank)
{
    static const char *const kinds[] = {
        [TRACE_CALL] = "call", [TRACE_WAIT] = "wait", [TRACE_COMPILE] = "compile", [TRACE_MOVE] = "move"};
    fprintf(f, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", name, kinds[s->kind], phase,
            rank, s->thread);
}

/* Returns the name of a span; NULL while a thread still writes it. */
static const char *name_of(const struct trace_span *s)
{
    return atomic_load_explicit(&s->name, memory_order_acquire);
}

/* Writes a span: a complete event, or for a move, which may overlap others, an asynchronous one of number `id`. */
static void write_span(FILE *f, const struct trace_span *s, size_t id, int rank)
{
    const char *name = name_of(s);
    if (!name) return;
    bool move = s->kind == TRACE_MOVE;
    write_head(f, s, name, move ? "b" : "X", rank);
    if (move) fprintf(f, ",\"id2\":{\"local\":\"0x%zx\"}", id);
    write_time(f, "ts", s->begin);
    if (!move) write_time(f, "dur", s->end - s->begin);
    write_args(f, s);
    fputc('}', f);
    if (!move) return;
    write_head(f, s, name, "e", rank);
    fprintf(f, ",\"id2\":{\"local\":\"0x%zx\"}", id);
    write_time(f, "ts", s->end);
    fputc('}', f);
}

static void write_thread(FILE *f, int rank, int thread, const char *name)
{
    fprintf(f, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", rank,
            thread, name);
}

static void write_names(FILE *f, const struct trace_record *t)
{
    fprintf(f, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"%s\"}},\n", t->rank, t->title);
    fprintf(f, "{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"sort_index\":%d}}", t->rank,
            t->rank);
    if (t->dropped)
        fprintf(f, ",\n{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"labels\":\"%llu events were "
                   "dropped\"}}", t->rank, (unsigned long long)t->dropped);
    write_thread(f, t->rank, (int)getpid(), "main");
    for (size_t i = 0, told = 0; i < t->n && !told; i++)
        if (name_of(&t->spans[i]) && t->spans[i].kind == TRACE_COMPILE && (told = 1))
            write_thread(f, t->rank, t->spans[i].thread, "compiles");
}

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Writes what tells the node's clock from another's, and how many spans there was no room for. */
static void write_rest(FILE *f, const struct trace_record *t)
{
    char node[256] = "";
    gethostname(node, sizeof node - 1);
    fprintf(f, "\"otherData\":{\"rank\":%d,\"ranks\":%d,\"dropped\":%llu,\"clock\":%lld,\"node\":", t->rank,
            t->ranks, (unsigned long long)t->dropped, (long long)(now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC)));
    json_text(f, node, "?");
    fputs("}}\n", f);
}

static bool write_all(FILE *f, const struct trace_record *t)
{
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", f);
    write_names(f, t);
    for (size_t i = 0; i < t->n; i++) write_span(f, &t->spans[i], i, t->rank);
    fputs("\n],\n", f);
    write_rest(f, t);
    return !ferror(f);
}

bool trace_write(const char *path, const struct trace_record *t)
{
    char *draft;
    int fd = file_draft(path, 0644, &draft);
    if (fd < 0) return false;
    FILE *f = fdopen(fd, "w");
    bool good = f && write_all(f, t);
    if (f ? fclose(f) : close(fd)) good = false;
    return file_publish(draft, path, good);
}
