/* stats_table.c: every type, for STRIDEC_STATS=all. */
#include "stats_job.h"
#include <string.h>

static void print_ways(const struct stats_total *t)
{
    for (int i = 0; i < t->ways; i++) {
        const struct stats_way *w = &t->way[i];
        if (!*w->why) continue;
        fprintf(stderr, "%10s ", "");
        if (w->message_bytes >= 0) fprintf(stderr, "%lld bytes: ", (long long)w->message_bytes);
        else fprintf(stderr, "other sizes: ");
        fprintf(stderr, "%s: %s\n", w->protocol, w->why);
    }
}

/* Prints what the MPI served; the reason alone if no call was counted. */
static void print_left(const struct stats_total *t)
{
    for (int i = 0; i < STATS_REASONS && t->left[i].why; i++)
        fprintf(stderr, "%10s left to the MPI: %lld call%s, %lld bytes: %s\n", "", (long long)t->left[i].calls,
                t->left[i].calls == 1 ? "" : "s", (long long)t->left[i].bytes, t->left[i].why);
    if (stats_uncounted(t)) fprintf(stderr, "%10s left to the MPI, uncounted: %s\n", "", stats_uncounted(t));
}

/* Writes the protocols that carried the type, and its names, as lists with commas. */
static void print_protocols(const struct stats_total *t, int width)
{
    char list[96] = "";
    for (int i = 0; i < t->ways; i++) {
        bool known = false;
        for (int k = 0; k < i && !known; k++) known = !strcmp(t->way[k].protocol, t->way[i].protocol);
        size_t n = strlen(list);
        if (!known) snprintf(list + n, sizeof list - n, "%s%s", n ? "," : "", t->way[i].protocol);
    }
    fprintf(stderr, " %-*s", width, *list ? list : "-");
}

static void print_names(const struct stats_total *t)
{
    for (int i = 0; i < STATS_NAMES && t->names[i]; i++) fprintf(stderr, "%s%s", i ? "," : "", t->names[i]);
    fprintf(stderr, "%s%s\n", t->names[0] ? ": " : "", t->signature);
}

static void print_total(const struct stats_total *t)
{
    char rate[16] = "-";
    if (t->nanoseconds) snprintf(rate, sizeof rate, "%.3g", (double)t->timed / (double)t->nanoseconds);
    fprintf(stderr, "%10lld %14lld %-10s", (long long)t->calls, (long long)t->bytes, t->family);
    print_protocols(t, 16);
    fprintf(stderr, " %9lld %8lld %6lld %6lld %8s  ", (long long)t->launches, (long long)t->states[STATS_COMPILED],
            (long long)t->states[STATS_CACHE], (long long)t->states[STATS_AHEAD], rate);
    print_names(t);
    if (t->reads) fprintf(stderr, "%10s %s\n", "", t->reads);
    print_left(t);
    print_ways(t);
    for (const struct stats_line *l = t->lines; l; l = l->next) fprintf(stderr, "%10s %s\n", "", l->text);
}

void stats_table(const struct stats_job *job)
{
    unsigned types = HASH_COUNT(job->types);
    fprintf(stderr, "stridec: %d rank%s, %u datatype%s, all ranks summed\n", job->ranks, job->ranks == 1 ? "" : "s",
            types, types == 1 ? "" : "s");
    if (job->empty)
        fprintf(stderr, "%10s nothing was counted: %s\n", "", job->empty);
    else
        fprintf(stderr, "%10s %14s %-10s %-16s %9s %8s %6s %6s %8s  %s\n", "calls", "bytes", "family", "protocol",
                "launches", "compiled", "cached", "ahead", "GB/s", "signature");
    for (const struct stats_total *t = job->types; t; t = t->hh.next) print_total(t);
    if (job->unread)
        fprintf(stderr, "%10s left to the MPI, uncounted: " STATS_UNREAD "\n", "", STATS_UNREAD_OF(job));
}
