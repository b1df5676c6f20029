/* canon_items.c: finds evenly spaced neighbours in an irregular sequence. */
#include <stdlib.h>

#include "canon.h"
#include "reason.h"
#include "tree_inner.h"

/* A progression is worth a node of its own from three runs on, or two of anything larger. */
static int64_t progression_min(const struct item *first)
{
    return first->shape ? 2 : 3;
}

bool canon_items_alike(const struct item *a, const struct item *b)
{
    if (!a->shape || !b->shape)
        return a->shape == b->shape && a->len == b->len;
    return tree_same_shape(a->shape, b->shape);
}

/* How many items from the first on are alike and evenly spaced; 1 if too few for a progression. */
static int64_t progression(int64_t n, const struct item items[])
{
    int64_t k = 1;
    if (n < 2 || !canon_items_alike(&items[0], &items[1]))
        return 1;
    int64_t step = wrap_sub(items[1].off, items[0].off);
    while (k < n && wrap_add(items[k - 1].off, step) == items[k].off && canon_items_alike(&items[0], &items[k]))
        k++;
    return k < progression_min(&items[0]) ? 1 : k;
}

static int64_t progressions(int64_t n, const struct item items[])
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; count++)
        i += progression(n - i, items + i);
    return count;
}

int64_t canon_progressions(int64_t n, const int64_t off[], const int64_t len[], int64_t apart, int64_t few)
{
    int64_t count = 0, k;
    for (int64_t i = 0; i < n; i += k, count++) {
        const int64_t *o = off + i * apart, *l = len ? len + i * apart : NULL;
        int64_t step = i + 1 < n ? wrap_sub(o[apart], o[0]) : 0;
        for (k = 1; i + k < n && wrap_add(o[(k - 1) * apart], step) == o[k * apart] && (!l || l[k * apart] == l[0]);)
            k++;
        k = k < few ? 1 : k;
    }
    return count;
}

static struct tree *item_shape(const struct item *a, struct reason *why)
{
    return a->shape ? tree_ref(a->shape) : tree_dense(0, a->len, why);
}

/* k items as one. */
static bool join(int64_t k, const struct item items[], struct item *out, struct reason *why)
{
    int64_t step;
    *out = items[0];
    if (out->shape)
        tree_ref(out->shape);
    if (k == 1)
        return true;
    if (__builtin_sub_overflow(items[1].off, items[0].off, &step))
        return reason_overflow(why, "a distance between offsets");
    if (out->shape)
        tree_unref(out->shape);
    out->shape = tree_stride(0, k, step, item_shape(&items[0], why), why);
    return out->shape;
}

/* The next level: *count progressions; malloc'd, NULL on failure. */
static struct item *level(int64_t n, const struct item items[], int64_t *count, struct reason *why)
{
    struct item *out = malloc((size_t)*count * sizeof *out);
    int64_t made = 0;
    if (!out)
        return reason_memory(why);
    for (int64_t i = 0, k; i < n; i += k) {
        k = progression(n - i, items + i);
        if (!join(k, items + i, &out[made], why)) {
            canon_items_free(made, out);
            return NULL;
        }
        made++;
    }
    return out;
}

int64_t canon_items(int64_t n, const struct item items[], int64_t least, struct item **out, struct reason *why)
{
    int64_t count = progressions(n, items);
    struct item *now = NULL;
    if (count > n / 2)
        return 0;
    for (int64_t from = n; count < from;) {
        struct item *next = level(from, now ? now : items, &count, why);
        if (now)
            canon_items_free(from, now);
        if (!next)
            return -1;
        now = next, from = count;
        count = progressions(from, now);
    }
    if (count <= n / least) {
        *out = now;
        return count;
    }
    canon_items_free(count, now);
    return 0;
}

struct tree *canon_items_seq(int64_t n, const struct item items[], struct reason *why)
{
    struct tree **part = malloc((size_t)n * sizeof *part), *t = NULL;
    if (!part)
        return reason_memory(why);
    int64_t made = 0;
    for (bool good = true; made < n && good;) {
        int64_t by;
        struct tree *shape = item_shape(&items[made], why);
        if (shape && __builtin_sub_overflow(items[made].off, items[0].off, &by))
            good = reason_overflow(why, "a distance between offsets");
        else
            good = shape && (part[made] = tree_shift(shape, by, why)) && ++made;
        tree_unref(shape);
    }
    if (made == n)
        t = tree_seq(items[0].off, n, part, why);
    else
        while (made > 0)
            tree_unref(part[--made]);
    free(part);
    if (t && n == 1) {
        struct tree *one = tree_shift(t->part[0], t->off, why);
        tree_unref(t);
        return one;
    }
    return t;
}

void canon_items_free(int64_t n, struct item items[])
{
    for (int64_t i = 0; i < n; i++)
        tree_unref(items[i].shape);
    free(items);
}
