/* test_hip.c: every kind of emitted kernel, compiled for AMD's GPUs by clang, without HIP's headers. Nothing runs. For
 * each GPU the first clang is taken that knows it; where none does, that is said, and the GPU is left out. With
 * TEST_TURN, a number, each kernel for one GPU, in turn. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "kinds.h"

static const char *const gpus[] = {"gfx90a", "gfx942", "gfx1100"};

/* Words of each template that moves or combines bytes. */
static const char *const pieces[] = {
    "generic family", "struct family", "indexed family", "mixed family", "strided family", "contiguous family",
    "stridec_bulk<", "stridec_gather<", "stridec_tile<", "stridec_move<", "stridec_pack_records<",
    "stridec_unpack_records<", "stridec_pack_marked(", "stridec_unpack_marked(", "stridec_touch<", "stridec_pace()",
    "stridec_link_39(", "stridec_link_16(", "stridec_link_1(", "stridec_reduce_w16(", "struct stridec_maxloc",
    "stridec_drop_nan(", "struct stridec_bxor", "stridec_walk(", "STRIDEC_IN_PLACE", "stridec_exchange::to",
    "stridec_load_nc::of", "stridec_load_first::of", "stridec_load_last::of", "stridec_block<", "stridec_based<",
    "stridec_plain<", "stridec_pack_w16(", "stridec_unpack_w8(", "stridec_pack_w4(", "stridec_unpack_w2(",
    "stridec_pack_w1(",
};
static bool seen[COUNT(pieces)];   /* in some kernel */

#define SETTINGS 6   /* every so manieth setting */
#define OPTIONS "-x hip --cuda-device-only -nogpuinc -nogpulib -std=c++17 -O2 -Wall -Wextra -Werror"

static struct gen *generator;
static char folder[] = "/tmp/test_hip.XXXXXX";
static const char *gpu;      /* which is compiled for */
static size_t number;        /* of the kernel's source */
static int compiled, entries;
static char clang[64];
static const char *more = "";   /* options */

static char *path_of(const char *ending)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/kernel.%s", folder, ending);
    return path;
}

static void write_source(const char *text)
{
    FILE *f = fopen(path_of("hip"), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* Runs the compiler on what write_source wrote. */
static bool runs(const char *compiler)
{
    char command[512];
    snprintf(command, sizeof command,
             "cd %s && %s " OPTIONS "%s --offload-arch=%s -S -o kernel.s kernel.hip >kernel.log 2>&1", folder, compiler,
             more, gpu);
    return system(command) == 0;
}

/* Sets `clang` to the newest that compiles for the GPU, of no number last; TEST_CLANG names another. */
static bool find_clang(void)
{
    write_source("__attribute__((global)) void f() {}\n");
    const char *named = getenv("TEST_CLANG");
    for (int version = 25; !named && version >= 15; version--) {
        snprintf(clang, sizeof clang, "clang-%d", version);
        if (runs(clang)) return true;
    }
    snprintf(clang, sizeof clang, "%s", named ? named : "clang");
    return runs(clang);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *text = calloc(1, (size_t)16 << 20);
    assert_non_null(text);
    size_t bytes = fread(text, 1, ((size_t)16 << 20) - 1, f);
    fclose(f);
    text[bytes] = '\0';
    return text;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text += strlen(what)) n++;
    return n;
}

/* Returns true if the next source is compiled for the GPU. */
static bool in_turn(const char *for_gpu)
{
    const char *turn = getenv("TEST_TURN");
    if (!turn || !isdigit((unsigned char)*turn)) return true;
    return gpus[(number++ + strtoul(turn, NULL, 10)) % COUNT(gpus)] == for_gpu;
}

/* Each entry of the source must be a kernel of the assembly. */
static void compile_kind(const char *name, const struct gen_kernel *k)
{
    if (!in_turn(gpu)) return;
    write_source(k->source);
    if (!runs(clang)) fail_msg("%s, %s:\n%.2000s", gpu, name, read_file(path_of("log")));
    char *assembly = read_file(path_of("s"));
    int wanted = count(k->source, "extern \"C\" __global__"), made = count(assembly, "\t.amdhsa_kernel ");
    free(assembly);
    if (wanted != made || !made) fail_msg("%s, %s: %d entries, %d kernels", gpu, name, wanted, made);
    compiled++, entries += made;
}

static void compile_all(const char *for_gpu)
{
    gpu = for_gpu, number = 0, compiled = entries = 0;
    if (!find_clang()) {
        print_message("NO CLANG COMPILES FOR %s: left out (clang-19 does; TEST_CLANG names one)\n", gpu);
        skip();
    }
    kinds_each_type(generator, "hip", compile_kind);
    kinds_each_other(generator, "hip", compile_kind);
    kinds_each_setting(generator, "hip", SETTINGS, compile_kind);
    print_message("%s: %d sources with %d kernels compiled by %s\n", gpu, compiled, entries, clang);
}

static void test_gfx90a(void **state)
{
    compile_all(gpus[0]);
    (void)state;
}

static void test_gfx942(void **state)
{
    compile_all(gpus[1]);
    (void)state;
}

static void test_gfx1100(void **state)
{
    compile_all(gpus[2]);
    (void)state;
}

/* Clangs before 19 have no builtin for the clock of all GPUs. */
static void test_older_clangs(void **state)
{
    struct gen_kernel k;
    struct reason why;
    if (gen_kernel(generator, "s(131072,512,d(8))", "hip", NULL, &k, &why)) fail_msg("%s", why.text);
    assert_non_null(strstr(k.source, "= stridec_clock()"));
    for (size_t i = 0; i < COUNT(gpus); i++) {
        gpu = gpus[i];
        if (!find_clang()) continue;   /* the other tests say so */
        write_source(k.source);
        more = " -Wno-builtin-macro-redefined '-D__has_builtin(x)=0'";
        if (!runs(clang)) fail_msg("%s:\n%.2000s", gpu, read_file(path_of("log")));
        more = "";
    }
    gen_kernel_free(&k);
    (void)state;
}

static void note_pieces(const char *name, const struct gen_kernel *k)
{
    for (size_t i = 0; i < COUNT(pieces); i++) seen[i] = seen[i] || strstr(k->source, pieces[i]);
    assert_non_null(strstr(k->source, "__builtin_amdgcn_s_barrier"));
    (void)name;
}

/* The list of kinds has a kernel of each template. */
static void test_every_template(void **state)
{
    kinds_each_type(generator, "hip", note_pieces);
    kinds_each_other(generator, "hip", note_pieces);
    kinds_each_setting(generator, "hip", SETTINGS, note_pieces);
    for (size_t i = 0; i < COUNT(pieces); i++)
        if (!seen[i]) fail_msg("no kernel has %s", pieces[i]);
    (void)state;
}

static int setup(void **state)
{
    struct reason why = {""};
    generator = gen_open(&why);
    if (!generator) fail_msg("%s", why.text);
    assert_non_null(mkdtemp(folder));
    (void)state;
    return 0;
}

static int teardown(void **state)
{
    unlink(path_of("hip")), unlink(path_of("s")), unlink(path_of("log"));
    rmdir(folder);
    gen_close(generator);
    (void)state;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_template),
        cmocka_unit_test(test_gfx90a),
        cmocka_unit_test(test_gfx942),
        cmocka_unit_test(test_gfx1100),
        cmocka_unit_test(test_older_clangs),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
