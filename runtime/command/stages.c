/* stages.c: the steps of the compiler for one type, for inspect and gen. */
#include "command.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const target_names[TARGETS] = {"cuda", "hip", "host"};

enum target target_find(const char *name)
{
    int t = 0;
    while (t < TARGETS && strcmp(name, target_names[t]) != 0)
        t++;
    return (enum target)t;
}

void target_text(enum target target, const char *arch, char text[GEN_TARGET_MAX])
{
    if (target == TARGET_CUDA && arch)
        gen_arch_target(atoi(arch + strlen("sm_")), text);
    else
        snprintf(text, GEN_TARGET_MAX, "%s", target_names[target]);
}

int stages_of(struct gen *g, const struct type *t, enum target target, const char *arch, struct stages *out,
              struct reason *why)
{
    char text[GEN_TARGET_MAX];
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
    if (target == TARGET_HOST && !out->whole)
        return 0;
    target_text(target, arch, text);
    return gen_kernel_form(g, out->form, text, NULL, &out->kernel, why);
}

static struct spec *spec_of_tree(struct tree *t, struct reason *why)
{
    struct spec *s = calloc(1, sizeof *s);
    struct spec_item *item = calloc(1, sizeof *item);
    struct type *type = calloc(1, sizeof *type);
    char *name = strdup("signature");
    if (!s || !item || !type || !name) {
        strcpy(why->text, "out of memory");
        free(s), free(item), free(type), free(name), tree_unref(t);
        return NULL;
    }
    *type = (struct type){.tree = t, .size = t->size, .lb = t->low, .ub = t->high, .align = 1};
    *item = (struct spec_item){.name = name, .type = type};
    *s = (struct spec){.count = 1, .item = item};
    return s;
}

bool stages_signature(const char *text)
{
    return text[0] && text[1] == '(' && isalpha((unsigned char)text[0]) && access(text, F_OK) != 0;
}

struct spec *stages_load(const char *text, struct reason *why)
{
    if (!stages_signature(text))
        return spec_load(text, why);
    struct tree *t = tree_parse(text, why);
    return t ? spec_of_tree(t, why) : NULL;
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

void stages_no_type(const char *path, const char *name, const struct spec *spec, struct reason *why)
{
    struct nearest n = {.wanted = name};
    for (size_t i = 0; i < spec->count; i++)
        nearest_try(&n, spec->item[i].name);
    snprintf(why->text, sizeof why->text, "%.150s has no type '%.60s'%s%.60s%s", path, name,
             n.name ? ": did you mean '" : "", n.name ? n.name : "", n.name ? "'?" : "");
}
