/* test_gen.c: emitted kernels, compiled for the host and run a thread at a time, against the layout's definition.
 *
 * Every kernel goes into one shared object, so that the host compiler runs once. TEST_SEED picks the random types. */
#include "../../gen/gen.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include "layout.h"

/* What CUDA C++ has that host C++ has not. */
static const char prelude[] = "#define __global__\n"
                              "#define __device__\n"
                              "#define __forceinline__ inline __attribute__((always_inline))\n"
                              "#define __launch_bounds__(threads)\n"
                              "extern \"C\" { struct uint3 { unsigned x, y, z; } blockIdx, threadIdx; }\n";

static const char *const fixed[] = {
    "d(1)",
    "d(48)",
    "d(6)",
    "d(70000)",
    "s(100,512,d(8))",
    "s(100,-512,d(8))",
    "s(33,24,d(16))",
    "s(7,7,d(3))",
    "s(300,0,d(4))",
    "s(20,4,d(16))",
    "s(9,4096,s(10,208,d(112)))",
    "s(9,-4096,s(10,208,d(52)))",
    "s(5,8,s(6,64,s(7,1024,d(8))))",
    "s(1100,1003,d(1001))", /* several words a thread */
    "s(3,64,d(16)@32)@5",   /* not canonical: an inner offset counts, the root's does not */
};
/* Interpreted whatever the generator knows. */
static const char *const irregular[] = {
    "q(d(16),d(8)@24,d(4)@40)",
    "i(d(24);0,40,104,300)",
    "s(50,128,q(d(8),s(3,16,d(8))@32))",
    "i(s(3,32,d(16));512,0,256)",
    "q(i(d(3);9,0,20),d(5)@31)",
    "s(6,96,s(2,48,i(d(8);0,16,32)))",
    "q(s(40,32,d(16)),i(s(2,-8,d(4))@8;2000,4000),q(d(1)@5000,d(2)@5003))@7",
};
#define COUNT(a) (sizeof(a) / sizeof *(a))
#define RANDOM 24
#define CASES (COUNT(fixed) + COUNT(irregular) + RANDOM)

struct test_kernel {
    char *signature;
    struct tree *tree;
    struct gen_kernel k;
};
static struct test_kernel cases[CASES];
#define FOLD4(child) "s(2,16,s(2,16,s(2,16,s(2,16," child "))))"
#define FOLD20(child) FOLD4(FOLD4(FOLD4(FOLD4(FOLD4(child)))))
/* Past 32 bits in elements or in steps, or deep: which packed bytes to look at. */
static const struct far {
    const char *signature;
    int64_t begin, end;
    int index_bits;
} far[] = {
    {"s(3,1073741840,d(1073741824))", 2147479552, 2147487744, 64},
    {"s(3,5368709120,d(4096))", 4080, 12288, 32},
    {"s(3,-5368709120,d(4096))", 4080, 12288, 32},
    {FOLD20(FOLD20(FOLD20("d(1)"))), 1152921504606840000, 1152921504606842000, 64},
};
static struct gen_kernel far_kernels[COUNT(far)];
static struct gen_kernel generic;
static void *module;
static struct {
    unsigned x, y, z;
} * block_index, *thread_index;
static const char *current; /* the signature being tested */
static uint64_t seed = 1;

static int64_t draw(int64_t low, int64_t high)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((seed >> 24) % (uint64_t)(high - low + 1));
}

/* ---- making the kernels ---- */

/* Innermost first. Half of them never touch a byte twice: those unpack, too. */
static char *random_chain(void)
{
    char *text, *outer;
    int64_t grain = 1 << draw(0, 4), length = grain * draw(1, 9), span = length;
    bool apart = draw(0, 1);
    assert_true(asprintf(&text, "d(%lld)", (long long)length) > 0);
    for (int64_t dims = draw(1, 5); dims > 0; dims--) {
        int64_t count = draw(2, 7), step = grain * (apart ? draw(0, 9) : draw(-60, 60)) + (apart ? span : 0);
        span += (count - 1) * step;
        if (apart && draw(0, 2) == 0) step = -step;
        assert_true(asprintf(&outer, "s(%d,%lld,%s)", (int)count, (long long)step, text) > 0);
        free(text);
        text = outer;
    }
    return text;
}

/* The source in a namespace of its own, its entry points renamed: they are extern "C". */
static void write_kernel(FILE *f, const char *source, const char *tag)
{
    static const int widths[] = {16, 8, 4, 2, 1};
    for (size_t i = 0; i < COUNT(widths); i++)
        fprintf(f,
                "#undef stridec_pack_w%d\n#undef stridec_unpack_w%d\n"
                "#define stridec_pack_w%d pack_w%d_%s\n#define stridec_unpack_w%d unpack_w%d_%s\n",
                widths[i], widths[i], widths[i], widths[i], tag, widths[i], widths[i], tag);
    fprintf(f, "namespace kernel_%s {\n%s}\n", tag, source);
}

static void write_all(const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(prelude, f);
    for (size_t i = 0; i < CASES; i++) {
        char tag[16];
        snprintf(tag, sizeof tag, "%zu", i);
        if (cases[i].k.plan.family != GEN_GENERIC) write_kernel(f, cases[i].k.source, tag);
    }
    for (size_t i = 0; i < COUNT(far); i++) {
        char tag[16];
        snprintf(tag, sizeof tag, "far%zu", i);
        write_kernel(f, far_kernels[i].source, tag);
    }
    write_kernel(f, generic.source, "generic");
    assert_int_equal(fclose(f), 0);
}

static void build_all(void)
{
    char folder[] = "/tmp/test_gen.XXXXXX", source[64], object[64], command[512];
    assert_non_null(mkdtemp(folder));
    snprintf(source, sizeof source, "%s/all.cpp", folder);
    snprintf(object, sizeof object, "%s/all.so", folder);
    write_all(source);
#ifdef __SANITIZE_ADDRESS__
    const char *flags = "-fsanitize=address,undefined -fno-sanitize-recover=all";
#else
    const char *flags = "";
#endif
    snprintf(command, sizeof command,
             "g++ -std=c++17 -O1 -fno-strict-aliasing -Wall -Wextra -Werror "
             "-Wno-unknown-pragmas -fPIC -shared %s -o %s %s",
             flags, object, source);
    assert_int_equal(system(command), 0);
    module = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (!module) fail_msg("%s", dlerror());
    block_index = dlsym(module, "blockIdx");
    thread_index = dlsym(module, "threadIdx");
    unlink(source);
    unlink(object);
    rmdir(folder);
}

static int setup(void **state)
{
    struct reason why = {""};
    struct gen *g = gen_open(&why);
    if (!g) fail_msg("%s", why.text);
    if (getenv("TEST_SEED")) seed = strtoull(getenv("TEST_SEED"), NULL, 10);
    for (size_t i = 0; i < CASES; i++) {
        cases[i].signature = i < COUNT(fixed)                      ? strdup(fixed[i])
                             : i < COUNT(fixed) + COUNT(irregular) ? strdup(irregular[i - COUNT(fixed)])
                                                                   : random_chain();
        cases[i].tree = tree_parse(cases[i].signature, &why);
        if (!cases[i].tree || gen_kernel(g, cases[i].signature, "cuda", &cases[i].k, &why))
            fail_msg("%s: %s", cases[i].signature, why.text);
    }
    for (size_t i = 0; i < COUNT(far); i++)
        if (gen_kernel(g, far[i].signature, "cuda", &far_kernels[i], &why))
            fail_msg("%s: %s", far[i].signature, why.text);
    if (gen_generic(g, "cuda", &generic, &why)) fail_msg("%s", why.text);
    gen_close(g);
    build_all();
    (void)state;
    return 0;
}

static int teardown(void **state)
{
    for (size_t i = 0; i < CASES; i++) {
        free(cases[i].signature);
        tree_unref(cases[i].tree);
        gen_kernel_free(&cases[i].k);
    }
    for (size_t i = 0; i < COUNT(far); i++) gen_kernel_free(&far_kernels[i]);
    gen_kernel_free(&generic);
    dlclose(module);
    (void)state;
    return 0;
}

/* ---- running them ---- */

/* The whole grid, plus one block too many. */
static void launch(const char *way, int width, const char *tag, const struct gen_plan *plan, struct stridec_launch a)
{
    char name[64];
    snprintf(name, sizeof name, "%s_w%d_%s", way, width, tag);
    void (*kernel)(struct stridec_launch);
    *(void **)&kernel = dlsym(module, name);
    if (!kernel) fail_msg("no entry %s", name);
    int64_t block = (int64_t)plan->threads * plan->words_per_thread;
    int64_t words = (a.end - a.begin) / width;
    for (int64_t b = 0; b <= (words + block - 1) / block; b++) {
        for (int t = 0; t < plan->threads; t++) {
            block_index->x = (unsigned)b;
            thread_index->x = (unsigned)t;
            kernel(a);
        }
    }
}

/* ---- one comparison ---- */

static unsigned char *random_bytes(size_t n)
{
    unsigned char *p = malloc(n);
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)draw(0, 255);
    return p;
}

static void same(const void *want, const void *got, size_t bytes, const char *way, int width, struct stridec_launch a)
{
    if (memcmp(want, got, bytes))
        fail_msg("%s: wrong bytes, %s, words of %d B, [%lld, %lld), extent %lld, wrap %lld", current, way, width,
                 (long long)a.begin, (long long)a.end, (long long)a.extent, (long long)a.wrap);
}

/* An entry of width W on packed bytes [begin, end), both ways, in buffers at multiples of W. */
static void compare(const struct stream *s, const char *tag, const struct gen_plan *plan, int width,
                    struct stridec_launch a)
{
    size_t span = (size_t)(s->high - s->low) + 64, bytes = (size_t)(a.end - a.begin);
    unsigned char *user = random_bytes(span), *want = malloc(bytes), *got = malloc(bytes);
    int64_t skew = draw(0, 15 / width) * width;
    /* The origin, congruent to skew modulo 16 as malloc's blocks are to 0. */
    int64_t origin = ((16 - s->low) & ~(int64_t)15) + skew;
    a.user = (uint64_t)(uintptr_t)user + (uint64_t)origin;
    a.packed = (uint64_t)(uintptr_t)got;
    for (size_t i = 0; i < bytes; i++) want[i] = user[origin + s->at[a.begin + (int64_t)i]];
    launch("pack", width, tag, plan, a);
    same(want, got, bytes, "pack", width, a);

    if (!s->overlaps) {
        unsigned char *after = malloc(span);
        memcpy(after, user, span);
        for (size_t i = 0; i < bytes; i++)
            after[origin + s->at[a.begin + (int64_t)i]] = got[i] = (unsigned char)draw(0, 255);
        launch("unpack", width, tag, plan, a);
        same(after, user, span, "unpack", width, a);
        free(after);
    }
    free(user);
    free(want);
    free(got);
}

/* Whole streams and random ranges, at most `most` words of them. */
static void compare_ranges(const struct stream *s, const char *tag, const struct gen_plan *plan, int width,
                           struct stridec_launch a)
{
    const int64_t words = s->bytes / width, most = 6000;
    for (int round = 0; round < 3; round++) {
        int64_t length = round && words > 1 ? draw(1, words) : words;
        if (length > most) length = most;
        a.begin = round ? draw(0, words - length) * width : 0;
        a.end = a.begin + length * width;
        compare(s, tag, plan, width, a);
    }
}

/* One kernel on one tree: each word width, elements apart and touching. */
static void compare_kernel(const struct tree *t, const char *tag, const struct gen_plan *plan, uint64_t program)
{
    bool chain = tree_is_strided(t);
    int64_t apart = ((t->high - t->low + 15) & ~(int64_t)15) + 16 * draw(0, 3);
    int64_t count = draw(1, 4);
    struct stream wrapped = stream_of(t, count, draw(0, 3) ? apart : -apart);
    int64_t extent = count > 1 ? wrapped.at[t->size] - wrapped.at[0] : apart;
    struct stream single = stream_of(t, chain ? draw(1, 3) : 1, 0);
    for (int i = 0; i < plan->nwords; i++) {
        if (plan->words[i] > tree_word(t, 16)) continue;
        compare_ranges(&wrapped, tag, plan, plan->words[i],
                       (struct stridec_launch){.extent = extent, .wrap = 1, .program = program});
        compare_ranges(&single, tag, plan, plan->words[i], (struct stridec_launch){.program = program});
    }
    free(wrapped.at);
    free(single.at);
}

/* ---- tests ---- */

static void test_special(void **state)
{
    for (size_t i = 0; i < CASES; i++) {
        char tag[16];
        snprintf(tag, sizeof tag, "%zu", i);
        current = cases[i].signature;
        if (cases[i].k.plan.family == GEN_GENERIC) {
            assert_string_equal(cases[i].k.source, generic.source);
            assert_non_null(strstr(cases[i].k.why, "interpreted"));
            continue;
        }
        if (cases[i].k.plan.words[0] != tree_word(cases[i].tree, 16))
            fail_msg("%s: words of %d B, tree_word says %d", current, cases[i].k.plan.words[0],
                     tree_word(cases[i].tree, 16));
        compare_kernel(cases[i].tree, tag, &cases[i].k.plan, 0);
    }
    (void)state;
}

static void test_interpreter(void **state)
{
    for (size_t i = 0; i < CASES; i++) {
        struct reason why;
        size_t words;
        current = cases[i].signature;
        int64_t *program = tree_program(cases[i].tree, &words, &why);
        assert_non_null(program);
        compare_kernel(cases[i].tree, "generic", &generic.plan, (uint64_t)(uintptr_t)program);
        free(program);
    }
    (void)state;
}

/* In sparse memory, of which a launch touches a few pages. */
static void look_far(const struct far *f, const char *tag, const struct gen_plan *plan, const struct tree *t)
{
    size_t span = (size_t)(t->high - t->low), bytes = (size_t)(f->end - f->begin);
    unsigned char *user = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(user, MAP_FAILED);
    unsigned char *got = malloc(bytes), *origin = user - t->low;
    for (int64_t p = f->begin; p < f->end; p++) origin[place(t, p)] = (unsigned char)(p * 7);
    for (int i = 0; i < plan->nwords; i++) {
        memset(got, 0, bytes);
        launch("pack", plan->words[i], tag, plan,
               (struct stridec_launch){.packed = (uint64_t)(uintptr_t)got,
                                       .user = (uint64_t)(uintptr_t)origin,
                                       .begin = f->begin,
                                       .end = f->end});
        for (size_t b = 0; b < bytes; b++) assert_int_equal(got[b], origin[place(t, f->begin + (int64_t)b)]);
    }
    free(got);
    munmap(user, span);
}

static void test_far(void **state)
{
    for (size_t i = 0; i < COUNT(far); i++) {
        struct reason why;
        struct tree *t = tree_parse(far[i].signature, &why);
        char tag[16];
        snprintf(tag, sizeof tag, "far%zu", i);
        assert_non_null(t);
        assert_int_equal(far_kernels[i].plan.index_bits, far[i].index_bits);
        look_far(&far[i], tag, &far_kernels[i].plan, t);
        tree_unref(t);
    }
    (void)state;
}

static void test_refusals(void **state)
{
    struct reason why = {""};
    struct gen *g = gen_open(&why);
    struct gen_kernel k;
    assert_non_null(g);
    assert_int_equal(gen_kernel(g, "s(1,", "cuda", &k, &why), -1);
    assert_true(why.text[0]);
    assert_int_equal(gen_kernel(g, "d(8)", "abacus", &k, &why), -1);
    assert_non_null(strstr(why.text, "abacus"));
    assert_null(k.source);
    assert_int_equal(gen_kernel(g, "d(0)", "cuda", &k, &why), 0);
    assert_int_equal(k.plan.family, GEN_CONTIGUOUS);
    gen_kernel_free(&k);
    gen_close(g);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special),
        cmocka_unit_test(test_interpreter),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
