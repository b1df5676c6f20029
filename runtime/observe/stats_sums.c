/* stats_sums.c: see stats_sums.h. */
#include "stats_sums.h"
#include <stdlib.h>
#include <string.h>

/* Adds calls and bytes of a type to the sum of that name. Returns it; NULL without memory. */
static struct stats_sum *add(struct stats_sums_list *list, const char *name, const struct stats_total *t,
                             int64_t calls, int64_t bytes)
{
    int i = 0;
    while (i < list->count && strcmp(list->sum[i].name, name) != 0) i++;
    if (i == list->count) {
        struct stats_sum *more = realloc(list->sum, (size_t)(i + 1) * sizeof *more);
        if (!more) return NULL;
        list->sum = more;
        list->sum[list->count++] = (struct stats_sum){.name = name, .counted = true};
    }
    struct stats_sum *s = &list->sum[i];
    s->calls += calls, s->bytes += bytes;
    if (s->most != t) s->types++;
    if (!s->most) s->most = t;
    return s;
}

static int by_bytes(const void *a, const void *b)
{
    const struct stats_sum *x = a, *y = b;
    if (x->counted != y->counted) return y->counted - x->counted;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static struct stats_sums_list sorted(struct stats_sums_list list)
{
    if (list.count) qsort(list.sum, (size_t)list.count, sizeof *list.sum, by_bytes);
    return list;
}

struct stats_sums_list stats_by_protocol(const struct stats_job *job)
{
    struct stats_sums_list list = {NULL, 0};
    for (const struct stats_total *t = job->types; t; t = t->hh.next)
        for (int i = 0; i < t->ways; i++) add(&list, t->way[i].protocol, t, t->way[i].calls, t->way[i].bytes);
    return sorted(list);
}

struct stats_sums_list stats_by_reason(const struct stats_job *job)
{
    struct stats_sums_list list = {NULL, 0};
    for (const struct stats_total *t = job->types; t; t = t->hh.next) {
        for (int i = 0; i < STATS_REASONS && t->left[i].why; i++)
            add(&list, t->left[i].why, t, t->left[i].calls, t->left[i].bytes);
        struct stats_sum *s = stats_uncounted(t) ? add(&list, stats_uncounted(t), t, 0, 0) : NULL;
        if (s) s->counted = false;
    }
    return sorted(list);
}

struct stats_sums_list stats_by_form(const struct stats_job *job)
{
    struct stats_sums_list list = {NULL, 0};
    for (const struct stats_total *t = job->types; t; t = t->hh.next) {
        struct stats_sum *s = t->calls ? add(&list, t->form, t, t->calls, t->bytes) : NULL;
        if (!s) continue;
        if (t->bytes > s->most->bytes) s->most = t;
        s->timed += t->timed, s->nanoseconds += t->nanoseconds;
        for (int i = 0; i < STATS_STATES; i++) s->states[i] += t->states[i];
    }
    return sorted(list);
}

void stats_sums_free(struct stats_sums_list *list)
{
    free(list->sum);
}
