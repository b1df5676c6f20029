/* test_lists.c: lists in device memory: which code they take, what kernels read from them, how large they are and how
 * far a thread searches. The code that reads is cut out of emitted kernels and compiled for the host; so lists may lie
 * as far apart as offsets can say. TEST_SEED picks the random ones. */
#include "../../gen/embed.h"
#include "../../gen/form.h"
#include "trees.h"
#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define GROUP ((int64_t)1 << FORM_GROUP)

/* ---- lists: the value at place i, in units ---- */

static int64_t climbing(int64_t i) { return 3 * i; }
static int64_t falling(int64_t i) { return -5 * i; }
static int64_t twice(int64_t i) { return i / 2 * 7 - i % 2; }
static int64_t dense_groups(int64_t i) { return i / GROUP * ((int64_t)1 << 35) + i % GROUP * 11; }
static int64_t sparse_groups(int64_t i) { return i / GROUP * ((int64_t)1 << 45) - i % GROUP * 59999999; }
/* The last of each group lies `most` above its first; the second group begins `far` away. */
static int64_t limit(int64_t i, int64_t most, int64_t far)
{
    return i / GROUP * far + (i % GROUP == GROUP - 1 ? most : i % GROUP * 3);
}
static int64_t two_bytes(int64_t i) { return limit(i, 65535, 100000); }
static int64_t past_two_bytes(int64_t i) { return limit(i, 65536, 100000); }
static int64_t two_bytes_far(int64_t i) { return limit(i, 65535, (int64_t)1 << 31); }
static int64_t four_bytes_far(int64_t i) { return limit(i, UINT32_MAX, (int64_t)1 << 50); }
static int64_t past_four_bytes(int64_t i) { return limit(i, (int64_t)UINT32_MAX + 1, 100); }
/* The third place is at the far end, the fourth at the other. */
static int64_t ends(int64_t i, int64_t low, int64_t high) { return i == 2 ? low : i == 3 ? high : i * 9; }
static int64_t ends_32(int64_t i) { return ends(i, INT32_MIN, INT32_MAX); }
static int64_t past_32_above(int64_t i) { return ends(i, 0, (int64_t)INT32_MAX + 1); }
static int64_t past_32_below(int64_t i) { return ends(i, (int64_t)INT32_MIN - 1, 0); }
static int64_t ends_40(int64_t i) { return ends(i, -((int64_t)1 << 39), ((int64_t)1 << 39) - 1); }
static int64_t past_40_above(int64_t i) { return ends(i, 0, (int64_t)1 << 39); }
static int64_t past_40_below(int64_t i) { return ends(i, -((int64_t)1 << 39) - 1, 0); }
static int64_t widest(int64_t i) { return ends(i, -((int64_t)1 << 62), (int64_t)1 << 62); }

enum { SHORT = 4 }; /* blocks are of this many units at most, but for some */
static const struct {
    int64_t (*value)(int64_t i);
    int64_t count, unit;
    const char *code;
    int64_t longest;   /* block, in units */
    int start;         /* bytes of a block's start */
} lists[] = {
    {climbing, 33, 8, "4:2", SHORT, 2}, {climbing, 64, 1, "4:2", SHORT, 2},
    {climbing, 65, 16, "4:2", SHORT, 2}, {climbing, 5000, 4, "4:2", SHORT, 2},
    {falling, 128, 2, "4:2", SHORT, 2}, {falling, 1001, 8, "4:2", SHORT, 2},
    {twice, 40, 1, "4:2", SHORT, 2}, {twice, 1000, 8, "4:2", SHORT, 2},
    {two_bytes, 128, 1, "4:2", SHORT, 2}, {two_bytes, 100, 8, "4:2", SHORT, 2},
    {past_two_bytes, 128, 1, "4", SHORT, 2}, {past_two_bytes, 3000, 8, "4", SHORT, 2},
    {dense_groups, 65, 8, "8:2", SHORT, 2}, {dense_groups, 1000, 1, "8:2", SHORT, 2},
    {two_bytes_far, 192, 4, "8:2", SHORT, 2}, {ends_32, 40, 16, "4", SHORT, 2},
    {past_32_above, 40, 1, "8:4", SHORT, 2}, {past_32_below, 99, 8, "8:4", SHORT, 2},
    {sparse_groups, 1000, 8, "8:4", SHORT, 2}, {four_bytes_far, 128, 1, "8:4", SHORT, 2},
    {past_four_bytes, 128, 8, "1:4", SHORT, 2}, {ends_40, 40, 8, "1:4", SHORT, 2},
    {ends_40, 5000, 1, "1:4", SHORT, 2}, {past_40_above, 65, 4, "8", SHORT, 2},
    {past_40_below, 50, 8, "8", SHORT, 2}, {widest, 40, 1, "8", SHORT, 2},
    /* Long blocks: a few, then within 7.5 bytes a block, then past that. */
    {ends_32, 3000, 4, "4", 1 << 20, 4},     {climbing, 6000, 2, "4:2", 1 << 17, 4},
    {ends_32, 6000, 16, "4", 1 << 20, 3},    {four_bytes_far, 9000, 1, "8:4", 1 << 19, 3},
    {ends_32, 20000, 8, "4", 1 << 23, 4},    {ends_40, 6000, 1, "1:4", 1 << 15, 3},
    {ends_40, 6000, 8, "1:4", 1 << 22, 4},   {widest, 6000, 1, "8", 1 << 15, 3},
};

/* ---- trees of them ---- */

/* As an index, or as a seq of blocks of which block i lies value(i) further on than in the packed stream. */
static struct tree *tree_of(size_t k, bool blocks)
{
    int64_t n = lists[k].count, unit = lists[k].unit, packed = 0, *at = malloc((size_t)n * sizeof *at);
    struct tree **part = malloc((size_t)n * sizeof *part), *t;
    for (int64_t i = 0; i < n; i++) {
        int64_t most = lists[k].longest > SHORT || random_from(0, 30) ? lists[k].longest : 3000;
        int64_t length = unit * (i ? random_from(1, most) : 1);
        at[i] = lists[k].value(i) * unit;
        if (blocks) part[i] = made(tree_dense(at[i] + packed, length, &trees_why));
        packed += length;
    }
    t = made(blocks ? tree_seq(0, n, part, &trees_why)
                    : tree_index(0, n, at, made(tree_dense(0, 16, &trees_why)), &trees_why));
    free(part);
    free(at);
    return t;
}

struct listed {
    struct tree *tree;
    struct form *form;
    char *bytes;
    size_t size;
};

static struct listed listed_of(struct tree *t)
{
    struct listed l = {.tree = t, .form = form_of(t, &trees_why)};
    assert_non_null(l.form);
    l.bytes = form_lists(l.form, &l.size, &trees_why);
    if (!l.bytes) fail_msg("%s has no list", form_signature(l.form));
    return l;
}

static void listed_free(struct listed *l)
{
    free(l->bytes);
    form_free(l->form);
    tree_unref(l->tree);
}

/* ---- the code that reads ---- */

struct launch {
    uint64_t program, number[GEN_NUMBERS_MAX];
};
typedef long long reader(const struct launch *a, unsigned long long copy, unsigned long long rest);
static struct listed all[COUNT(lists)][2];
static reader *readers[COUNT(lists)][2];
static void *module;

static const char prelude[] =
    "#define __device__\n"
    "#define __forceinline__ inline\n"
    "template <class T> static inline T __ldg(const T *p) { return *p; }\n"
    "[[maybe_unused]] static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)\n"
    "{ __extension__ typedef unsigned __int128 wide; return (unsigned long long)((wide)a * b >> 64); }\n"
    "struct stridec_launch { unsigned long long program, number[32]; };\n";

/* The last sum in the source that mentions `what`: of words of one byte. */
static void write_reader(FILE *f, const char *source, const char *what, const char *tag)
{
    static const char sum[] = "offset += ";
    const char *at = NULL;
    for (const char *p = source; (p = strstr(p, sum)); p++)
        if (memmem(p, strcspn(p, ";"), what, strlen(what))) at = p + strlen(sum);
    if (!at) fail_msg("no %s in the kernel", what);
    fprintf(f,
            "extern \"C\" long long %s(const stridec_launch &a, unsigned long long copy, unsigned long long rest)\n"
            "{ unsigned int before, after; (void)copy, (void)rest, (void)before, (void)after; return %.*s; }\n",
            tag, (int)strcspn(at, ";"), at);
}

static void write_readers(FILE *f)
{
    struct gen *g = gen_open(&trees_why);
    const struct embedded *e = embedded_find("templates/lists.cuh");
    assert_true(g && e);
    fprintf(f, "%s%.*s", prelude, (int)e->size, e->text);
    for (size_t i = 0; i < 2 * COUNT(lists); i++) {
        struct gen_kernel k;
        char tag[32];
        snprintf(tag, sizeof tag, "read_%zu_%zu", i / 2, i % 2);
        if (gen_kernel_form(g, all[i / 2][i % 2].form, "cuda", NULL, &k, &trees_why)) fail_msg("%s", trees_why.text);
        write_reader(f, k.source, i % 2 ? "stridec_block<" : "stridec_list<", tag);
        gen_kernel_free(&k);
    }
    gen_close(g);
}

static int setup(void **state)
{
    char folder[] = "/tmp/test_lists.XXXXXX", source[64], object[64], command[256];
    (void)state;
    random_begin("test_lists");
    for (size_t i = 0; i < 2 * COUNT(lists); i++) all[i / 2][i % 2] = listed_of(tree_of(i / 2, i % 2));
    assert_non_null(mkdtemp(folder));
    snprintf(source, sizeof source, "%s/all.cpp", folder);
    snprintf(object, sizeof object, "%s/all.so", folder);
    FILE *f = fopen(source, "w");
    assert_non_null(f);
    write_readers(f);
    assert_int_equal(fclose(f), 0);
    snprintf(command, sizeof command, "g++ -std=c++17 -O1 -fno-strict-aliasing -Wall -Wextra -Werror -fPIC -shared "
             "%s -o %s", source, object);
    assert_int_equal(system(command), 0);
    module = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (!module) fail_msg("%s", dlerror());
    for (size_t i = 0; i < 2 * COUNT(lists); i++) {
        char tag[32];
        snprintf(tag, sizeof tag, "read_%zu_%zu", i / 2, i % 2);
        *(void **)&readers[i / 2][i % 2] = dlsym(module, tag);
        assert_non_null(readers[i / 2][i % 2]);
    }
    unlink(source);
    unlink(object);
    rmdir(folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(lists); i++) listed_free(&all[i / 2][i % 2]);
    dlclose(module);
    return 0;
}

/* ---- tests ---- */

static void codes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lists); i++) {
        char index[64], blocks[64];
        snprintf(index, sizeof index, "i(d(16);#%s*%d)~", lists[i].code, (int)lists[i].unit);
        bool is_long = all[i][1].tree->size >= lists[i].count * 64;
        snprintf(blocks, sizeof blocks, "b(#%d+%s*%d%s)~", lists[i].start, lists[i].code, (int)lists[i].unit,
                 is_long ? "l" : "");
        assert_memory_equal(form_signature(all[i][0].form), index, strlen(index));
        if (lists[i].value != twice && lists[i].count > 1)
            assert_memory_equal(form_signature(all[i][1].form), blocks, strlen(blocks));
    }
}

struct read {
    reader *read;
    struct launch a;
};

/* The first, the last and some other byte of a block. */
static int read_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    const struct read *r = arg;
    const int64_t bytes[] = {packed, packed + len - 1, packed + random_from(0, len - 1)};
    for (int i = 0; i < 3; i++) assert_int_equal(r->read(&r->a, 0, (unsigned long long)bytes[i]), user - packed);
    return 0;
}

static void read_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lists); i++) {
        struct read r = {.read = readers[i][0], .a = {.program = (uint64_t)(uintptr_t)all[i][0].bytes}};
        form_numbers(all[i][0].form, 1, r.a.number);
        for (int64_t j = 0; j < lists[i].count; j++)
            assert_int_equal(r.read(&r.a, (unsigned long long)j, 0), lists[i].value(j) * lists[i].unit);
        r = (struct read){.read = readers[i][1], .a = {.program = (uint64_t)(uintptr_t)all[i][1].bytes}};
        form_numbers(all[i][1].form, 1, r.a.number);
        tree_walk(all[i][1].tree, 1, 0, 0, all[i][1].tree->size, read_run, &r);
    }
}

/* n blocks of 1 to `longest` units, evenly by their logarithms, up to `gap` units apart, either way. */
static struct tree *random_blocks(int64_t n, int64_t longest, int64_t gap)
{
    struct tree **part = malloc((size_t)n * sizeof *part), *t;
    int64_t at = 0, unit = (int64_t)1 << random_from(0, 4);
    for (int64_t i = 0; i < n; i++) {
        int64_t most = (int64_t)1 << random_from(0, 63 - __builtin_clzll((unsigned long long)longest));
        int64_t length = unit * random_from((most + 1) / 2, most);
        part[i] = made(tree_dense(at, length, &trees_why));
        at += length + unit * random_from(1, gap);
        if (random_from(0, 20) == 0) at -= unit * random_from(1, 40 * gap);
    }
    t = made(tree_seq(0, n, part, &trees_why));
    free(part);
    return t;
}

static int steps_of(int64_t candidates)
{
    int steps = 0;
    while ((int64_t)1 << steps < candidates) steps++;
    return steps;
}

/* The most that ten blocks may take, but for 4 KiB in all. */
static int64_t tenfold(const struct form_node *b, int64_t units)
{
    if (b->code->entry == 8) return 120;
    if (b->code->base != 1) return units / b->blocks < 1 << 19 ? 75 : 82;
    if (units / b->blocks < 1 << 12) return 75;
    return units < (int64_t)1 << 33 ? 80 : 90;
}

/* What form.h says of memory and searches, of whatever comes. */
static void bounds(void **state)
{
    (void)state;
    for (int round = 0; round < 120; round++) {
        int64_t n = (int64_t)1 << random_from(6, 15), longest = (int64_t)1 << random_from(0, 26);
        struct listed l = listed_of(random_blocks(n + random_from(0, n), longest, (int64_t)1 << random_from(2, 32)));
        const struct form_node *b = l.form->root;
        assert_int_equal(b->kind, FORM_BLOCKS);
        int64_t units = l.tree->size / b->unit, shift = l.form->number[b->number + FORM_SHIFT].value;
        assert_in_range(l.size, b->blocks * 4, b->blocks * tenfold(b, units) / 10 + 4096 + 3 * 16);
        assert_true((int64_t)1 << shift <= 24 * units / b->blocks || (int64_t)1 << shift <= units / 500);
        const uint32_t *head = (const uint32_t *)(l.bytes + l.form->number[b->number + FORM_AT].value);
        for (int64_t c = 0; c + 1 < b->chunks; c++)
            assert_in_range(steps_of(head[c + 1] - head[c] + 1), 0,
                            shift + 1 < steps_of(b->blocks) ? shift + 1 : steps_of(b->blocks));
        listed_free(&l);
    }
}

/* Lists of offsets never take more than 5 bytes each, but past 40 bits. */
static void offsets_bound(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lists); i++) {
        const struct form_code *c = all[i][0].form->root->code;
        assert_in_range(all[i][0].size, lists[i].count * c->entry, lists[i].count * (c->entry == 8 ? 8 : 5) + 32);
    }
}

/* In host memory: of runs of blocks of one length each, the sections of pieces; none: the blocks stay whole. */
static const struct {
    int64_t blocks[4], length[4];
    int64_t sections, piece[2], count[2];
} cut[] = {
    {{98, 100}, {24, 4}, 2, {24, 4}, {98, 100}},      /* the second batch ends early */
    {{74, 100}, {24, 4}, 2, {24, 4}, {74, 100}},      /* a few blocks go on with the first one's pieces, ... */
    {{15, 100}, {24, 4}, 1, {4}, {15 * 6 + 100}},       /* ... and are worth no section of their own */
    {{16, 100}, {24, 4}, 2, {24, 4}, {16, 100}},
    {{64, 64}, {4, 24}, 2, {4, 24}, {64, 64}},
    {{20, 1, 43}, {48, 24, 48}, 2, {48, 24}, {20, 1 + 43 * 2}},
    {{40, 30}, {8, 9}, 0, {0}, {0}},                  /* 9 bytes are no pieces */
};

static void sections(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cut); i++) {
        struct tree *part[256];
        int64_t n = 0, at = 0;
        for (int r = 0; r < 4; r++)
            for (int64_t k = 0; k < cut[i].blocks[r]; k++, at += cut[i].length[r] + 4 * random_from(1, 50))
                part[n++] = made(tree_dense(at, cut[i].length[r], &trees_why));
        struct listed l = listed_of(made(tree_seq(0, n, part, &trees_why)));
        struct stridec_host_list *h = form_host_lists(l.form, &trees_why);
        assert_non_null(h);
        assert_int_equal(h->sections, cut[i].sections);
        assert_true(!h->section == !cut[i].sections && !h->start == !!cut[i].sections);
        for (int64_t k = 0; k < h->sections; k++) {
            assert_int_equal(h->section[k].piece, cut[i].piece[k]);
            assert_int_equal(h->section[k].count, cut[i].count[k]);
            assert_int_equal((uintptr_t)((const char *)h->at + h->section[k].first * h->entry) % 64, 0);
        }
        free(h);
        listed_free(&l);
    }
}

/* Arrays of the same atoms: sections of them share their entries, which count atoms. */
static const struct {
    int64_t runs;
    int lengths[8];
    int64_t others, shared;   /* shared: sections */
} arrays[] = {
    {70, {24, 4, 4, 4, 8, 4}, 0, 6},
    {32, {4, 24, 8, 16}, 0, 4},
    {50, {8, 8, 8}, 0, 3},
    {120, {12, 4}, 40, 2},
    {40, {24, 24}, 79, 2},
    {40, {24, 24}, 81, 0},               /* less than half of the list */
    {31, {24, 4, 8}, 0, 0},              /* too few to be worth it */
    {60, {20, 20, 20}, 0, 0},            /* nothing but pieces of 4 would do, and there are some of 20 */
    {60, {8, 8, 8, 40}, 0, 3},           /* no code for atoms of 40 */
};

static void shared(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(arrays); i++) {
        int64_t atoms, packed = 0, wanted = arrays[i].shared;
        struct listed l = listed_of(properties_tree(arrays[i].runs, arrays[i].lengths, arrays[i].others, &atoms));
        struct stridec_host_list *h = form_host_lists(l.form, &trees_why);
        assert_non_null(h);
        assert_true(h->section && h->sections >= wanted);
        for (int64_t k = 0; k < h->sections; k++) {
            const struct stridec_host_section *s = &h->section[k];
            assert_int_equal(s->start, packed);
            packed += s->count * s->piece;
            if (k < wanted) {
                assert_int_equal(s->piece, arrays[i].lengths[k]);
                assert_int_equal(s->step, s->piece);
                assert_int_equal(s->first, 0);
                assert_int_equal(s->count, atoms);
            } else {
                assert_int_equal(s->step, l.form->root->unit);
                assert_int_equal(s->origin, 0);
                int64_t last = k == 0 ? 0 : k == wanted ? atoms : s[-1].first + s[-1].count;
                assert_int_equal(s->first, (last + 15) / 16 * 16);
            }
        }
        assert_int_equal(packed, l.tree->size);
        if (wanted == h->sections) assert_int_equal(h->count, atoms);
        free(h);
        listed_free(&l);
    }
}

/* ---- without memory ---- */

#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__
extern void *__libc_malloc(size_t bytes);
static long left;   /* the left'th allocation from now on fails; 0: none */

void *malloc(size_t bytes)
{
    return left && --left == 0 ? NULL : __libc_malloc(bytes);
}

/* What was found to be shared before is not when memory is short: none of it lies past the end. */
static void short_of_memory(void **state)
{
    (void)state;
    int64_t atoms;
    struct listed l = listed_of(properties_tree(arrays[0].runs, arrays[0].lengths, arrays[0].others, &atoms));
    for (bool failed = true; failed;) {
        static long which;
        left = ++which;
        struct stridec_host_list *h = form_host_lists(l.form, &trees_why);
        failed = left == 0, left = 0;
        const char *past = h ? (char *)h + malloc_usable_size(h) : NULL;
        assert_true(h || failed);
        assert_true(!h || (const char *)h->at + (h->count + 32) * h->entry <= past);
        assert_true(!h || (const char *)(h->section + h->sections) <= past);
        free(h);
    }
    listed_free(&l);
}
#else
static void short_of_memory(void **state) { (void)state; }
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes),
        cmocka_unit_test(read_back),
        cmocka_unit_test(bounds),
        cmocka_unit_test(offsets_bound),
        cmocka_unit_test(sections),
        cmocka_unit_test(shared),
        cmocka_unit_test(short_of_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
