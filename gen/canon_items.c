/* canon_items.c: finds evenly spaced neighbours in an irregular sequence. */
#include <stdlib.h>

#include "canon.h"
#include "reason.h"
#include "tree_inner.h"

/* Evenly spaced neighbours are worth a node of their own from this many on. */
enum { PROGRESSION_MIN = 3 };

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
    return k < PROGRESSION_MIN ? 1 : k;
}

static int64_t progressions(int64_t n, const struct item items[])
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; count++)
        i += progression(n - i, items + i);
    return count;
}

/* True if three are alike and evenly spaced. Has no branches: the processor would guess them wrong. */
static inline bool three_alike(const int64_t off[], const int64_t len[], int64_t apart)
{
    bool alike = wrap_sub(off[apart], off[0]) == wrap_sub(off[2 * apart], off[apart]);
    return len ? alike & (len[apart] == len[0]) & (len[2 * apart] == len[0]) : alike;
}
_Static_assert(PROGRESSION_MIN == 3, "three_alike");

bool canon_progresses(int64_t n, const int64_t off[], const int64_t len[], int64_t apart)
{
    int64_t count = 0, k;
    for (int64_t i = 0; i < n && count <= n / 2; i += k, count++) {
        const int64_t *o = off + i * apart, *l = len ? len + i * apart : NULL;
        k = 1;
        while (i + k + 1 < n && three_alike(o + (k - 1) * apart, l ? l + (k - 1) * apart : NULL, apart))
            k++;
        k += k > 1;
    }
    return count <= n / 2;
}

static struct tree *item_shape(const struct item *a, struct canon_work *w)
{
    return a->shape ? tree_ref(a->shape) : tree_dense(0, a->len, w->why);
}

/* k items as one. */
static bool join(int64_t k, const struct item items[], struct item *out, struct canon_work *w)
{
    int64_t step;
    *out = items[0];
    if (out->shape)
        tree_ref(out->shape);
    if (k == 1)
        return true;
    if (__builtin_sub_overflow(items[1].off, items[0].off, &step))
        return reason_overflow(w->why, "a distance between offsets");
    if (out->shape)
        tree_unref(out->shape);
    out->shape = canon_settle(tree_stride(0, k, step, item_shape(&items[0], w), w->why), w);
    return out->shape;
}

/* The next level: *count progressions; malloc'd, NULL on failure. */
static struct item *level(int64_t n, const struct item items[], int64_t *count, struct canon_work *w)
{
    struct item *out = malloc((size_t)*count * sizeof *out);
    int64_t made = 0;
    if (!out)
        return reason_memory(w->why);
    for (int64_t i = 0, k; i < n; i += k) {
        k = progression(n - i, items + i);
        if (!join(k, items + i, &out[made], w)) {
            canon_items_free(made, out);
            return NULL;
        }
        made++;
    }
    return out;
}

/* Copies of the first item at the offsets of k of them: a stride or an index. */
static struct tree *list_of(int64_t k, const struct item item[], struct canon_work *w)
{
    int64_t *at = malloc((size_t)k * sizeof *at);
    if (!at)
        return reason_memory(w->why);
    for (int64_t i = 0; i < k; i++)
        at[i] = wrap_sub(item[i].off, item[0].off);
    struct tree *x = item_shape(item, w), *t = x ? canon_offsets(x, k, at, true, w) : NULL;
    free(at);
    return t;
}

static int64_t alike(int64_t n, const struct item item[])
{
    int64_t k = 1;
    while (k < n && canon_items_alike(&item[0], &item[k]))
        k++;
    return k;
}

int64_t canon_items_gather(int64_t n, struct item item[], bool runs, struct canon_work *w)
{
    int64_t made = 0;
    for (int64_t i = 0, k; i < n; i += k, made++) {
        k = runs || item[i].shape ? alike(n - i, item + i) : 1;
        struct tree *list = k > 1 ? list_of(k, item + i, w) : item[i].shape;
        if (k > 1 && !list) {
            for (int64_t j = made; j < i; j++)
                item[j].shape = NULL;   /* moved down or let go */
            return -1;
        }
        struct item one = {list, item[i].off, item[i].len};
        for (int64_t j = i; k > 1 && j < i + k; j++)
            tree_unref(item[j].shape);
        item[made] = one;
    }
    for (int64_t j = made; j < n; j++)
        item[j].shape = NULL;
    return made;
}

int64_t canon_items(int64_t n, const struct item items[], int64_t least, struct item **out, struct canon_work *w)
{
    int64_t count = progressions(n, items);
    struct item *now = NULL;
    if (count > n / 2)
        return 0;
    for (int64_t from = n; count < from;) {
        struct item *next = level(from, now ? now : items, &count, w);
        if (now)
            canon_items_free(from, now);
        if (!next)
            return -1;
        now = next, from = count;
        count = progressions(from, now);
    }
    if (count > n / least) {
        canon_items_free(count, now);
        return 0;
    }
    int64_t lists = canon_items_gather(count, now, false, w);
    if (lists < 0)
        canon_items_free(count, now);
    else
        *out = now;
    return lists;
}

/* The parts of one item, `by` further on: a shape that is a seq brings its own. How many, those before a failure
 * included; *good tells. */
static int64_t add_parts(struct tree **part, const struct item *item, int64_t by, bool *good, struct canon_work *w)
{
    struct tree *shape = item_shape(item, w);
    int64_t made = 0, count = shape && shape->kind == TREE_SEQ ? shape->count : 1;
    for (*good = shape; *good && made < count; made += *good) {
        const struct tree *p = shape->kind == TREE_SEQ ? shape->part[made] : shape;
        *good = (part[made] = tree_shift(p, by, w->why));
    }
    tree_unref(shape);
    return made;
}

static int64_t parts_of(int64_t n, const struct item items[])
{
    int64_t count = n;
    for (int64_t i = 0; i < n; i++)
        count += items[i].shape && items[i].shape->kind == TREE_SEQ ? items[i].shape->count - 1 : 0;
    return count;
}

struct tree *canon_items_seq(int64_t n, const struct item items[], struct canon_work *w)
{
    struct tree **part = malloc((size_t)parts_of(n, items) * sizeof *part), *t = NULL;
    if (!part)
        return reason_memory(w->why);
    int64_t made = 0;
    bool good = true;
    for (int64_t i = 0, by; good && i < n; i++) {
        good = !__builtin_sub_overflow(items[i].off, items[0].off, &by);
        if (good)
            made += add_parts(part + made, &items[i], by, &good, w);
        else
            reason_overflow(w->why, "a distance between offsets");
    }
    if (good)
        t = tree_seq(items[0].off, made, part, w->why);
    else
        while (made > 0)
            tree_unref(part[--made]);
    free(part);
    if (t && t->count == 1) {
        struct tree *one = tree_shift(t->part[0], t->off, w->why);
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
