/* type_subarray.c: a box within an array of several dimensions. */
#include "type_inner.h"

static bool bad_dim(const char *argument, int d, int64_t n, const char *allowed, struct reason *why)
{
    reason_set(why, "subarray: %s[%d] is %lld, not %s", argument, d + 1, (long long)n, allowed);
    return false;
}

static bool subarray_check(int ndims, const int64_t sizes[], const int64_t subsizes[], const int64_t starts[],
                           struct reason *why)
{
    if (ndims < 1) {
        reason_set(why, "subarray: ndims is not positive (%d)", ndims);
        return false;
    }
    for (int d = 0; d < ndims; d++) {
        if (sizes[d] < 1)
            return bad_dim("sizes", d, sizes[d], "positive", why);
        if (subsizes[d] < 1 || subsizes[d] > sizes[d])
            return bad_dim("subsizes", d, subsizes[d], "from 1 to sizes", why);
        if (starts[d] < 0 || starts[d] > sizes[d] - subsizes[d])
            return bad_dim("starts", d, starts[d], "from 0 to sizes - subsizes", why);
    }
    return true;
}

/* MPI-4.1 §5.1.3: the bounds are those of the full array, from 0, whatever lies in it. */
struct type *type_subarray(int ndims, const int64_t sizes[], const int64_t subsizes[], const int64_t starts[],
                           enum type_order order, const struct type *old, struct reason *why)
{
    if (!subarray_check(ndims, sizes, subsizes, starts, why))
        return NULL;
    int64_t step = type_extent(old), start;
    struct tree *t = tree_ref(old->tree);
    for (int i = 0; t && i < ndims; i++) {   /* the fastest dimension first */
        int d = order == TYPE_ORDER_C ? ndims - 1 - i : i;
        bool far = __builtin_mul_overflow(starts[d], step, &start);
        t = tree_stride(far ? 0 : start, subsizes[d], step, t, why);
        if (far || __builtin_mul_overflow(step, sizes[d], &step)) {
            tree_unref(t);
            return reason_overflow(why, "subarray: the array's size");
        }
    }
    return type_marked(t, 0, step, old->align, why);
}
