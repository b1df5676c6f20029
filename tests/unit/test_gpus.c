/* test_gpus.c: what each GPU gets: the properties that its driver tells reach the generator, and the cache. On the
 * simulated GPU (its folder is on LD_LIBRARY_PATH), a child for each card. */
#include "../../runtime/kernel/kernel_internal.h"
#include "../../runtime/device/gpu_runtime.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "child.h"
#include "device.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

/* Returns the module of a signature on the device, and how it came about. */
static const struct module *module_for(const char *signature, const char **state)
{
    struct reason why;
    struct tree *t = tree_parse(signature, &why);
    struct kernel *k = t ? kernel_get(t, &why) : NULL;
    tree_unref(t);
    if (!k) return NULL;
    kernel_wait(k);
    *state = kernel_state(k);
    const struct module *m = module_of(kernel_code(k), device);
    return m && module_stage(m) == STAGE_READY ? m : NULL;
}

static const char *const signatures[] = {
    "s(4194304,64,d(16))", "s(2097152,64,d(32))", "s(16384,64,d(8))", "s(512,8,s(512,4096,d(8)))",
    "s(65536,512,q(d(64),d(128)@96))",
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool same_way(const struct gen_way *a, const struct gen_way *b)
{
    return a->word == b->word && a->threads == b->threads && a->words_per_thread == b->words_per_thread;
}

/* Each kernel is the one that the generator makes for the properties of the card. */
static bool by_properties(void)
{
    char target[GEN_TARGET_MAX];
    struct reason why;
    const char *state;
    if (!start()) return false;
    struct gen *g = gen_open(&why);
    gen_gpu_target(&device->gpu, target);
    bool ok = g && !strcmp(target, getenv("EXPECTED"));
    if (!ok) fprintf(stderr, "%s\n", target);
    for (size_t i = 0; ok && i < COUNT(signatures); i++) {
        struct gen_kernel k;
        const struct module *m = module_for(signatures[i], &state);
        ok = m && !gen_kernel(g, signatures[i], target, NULL, &k, &why) && same_way(&m->plan.way[0], &k.plan.way[0]) &&
             same_way(&m->plan.way[1], &k.plan.way[1]);
        if (!ok) fprintf(stderr, "%s\n", signatures[i]);
    }
    gen_close(g);
    kernel_finish();   /* a worker may still compile */
    return ok;
}

static const struct {
    const char *card, *target;
} cards[] = {
    {"V100", "cuda sm_70 multiprocessors=80 threads=2048 cache=6 memory=898"},
    {"T4", "cuda sm_75 multiprocessors=40 threads=1024 cache=4 memory=320"},
    {"A100", "cuda sm_80 multiprocessors=108 threads=2048 cache=40 memory=2039"},
    {"L40S", "cuda sm_89 multiprocessors=142 threads=1536 cache=96 memory=864"},
    {"H200", "cuda sm_90 multiprocessors=132 threads=2048 cache=60 memory=4916"},
    {"B200", "cuda sm_100 multiprocessors=148 threads=2048 cache=126 memory=8183"},
};

static void properties_reach_the_generator(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cards); i++) {
        char card[64], expected[160];
        snprintf(card, sizeof card, "SIMGPU_CARD=%s", cards[i].card);
        snprintf(expected, sizeof expected, "EXPECTED=%s", cards[i].target);
        in_child(false, (const char *const[]){card, expected, "STRIDEC_TUNE=", NULL}, by_properties);
    }
}

static bool state_is(const char *expected)
{
    const char *state = "";
    bool ok = start() && module_for("s(16384,64,d(8))", &state) && !strcmp(state, expected);
    kernel_finish();   /* a worker may still compile */
    return ok;
}

static bool compiled(void) { return state_is("compiled"); }
static bool cached(void) { return state_is("cache"); }

/* Two cards of one architecture share a cache folder, but no kernel that depends on the card. */
static void cards_share_a_cache(void **state)
{
    (void)state;
    char cache[96];
    snprintf(cache, sizeof cache, "STRIDEC_CACHE_DIR=%s/shared", getenv("HOME"));
    const char *const whole[] = {"SIMGPU_CARD=H200", "STRIDEC_TUNE=", cache, NULL};
    const char *const other[] = {"SIMGPU_CARD=H100", "STRIDEC_TUNE=", cache, NULL};
    in_child(false, whole, compiled);
    in_child(false, other, compiled);
    in_child(false, whole, cached);
    in_child(false, other, cached);
}

/* --- modules made ahead of time, for an architecture's row --- */

#define AHEAD "s(262144,64,d(16))"   /* a quarter of an L40S's cache, half of an L4's */

/* Writes such a module, and its manifest, into a folder. */
static bool make_ahead(const char *into)
{
    struct gen_kernel k;
    struct reason why;
    char path[160];
    void *image;
    size_t bytes;
    struct gen *g = gen_open(&why);
    bool ok = g && !gen_kernel(g, AHEAD, "cuda sm_89", NULL, &k, &why) &&
              !gpu_runtime->jit_compile(k.source, "stridec.cu", "sm_89", false, &image, &bytes, &why);
    char *file = ok ? realloc(image, bytes + sizeof k.plan) : NULL;
    if (!file) return false;
    memcpy(file + bytes, &k.plan, sizeof k.plan);
    image = file, bytes += sizeof k.plan;
    snprintf(path, sizeof path, "%s/a.cubin", into);
    FILE *f = fopen(path, "w");
    ok = f && fwrite(image, 1, bytes, f) == bytes && !fclose(f);
    snprintf(path, sizeof path, "%s/manifest", into);
    f = ok ? fopen(path, "w") : NULL;
    ok = f && fprintf(f, "stridec manifest 2\n" AHEAD "\tsm_89\ta.cubin\t%016llx\t%s\n",
                      (unsigned long long)XXH64(image, bytes, 0), gen_version()) > 0 && !fclose(f);
    free(image), gen_kernel_free(&k), gen_close(g);
    return ok;
}

/* The module's plan is the one that it was made with: an L4 by itself would have another. */
static bool ahead(void)
{
    struct gen_kernel k;
    struct reason why;
    const char *state = "";
    struct gen *g = gen_open(&why);
    if (!start() || !g || !make_ahead(getenv("STRIDEC_AOT"))) return false;
    const struct module *m = module_for(AHEAD, &state);
    bool ok = m && !strcmp(state, "aot") && !gen_kernel(g, AHEAD, "cuda sm_89", NULL, &k, &why) &&
              same_way(&m->plan.way[0], &k.plan.way[0]) && m->plan.way[0].words_per_thread == 1;
    char target[GEN_TARGET_MAX];
    gen_gpu_target(&device->gpu, target);
    ok = ok && !gen_kernel(g, AHEAD, target, NULL, &k, &why) && k.plan.way[0].words_per_thread == 4;
    kernel_finish();   /* a worker may still compile */
    return ok;
}

static void modules_made_ahead_keep_their_plan(void **state)
{
    (void)state;
    char aot[96];
    snprintf(aot, sizeof aot, "STRIDEC_AOT=%s", getenv("HOME"));
    in_child(false, (const char *const[]){"SIMGPU_CARD=L4", "STRIDEC_TUNE=", aot, NULL}, ahead);
}

/* Unknown properties, and architectures between rows and beyond them. */
static void rows(void **state)
{
    (void)state;
    assert_int_equal(gen_gpu_row(60)->sm, 70);
    assert_int_equal(gen_gpu_row(87)->sm, 86);
    assert_int_equal(gen_gpu_row(103)->sm, 100);
    assert_int_equal(gen_gpu_row(999)->sm, 120);
    struct gen_gpu part = gen_gpu_of(90, 16, 0, -1, 0);
    assert_int_equal(part.multiprocessors, 16);
    assert_int_equal(part.threads, 2048);
    assert_int_equal(part.cache, 50);
    assert_int_equal(part.memory, 4800);
    for (int i = 1; i < gen_gpu_row_count; i++) assert_true(gen_gpu_rows[i].sm > gen_gpu_rows[i - 1].sm);
}

int main(void)
{
    char folder[] = "/tmp/stridec-gpus-XXXXXX", command[96];
    if (!mkdtemp(folder)) return 1;
    setenv("STRIDEC_CACHE_DIR", folder, 1);
    setenv("HOME", folder, 1);
    unsetenv("XDG_CONFIG_HOME");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows), cmocka_unit_test(properties_reach_the_generator), cmocka_unit_test(cards_share_a_cache),
        cmocka_unit_test(modules_made_ahead_keep_their_plan),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
