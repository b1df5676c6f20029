/* test_attach.c: reading typed bytes of a process, this one itself, (runtime/node/cma.c). */
#include "../../runtime/node/peer_access.h"
#include "../../runtime/datatype/layout.h"
#include "trees.h"
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 1 << 22, SMALL = 4096 };

static struct peer *self;
static unsigned char *theirs, *own;

static struct peer_access_side side(unsigned char *at, struct tree *t, int64_t count, int64_t extent)
{
    return (struct peer_access_side){.user = (uint64_t)(uintptr_t)at, .tree = t, .count = count, .extent = extent};
}

/* The place of each packed byte. */
static struct bytes places(const struct peer_access_side *s, int64_t bytes)
{
    struct bytes b = {0};
    for (int64_t i = 0; s->tree && i < s->count; i++) bytes_of_node(&b, s->tree, i * s->extent);
    for (int64_t i = 0; !s->tree && i < bytes; i++) bytes_add(&b, i);
    assert_int_equal(b.count, bytes);
    return b;
}

/* Copies, and looks at every byte of `own`, those between included. */
static void copies(const struct peer_access_side *from, const struct peer_access_side *to, int64_t bytes)
{
    struct bytes f = places(from, bytes), t = places(to, bytes);
    unsigned char *expected = calloc(1, BYTES);
    assert_non_null(expected);
    memset(own, 0, BYTES);
    for (int64_t i = 0; i < bytes; i++)
        expected[(uint64_t)t.at[i] + to->user - (uintptr_t)own] = ((unsigned char *)(uintptr_t)from->user)[f.at[i]];
    assert_true(peer_access_copy(self, from, to, bytes));
    assert_memory_equal(own, expected, BYTES);
    free(expected), free(f.at), free(t.at);
}

static int start(void **state)
{
    (void)state;
    self = calloc(1, sizeof *self);
    self->file = calloc(1, sizeof *self->file);
    self->file->pid = getpid();
    peer_access_gap_run = 0;   /* lists of runs, whatever their length */
    theirs = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < BYTES; i++) theirs[i] = (unsigned char)(i * 7 + i / 251 + 1);
    return theirs == MAP_FAILED || own == MAP_FAILED;
}

static int end(void **state)
{
    (void)state;
    munmap(theirs, BYTES), munmap(own, BYTES);
    free(self->file), free(self);
    return 0;
}

/* From any layout to any other, in one batch and in many. */
static void test_any(void **state)
{
    (void)state;
    struct tree *few = parsed("s(60,100,d(40))"), *many = parsed("s(2400,24,d(20))"), *pairs = parsed("s(3000,24,d(8))");
    struct peer_access_side a = side(theirs, few, 20, 6000), b = side(own, many, 1, 0), flat = side(own, NULL, 0, 0);
    struct peer_access_side c = side(theirs + 5, pairs, 2, 80000), one = side(theirs + 9, NULL, 0, 0);
    const struct { struct peer_access_side from, to; } of[] = {{a, b}, {a, flat}, {c, b}, {c, flat}, {one, b}, {one, flat}};
    for (int run = 0; run <= 2048; run += 2048) {
        peer_access_gap_run = run;
        for (size_t i = 0; i < sizeof of / sizeof *of; i++) copies(&of[i].from, &of[i].to, 48000);
    }
    peer_access_gap_run = 0;
    assert_true(few->refs == 1 && many->refs == 1 && pairs->refs == 1);
    tree_unref(few), tree_unref(many), tree_unref(pairs);
}

/* Short runs are read with what lies between them: in far fewer than there are; up to where memory ends, and where a run is longer
 * than what is read at once. Those that lie far apart, or come in another order, go one by one. */
static void test_short(void **state)
{
    (void)state;
    static const struct { const char *tree; int64_t count, extent, bytes; bool merged; } of[] = {
        {"s(100000,8,d(4))", 2, 800000, 800000, true},
        {"s(300,4096,s(100,16,d(8)))", 1, 0, 240000, true},
        {"s(40,8192,s(100,8,d(2)))", 2, 400000, 16000, true},
        {"s(500,8000,d(4))", 1, 0, 2000, false},
        {"s(2,700000,q(d(500000),s(20000,4,d(1))@500100))", 1, 0, 1040000, true},
        {"q(s(4000,12,d(8)),s(1000,-40,d(4))@200000)", 3, 300000, 108000, true},
        {"s(3000,-16,d(4))@100000", 1, 0, 12000, false},
        {"s(4,2,s(500,9,d(2)))", 1, 0, 4000, true},
    };
    peer_access_gap_run = 2048;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char text[64];
        snprintf(text, sizeof text, "s(%d,300,d(100))", (int)of[i].bytes / 100);
        struct tree *t = parsed(of[i].tree), *apart = parsed(text);
        struct peer_access_side from = side(theirs, t, of[i].count, of[i].extent), flat = side(own + 7, NULL, 0, 0);
        struct peer_access_side laid = side(own, apart, 1, 0);
        long before = atomic_load(&peer_access_runs_read), runs = (long)(layout_runs(t) * of[i].count);
        copies(&from, &flat, of[i].bytes);
        long read = atomic_load(&peer_access_runs_read) - before;
        if ((read * 2 < runs) != of[i].merged) fail_msg("%s: %ld reads of %ld runs", of[i].tree, read, runs);
        copies(&from, &laid, of[i].bytes);
        tree_unref(t), tree_unref(apart);
    }
    peer_access_gap_run = 0;
}

/* Up to the last byte before a page that is not there. */
static void test_edge(void **state)
{
    (void)state;
    struct tree *t = parsed("s(2048,8,d(4))");
    unsigned char *at = mmap(NULL, 6 * SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct peer_access_side from = side(at + SMALL + 4, t, 1, 0), to = side(own, NULL, 0, 0);
    assert_true(at != MAP_FAILED);
    munmap(at, SMALL), munmap(at + 5 * SMALL, SMALL);
    peer_access_gap_run = 2048;
    copies(&from, &to, 2 * SMALL);
    munmap(at + 2 * SMALL, SMALL);
    assert_false(peer_access_copy(self, &from, &to, 2 * SMALL));
    munmap(at + SMALL, 4 * SMALL);
    peer_access_gap_run = 0;
    tree_unref(t);
}

/* Memory that is gone, at once or half-way, is told of. */
static void test_gone(void **state)
{
    (void)state;
    struct tree *t = parsed("s(2048,8,d(4))");
    unsigned char *at = mmap(NULL, 4 * SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct peer_access_side from = side(at, t, 1, 0), to = side(own, NULL, 0, 0);
    assert_true(at != MAP_FAILED);
    copies(&from, &to, 2 * SMALL);
    munmap(at + 2 * SMALL, 2 * SMALL);
    assert_false(peer_access_copy(self, &from, &to, 2 * SMALL));
    munmap(at, 2 * SMALL);
    assert_false(peer_access_copy(self, &from, &to, 2 * SMALL));
    assert_false(peer_access_copy(self, &from, &to, 2 * SMALL));
    assert_int_equal(t->refs, 1);
    tree_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any), cmocka_unit_test(test_gone),
                                       cmocka_unit_test(test_short), cmocka_unit_test(test_edge)};
    return cmocka_run_group_tests(tests, start, end);
}
