/* stages.c: a type's way through the compiler, as inspect and gen both need it. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

int stages_of(struct gen *g, const struct type *t, struct stages *out, struct reason *why)
{
    memset(out, 0, sizeof *out);
    out->canonical = tree_canonical_explained(t->tree, &out->steps, why);
    if (!out->canonical)
        return -1;
    out->signature = tree_signature(out->canonical, why);
    if (!out->signature)
        return -1;
    out->form = form_of(out->canonical, why);
    if (!out->form)
        return -1;
    if (t->size == 0)
        return 0;
    out->whole = form_family(out->form) != GEN_GENERIC;
    return gen_kernel_form(g, out->form, "cuda", NULL, &out->kernel, why);
}

void stages_free(struct stages *l)
{
    form_free(l->form);
    tree_unref(l->canonical);
    free(l->steps);
    free(l->signature);
    if (l->kernel.source)
        gen_kernel_free(&l->kernel);
}
