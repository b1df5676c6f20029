/* test_nvrtc.c: every kind of emitted kernel, compiled by NVRTC: for the oldest architecture that it supports, those
 * that templates single out, and for one of the others in turn. With TEST_TURN, a number, another NVRTC, which
 * TEST_NVRTC names, compiles each for one of these three. TEST_NVRTC_ALL=1 compiles all for all: minutes. */
#include "../../gen/gen.h"
#include <dlfcn.h>
#include <nvrtc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kinds.h"

/* clang-format off */
#define CALLS(X) \
    X(nvrtcVersion) X(nvrtcGetNumSupportedArchs) X(nvrtcGetSupportedArchs) X(nvrtcCreateProgram) \
    X(nvrtcCompileProgram) X(nvrtcDestroyProgram) X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog) \
    X(nvrtcGetCUBINSize) X(nvrtcGetPTXSize) X(nvrtcGetPTX)
/* clang-format on */
#define FIELD(name) __typeof__(name) *name;
static struct {
    CALLS(FIELD)
} rtc;
static bool found;
static int major;   /* its version */
static struct gen *generator;

static void *open_nvrtc(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    static const char *const folders[] = {"", "/usr/local/cuda/lib64/"};
    for (size_t f = 0; f < COUNT(folders); f++) {
        for (size_t n = 0; n < COUNT(names); n++) {
            char path[256];
            snprintf(path, sizeof path, "%s%s", folders[f], names[n]);
            void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (library) return library;
        }
    }
    return NULL;
}

static int setup(void **state)
{
    struct reason why = {""};
    generator = gen_open(&why);
    if (!generator) fail_msg("%s", why.text);
    const char *named = getenv("TEST_NVRTC");
    void *library = named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : open_nvrtc();
    if (!library) {
        print_message("NO NVRTC FOUND: the emitted kernels are not compiled here (TEST_NVRTC=FILE names one)\n");
        return 0;
    }
    found = true;
#define LOOK_UP(name) found = (*(void **)&rtc.name = dlsym(library, #name)) && found;
    CALLS(LOOK_UP)
    if (!found) fail_msg("NVRTC lacks a function that every version has");
    int minor;
    rtc.nvrtcVersion(&major, &minor);
    print_message("NVRTC %d.%d\n", major, minor);
    (void)state;
    return 0;
}

static int teardown(void **state)
{
    gen_close(generator);
    (void)state;
    return 0;
}

/* The program, compiled for `arch`; an error or a warning fails the test, but for that of an old architecture. */
static nvrtcProgram build(const char *source, const char *arch)
{
    char option[64];
    snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
    const char *options[] = {option, "-std=c++17"};
    nvrtcProgram p;
    assert_int_equal(rtc.nvrtcCreateProgram(&p, source, "stridec.cu", 0, NULL, NULL), NVRTC_SUCCESS);
    nvrtcResult result = rtc.nvrtcCompileProgram(p, COUNT(options), options);
    size_t size = 0;
    assert_int_equal(rtc.nvrtcGetProgramLogSize(p, &size), NVRTC_SUCCESS);
    if (result != NVRTC_SUCCESS || size > 1) {
        char *log = malloc(size + 1);
        rtc.nvrtcGetProgramLog(p, log);
        if (result != NVRTC_SUCCESS || !strstr(log, "Architectures prior to"))
            fail_msg("%s\n%.2000s", arch, log);
        free(log);
    }
    return p;
}

#define SINGLED_OUT 90   /* by __CUDA_ARCH__ in templates/ */

/* Returns what the next kernel is compiled for: 0 the oldest, 1 what is singled out, 2 another; -1: all three. */
static int one_of_three(void)
{
    static unsigned long number;
    const char *turn = getenv("TEST_NVRTC") ? getenv("TEST_TURN") : NULL;
    return turn && *turn >= '0' && *turn <= '9' ? (int)((number++ + strtoul(turn, NULL, 10)) % 3) : -1;
}

static void compile_everywhere(const char *source)
{
    static int turn;
    int only = one_of_three();
    int n = 0, archs[64];
    bool all = getenv("TEST_NVRTC_ALL") != NULL;
    assert_int_equal(rtc.nvrtcGetNumSupportedArchs(&n), NVRTC_SUCCESS);
    assert_in_range(n, 1, COUNT(archs));
    assert_int_equal(rtc.nvrtcGetSupportedArchs(archs), NVRTC_SUCCESS);
    do turn = (turn + 1) % n;
    while (only >= 0 && (turn == 0 || archs[turn] == SINGLED_OUT));
    for (int i = 0; i < n; i++) {
        char arch[16];
        size_t bytes = 0;
        int which = i == 0 ? 0 : archs[i] == SINGLED_OUT ? 1 : 2;
        if (!all && which == 2 && i != turn) continue;
        if (!all && only >= 0 && which != only) continue;
        snprintf(arch, sizeof arch, "sm_%d", archs[i]);
        nvrtcProgram p = build(source, arch);
        assert_int_equal(rtc.nvrtcGetCUBINSize(p, &bytes), NVRTC_SUCCESS);
        assert_true(bytes > 0);
        rtc.nvrtcDestroyProgram(&p);
    }
}

static void compile_kind(const char *name, const struct gen_kernel *k)
{
    print_message("  %s: %s\n", name, gen_family_name(k->plan.family));
    compile_everywhere(k->source);
}

static void test_every_type(void **state)
{
    if (!found) skip();
    kinds_each_type(generator, "cuda", compile_kind);
    (void)state;
}

/* Layouts whose kernels depend on the GPU. */
static const char *const large[] = {
    "s(4194304,64,d(16))", "s(2097152,64,d(32))", "s(2097152,64,d(8))", "s(16777216,64,d(4))", "s(65536,64,d(8))",
    "s(16384,256,d(64))", "s(512,8,s(512,4096,d(8)))", "s(65536,512,q(d(64),d(128)@96))",
};

/* Returns true if NVRTC compiles for an architecture: NVRTC 13 has dropped sm_70. */
static bool compiles_for(int sm)
{
    int n = 0, archs[64];
    assert_int_equal(rtc.nvrtcGetNumSupportedArchs(&n), NVRTC_SUCCESS);
    assert_in_range(n, 1, COUNT(archs));
    assert_int_equal(rtc.nvrtcGetSupportedArchs(archs), NVRTC_SUCCESS);
    for (int i = 0; i < n; i++)
        if (archs[i] == sm) return true;
    return false;
}

/* Each architecture's own kernels, where they differ from those that test_every_architecture compiles. */
static void test_each_gpu(void **state)
{
    struct gen_kernel k, usual;
    struct reason why;
    char target[GEN_TARGET_MAX], arch[16];
    if (!found) skip();
    for (int g = 0; g < gen_gpu_row_count; g++) {
        int compiled = 0, sm = gen_gpu_rows[g].sm;
        gen_arch_target(sm, target);
        snprintf(arch, sizeof arch, "sm_%d", sm);
        for (size_t i = 0; i < COUNT(large); i++) {
            if (gen_kernel(generator, large[i], target, NULL, &k, &why)) fail_msg("%s: %s", large[i], why.text);
            if (gen_kernel(generator, large[i], "cuda", NULL, &usual, &why)) fail_msg("%s: %s", large[i], why.text);
            if (strcmp(k.source, usual.source) && compiles_for(sm)) {
                nvrtcProgram p = build(k.source, arch);
                rtc.nvrtcDestroyProgram(&p);
                compiled++;
            }
            gen_kernel_free(&k), gen_kernel_free(&usual);
        }
        print_message("  %s: %d kernels of its own%s\n", arch, compiled,
                      compiles_for(sm) ? "" : ", not compiled: NVRTC does not know it");
        assert_true(sm == 90 ? compiled == 0 : compiled > 0 || !compiles_for(sm));
    }
    (void)state;
}

static void test_links_and_reductions(void **state)
{
    if (!found) skip();
    kinds_each_other(generator, "cuda", compile_kind);
    (void)state;
}

/* The PTX of one entry of a kernel, which goes; the caller frees it. */
static char *entry_of(struct gen_kernel *k, const char *entry)
{
    nvrtcProgram p = build(k->source, "compute_90");
    size_t size = 0;
    assert_int_equal(rtc.nvrtcGetPTXSize(p, &size), NVRTC_SUCCESS);
    char *ptx = malloc(size), name[64];
    assert_int_equal(rtc.nvrtcGetPTX(p, ptx), NVRTC_SUCCESS);
    rtc.nvrtcDestroyProgram(&p);
    gen_kernel_free(k);
    snprintf(name, sizeof name, ".entry %s(", entry);
    char *start = strstr(ptx, name);
    assert_non_null(start);
    char *end = strstr(start, "\n}");
    char *copy = strndup(start, end ? (size_t)(end - start) : strlen(start));
    free(ptx);
    return copy;
}

/* Of a signature's kernel. */
static char *entry_ptx(const char *signature, const char *const knobs[2], const char *entry)
{
    struct gen_kernel k;
    struct reason why;
    if (gen_kernel(generator, signature, "cuda", knobs, &k, &why)) fail_msg("%s", why.text);
    return entry_of(&k, entry);
}

/* The most loads of global memory without a store between them. */
static int longest_batch(const char *ptx)
{
    int longest = 0, run = 0;
    for (const char *line = ptx; line; line = strchr(line, '\n')) {
        line += strspn(line, "\n\t ");
        if (!strncmp(line, "ld.global", 9)) run++;
        if (!strncmp(line, "st.", 3)) run = 0;
        if (run > longest) longest = run;
    }
    return longest;
}

/* 64 MiB in blocks of 400 B: 16-byte words, one a thread, divisions as multiplications. */
static void test_code(void **state)
{
    static const char *const entries[] = {"stridec_pack_w16", "stridec_unpack_w16"};
    if (!found) skip();
    for (size_t i = 0; i < COUNT(entries); i++) {
        char *ptx = entry_ptx("s(167772,4096,d(400))", NULL, entries[i]);
        assert_non_null(strstr(ptx, "ld.global.v4."));
        assert_non_null(strstr(ptx, "st.global.v4."));
        assert_int_equal(longest_batch(ptx), 1);
        assert_null(strstr(ptx, "div."));
        assert_null(strstr(ptx, "rem."));
        assert_null(strstr(ptx, ".local"));
        assert_null(strstr(ptx, "ld.v4")); /* no generic addressing */
        assert_null(strstr(ptx, "st.v4"));
        free(ptx);
    }
    (void)state;
}

/* Trees with lists: no division, no local memory, nothing but global loads and stores. */
static void test_irregular_code(void **state)
{
    static const struct {
        const char *signature, *entry;
        int batch;   /* loads that follow each other; of pack alone */
    } codes[] = {
        {"i(s(3,96,d(8));" LIST(8) ")", "stridec_pack_w1", 1},
        {"s(3,4096,i(q(d(8),d(4)@12);" LIST(16) "))", "stridec_unpack_w1", 1},
        {"q(" BLOCKS ",d(8)@40000,d(16)@40016)", "stridec_pack_w1", 4},
        {"s(65536,24,q(d(8),d(4)@8,d(4)@12,d(1)@16))", "stridec_pack_w1", 16},
        {"s(65536,24,q(d(8),d(4)@8,d(4)@12,d(1)@16))", "stridec_unpack_w1", 1},
    };
    if (!found) skip();
    for (size_t i = 0; i < COUNT(codes); i++) {
        char *ptx = entry_ptx(codes[i].signature, NULL, codes[i].entry);
        assert_null(strstr(ptx, "div."));
        assert_null(strstr(ptx, "rem."));
        assert_null(strstr(ptx, ".local"));
        if (longest_batch(ptx) < codes[i].batch) fail_msg("%s: %d loads in flight", codes[i].signature, longest_batch(ptx));
        free(ptx);
    }
    (void)state;
}

/* What a setting is for is there, and nothing that is slow. */
static void test_setting_code(void **state)
{
    if (!found) skip();
    for (size_t i = 0; i < COUNT(kinds_settings); i++) {
        char *ptx = entry_ptx(kinds_settings[i].signature, kinds_settings[i].knobs, kinds_settings[i].entry);
        bool known = major >= 12 || strncmp(kinds_settings[i].holds, "cp.async.bulk", 13);   /* by NVRTC */
        if (known != !!strstr(ptx, kinds_settings[i].holds))
            fail_msg("%s: %s %s", kinds_settings[i].signature, known ? "no" : "a", kinds_settings[i].holds);
        assert_null(strstr(ptx, ".local"));
        assert_null(strstr(ptx, "div."));
        assert_null(strstr(ptx, "rem."));
        free(ptx);
    }
    (void)state;
}

/* Four loads in flight and no division; lists in the argument are read where they lie, not copied. */
static void test_link_code(void **state)
{
    if (!found) skip();
    struct gen_kernel k[] = {kinds_list(generator, "cuda"),
                             kinds_pair(generator, "cuda", kinds_pairs[0][0], kinds_pairs[0][1])};
    static const char *const entries[] = {"stridec_link_26", "stridec_link_8"};
    for (size_t i = 0; i < COUNT(k); i++) {
        char *ptx = entry_of(&k[i], entries[i]);
        assert_null(strstr(ptx, ".local"));
        assert_null(strstr(ptx, "div."));
        assert_null(strstr(ptx, "rem."));
        if (longest_batch(ptx) < 4) fail_msg("%s: %d loads in flight", entries[i], longest_batch(ptx));
        free(ptx);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_each_gpu),
        cmocka_unit_test(test_setting_code),
        cmocka_unit_test(test_code),
        cmocka_unit_test(test_irregular_code),
        cmocka_unit_test(test_links_and_reductions),
        cmocka_unit_test(test_link_code),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
