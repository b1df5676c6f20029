/* test_nvrtc.c: every kind of emitted kernel, compiled by NVRTC: for the oldest architecture that it supports and for those
 * that templates single out, and for one of the others in turn. TEST_NVRTC_ALL=1 compiles all for all, which takes minutes. */
#include "../../gen/gen.h"
#include <dlfcn.h>
#include <nvrtc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define FOLD4(child) "s(2,3,s(2,5,s(2,7,s(2,11," child "))))"
#define FOLD20(child) FOLD4(FOLD4(FOLD4(FOLD4(FOLD4(child)))))
#define LIST(step) "0," #step ",3,77,1,9,8,2000,5,6,7,8,9,10,11,12,13,14,15"
#define BLOCKS4(at) "d(8)@1" #at ",d(16)@2" #at ",d(8)@3" #at ",d(3)@4" #at
#define BLOCKS BLOCKS4(00) "," BLOCKS4(10) "," BLOCKS4(20) "," BLOCKS4(30) "," BLOCKS4(40) "," BLOCKS4(50) "," \
    BLOCKS4(60) "," BLOCKS4(70) "," BLOCKS4(80)
#define FAR4(at) "99999990" #at ",99999991" #at ",99999993" #at ",99999994" #at
static const char *const signatures[] = {
    "d(0)",
    "d(1)",
    "d(4096)",
    "s(131072,512,d(8))",
    "s(100,-512,d(6))",
    "s(2,-9223372036854775807,d(1))",
    "s(1000,4096,s(100,16,d(4)))",
    "s(32,2097152,s(32,32768,s(32,512,d(256))))",
    "s(65536,65552,d(65536))", /* 4 GiB: 64-bit index arithmetic, several words a thread */
    "s(3,0,s(5,1,d(16)))",
    FOLD4("d(1)"),
    FOLD20(FOLD20(FOLD20("d(1)"))),
    "q(d(8),d(4)@12)",
    "s(65536,24,q(d(8),d(4)@8,d(4)@12,d(1)@16))", /* records of 17 B: aligned groups of single bytes */
    "s(100,64,q(d(2),d(4)@8))",
    "i(s(3,96,d(8));" LIST(8) ")",
    "s(3,4096,i(q(d(8),d(4)@12);" LIST(16) "))",
    "q(" BLOCKS ",d(8)@40000,d(16)@40016)",
    "q(i(d(24);" LIST(24) "),i(d(8);" LIST(8) ")@8000,d(16)@9000)",
    "s(3,9223372036854775,q(d(4611686018427387),d(8)@9223372036854775))",
    "i(d(4294967296);" LIST(8589934592) ")", /* offsets of 40 bits; then of two words less or more */
    "i(d(8);" LIST(2147483648) ")",
    "i(d(8);" LIST(1099511627776) ")",
    "i(d(8);" FAR4(10) "," FAR4(20) "," FAR4(31) "," FAR4(40) "," FAR4(55) ")",
    "q(" BLOCKS ",d(8)@1099511627776)",
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

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

static void compile_everywhere(const char *source)
{
    static int turn;
    int n = 0, archs[64];
    bool all = getenv("TEST_NVRTC_ALL") != NULL;
    assert_int_equal(rtc.nvrtcGetNumSupportedArchs(&n), NVRTC_SUCCESS);
    assert_in_range(n, 1, COUNT(archs));
    assert_int_equal(rtc.nvrtcGetSupportedArchs(archs), NVRTC_SUCCESS);
    turn = (turn + 1) % n;
    for (int i = 0; i < n; i++) {
        char arch[16];
        size_t bytes = 0;
        if (!all && i > 0 && i != turn && archs[i] != SINGLED_OUT) continue;
        snprintf(arch, sizeof arch, "sm_%d", archs[i]);
        nvrtcProgram p = build(source, arch);
        assert_int_equal(rtc.nvrtcGetCUBINSize(p, &bytes), NVRTC_SUCCESS);
        assert_true(bytes > 0);
        rtc.nvrtcDestroyProgram(&p);
    }
}

static void test_every_architecture(void **state)
{
    struct gen_kernel k;
    struct reason why;
    if (!found) skip();
    for (size_t i = 0; i < COUNT(signatures); i++) {
        if (gen_kernel(generator, signatures[i], "cuda", NULL, &k, &why)) fail_msg("%s: %s", signatures[i], why.text);
        print_message("  %s: %s\n", signatures[i], gen_family_name(k.plan.family));
        compile_everywhere(k.source);
        gen_kernel_free(&k);
    }
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

/* Settings of gen/knobs.lua for both directions, and what the PTX of an entry must hold. */
static const struct {
    const char *signature, *knobs[2], *entry, *holds;
} settings[] = {
    {"s(4096,512,d(32))", {"move=bulk load=last", "order=far each=8 load=nc"}, "stridec_pack_w8",
     "cp.async.bulk.global"},
    {"s(4096,512,d(32))", {"move=bulk each=4 load=first", "load=nc word=16"}, "stridec_unpack_w16",
     "ld.global.nc.L1::no_allocate"},
    {"s(4096,512,d(8))", {"load=first each=4", "store=exch"}, "stridec_unpack_w8", "atom.global.exch.b64"},
    {"s(4096,512,d(8))", {"load=last word=4", "store=exch word=4 each=2"}, "stridec_pack_w4", "L2::cache_hint"},
    {"s(512,8,s(512,4096,d(8)))", {"threads=256 load=nc", "store=exch"}, "stridec_pack_w8", "bar.sync"},
    {"i(s(3,96,d(8));" LIST(8) ")", {"threads=512", "threads=1024"}, "stridec_pack_w1", ".maxntid 512"},
    {"i(d(96);0,200,64,1000,8000,4000,600,712,100096,32,96,2000,3000,128,5120,6144,7168)",
     {"move=bulk each=2 load=last", "order=far each=4 store=exch"}, "stridec_pack_w8", "cp.async.bulk.global"},
};

static void test_settings(void **state)
{
    struct gen_kernel k;
    struct reason why;
    if (!found) skip();
    for (size_t i = 0; i < COUNT(settings); i++) {
        if (gen_kernel(generator, settings[i].signature, "cuda", settings[i].knobs, &k, &why)) fail_msg("%s", why.text);
        print_message("  %s: %s; %s\n", settings[i].signature, settings[i].knobs[0], settings[i].knobs[1]);
        compile_everywhere(k.source);
        gen_kernel_free(&k);
    }
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
    for (size_t i = 0; i < COUNT(settings); i++) {
        char *ptx = entry_ptx(settings[i].signature, settings[i].knobs, settings[i].entry);
        bool known = major >= 12 || strncmp(settings[i].holds, "cp.async.bulk", 13);   /* by NVRTC */
        if (known != !!strstr(ptx, settings[i].holds)) fail_msg("%s: %s %s", settings[i].signature, known ? "no" : "a", settings[i].holds);
        assert_null(strstr(ptx, ".local"));
        assert_null(strstr(ptx, "div."));
        assert_null(strstr(ptx, "rem."));
        free(ptx);
    }
    (void)state;
}

/* Pairs: of chains of strides, of parts, of lists; wide and narrow words. */
static const char *const links[][2] = {
    {"s(256,4096,s(256,16,d(8)))", "s(256,8192,s(256,32,d(8)))"},
    {"s(4096,512,d(32))", "d(4096)"},
    {"s(65536,65552,d(65536))", "s(65536,70000,d(65536))"}, /* 64-bit index arithmetic */
    {"s(65536,24,q(d(8),d(4)@8,d(4)@12,d(1)@16))", "s(65536,24,q(d(8),d(4)@8,d(4)@12,d(1)@16))"},
    {"i(s(3,96,d(8));" LIST(8) ")", "s(3,4096,i(q(d(8),d(4)@12);" LIST(16) "))"},
    {"q(" BLOCKS ",d(8)@40000,d(16)@40016)", "q(" BLOCKS ",d(8)@40000,d(16)@40016)"},
    {"q(" BLOCKS ",d(8)@1099511627776)", "s(100,-512,d(6))"},
};

static struct gen_kernel link_of(const char *from, const char *to)
{
    struct gen_kernel k;
    struct reason why;
    struct tree *t[2] = {tree_parse(from, &why), tree_parse(to, &why)};
    struct form *f[2] = {form_of(t[0], &why), form_of(t[1], &why)};
    if (gen_link(generator, f[0], f[1], "cuda", &k, &why)) fail_msg("%s > %s: %s", from, to, why.text);
    for (int i = 0; i < 2; i++) {
        form_free(f[i]);
        tree_unref(t[i]);
    }
    return k;
}

static struct gen_kernel typed_copy_list(void)
{
    struct gen_kernel k;
    struct reason why;
    if (gen_link(generator, NULL, NULL, "cuda", &k, &why)) fail_msg("%s", why.text);
    return k;
}

static void test_links(void **state)
{
    if (!found) skip();
    struct gen_kernel k = typed_copy_list();
    compile_everywhere(k.source);
    gen_kernel_free(&k);
    for (size_t i = 0; i < COUNT(links); i++) {
        print_message("  %s > %s\n", links[i][0], links[i][1]);
        k = link_of(links[i][0], links[i][1]);
        compile_everywhere(k.source);
        gen_kernel_free(&k);
    }
    (void)state;
}

static void test_reductions(void **state)
{
    if (!found) skip();
    for (int type = 0; type < GEN_REDUCE_TYPE_TOTAL; type++) {
        struct gen_kernel k;
        struct reason why;
        print_message("  reductions of %s\n", gen_reduce_type_name((enum gen_reduce_type)type));
        if (gen_reduce(generator, (enum gen_reduce_type)type, "cuda", &k, &why)) fail_msg("%s", why.text);
        compile_everywhere(k.source);
        gen_kernel_free(&k);
    }
    (void)state;
}

/* Four loads in flight and no division; lists in the argument are read where they lie, not copied. */
static void test_link_code(void **state)
{
    if (!found) skip();
    struct gen_kernel k[] = {typed_copy_list(), link_of(links[0][0], links[0][1])};
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
        cmocka_unit_test(test_every_architecture),
        cmocka_unit_test(test_each_gpu),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_setting_code),
        cmocka_unit_test(test_code),
        cmocka_unit_test(test_irregular_code),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_link_code),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
