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
                              "#define __noinline__ __attribute__((noinline))\n"
                              "#define __launch_bounds__(threads)\n"
                              "extern \"C\" { struct uint3 { unsigned x, y, z; } blockIdx, threadIdx, gridDim; }\n"
                              "static inline void __syncthreads() {}\n"
                              "static inline void __threadfence() {}\n"
                              "static inline void __threadfence_system() {}\n"
                              "static inline long long clock64() { return 0; }\n"
                              "template <class T> static inline void atomicExch(T *p, T v) { *p = v; }\n"
                              "template <class T> static inline T atomicAdd(T *p, T v) { return (*p += v) - v; }\n"
                              "template <class T> static inline T __ldg(const T *p) { return *p; }\n"
                              "[[maybe_unused]] static inline unsigned long long __umul64hi(unsigned long long a, "
                              "unsigned long long b) { __extension__ typedef unsigned __int128 wide; "
                              "return (unsigned long long)((wide)a * b >> 64); }\n";

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
/* Parts, constants and lists; a dot stands for a list of its own (write_list). */
static const char *const irregular[] = {
    "q(d(16),d(8)@24,d(4)@40)",
    "i(d(24);0,40,104,300)",
    "s(50,128,q(d(8),s(3,16,d(8))@32))",
    "i(s(3,32,d(16));512,0,256)",
    "q(i(d(3);9,0,20),d(5)@31)",
    "s(6,96,s(2,48,i(d(8);0,16,32)))",
    "q(s(40,32,d(16)),i(s(2,-8,d(4))@8;2000,4000),q(d(1)@5000,d(2)@5003))@7",
    "s(500,24,q(d(8),d(4)@8,d(4)@12,d(1)@16))",       /* records of 17 B */
    "s(500,-24,d(17))",
    "i(q(d(8),d(1)@12,d(4)@16);.100)@8",
    "s(300,12,d(5))",
    "s(400,64,q(d(8),d(8)@16,d(8)@32,d(9)@48))",
    "s(3,16000,s(200,16,q(d(3),d(4)@4)))",
    "s(90,20,q(d(2),d(4)@6,d(2)@12))",
    "i(d(8);.100)",
    "i(d(24);.1000)@16",
    "i(s(3,64,d(4));.40)",
    "s(3,100000,i(d(16);.50))",
    "i(i(d(2);.20);.30)",
    "i(q(d(8),d(1)@12);.33)",
    "q(i(d(24);.50),i(d(8);.50)@40000,d(3)@39000,i(d(4);.17)@80000)",
    "b(.40)",
    "b(.700)",
    "b(.5000)",
    "i(b(.60);0,200000)",
    "s(2,70000,q(b(.50),d(8)@60000,i(d(4);.90)@62000))@3",
    "q(i(d(24);.17),i(d(8);.18)@4000,i(d(1);.19)@6000,i(d(4);.20)@7000,i(d(8);.21)@8000,i(d(8);.22)@9000,"
    "i(d(8);.23)@10000,i(d(8);.24)@11000,i(d(8);.25)@12000,i(d(8);.26)@13000)", /* more sizes than numbers */
    "s(3,90000,q(i(d(8);.17),i(d(8);.18)@4000,i(d(1);.19)@6000,i(d(4);.20)@7000,i(d(8);.21)@8000,i(d(8);.22)@9000,"
    "i(d(8);.23)@10000,i(d(8);.24)@11000,i(d(8);.25)@12000,i(d(8);.26)@13000,i(d(8);.27)@14000,i(d(8);.28)@15000,"
    "i(d(8);.29)@16000,i(d(8);.30)@17000))", /* more lists than numbers: one of blocks */
};
#define COUNT(a) (sizeof(a) / sizeof *(a))
#define RANDOM 24
#define RANDOM_TREES 40
#define CASES (COUNT(fixed) + COUNT(irregular) + RANDOM + RANDOM_TREES)

struct test_kernel {
    char *signature;
    struct tree *tree;
    struct form *form;
    void *lists;
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
} * block_index, *thread_index, *grid_size;
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

/* n offsets, or n blocks as parts, that do not overlap where their child's bytes are below `apart`. */
static void write_list(FILE *f, bool blocks, int64_t n, int64_t apart)
{
    int64_t at = draw(0, 3) * 8, grain = 1 << draw(0, 4), long_ones = draw(0, 9);
    for (int64_t i = 0; i < n; i++) {
        int64_t length = grain * (blocks && draw(0, 19) < long_ones ? draw(1, 300) : draw(1, 3));
        fprintf(f, blocks ? "%sd(%lld)" : "%s", i ? "," : "", (long long)length);
        if (!blocks)
            fprintf(f, "%lld", (long long)at);
        else if (at)
            fprintf(f, "@%lld", (long long)at);
        at += (blocks ? length : apart) + grain * draw(0, 5);
        if (draw(0, 30) == 0) at -= grain * draw(0, 400);
    }
}

/* The signature with its dots written out. */
static char *with_lists(const char *text)
{
    char *whole = NULL, *end;
    size_t bytes;
    FILE *f = open_memstream(&whole, &bytes);
    assert_non_null(f);
    for (const char *at = text; *at; at++) {
        if (*at != '.') {
            fputc(*at == 'b' ? 'q' : *at, f);
            continue;
        }
        write_list(f, at[-1] == '(', strtoll(at + 1, &end, 10), draw(0, 1) * (draw(0, 2) ? 400 : 3000));
        at = end - 1;
    }
    assert_int_equal(fclose(f), 0);
    return whole;
}

/* A tree of any nodes, about `room` bytes. */
static void random_node(FILE *f, int depth, int64_t grain, int64_t off)
{
    int kind = depth ? (int)draw(0, 4) : 0, n = (int)draw(2, 5);
    if (kind == 0) fprintf(f, "d(%lld)", (long long)(grain * draw(1, 9)));
    if (kind == 1) {
        fprintf(f, "s(%d,%lld,", n, (long long)(grain * draw(-40, 400)));
        random_node(f, depth - 1, grain, 0);
        fputc(')', f);
    }
    if (kind == 2) {
        if (draw(0, 2) == 0) n = (int)draw(33, 60);
        fputs("q(", f);
        for (int i = 0; i < n; i++) {
            fputs(i ? "," : "", f);
            random_node(f, n > 30 ? draw(0, 5) == 0 : depth - 1, grain, grain * draw(-100, 900));
        }
        fputc(')', f);
    }
    if (kind >= 3) {
        if (draw(0, 1)) n = (int)draw(17, 40);
        fputs("i(", f);
        random_node(f, depth - 1, grain, 0);
        for (int i = 0; i < n; i++) fprintf(f, "%c%lld", i ? ',' : ';', (long long)(grain * draw(-100, 3000)));
        fputc(')', f);
    }
    if (off) fprintf(f, "@%lld", (long long)off);
}

static char *random_signature(void)
{
    char *whole = NULL;
    size_t bytes;
    FILE *f = open_memstream(&whole, &bytes);
    assert_non_null(f);
    random_node(f, (int)draw(1, 3), 1 << draw(0, 4), 0);
    assert_int_equal(fclose(f), 0);
    return whole;
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
    fprintf(f, "#undef stridec_pack_marked\n#undef stridec_unpack_marked\n"
            "#define stridec_pack_marked pack_marked_%s\n#define stridec_unpack_marked unpack_marked_%s\n", tag, tag);
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
    const char *flags = "-fsanitize=alignment -fsanitize-undefined-trap-on-error";   /* as a GPU does */
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
    grid_size = dlsym(module, "gridDim");
    unlink(source);
    unlink(object);
    rmdir(folder);
}

/* Threads run one after another here: no tiles, which threads exchange (test_knobs.c). */
static const char *const direct[2] = {"move=direct", "move=direct"};

static int setup(void **state)
{
    struct reason why = {""};
    struct gen *g = gen_open(&why);
    if (!g) fail_msg("%s", why.text);
    if (getenv("TEST_SEED")) seed = strtoull(getenv("TEST_SEED"), NULL, 10);
    for (size_t i = 0; i < CASES; i++) {
        cases[i].signature = i < COUNT(fixed)                               ? strdup(fixed[i])
                             : i < COUNT(fixed) + COUNT(irregular)          ? with_lists(irregular[i - COUNT(fixed)])
                             : i < COUNT(fixed) + COUNT(irregular) + RANDOM ? random_chain()
                                                                            : random_signature();
        size_t bytes;
        cases[i].tree = tree_parse(cases[i].signature, &why);
        cases[i].form = cases[i].tree ? form_of(cases[i].tree, &why) : NULL;
        if (!cases[i].form || gen_kernel_form(g, cases[i].form, "cuda", direct, &cases[i].k, &why))
            fail_msg("%.1000s: %s", cases[i].signature, why.text);
        cases[i].lists = form_lists(cases[i].form, &bytes, &why);
        if (!cases[i].lists && bytes) fail_msg("%.1000s: %s", cases[i].signature, why.text);
    }
    for (size_t i = 0; i < COUNT(far); i++)
        if (gen_kernel(g, far[i].signature, "cuda", NULL, &far_kernels[i], &why))
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
        form_free(cases[i].form);
        free(cases[i].lists);
        tree_unref(cases[i].tree);
        gen_kernel_free(&cases[i].k);
    }
    for (size_t i = 0; i < COUNT(far); i++) gen_kernel_free(&far_kernels[i]);
    gen_kernel_free(&generic);
    if (module) dlclose(module);
    (void)state;
    return 0;
}

/* ---- running them ---- */

/* The whole grid plus one block too many, or any smaller grid. */
static void launch(const char *way, int width, const char *tag, const struct gen_plan *plan, struct stridec_launch a)
{
    char name[64];
    snprintf(name, sizeof name, "%s_w%d_%s", way, width, tag);
    void (*kernel)(struct stridec_launch);
    *(void **)&kernel = dlsym(module, name);
    if (!kernel) fail_msg("no entry %s", name);
    const struct gen_way *how = &plan->way[*way == 'u'];
    int64_t block = gen_block_words(how, width);
    int64_t words = (a.end - a.begin) / width;
    int64_t whole = (words + block - 1) / block + 1, grid = draw(0, 1) ? whole : draw(1, whole);
    grid_size->x = (unsigned)grid;
    for (int64_t b = 0; b < grid; b++) {
        for (int t = 0; t < how->threads; t++) {
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
        fail_msg("%.1000s: wrong bytes, %s, words of %d B, [%lld, %lld), extent %lld, wrap %lld", current, way, width,
                 (long long)a.begin, (long long)a.end, (long long)a.extent, (long long)a.wrap);
}

/* An entry of width W on packed bytes [begin, end), both ways, in buffers at multiples of W. */
static void compare(const struct stream *s, const char *tag, const struct gen_plan *plan, int width,
                    struct stridec_launch a)
{
    size_t span = (size_t)(s->high - s->low) + 64, bytes = (size_t)(a.end - a.begin);
    unsigned char *user = random_bytes(span), *want = malloc(bytes), *packed = malloc(bytes + 16);
    unsigned char *got = packed + draw(0, 15 / width) * width;
    int64_t skew = draw(0, 1) * draw(0, 15 / width) * width;
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
    free(packed);
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

/* One kernel on one tree: each word width, elements apart and touching. `form`: of the numbers, where it has any. */
static void compare_kernel(const struct tree *t, const char *tag, const struct gen_plan *plan, const void *program,
                           const struct form *form)
{
    bool goes_on = t->kind == TREE_STRIDE || t->kind == TREE_DENSE;
    int64_t apart = ((t->high - t->low + 15) & ~(int64_t)15) + 16 * draw(0, 3), odd = apart + draw(1, 15);
    int64_t count = draw(1, 4), tight = draw(1, t->high - t->low);
    int64_t extents[] = {apart, -apart, odd, -odd, tight, -tight}, extent = extents[draw(0, 1) ? 0 : draw(0, 5)];
    struct stream wrapped = stream_of(t, count, extent);
    struct stream single = stream_of(t, goes_on ? draw(1, 3) : 1, 0);
    for (int i = 0; i < plan->nwords; i++) {
        struct stridec_launch a = {.program = (uint64_t)(uintptr_t)program};
        if (plan->words[i] > tree_word(t, 16)) continue;
        if (form) form_numbers(form, plan->words[i], a.number);
        compare_ranges(&single, tag, plan, plan->words[i], a);
        a.extent = extent;
        a.wrap = 1;
        if (extent % plan->words[i] == 0) compare_ranges(&wrapped, tag, plan, plan->words[i], a);
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
        assert_int_equal(cases[i].k.plan.family, form_family(cases[i].form));
        if (cases[i].k.plan.family == GEN_GENERIC) fail_msg("%.1000s is only interpreted", current);
        /* Strided layouts of short blocks are planned in narrower words than could be. */
        int widest = cases[i].k.plan.words[0], possible = tree_word(cases[i].tree, 16);
        if (widest != possible && !(tree_is_strided(cases[i].tree) && widest == 8 && possible == 16))
            fail_msg("%s: words of %d B, tree_word says %d", current, cases[i].k.plan.words[0],
                     tree_word(cases[i].tree, 16));
        compare_kernel(cases[i].tree, tag, &cases[i].k.plan, cases[i].lists, cases[i].form);
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
        compare_kernel(cases[i].tree, "generic", &generic.plan, program, NULL);
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
    assert_int_equal(gen_kernel(g, "s(1,", "cuda", NULL, &k, &why), -1);
    assert_true(why.text[0]);
    assert_int_equal(gen_kernel(g, "d(8)", "abacus", NULL, &k, &why), -1);
    assert_non_null(strstr(why.text, "abacus"));
    assert_null(k.source);
    assert_int_equal(gen_kernel(g, "d(0)", "cuda", NULL, &k, &why), 0);
    assert_int_equal(k.plan.family, GEN_CONTIGUOUS);
    gen_kernel_free(&k);
    gen_close(g);
    (void)state;
}

/* Signature of a form, and the family. */
static void assert_form(const char *signature, const char *form, enum gen_family family)
{
    struct reason why;
    struct tree *t = tree_parse(signature, &why);
    struct form *f = t ? form_of(t, &why) : NULL;
    if (!f) fail_msg("%.200s: %s", signature, why.text);
    assert_string_equal(form_signature(f), form);
    assert_int_equal(form_family(f), family);
    form_free(f);
    tree_unref(t);
}

static void test_forms(void **state)
{
    static const struct {
        const char *with_dots, *form;
        enum gen_family family;
    } like[] = {
        /* With and without a few more offsets: one module. */
        {"i(d(8);.100)", "i(d(8);#4:2*8)~1048576/8", GEN_INDEXED},
        {"i(d(8);.120)", "i(d(8);#4:2*8)~1048576/8", GEN_INDEXED},
        {"s(3,100000,i(d(8);.50))", "s(3,100000,i(d(8);#4:2*8))~1048576/8", GEN_INDEXED},
    };
    assert_form("s(3,64,d(8))@8", "s(3,64,d(8))", GEN_STRIDED);
    assert_form("d(8)@8", "d(8)", GEN_CONTIGUOUS);
    assert_form("s(9,24,q(d(8),d(9)@8))@3", "s(9,24,q(d(8),d(9)@8))", GEN_STRUCT);
    assert_form("i(d(3);9,0,20)", "i(d(3);9,0,20)", GEN_STRUCT);
    for (size_t i = 0; i < COUNT(like); i++) {
        char text[4096] = "";
        const char *dot = strchr(like[i].with_dots, '.'), *rest = strchr(dot, ')');
        size_t used = (size_t)(dot - like[i].with_dots);
        memcpy(text, like[i].with_dots, used);
        for (long long e = 0, at = 0; e < strtoll(dot + 1, NULL, 10); e++, at += 8 * draw(1, 2) + 8)
            used += (size_t)sprintf(text + used, "%s%lld", e ? "," : "", at);
        strcpy(text + used, rest);
        assert_form(text, like[i].form, like[i].family);
    }
    (void)state;
}

/* A list of a million blocks takes no more than 8 bytes a block and 4 KiB, and its source does not grow. */
static void test_large(void **state)
{
    enum { BLOCKS = 1000000 };
    struct reason why;
    struct tree **part = malloc(BLOCKS * sizeof *part);
    size_t bytes;
    int64_t at = 0;
    for (int i = 0; i < BLOCKS; i++) {
        int64_t length = 8 * (draw(0, 99) ? draw(1, 4) : draw(1, 4000));
        part[i] = tree_dense(at, length, &why);
        at += length + 8 * draw(1, 9);
    }
    struct tree *t = tree_seq(0, BLOCKS, part, &why);
    struct form *f = form_of(t, &why);
    void *lists = form_lists(f, &bytes, &why);
    assert_non_null(lists);
    assert_in_range(bytes, BLOCKS, 8 * BLOCKS + 4096);
    assert_true(strlen(form_signature(f)) < 100);
    assert_int_equal(form_family(f), GEN_INDEXED);
    free(lists);
    form_free(f);
    tree_unref(t);
    free(part);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special),
        cmocka_unit_test(test_interpreter),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
