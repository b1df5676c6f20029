/* stages.c: a type's way through the compiler, as inspect and gen both need it. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

int stages_of(struct gen *g, const struct type *t, struct stages *out, struct reason *why)
{
    memset(out, 0, sizeof *out);
    out->canonical = tree_canonical(t->tree, why);
    if (!out->canonical)
        return -1;
    out->signature = tree_signature(out->canonical, why);
    if (!out->signature)
        return -1;
    out->shape = tree_shape_signature(out->canonical, why);
    if (!out->shape)
        return -1;
    if (t->size == 0)
        return 0;
    out->whole = tree_is_strided(out->canonical);
    if (!out->whole)
        return gen_generic(g, "cuda", &out->kernel, why);
    return gen_kernel(g, out->shape, "cuda", &out->kernel, why);
}

void stages_free(struct stages *l)
{
    tree_unref(l->canonical);
    free(l->signature);
    free(l->shape);
    if (l->kernel.source)
        gen_kernel_free(&l->kernel);
}
