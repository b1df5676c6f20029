/* stats_notes.c: see stats_notes.h. */
#include "stats_notes.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_figure(char c)
{
    return isdigit((unsigned char)c) || c == '.' || c == '-';
}

/* Returns true if the texts are equal but for figures. */
static bool alike(const char *a, const char *b)
{
    while (*a && *b) {
        bool figure = isdigit((unsigned char)*a) && isdigit((unsigned char)*b);
        if (!figure && *a != *b) return false;
        if (!figure) {
            a++, b++;
            continue;
        }
        while (is_figure(*a)) a++;
        while (is_figure(*b)) b++;
    }
    return *a == *b;
}

static bool same_note(const struct stats_way *a, const struct stats_way *b)
{
    return !strcmp(a->protocol, b->protocol) && alike(a->why, b->why);
}

static int by_bytes(const void *a, const void *b)
{
    int64_t x = ((const struct stats_note *)a)->bytes, y = ((const struct stats_note *)b)->bytes;
    return (x < y) - (x > y);
}

int stats_notes_find(const struct stats_notes *n, const struct stats_way *way)
{
    for (int i = 0; i < n->count && *way->why; i++)
        if (same_note(n->note[i].way, way)) return i;
    return -1;
}

static void add(struct stats_notes *n, const struct stats_way *way)
{
    int i = stats_notes_find(n, way);
    if (i < 0) {
        struct stats_note *more = realloc(n->note, (size_t)(n->count + 1) * sizeof *more);
        if (!more) return;
        n->note = more, i = n->count++;
        n->note[i] = (struct stats_note){.way = way};
    }
    struct stats_note *note = &n->note[i];
    if (way->bytes > note->way->bytes) note->way = way;
    note->bytes += way->bytes, note->alike++;
}

struct stats_notes stats_notes_of(const struct stats_job *job)
{
    struct stats_notes n = {NULL, 0};
    for (const struct stats_total *t = job->types; t; t = t->hh.next)
        for (int i = 0; i < t->ways; i++)
            if (*t->way[i].why) add(&n, &t->way[i]);
    if (n.count) qsort(n.note, (size_t)n.count, sizeof *n.note, by_bytes);
    return n;
}

void stats_notes_free(struct stats_notes *n)
{
    free(n->note);
}
