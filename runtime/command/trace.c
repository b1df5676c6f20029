/* trace.c: stridec trace: joins the timelines that the ranks of a job wrote (observe/trace_write.c). */
#include "base/file.h"
#include "base/output.h"
#include "command.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sums up the files so far. `clock` is CLOCK_REALTIME less CLOCK_MONOTONIC, in nanoseconds. */
struct job {
    FILE *to;
    int files;
    bool events;             /* one has been written */
    unsigned long long dropped;
    int64_t clock;           /* of the first file, whose times stay as they are */
    char node[256];
    bool shifted;            /* there are files of other nodes */
    int ranks, left;         /* of the job of 0.json, 0 if not known; files of other jobs */
};

/* The last line of a file. */
struct rest {
    int rank, ranks;
    unsigned long long dropped;
    int64_t clock;
    char node[256];
};

/* Returns 1 for the names that interpose/init.c gives: "3.json", "3-PROCESS.json", "process-PROCESS.json". */
static int is_timeline(const struct dirent *e)
{
    static const char digits[] = "0123456789", alone[] = "process-";
    const char *at = e->d_name;
    size_t n = strncmp(at, alone, strlen(alone)) == 0 ? strlen(alone) : strspn(at, digits);
    at += n;
    if (n && (at[-1] == '-' || *at == '-')) {
        at += *at == '-';
        n = strspn(at, digits);
        at += n;
    }
    return n && strcmp(at, ".json") == 0;
}

/* Writes an event, a line, with its time moved by `shift` nanoseconds. */
static void write_event(struct job *j, const char *line, size_t length, int64_t shift)
{
    const char *ts = shift ? strstr(line, ",\"ts\":") : NULL;
    int64_t us = 0, ns;
    int n = 0, rest = 0;
    fputs(j->events ? ",\n" : "", j->to);
    j->events = true;
    if (ts && sscanf(ts, ",\"ts\":%" SCNd64 ".%d%n", &us, &rest, &n) == 2 && ts < line + length) {
        ns = us * 1000 + rest + shift;
        fwrite(line, 1, (size_t)(ts - line), j->to);
        fprintf(j->to, ",\"ts\":%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
        length -= (size_t)(ts + n - line), line = ts + n;
    }
    fwrite(line, 1, length, j->to);
}

static bool read_rest(const char *text, struct rest *r)
{
    const char *at = strstr(text, "\n],\n\"otherData\":");
    *r = (struct rest){0};
    return at && sscanf(at,
                        "\n],\n\"otherData\":{\"rank\":%d,\"ranks\":%d,\"dropped\":%llu,\"clock\":%" SCNd64
                        ",\"node\":\"%255[^\"]",
                        &r->rank, &r->ranks, &r->dropped, &r->clock, r->node) >= 4;
}

/* Returns true for a file of another job in the folder: one of another number of ranks. 0.json comes first. */
static bool is_stale(struct job *j, const char *name, const struct rest *r)
{
    if (name[strspn(name, "0123456789")] != '.') return false;
    if (r->rank == 0) j->ranks = r->ranks;
    return j->ranks && r->ranks != j->ranks;
}

/* Adds the events of a file's text, a line each between its first line and the one that ends the list. */
static bool add(struct job *j, const char *name, char *text)
{
    struct rest r;
    char *line = strchr(text, '\n'), *save = NULL;
    if (!line || !read_rest(text, &r))
        return false;
    if (is_stale(j, name, &r))
        return j->left++, true;
    if (!j->files++)
        j->clock = r.clock, memcpy(j->node, r.node, sizeof r.node);
    bool other = strcmp(j->node, r.node) != 0;
    j->dropped += r.dropped, j->shifted |= other;
    for (line = strtok_r(line, "\n", &save); line && *line == '{'; line = strtok_r(NULL, "\n", &save)) {
        size_t length = strlen(line);
        write_event(j, line, length - (line[length - 1] == ','), other ? r.clock - j->clock : 0);
    }
    return true;
}

static int add_file(struct job *j, const char *folder, const char *name)
{
    char *path, *text;
    const char *why;
    size_t bytes;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return failure("trace", "out of memory");
    int status = 0;
    if (!(text = file_read(path, FILE_INSTALLED, SIZE_MAX / 2, &bytes, &why)))
        status = failure("trace", "%s can't be read: %s", path, why);
    else if (!add(j, name, text))
        status = failure("trace", "%s is no timeline of stridec, or not whole", path);
    free(text), free(path);
    return status;
}

static void tell(const struct job *j, FILE *to, const char *path)
{
    fprintf(to, "%s: %d process%s", path, j->files, j->files == 1 ? "" : "es");
    if (j->dropped) fprintf(to, ", %llu events were dropped: see STRIDEC_TRACE_MIB", j->dropped);
    fprintf(to, "; open it in ui.perfetto.dev\n");
    if (j->left)
        fprintf(to, "Left out: %d file%s of another job, not of %d rank%s.\n", j->left, j->left == 1 ? "" : "s",
                j->ranks, j->ranks == 1 ? "" : "s");
    if (j->shifted) fprintf(to, "Times of different nodes are aligned by their clocks of the day.\n");
}

/* Writes the timelines of a folder to one file. */
static int join(const char *folder, struct dirent **names, int n, const char *path)
{
    struct output o;
    int status = 0;
    struct job j = {.to = output_open(&o, path, 0666) ? fdopen(o.fd, "w") : NULL};
    if (!j.to)
        return failure("trace", "%s can't be written: %s", path, strerror(errno));
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", j.to);
    for (int i = 0; i < n && !status; i++)
        status = add_file(&j, folder, names[i]->d_name);
    fprintf(j.to, "\n],\n\"otherData\":{\"ranks\":%d,\"dropped\":%llu}}\n", j.files, j.dropped);
    bool good = !ferror(j.to);
    if (fclose(j.to))
        good = false;
    bool published = output_close(&o, good && !status);
    if (!status && !published)
        status = failure("trace", "%s can't be written: %s", path, strerror(errno));
    if (status)
        return status;
    tell(&j, tell_of(path), path);
    return 0;
}

int trace_main(const struct args *a)
{
    struct dirent **names = NULL;
    const char *path = option(a, "-o");
    if (!a->words)
        return usage_error("trace", "which folder?");
    if (a->words > 1)
        return usage_error("trace", "unexpected %s", a->word[1]);
    if (!path)
        return usage_error("trace", "-o FILE is missing");
    int n = scandir(a->word[0], &names, is_timeline, versionsort);
    int status = n < 0    ? failure("trace", "%s can't be read: %s", a->word[0], strerror(errno))
                 : n == 0 ? failure("trace", "%s holds no timeline: run with STRIDEC_TRACE=%s", a->word[0], a->word[0])
                          : join(a->word[0], names, n, path);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return status;
}
