/* inspect.c: stridec inspect: shows how the compiler treats each type of a spec. --cache is in cached.c. */
#include "command.h"
#include "device/gpu_runtime.h"
#include "hostpack/host_compiler.h"
#include "pages/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Holds the arguments. */
struct request {
    const char *path, *arch;   /* NULL: not asked for, and no GPU here */
    const char *output;        /* of --svg; NULL: standard output */
    char here[16];
    enum target target;
    const struct view *view;
    int nnames;
    char **names;
};

/* ---- one type ---- */

enum code { NO_CODE, PTX, SASS, ASSEMBLY };
struct view {
    const char *option;   /* NULL: everything in words */
    int targets;          /* a set of 1 << enum target */
    enum code code;       /* what show_code compiles to */
    int (*show)(const struct request *r, const struct spec_item *item, const struct stages *l);
};

static void print_indented(const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        printf("    %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static int print_tree(const char *title, const struct tree *t)
{
    struct reason why;
    char *text = tree_describe(t, &why);
    if (!text)
        return failure("inspect", "%s", why.text);
    printf("  %s:\n", title);
    print_indented(text);
    free(text);
    return 0;
}

/* Prints a signature, cut if it is long; --signature prints all of it. */
static void print_cut_signature(const char *signature)
{
    enum { SHOWN = 240 };
    size_t n = strlen(signature);
    if (n <= SHOWN)
        printf("  signature: %s\n", signature);
    else
        printf("  signature: %.*s... (%zu bytes more)\n", SHOWN, signature, n - SHOWN);
}

static int show_words(const struct request *r, const struct spec_item *item, const struct stages *l)
{
    const struct type *t = item->type;
    (void)r;
    if (item->line) printf("%s  (line %d)\n", item->name, item->line);
    else printf("%s\n", item->name);
    if (print_tree("as built", t->tree) != 0)
        return 1;
    printf("  rewrite rules that fired:\n");
    print_indented(l->steps);
    if (print_tree("canonical", l->canonical) != 0)
        return 1;
    print_cut_signature(l->signature);
    printf("  size: %lld B\n", (long long)t->size);
    printf("  extent: %lld B, lower bound %lld, upper bound %lld\n", (long long)(t->ub - t->lb), (long long)t->lb,
           (long long)t->ub);
    if (!l->kernel.source) {
        printf("  kernel: none, %s\n\n", t->size ? "the tree is walked" : "the type is empty");
        return 0;
    }
    printf("  kernel family: %s\n  plan:\n", gen_family_name(l->kernel.plan.family));
    print_indented(l->kernel.why);
    putchar('\n');
    return 0;
}

static int show_signature(const struct request *r, const struct spec_item *item, const struct stages *l)
{
    (void)r;
    printf("%s\t%s\n", item->name, l->signature);
    return 0;
}

static void print_header(const struct spec_item *item, const struct stages *l)
{
    printf("// %s: %s\n", item->name, l->signature);
    if (!l->kernel.source)
        printf("// no code: %s\n", item->type->size ? "the tree is walked" : "the type is empty");
}

static int show_source(const struct request *r, const struct spec_item *item, const struct stages *l)
{
    (void)r;
    print_header(item, l);
    if (l->kernel.source)
        printf("%s\n", l->kernel.source);
    return 0;
}

static int show_code(const struct request *r, const struct spec_item *item, const struct stages *l)
{
    enum code code = r->view->code;
    void *text = NULL;
    size_t bytes = 0;
    struct reason why;
    print_header(item, l);
    if (!l->kernel.source)
        return 0;
    const char *source = l->kernel.source;
    int status = code == ASSEMBLY
                     ? host_compiler_compile(source, CC_ASSEMBLY, NULL, &text, &bytes, &why)
                     : gpu_runtime->jit_compile(source, item->name, r->arch, code == PTX, &text, &bytes, &why);
    if (status == 0 && code == SASS)
        status = disassemble(text, bytes, &why);
    else if (status == 0)
        printf("%s\n", (char *)text);
    free(text);
    return status == 0 ? 0 : failure("inspect", "%s: %s", item->name, why.text);
}

static int show_svg(const struct request *r, const struct spec_item *item, const struct stages *l)
{
    const struct drawing d = {item->name, item->type, l->canonical, l->steps, l->signature};
    size_t bytes;
    struct reason why;
    char *svg = page_of_layout(&d, &bytes, &why);
    int status = svg ? 0 : -1;
    if (svg && r->output)
        status = save_file(r->output, svg, bytes, &why);
    else if (svg)
        fwrite(svg, 1, bytes, stdout);
    free(svg);
    return status == 0 ? 0 : failure("inspect", "%s: %s", item->name, why.text);
}

#define CUDA (1 << TARGET_CUDA)
#define HIP (1 << TARGET_HIP)
#define HOST (1 << TARGET_HOST)
static const struct view VIEWS[] = {
    {NULL, CUDA | HIP | HOST, NO_CODE, show_words},
    {"--signature", CUDA | HIP | HOST, NO_CODE, show_signature},
    {"--source", CUDA | HIP | HOST, NO_CODE, show_source},
    {"--ptx", CUDA, PTX, show_code},
    {"--sass", CUDA, SASS, show_code},
    {"--asm", HOST, ASSEMBLY, show_code},
    {"--svg", CUDA | HIP | HOST, NO_CODE, show_svg},
};

/* ---- arguments ---- */

static int read_view(struct request *r, const struct args *a)
{
    r->view = VIEWS;
    for (size_t v = 1; v < sizeof VIEWS / sizeof *VIEWS; v++) {
        if (!option(a, VIEWS[v].option))
            continue;
        if (r->view != VIEWS)
            return usage_error("inspect", "%s and %s at once", r->view->option, VIEWS[v].option);
        r->view = &VIEWS[v];
    }
    return 0;
}

/* An architecture alone tells the target. */
static int read_target(struct request *r, const char *name)
{
    bool amd = r->arch && arch_is_amd(r->arch);
    r->target = name ? target_find(name) : amd ? TARGET_HIP : TARGET_CUDA;
    if (r->target == TARGETS)
        return usage_error("inspect", "--target is cuda, hip or host, not '%s'", name);
    if (r->arch && !amd && !arch_is_valid(r->arch))
        return usage_error("inspect", "--arch needs an architecture's name such as sm_90 or gfx90a, not '%s'", r->arch);
    if (r->arch && r->target != (amd ? TARGET_HIP : TARGET_CUDA))
        return usage_error("inspect", "--arch %s is of --target %s%s", r->arch, amd ? "hip" : "cuda",
                           r->target == TARGET_HOST ? ": code for the host is for this processor" : "");
    return 0;
}

static int read_arguments(struct request *r, const struct args *a)
{
    r->arch = option(a, "--arch");
    if (read_view(r, a) != 0 || read_target(r, option(a, "--target")) != 0)
        return EXIT_USAGE;
    if (!(r->view->targets & 1 << r->target))
        return usage_error("inspect", "%s is not of --target %s", r->view->option, target_names[r->target]);
    if (option(a, "--cache"))
        return a->words || a->argc > 2 ? usage_error("inspect", "--cache stands alone") : 0;
    if (!a->words)
        return usage_error("inspect", "which spec file?");
    r->path = a->word[0], r->names = a->word + 1, r->nnames = a->words - 1;
    r->output = option(a, "-o");
    if (r->output && r->view->show != show_svg)
        return usage_error("inspect", "-o is for --svg");
    return 0;
}

/* ---- all ---- */

static bool is_wanted(const struct request *r, const char *name)
{
    for (int i = 0; i < r->nnames; i++)
        if (strcmp(r->names[i], name) == 0)
            return true;
    return r->nnames == 0;
}

/* A picture is of one type. */
static int check_names(const struct request *r, const struct spec *spec)
{
    if (r->view->show == show_svg && r->nnames != 1 && (r->nnames || spec->count != 1))
        return usage_error("inspect", "--svg draws one type: which of %s?", r->path);
    for (int n = 0; n < r->nnames; n++) {
        size_t i = 0;
        while (i < spec->count && strcmp(spec->item[i].name, r->names[n]) != 0)
            i++;
        if (i < spec->count)
            continue;
        struct reason why;
        stages_no_type(r->path, r->names[n], spec, &why);
        return failure("inspect", "%s", why.text);
    }
    return 0;
}

static int show_items(const struct request *r, const struct spec *spec, struct gen *g)
{
    int status = 0;
    for (size_t i = 0; i < spec->count && status == 0; i++) {
        struct stages l;
        struct reason why;
        if (!is_wanted(r, spec->item[i].name))
            continue;
        if (stages_of(g, spec->item[i].type, r->target, r->arch, &l, &why) != 0)
            status = failure("inspect", "%s: %s", spec->item[i].name, why.text);
        else
            status = r->view->show(r, &spec->item[i], &l);
        stages_free(&l);
    }
    return status;
}

int inspect_main(const struct args *a)
{
    struct request r = {0};
    struct reason why;
    int status = read_arguments(&r, a);
    if (status != 0)
        return status;
    if (option(a, "--cache"))
        return inspect_cache();
    struct spec *spec = stages_load(r.path, &why);
    if (!spec)
        return failure("inspect", "%s", why.text);
    struct gen *g = gen_open(&why);
    int here = r.target == TARGET_CUDA && !r.arch ? gpu_arch(0) : 0;
    if (here && snprintf(r.here, sizeof r.here, "sm_%d", here) > 0) r.arch = r.here;
    bool needs_arch = r.view->code == PTX || r.view->code == SASS;
    if (!g || (needs_arch && !r.arch && !(r.arch = arch_default(&why))))
        status = failure("inspect", "%s", why.text);
    else if ((status = check_names(&r, spec)) == 0)
        status = show_items(&r, spec, g);
    if (g)
        gen_close(g);
    spec_free(spec);
    return status;
}
