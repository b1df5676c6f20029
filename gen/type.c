/* type.c: bounds of types, and the constructors with one block length: named to hvector, resized, dup.
 *
 * MPI-4.1 §5.1.6: lb is the least marker of the typemap if it holds one, else the least displacement;
 * ub is the greatest marker, else the greatest end of an entry plus epsilon, which makes the extent a
 * multiple of the strictest alignment in the typemap. Markers come from resized and subarray, both at
 * once, and stay in force however the type is used further. A typemap without entries and markers has
 * lb = ub = 0.
 */
#include <stdlib.h>

#include "type_inner.h"

/* ---- bounds ---- */

static void bounds_copy(struct bounds *b, const struct type *old, int64_t at)
{
    int64_t lb, ub;
    if (__builtin_add_overflow(old->lb, at, &lb) || __builtin_add_overflow(old->ub, at, &ub)) {
        b->far = true;
        return;
    }
    b->lb = lb < b->lb ? lb : b->lb;
    b->ub = ub > b->ub ? ub : b->ub;
}

void bounds_block(struct bounds *b, const struct type *old, int64_t at, int64_t count)
{
    int64_t last;
    if (count == 0)
        return;
    b->align = old->align > b->align ? old->align : b->align;
    if (!old->lb_set)
        return;
    b->marked = true;
    if (__builtin_mul_overflow(count - 1, type_extent(old), &last) || __builtin_add_overflow(last, at, &last)) {
        b->far = true;
        return;
    }
    bounds_copy(b, old, at);
    bounds_copy(b, old, last);
}

void bounds_blocks(struct bounds *b, const struct type *old, const int64_t at[], int64_t count, int64_t blocklength)
{
    int64_t first = at[0], last = at[0];
    for (int64_t i = 1; i < count; i++) {
        first = at[i] < first ? at[i] : first;
        last = at[i] > last ? at[i] : last;
    }
    bounds_block(b, old, first, blocklength);
    bounds_block(b, old, last, blocklength);
}

static struct type *type_new(struct tree *tree, int64_t lb, int64_t ub, int align, bool marked, struct reason *why)
{
    int64_t extent;
    if (!tree)
        return NULL;
    struct type *t = malloc(sizeof *t);
    if (!t || __builtin_sub_overflow(ub, lb, &extent)) {
        if (t)
            reason_overflow(why, "the extent");
        else
            reason_memory(why);
        free(t);
        tree_unref(tree);
        return NULL;
    }
    *t = (struct type){tree, tree->size, lb, ub, align, marked, marked};
    return t;
}

struct type *type_marked(struct tree *tree, int64_t lb, int64_t ub, int align, struct reason *why)
{
    return type_new(tree, lb, ub, align, true, why);
}

struct type *type_over(struct tree *tree, const struct bounds *b, struct reason *why)
{
    if (!tree)
        return NULL;
    int64_t extent, ub = tree->high;
    bool far = b->far;
    if (b->marked && !far)
        return type_marked(tree, b->lb, b->ub, b->align, why);
    if (!far && !(far = __builtin_sub_overflow(tree->high, tree->low, &extent)) && extent % b->align)
        far = __builtin_add_overflow(ub, b->align - extent % b->align, &ub);
    if (far) {
        tree_unref(tree);
        return reason_overflow(why, "a bound");
    }
    return type_new(tree, tree->low, ub, b->align, false, why);
}

/* ---- arguments ---- */

bool type_check(const char *call, const char *argument, int64_t n, struct reason *why)
{
    if (n >= 0)
        return true;
    reason_set(why, "%s: %s is negative (%lld)", call, argument, (long long)n);
    return false;
}

bool type_check_all(const char *call, const char *argument, int64_t count, const int64_t n[], struct reason *why)
{
    for (int64_t i = 0; i < count; i++) {
        if (n[i] < 0) {
            reason_set(why, "%s: %s[%lld] is negative (%lld)", call, argument, (long long)i, (long long)n[i]);
            return false;
        }
    }
    return true;
}

static bool align_fits(const char *call, int align, struct reason *why)
{
    if (align > 0 && (align & (align - 1)) == 0)
        return true;
    reason_set(why, "%s: align is no power of two (%d)", call, align);
    return false;
}

/* ---- blocks ---- */

struct tree *type_block(int64_t at, int64_t length, const struct type *old, struct reason *why)
{
    int64_t bytes;
    if (type_is_plain(old) && !__builtin_mul_overflow(length, old->size, &bytes))
        return tree_dense(at, bytes, why);
    return tree_stride(at, length, type_extent(old), tree_ref(old->tree), why);
}

/* ---- constructors ---- */

struct type *type_named(int64_t size, int align, struct reason *why)
{
    if (!type_check("named", "size", size, why) || !align_fits("named", align, why))
        return NULL;
    return type_new(tree_dense(0, size, why), 0, size, align, false, why);
}

struct type *type_pair(int64_t value_size, int64_t at, int64_t index_size, int64_t extent, int align, struct reason *why)
{
    if (!type_check("pair", "value_size", value_size, why) || !type_check("pair", "at", at, why) ||
        !type_check("pair", "index_size", index_size, why) || !type_check("pair", "extent", extent, why) ||
        !align_fits("pair", align, why))
        return NULL;
    struct tree *part[] = {tree_dense(0, value_size, why), NULL};
    part[1] = part[0] ? tree_dense(at, index_size, why) : NULL;
    return type_new(tree_seq(0, 2, part, why), 0, extent, align, false, why);
}

struct type *type_contiguous(int64_t count, const struct type *old, struct reason *why)
{
    struct bounds b = BOUNDS_NONE;
    if (!type_check("contiguous", "count", count, why))
        return NULL;
    bounds_block(&b, old, 0, count);
    return type_over(type_block(0, count, old, why), &b, why);
}

static struct type *vector_of(const char *call, int64_t count, int64_t blocklength, int64_t step,
                              const struct type *old, struct reason *why)
{
    struct bounds b = BOUNDS_NONE;
    if (!type_check(call, "count", count, why) || !type_check(call, "blocklength", blocklength, why))
        return NULL;
    if (count > 0) {
        int64_t at[2] = {0, 0};
        b.far = __builtin_mul_overflow(count - 1, step, &at[1]) && old->lb_set;
        bounds_blocks(&b, old, at, 2, blocklength);
    }
    return type_over(tree_stride(0, count, step, type_block(0, blocklength, old, why), why), &b, why);
}

struct type *type_vector(int64_t count, int64_t blocklength, int64_t stride, const struct type *old, struct reason *why)
{
    int64_t step;
    if (__builtin_mul_overflow(stride, type_extent(old), &step))
        return reason_overflow(why, "vector: stride in bytes");
    return vector_of("vector", count, blocklength, step, old, why);
}

struct type *type_hvector(int64_t count, int64_t blocklength, int64_t stride_bytes, const struct type *old,
                          struct reason *why)
{
    return vector_of("hvector", count, blocklength, stride_bytes, old, why);
}

struct type *type_resized(int64_t lb, int64_t extent, const struct type *old, struct reason *why)
{
    int64_t ub;
    if (__builtin_add_overflow(lb, extent, &ub))
        return reason_overflow(why, "resized: lb + extent");
    return type_marked(tree_ref(old->tree), lb, ub, old->align, why);
}

struct type *type_dup(const struct type *old, struct reason *why)
{
    return type_new(tree_ref(old->tree), old->lb, old->ub, old->align, old->lb_set, why);
}

void type_free(struct type *t)
{
    if (!t)
        return;
    tree_unref(t->tree);
    free(t);
}
