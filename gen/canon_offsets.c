/* canon_offsets.c: the canonical form of equal copies at listed offsets. */
#include <stdlib.h>

#include "canon.h"
#include "reason.h"
#include "tree_inner.h"

/* True if entries [i, i + n) are what entries [j, j + n) are, shifted by a constant. Differences wrap: two
 * that are equal only so belong to lists that reach past 2^63, which the constructors refuse. */
static bool same_entries(int64_t n, const int64_t at[], struct tree *const part[], int64_t i, int64_t j)
{
    int64_t by = wrap_sub(at[j], at[i]);
    for (int64_t k = 0; k < n; k++) {
        if (wrap_sub(at[j + k], at[i + k]) != by || (part && !tree_same_shape(part[i + k], part[j + k])))
            return false;
    }
    return true;
}

int64_t canon_next_divisor(int64_t n, int64_t d)
{
    for (int64_t low = d + 1; low <= n / low; low++) {
        if (n % low == 0)
            return low;
    }
    /* Divisors above the root are n over those below it. */
    int64_t root = 1;
    for (int64_t bit = (int64_t)1 << 31; bit > 0; bit /= 2)
        root += (root + bit) <= n / (root + bit) ? bit : 0;
    for (int64_t low = n / d - 1 < root ? n / d - 1 : root; low > 0; low--) {
        if (n % low == 0 && n / low > d)
            return n / low;
    }
    return n + 1;
}

int64_t canon_period(int64_t n, const int64_t at[], struct tree *const part[])
{
    for (int64_t p = 1; p <= n / 2; p = canon_next_divisor(n, p)) {
        if (same_entries(n - p, at, part, 0, p))
            return p;
    }
    return 0;
}

/* The most entries g < n, g dividing n, such that all groups of g are alike, wherever they lie; 1 if only
 * single entries are. */
static int64_t greatest_group(int64_t n, const int64_t at[])
{
    for (int64_t groups = canon_next_divisor(n, 1); groups <= n / 2; groups = canon_next_divisor(n, groups)) {
        int64_t g = n / groups, i = g;
        while (i < n && same_entries(g, at, NULL, 0, i))
            i += g;
        if (i == n)
            return g;
    }
    return 1;
}

/* The list with its evenly spaced entries as strides, NULL if there are too few of those, or *failed: x comes several
 * times then, which must take fewer numbers than the list does. */
static struct tree *strides_of(struct tree *x, int64_t count, const int64_t at[], bool *failed, struct canon_work *w)
{
    bool dense = x->kind == TREE_DENSE;
    if (!canon_progresses(count, at, NULL, 1))
        return NULL;
    struct item *item = malloc((size_t)count * sizeof *item), *found = NULL;
    struct tree *t = NULL;
    for (int64_t i = 0; item && i < count; i++)
        item[i] = (struct item){dense ? NULL : x, at[i], dense ? x->count : 0};
    int64_t n = item ? canon_items(count, item, 4, &found, w) : -1;
    if (!item)
        reason_memory(w->why);
    free(item);
    if (n > 0) {
        t = canon_items_seq(n, found, w);
        canon_items_free(n, found);
    }
    *failed = n != 0 && !t;
    if (t && tree_numbers(t, 2 * count) >= count + tree_numbers(x, count)) {
        tree_unref(t);
        return NULL;
    }
    if (t)
        canon_note(w, CANON_INDEX_STRIDES, count, n, 0);
    return t;
}

struct tree *canon_list(struct tree *x, int64_t count, const int64_t at[], bool whole, struct canon_work *w)
{
    bool failed = false;
    struct tree *t = whole ? NULL : strides_of(x, count, at, &failed, w);
    if (!t && !failed)
        return tree_index(0, count, at, x, w->why);
    tree_unref(x);
    return t;
}

struct tree *canon_offsets(struct tree *x, int64_t count, int64_t at[], bool whole, struct canon_work *w)
{
    if (count == 1)
        return x;
    int64_t p = canon_period(count, at, NULL);
    if (p > 0) {
        int64_t step = at[p];
        canon_note(w, p == 1 ? CANON_INDEX_EVEN : CANON_INDEX_PERIOD, count / p, step, p);
        return canon_settle(tree_stride(0, count / p, step, canon_offsets(x, p, at, whole, w), w->why), w);
    }
    int64_t g = greatest_group(count, at), lists = count / g;
    if (g > 1) {
        int64_t *first = malloc((size_t)lists * sizeof *first);
        if (!first) {
            tree_unref(x);
            return reason_memory(w->why);
        }
        for (int64_t i = 0; i < lists; i++)
            first[i] = at[i * g];
        canon_note(w, CANON_INDEX_GROUPS, lists, g, 0);
        struct tree *group = canon_offsets(x, g, at, whole, w);
        struct tree *t = group ? canon_list(group, lists, first, whole, w) : NULL;
        free(first);
        return t;
    }
    return canon_list(x, count, at, whole, w);
}
