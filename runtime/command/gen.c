/* gen.c: stridec gen: compiles the types of specs and signatures, and writes a manifest for STRIDEC_AOT (read by
 * kernel/aot.c). It begins with "stridec manifest 2"; each module has a line of fields with tabs between them: form
 * signature (of a pair "A > A"; "generic" and "links" serve all types), architecture or host_compiler_machine's text,
 * file, XXH64 of the file as 16 hex digits, generator version. The file of a GPU's module holds the image, then its
 * plan, with which a program needs no generator. Of the target hip there are sources alone: no backend loads such
 * modules. */
#include "base/file.h"
#include "command.h"
#include "device/gpu_runtime.h"
#include "hostpack/host_compiler.h"
#include "kernel/module_cache.h"
#include "measure/progress.h"

#define XXH_INLINE_ALL
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define ARCHS_MAX 32

struct job {
    const char *folder;
    int targets;             /* a set of 1 << enum target */
    int narchs;
    char arch[ARCHS_MAX][8];
    const char *amd;         /* an architecture of AMD's; NULL if --arch names none */
    bool common;             /* the kernels that serve all types alone */
    const char *chosen;      /* why these, if --arch does not say */
    FILE *manifest;          /* in memory, and written last: all files that it names exist */
    const char **shape;      /* forms that are written for the target and architecture at hand; owned by `stages` */
    size_t nshapes[TARGETS];
    int parts, done;         /* modules to write in all, about; 0: not counted yet */
};

/* Replaces what bears that name in the folder. kernel/aot.c takes no links, and no file that others may write to. */
static int write_file(const char *path, const void *data, size_t bytes, struct reason *why)
{
    if (file_replace(path, 0644, data, bytes))
        return 0;
    snprintf(why->text, sizeof why->text, "%.150s can't be written: %s", path, strerror(errno));
    return -1;
}

/* Adds the plan to a module. */
static int add_plan(void **image, size_t *bytes, const struct gen_plan *plan, struct reason *why)
{
    char *both = realloc(*image, *bytes + sizeof *plan);
    if (!both) {
        strcpy(why->text, "out of memory");
        return -1;
    }
    memcpy(both + *bytes, plan, sizeof *plan);
    *image = both, *bytes += sizeof *plan;
    return 0;
}

/* Writes one module of a form, for a GPU or the host, and its line of the manifest. */
static int write_module(struct job *job, enum target target, const char *shape, const struct gen_kernel *k,
                        const char *arch, struct reason *why)
{
    char file[64], path[PATH_MAX];
    void *image = NULL;
    size_t bytes = 0;
    bool host = target == TARGET_HOST;
    uint64_t hash = XXH64(shape, strlen(shape), 0);
    snprintf(file, sizeof file, "%016llx.%s.%s", (unsigned long long)hash, arch, host ? "so" : "cubin");
    snprintf(path, sizeof path, "%s/%s", job->folder, file);
    int status = host ? host_compiler_compile(k->source, CC_LIBRARY, NULL, &image, &bytes, why)
                      : gpu_runtime->jit_compile(k->source, file, arch, false, &image, &bytes, why);
    if (status == 0 && !host)
        status = add_plan(&image, &bytes, &k->plan, why);
    if (status == 0)
        status = write_file(path, image, bytes, why);
    if (status == 0)
        fprintf(job->manifest, "%s\t%s\t%s\t%016llx\t%s\n", shape, arch, file,
                (unsigned long long)XXH64(image, bytes, 0), gen_version());
    free(image);
    return status == 0 ? 0 : -1;
}

/* Writes the source of one form, and its module for an architecture of NVIDIA's or its library for the host. */
static int write_shape(struct job *job, enum target target, const char *shape, const struct gen_kernel *k,
                       const char *arch, struct reason *why)
{
    static const char *const endings[TARGETS] = {"cu", "hip", "c"};
    char path[PATH_MAX];
    uint64_t hash = XXH64(shape, strlen(shape), 0);
    snprintf(path, sizeof path, "%s/%016llx%s%s.%s", job->folder, (unsigned long long)hash, arch ? "." : "",
             arch ? arch : "", endings[target]);
    int status = write_file(path, k->source, strlen(k->source), why);
    if (status == 0 && target != TARGET_HIP)
        status = write_module(job, target, shape, k, arch ? arch : host_compiler_machine(), why);
    if (status == 0)
        progress_part(++job->done, arch ? arch : target_names[target]);
    else
        progress_end();
    return status;
}

static bool is_done(const struct job *job, enum target target, const char *shape)
{
    for (size_t i = 0; i < job->nshapes[target]; i++)
        if (strcmp(job->shape[i], shape) == 0)
            return true;
    return false;
}

static int write_one(struct job *job, enum target target, const char *arch, int made, struct gen_kernel *k,
                     const char *shape, struct reason *why)
{
    int status = made == 0 ? write_shape(job, target, shape, k, arch, why) : -1;
    if (made == 0)
        gen_kernel_free(k);
    return status == 0 ? 0 : failure("gen", "%s kernel: %s", shape, why->text);
}

/* Returns true if a form gets a module for copies between two layouts of it: both ends of a message mostly have one
 * form, and "links" serves nests of strides alone (kernel/typed_copy.c). */
static bool has_pair(enum target target, const struct form *form)
{
    enum gen_family family = form_family(form);
    return target != TARGET_HOST && family != GEN_STRIDED && family != GEN_CONTIGUOUS;
}

static int write_pair(struct job *job, struct gen *g, enum target target, const char *arch, const struct form *form)
{
    char name[GEN_TARGET_MAX], *shape;
    struct gen_kernel k;
    struct reason why;
    if (asprintf(&shape, "%s > %s", form_signature(form), form_signature(form)) < 0)
        return failure("gen", "out of memory");
    target_text(target, arch, name);
    int status = write_one(job, target, arch, gen_link(g, form, form, name, &k, &why), &k, shape, &why);
    free(shape);
    return status;
}

/* Adds the form of a type to job->shape. Returns false if it is there, or if the interpreter serves the type. */
static bool add_shape(struct job *job, enum target target, const struct stages *l)
{
    if (!l->whole || !l->kernel.source || is_done(job, target, form_signature(l->form)))
        return false;
    job->shape[job->nshapes[target]++] = form_signature(l->form);
    return true;
}

/* Compiles the types up to their sources for an architecture of a target, NULL where it has none. The first call begins
 * the bar: it assumes that other targets have as many shapes. */
static int make_stages(struct job *job, struct gen *g, const struct spec *spec, enum target target, const char *arch,
                       struct stages *stages)
{
    int targets = job->narchs, pairs = 0;
    job->nshapes[target] = 0;
    for (size_t i = 0; i < spec->count; i++) {
        struct reason why;
        if (stages_of(g, spec->item[i].type, target, arch, &stages[i], &why) != 0) {
            progress_end();
            return failure("gen", "%s: %s", spec->item[i].name, why.text);
        }
        pairs += add_shape(job, target, &stages[i]) && has_pair(target, stages[i].form);
    }
    for (enum target t = TARGET_HIP; t < TARGETS; t++)
        targets += job->targets >> t & 1;
    if (job->parts == 0) {
        job->parts = targets * ((int)job->nshapes[target] + pairs + 2);
        progress_parts(job->parts);
        progress_part(0, arch ? arch : target_names[target]);
    }
    return 0;
}

/* Writes the modules of the types, each form once. */
static int write_types(struct job *job, struct gen *g, const struct spec *spec, enum target target, const char *arch,
                       const struct stages *stages)
{
    job->nshapes[target] = 0;
    for (size_t i = 0; i < spec->count; i++) {
        struct reason why;
        const struct stages *l = &stages[i];
        if (!add_shape(job, target, l))
            continue;
        if (write_shape(job, target, form_signature(l->form), &l->kernel, arch, &why) != 0)
            return failure("gen", "%s: %s", spec->item[i].name, why.text);
        if (has_pair(target, l->form) && write_pair(job, g, target, arch, l->form) != 0)
            return EXIT_FAILED;
    }
    return 0;
}

/* Writes the modules that serve all types: the interpreter, and typed copies between any two layouts. */
static int write_common(struct job *job, struct gen *g, enum target target, const char *arch)
{
    const char *name = target_names[target];
    struct gen_kernel k;
    struct reason why;
    int status = write_one(job, target, arch, gen_generic(g, name, &k, &why), &k, "generic", &why);
    if (status != 0)
        return status;
    return write_one(job, target, arch, gen_link(g, NULL, NULL, name, &k, &why), &k, "links", &why);
}

static int write_for(struct job *job, struct gen *g, const struct spec *spec, enum target target, const char *arch)
{
    struct stages *stages = calloc(spec->count + 1, sizeof *stages);
    int status = stages ? 0 : failure("gen", "out of memory");
    if (status == 0)
        status = make_stages(job, g, spec, target, arch, stages);
    if (status == 0 && target != TARGET_HOST)
        status = write_common(job, g, target, arch);
    if (status == 0)
        status = write_types(job, g, spec, target, arch, stages);
    for (size_t i = 0; stages && i < spec->count; i++)
        stages_free(&stages[i]);
    free(stages);
    return status;
}

static void print_summary(const struct job *job, const struct spec *spec, const char *path)
{
    if (job->targets & 1 << TARGET_CUDA) {
        printf("%s: %zu types, %zu shapes and the generic kernel for ", path, spec->count, job->nshapes[TARGET_CUDA]);
        for (int i = 0; i < job->narchs; i++)
            printf("%s%s", i ? ", " : "", job->arch[i]);
        printf("%s%s%s\n", job->chosen ? " (" : "", job->chosen ? job->chosen : "", job->chosen ? ")" : "");
    }
    if (job->targets & 1 << TARGET_HIP)
        printf("%s: %zu types, %zu shapes and the generic kernel as HIP sources, not compiled\n", job->folder,
               spec->count, job->nshapes[TARGET_HIP]);
    if (job->targets & 1 << TARGET_HOST)
        printf("%s: %zu types, %zu shapes for data in host memory on this processor\n", path, spec->count,
               job->nshapes[TARGET_HOST]);
}

static int write_all(struct job *job, struct gen *g, const struct spec *spec)
{
    char *text = NULL, path[PATH_MAX];
    size_t bytes = 0;
    struct reason why;
    job->shape = calloc(spec->count + 1, sizeof *job->shape);
    job->manifest = open_memstream(&text, &bytes);
    int status = -1;
    if (!job->shape || !job->manifest) {
        failure("gen", "out of memory");
    } else {
        fprintf(job->manifest, "stridec manifest 2\n");
        status = 0;
        for (int i = 0; i < job->narchs && status == 0; i++)
            status = write_for(job, g, spec, TARGET_CUDA, job->arch[i]);
        for (enum target t = TARGET_HIP; t < TARGETS && status == 0; t++)
            if (job->targets & 1 << t)
                status = write_for(job, g, spec, t, NULL);
    }
    progress_end();
    if (job->manifest && (fclose(job->manifest) != 0 || !text) && status == 0)
        status = failure("gen", "out of memory");
    snprintf(path, sizeof path, "%s/manifest", job->folder);
    if (status == 0 && job->targets != 1 << TARGET_HIP && write_file(path, text, bytes, &why) != 0)
        status = failure("gen", "%s", why.text);
    if (status == 0)
        print_summary(job, spec, path);
    free(job->shape);
    free(text);
    return status;
}

/* ---- arguments ---- */

static bool add_arch(struct job *job, const char *arch)
{
    for (int i = 0; i < job->narchs; i++)
        if (strcmp(job->arch[i], arch) == 0)
            return true;
    if (job->narchs == ARCHS_MAX)
        return false;
    snprintf(job->arch[job->narchs++], sizeof *job->arch, "%s", arch);
    return true;
}

/* Splits "sm_80,sm_90" in place. */
static int read_archs(struct job *job, char *list)
{
    char *rest = NULL;
    for (char *arch = strtok_r(list, ",", &rest); arch; arch = strtok_r(NULL, ",", &rest)) {
        if (!arch_is_valid(arch) && !arch_is_amd(arch))
            return usage_error("gen", "'%s' is not an architecture's name such as sm_90 or gfx90a", arch);
        if (arch_is_amd(arch))
            job->amd = arch;
        else if (!add_arch(job, arch))
            return usage_error("gen", "more than %d architectures", ARCHS_MAX);
    }
    return job->narchs || job->amd ? 0 : usage_error("gen", "--arch needs a name such as sm_90");
}

static bool nvrtc_knows(int arch)
{
    int n;
    const int *all = gpu_runtime->jit_archs(&n);
    for (int k = 0; all && k < n; k++)
        if (all[k] == arch)
            return true;
    return false;
}

/* Adds the usual architectures that NVRTC knows. `common`: the first of each generation, whose modules the others run.
 * Returns false if there are none. */
static bool add_usual(struct job *job)
{
    static const int usual[] = {70, 75, 80, 86, 89, 90, 100, 103, 120};
    char name[16];
    int last = 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (!nvrtc_knows(usual[i]) || (job->common && usual[i] / 10 == last))
            continue;
        last = usual[i] / 10;
        snprintf(name, sizeof name, "sm_%d", usual[i]);
        add_arch(job, name);
    }
    return job->narchs;
}

/* Chooses the architectures of the GPUs here, else the usual ones, else the newest. */
static int choose_archs(struct job *job, struct reason *why)
{
    const char *newest;
    char name[16];
    int arch;
    if (job->common && add_usual(job))
        return 0;
    for (int i = 0; (arch = gpu_arch(i)) != 0; i++) {
        snprintf(name, sizeof name, "sm_%d", arch);
        add_arch(job, name);
    }
    job->chosen = "of the GPUs here";
    if (job->narchs)
        return 0;
    job->chosen = "no GPU here: the usual ones; --arch names others";
    if (add_usual(job))
        return 0;
    job->chosen = "no GPU here: the newest that NVRTC knows; --arch names others";
    return (newest = arch_default(why)) && add_arch(job, newest) ? 0 : -1;
}

/* Splits "cuda,hip,host" in place. */
static int read_targets(struct job *job, char *list)
{
    char *rest = NULL;
    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        enum target t = target_find(name);
        if (t == TARGETS)
            return usage_error("gen", "'%s' is not a target: cuda, hip, host", name);
        job->targets |= 1 << t;
    }
    return job->targets ? 0 : usage_error("gen", "--target needs a name: cuda, hip, host");
}

static int read_arguments(struct job *job, const struct args *a)
{
    char *archs = (char *)(uintptr_t)option(a, "--arch"), *targets = (char *)(uintptr_t)option(a, "--target");
    job->folder = option(a, "-o");
    if ((archs && read_archs(job, archs) != 0) || (targets && read_targets(job, targets) != 0))
        return EXIT_USAGE;
    if (!job->targets)
        job->targets = (job->amd ? 1 << TARGET_HIP : 0) | (job->narchs || !job->amd ? 1 << TARGET_CUDA : 0);
    if (job->amd && !(job->targets & 1 << TARGET_HIP))
        return usage_error("gen", "--arch %s is of --target hip", job->amd);
    if (job->narchs && !(job->targets & 1 << TARGET_CUDA))
        return usage_error("gen", "--arch %s is of --target cuda%s", job->arch[0],
                           job->targets & 1 << TARGET_HOST ? ": code for the host is for this processor" : "");
    job->common = option(a, "--common") != NULL;
    if (!a->words && !job->common)
        return usage_error("gen", "which spec file? --common writes the kernels that serve all types");
    if (!job->folder || (a->words && job->common))
        return usage_error("gen", "%s", job->folder ? "--common takes no spec" : "-o DIR is needed");
    if (strlen(job->folder) > PATH_MAX - 80)
        return usage_error("gen", "the folder's name is too long");
    return 0;
}

int gen_main(const struct args *a)
{
    struct job job = {0};
    struct reason why;
    int status = read_arguments(&job, a);
    if (status != 0)
        return status;
    why = (struct reason){"out of memory"};
    struct spec *spec = a->words ? stages_load_all(a->word, a->words, &why) : calloc(1, sizeof *spec);
    if (!spec)
        return failure("gen", "%s", why.text);
    struct gen *g = gen_open(&why);
    bool choose = job.targets & 1 << TARGET_CUDA && job.narchs == 0;
    if (!g || (choose && choose_archs(&job, &why) != 0))
        status = failure("gen", "%s", why.text);
    else if (!file_make_folder(job.folder, 0755))
        status = failure("gen", "the folder '%s' can't be made: %s", job.folder, strerror(errno));
    else
        status = write_all(&job, g, spec) == 0 ? 0 : 1;
    if (g)
        gen_close(g);
    spec_free(spec);
    return status;
}
