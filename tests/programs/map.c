/* map.c: typemaps as lists of runs. */
#include "programs.h"
#include <stdlib.h>

void map_add(struct map *m, int64_t at, int64_t n, int kind, int region)
{
    const struct kind *k = &kinds[kind];
    struct run *last = m->n ? &m->run[m->n - 1] : NULL;
    if (n <= 0) return;
    m->bytes += n * k->size;
    m->elements += n * k->parts;
    if (last && last->kind == kind && last->region == region && last->at + (int64_t)last->n * k->extent == at) {
        last->n += (int32_t)n;
        return;
    }
    if (m->n == m->room) {
        m->room = m->room ? 2 * m->room : 16;
        m->run = realloc(m->run, (size_t)m->room * sizeof *m->run);
        if (!m->run) abort();
    }
    m->run[m->n++] = (struct run){at, (int32_t)n, (uint8_t)kind, (uint8_t)region};
}

void map_repeat(struct map *m, const struct map *of, int64_t at, int64_t times, int64_t step)
{
    for (int64_t t = 0; t < times; t++)
        for (int i = 0; i < of->n; i++)
            map_add(m, at + t * step + of->run[i].at, of->run[i].n, of->run[i].kind, of->run[i].region);
}

void map_range(const struct map *m, int64_t *low, int64_t *high)
{
    bool any = false;
    *low = *high = 0;
    for (int i = 0; i < m->n; i++) {
        const struct run *r = &m->run[i];
        int64_t end = r->at + (int64_t)r->n * kinds[r->kind].extent;
        if (r->region) continue;
        if (!any || r->at < *low) *low = r->at;
        if (!any || end > *high) *high = end;
        any = true;
    }
}

/* One part of a pair after another. */
static int64_t walk_pairs(const struct run *r, int64_t packed, int64_t bytes, map_piece *f, void *arg)
{
    const struct kind *k = &kinds[r->kind];
    for (int32_t i = 0; i < r->n; i++) {
        for (int p = 0; p < k->parts && packed < bytes; p++) {
            int64_t n = bytes - packed < k->part[p].size ? bytes - packed : k->part[p].size;
            f(arg, r->region, r->at + (int64_t)i * k->extent + k->part[p].at, packed, n);
            packed += n;
        }
    }
    return packed;
}

void map_walk(const struct map *m, int64_t bytes, map_piece *f, void *arg)
{
    int64_t packed = 0;
    for (int i = 0; i < m->n && packed < bytes; i++) {
        const struct run *r = &m->run[i];
        int64_t n = (int64_t)r->n * kinds[r->kind].size;
        if (kinds[r->kind].parts > 1) {
            packed = walk_pairs(r, packed, bytes, f, arg);
            continue;
        }
        if (n > bytes - packed) n = bytes - packed;
        f(arg, r->region, r->at, packed, n);
        packed += n;
    }
}

int64_t map_elements(const struct map *m, int64_t bytes)
{
    int64_t elements = 0;
    for (int i = 0; i < m->n && bytes > 0; i++) {
        const struct kind *k = &kinds[m->run[i].kind];
        int64_t whole = bytes / k->size < m->run[i].n ? bytes / k->size : m->run[i].n;
        elements += whole * k->parts;
        bytes -= whole * k->size;
        if (whole == m->run[i].n) continue;
        if (k->parts == 2 && bytes >= k->part[0].size) elements++, bytes -= k->part[0].size;
        return bytes ? -1 : elements;
    }
    return elements;
}

void map_free(struct map *m)
{
    free(m->run);
    *m = (struct map){0};
}
