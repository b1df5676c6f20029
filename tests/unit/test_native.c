/* test_native.c: packing and copying in host memory: the walk over random trees and compiled code for some, both ways, in any
 * range, between guards, against the naive enumerator; and what becomes of it without a compiler, with one that
 * fails or hangs, and with a cache that is damaged or not to be trusted. */
#include "../../gen/pack.h"
#include "../../runtime/kernel/module_cache.h"
#include "../../runtime/hostpack/host_compiler.h"
#include "../../runtime/kernel/cores.h"
#include "../../runtime/kernel/kernel_internal.h"
#include "../../runtime/base/log.h"
#include "../../runtime/hostpack/host_pack_internal.h"
#include "../../runtime/hostpack/host_pack.h"
#include "trees.h"
#include "child.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define GUARD 64
static char base[] = "/tmp/stridec-native-XXXXXX";

/* ---- what is compared ---- */

struct sample {
    struct tree *tree;
    int64_t count, extent, low, high;
    struct bytes want;    /* where the packed bytes of all elements lie */
    bool overlaps;
    struct layout *layout; /* NULL: the walk */
};

static void sample_make(struct sample *s, struct tree *t, int64_t count, int64_t extent)
{
    *s = (struct sample){.tree = t, .count = count, .extent = extent};
    for (int64_t e = 0; e < count; e++) bytes_of_node(&s->want, t, e * extent);
    for (int64_t i = 0; i < s->want.count; i++) {
        int64_t at = s->want.at[i];
        s->low = i == 0 || at < s->low ? at : s->low;
        s->high = i == 0 || at >= s->high ? at + 1 : s->high;
    }
    char *seen = calloc(1, (size_t)(s->high - s->low) + 1);
    for (int64_t i = 0; i < s->want.count; i++) s->overlaps |= seen[s->want.at[i] - s->low]++ != 0;
    free(seen);
}

static void sample_free(struct sample *s)
{
    layout_unref(s->layout);
    tree_unref(s->tree);
    free(s->want.at);
}

static void sample_compile(struct sample *s)
{
    struct layout *l = s->layout = layout_new();
    l->tree = made(tree_canonical(s->tree, &trees_why));
    l->size = l->tree->size, l->extent = s->extent, l->low = l->tree->low, l->high = l->tree->high;
    l->kernel = l->size ? kernel_get(l->tree, &trees_why) : NULL;
}

static unsigned char *randomized(unsigned char *p, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) p[i] = (unsigned char)random_from(0, 255);
    return p;
}

static unsigned char *random_bytes(int64_t bytes)
{
    return randomized(malloc((size_t)bytes), bytes);
}

/* So many bytes, behind which is nothing that may be read. */
struct room {
    unsigned char *at;
    char *pages;
    size_t bytes;
};
static struct room room_map(int64_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = ((size_t)bytes + page - 1) / page * page;
    char *pages = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED && !mprotect(pages + whole, page, PROT_NONE));
    return (struct room){randomized((unsigned char *)pages + whole - bytes, bytes), pages, whole + page};
}

static unsigned char *copy_of(const unsigned char *p, int64_t bytes)
{
    return memcpy(malloc((size_t)bytes), p, (size_t)bytes);
}

static void run(const struct sample *s, bool pack, unsigned char *packed, unsigned char *user, int64_t begin,
                int64_t end)
{
    unsigned char *origin = (unsigned char *)((uintptr_t)user - (uintptr_t)s->low);
    if (s->layout && pack)
        assert_true(host_pack_pack(s->layout, s->count, origin, packed, begin, end));
    else if (s->layout)
        assert_true(host_pack_unpack(s->layout, s->count, origin, packed, begin, end));
    else if (pack)
        tree_pack(s->tree, packed, (uintptr_t)origin, s->extent, begin, end);
    else
        tree_unpack(s->tree, packed, (uintptr_t)origin, s->extent, begin, end);
}

/* Behind what is moved: a guard, of any length, or the end of memory. */
static int64_t behind(void)
{
    return random_from(0, 2) ? GUARD + random_from(0, 15) : 0;
}

/* Bytes between guards at chance alignments; all that the call may not touch is compared too. */
static void check(const struct sample *s, bool pack, int64_t begin, int64_t end)
{
    int64_t at = GUARD, to = GUARD;
    int64_t user_bytes = at + s->high - s->low + behind(), packed_bytes = to + end - begin + behind();
    struct room user_room = room_map(user_bytes), packed_room = room_map(packed_bytes);
    unsigned char *user = user_room.at, *packed = packed_room.at;
    unsigned char *user_want = copy_of(user, user_bytes), *packed_want = copy_of(packed, packed_bytes);
    for (int64_t i = begin; i < end; i++) {
        unsigned char *u = user_want + at + s->want.at[i] - s->low, *p = packed_want + to + i - begin;
        *(pack ? p : u) = *(pack ? u : p);
    }
    run(s, pack, packed + to, user + at, begin, end);
    assert_memory_equal(user, user_want, (size_t)user_bytes);
    assert_memory_equal(packed, packed_want, (size_t)packed_bytes);
    munmap(user_room.pages, user_room.bytes), munmap(packed_room.pages, packed_room.bytes);
    free(user_want), free(packed_want);
}

static void check_ranges(const struct sample *s, int ranges)
{
    int64_t all = s->want.count;
    for (int i = 0; i < ranges; i++) {
        int64_t begin = i ? random_from(0, all) : 0, end = i ? random_from(begin, all) : all;
        if (i % 4 == 3 && s->tree->size) begin -= begin % s->tree->size;
        check(s, true, begin, end);
        if (!s->overlaps) check(s, false, begin, end);
    }
}

/* Packed bytes [0, bytes) of one into the other; all around them stays as it is. */
static void check_copy(const struct sample *from, const struct sample *to, int64_t bytes)
{
    int64_t at = GUARD + random_from(0, 15), there = GUARD + random_from(0, 15);
    int64_t from_bytes = from->high - from->low + 2 * GUARD + 16, to_bytes = to->high - to->low + 2 * GUARD + 16;
    unsigned char *source = random_bytes(from_bytes), *target = random_bytes(to_bytes);
    unsigned char *source_want = copy_of(source, from_bytes), *target_want = copy_of(target, to_bytes);
    for (int64_t i = 0; i < bytes; i++)
        target_want[there + to->want.at[i] - to->low] = source[at + from->want.at[i] - from->low];
    assert_true(host_pack_copy(from->layout, from->count, (void *)((uintptr_t)source + (uintptr_t)(at - from->low)), to->layout,
                            to->count, (void *)((uintptr_t)target + (uintptr_t)(there - to->low)), bytes));
    assert_memory_equal(source, source_want, (size_t)from_bytes);
    assert_memory_equal(target, target_want, (size_t)to_bytes);
    free(source), free(target), free(source_want), free(target_want);
}

static stridec_host_function *copying;
static int copied;

static void count_copy(const struct stridec_host *a)
{
    copied++;
    copying(a);
}

/* Into the same layout whole elements, by their code, fewer, and any bytes; from and to bytes in one piece. */
static void check_copies(const struct sample *s)
{
    struct sample flat;
    struct module *m = host_pack_code(s->layout->kernel);
    int64_t all = s->want.count;
    copied = 0;
    if (m) copying = m->host[GEN_HOST_COPY], m->host[GEN_HOST_COPY] = count_copy;
    sample_make(&flat, made(tree_dense(0, all, &trees_why)), 1, all);
    sample_compile(&flat);
    check_copy(s, &flat, all);
    if (!s->overlaps) {
        check_copy(&flat, s, all), check_copy(s, s, all);
        check_copy(s, s, random_from(0, s->count) * s->tree->size), check_copy(s, s, random_from(0, all));
        assert_true(!m || copied >= 2);
    }
    if (m) m->host[GEN_HOST_COPY] = copying;
    sample_free(&flat);
}

static void walks(void **state)
{
    (void)state;
    random_begin("native");
    for (int round = 0; round < 2000; round++) {
        struct sample s;
        struct tree *t = random_tree((int)random_from(1, 5));
        struct tree *c = made(tree_canonical(t, &trees_why));
        tree_unref(t);
        sample_make(&s, c, random_from(0, 3), random_step(c->size));
        check_ranges(&s, 5);
        sample_free(&s);
    }
}

/* ---- compiled code ---- */

/* Each length of a block that is moved by other moves; rows, nests, columns beside each other; parts; lists. */
static const struct {
    const char *tree;
    int64_t count, extent;
} shapes[] = {
    {"s(37,24,d(8))", 1, 0},
    {"s(50,1040,d(12))", 2, 52000},
    {"s(53,28,d(12))@3", 2, 1500},
    {"s(4,700,s(3,100,q(d(1),d(3)@2,d(7)@8,d(21)@16,d(31)@40)))", 2, 3100},
    {"q(d(44),d(63)@64,d(65)@128,d(100)@200,d(129)@304,d(511)@500,d(512)@1100,d(513)@1700)@5", 2, 2300},
    {"s(33,16,s(40,700,d(16)))", 1, 0},
    {"s(19,-8,s(40,1040,d(4)))@900", 2, 50000},
    {"s(45,16,s(43,1024,d(16)))", 2, 50000},
    {"s(71,8,s(9,600,d(8)))", 2, 6000},
    {"s(127,4,s(10,-516,d(3)))@4700", 1, 0},
    {"s(9,40,i(s(3,8,d(4));0,400,900,5000))", 2, 7777},
    {"s(6,0,d(9))", 3, 11},
    {"d(7)", 9, 13},
    {"s(700,128,d(12))", 1, 0},
    {"s(2,40000,s(301,-68,d(12)))@20500", 2, 90000},
    {"s(3,230000,s(100,720,d(40)@3))", 2, 700000},
    {"s(259,-72,d(40))@18700", 2, 20000},
    {"s(2,300000,s(4100,72,d(8)))", 1, 0},
    {"s(16,16,d(12))", 3, 252},
    {"s(8,8,d(12))", 4, 80},
    {"d(12)", 37, 20},
    {"d(24)", 21, 36},
};

/* Indices; blocks of any length; properties of scattered atoms, of 24 bytes each, then of 4, then of 8. */
enum list { LIST_INDEX, LIST_WORDS, LIST_PAIRS, LIST_BLOCKS, LIST_ATOMS, LISTS };
static const int64_t index_lengths[] = {[LIST_INDEX] = 12, [LIST_WORDS] = 4, [LIST_PAIRS] = 8};

static int64_t list_length(enum list kind, int64_t i, int64_t n)
{
    if (kind < LIST_BLOCKS) return index_lengths[kind];
    if (kind == LIST_BLOCKS) return 4 * random_from(1, 60);
    return (i < n / 2 ? 24 : i < n * 3 / 4 ? 4 : 8) * random_from(1, 3);
}

static struct tree *list_tree(int64_t n, enum list kind, int64_t far)
{
    struct tree *part[400];
    int64_t at[400], next = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t length = list_length(kind, i, n);
        at[i] = next;
        part[i] = kind < LIST_BLOCKS ? NULL : made(tree_dense(next, length, &trees_why));
        next += length + 4 * random_from(0, far);
    }
    if (kind >= LIST_BLOCKS) return made(tree_seq(8, n, part, &trees_why));
    return made(tree_index(8, n, at, made(tree_dense(0, index_lengths[kind], &trees_why)), &trees_why));
}

static void compiled_ranges(struct tree *t, int64_t count, int64_t extent, int ranges)
{
    struct sample s;
    sample_make(&s, t, count, extent);
    sample_compile(&s);
    assert_true(host_pack_ready(s.layout, true) > 0 || t->kind == TREE_DENSE);
    check_ranges(&s, ranges);
    if (s.want.count) check_copies(&s);
    sample_free(&s);
}

static void compiled(struct tree *t, int64_t count, int64_t extent)
{
    compiled_ranges(t, count, extent, 24);
}

/* Arrays of the same atoms, whose sections share their entries (form_share.c). */
static const struct {
    int64_t runs;
    int lengths[8];
    int64_t others;
} arrays[] = {
    {70, {24, 4, 4, 4, 8, 4}, 0}, {50, {8, 16, 24}, 0}, {60, {12, 12, 4}, 90}, {40, {16, 16, 16}, 30}, {33, {4, 4, 12}, 0},
};

static void arrays_of_atoms(void)
{
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        int64_t atoms;
        struct tree *t = properties_tree(arrays[i].runs, arrays[i].lengths, arrays[i].others, &atoms);
        compiled(tree_ref(t), 2, 200000);
        struct tree *part[] = {parsed("d(12)"), made(tree_shift(t, 64, &trees_why)), parsed("s(5,8,d(4))@150000")};
        tree_unref(t);
        compiled(made(tree_seq(0, 3, part, &trees_why)), 2, 200000);
    }
}

static bool lists_in_child(void)
{
    arrays_of_atoms();
    for (enum list i = 0; i < LISTS; i++) {
        int n = i == LIST_ATOMS ? 330 : 120;
        compiled(list_tree(n, i, 30), 2, 80000);
        compiled(made(tree_stride(0, 3, 50000, list_tree(n - 30, i, 9), &trees_why)), 2, 160000);
        struct tree *list = list_tree(50 + (int)i, i < LIST_BLOCKS ? LIST_BLOCKS : i, 5);
        struct tree *part[] = {parsed("d(12)"), made(tree_shift(list, 64, &trees_why)),
                               parsed("s(5,8,d(4))@30000")};
        compiled(made(tree_seq(0, 3, part, &trees_why)), 2, 40000);
    }
    kernel_finish();
    return true;
}

static bool code_in_child(void)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        compiled(parsed(shapes[i].tree), shapes[i].count, shapes[i].extent);
    kernel_finish();
    return true;
}

/* A tree that has code of its own, anyhow random. */
static bool random_in_child(void)
{
    for (int made_of = 0; made_of < 4;) {
        struct tree *t = random_tree((int)random_from(2, 5));
        struct tree *c = made(tree_canonical(t, &trees_why));
        tree_unref(t);
        if (c->kind == TREE_DENSE) {
            tree_unref(c);
            continue;
        }
        compiled(c, random_from(1, 4), random_step(c->size));
        made_of++;
    }
    kernel_finish();
    return true;
}

/* ---- compilers and caches ---- */

static char folder[64], cache[128], cc[128], counter[96];
static const char *setting[] = {NULL, NULL, "STRIDEC_LOG=info", "PATH=/usr/local/bin:/usr/bin:/bin", NULL};

/* A compiler that counts its runs, or does something else. */
static void write_compiler(const char *what)
{
    char path[128];
    snprintf(path, sizeof path, "%s/compiler", folder);
    FILE *f = fopen(path, "w");
    fprintf(f, "#!/bin/sh\necho run >>%s\n%s\n", counter, what);
    fclose(f);
    assert_int_equal(chmod(path, 0755), 0);
}

static int runs(void)
{
    int n = 0, c;
    FILE *f = fopen(counter, "r");
    while (f && (c = getc(f)) != EOF) n += c == '\n';
    if (f) fclose(f);
    return n;
}

static void begin(const char *name)
{
    snprintf(folder, sizeof folder, "%s/%s", base, name);
    assert_int_equal(mkdir(folder, 0755), 0);
    snprintf(counter, sizeof counter, "%s/runs", folder);
    snprintf(cache, sizeof cache, "STRIDEC_CACHE_DIR=%s/cache", folder);
    snprintf(cc, sizeof cc, "STRIDEC_CC=%s/compiler", folder);
    setting[0] = cache, setting[1] = cc;
    write_compiler("exec cc \"$@\"");
}

static bool one(bool has_code)
{
    struct sample s, other;
    random_begin("one");
    sample_make(&s, parsed("s(37,24,d(8))"), 1, 0), sample_make(&other, parsed("s(37,40,d(8))"), 1, 0);
    sample_compile(&s), sample_compile(&other);
    check_ranges(&s, 8);   /* whatever serves */
    bool good = (host_pack_ready(s.layout, true) > 0) == has_code && (host_pack_ready(other.layout, true) > 0) == has_code;
    check_ranges(&s, 8), check_ranges(&other, 8);
    sample_free(&s), sample_free(&other);
    kernel_finish();
    return good;
}
static bool with_code(void) { return one(true); }
static bool without_code(void) { return one(false); }

static int said_times(const char *text)
{
    int n = 0;
    for (const char *at = said; (at = strstr(at, text)); at++) n++;
    return n;
}

static void no_compiler(void **state)
{
    (void)state;
    begin("none");
    snprintf(cc, sizeof cc, "STRIDEC_CC=%s/nothing", folder);
    in_child(true, setting, without_code);
    assert_int_equal(said_times("without code of its own: STRIDEC_CC="), 1);
    assert_int_equal(said_times(": warn: "), 1);
    setting[1] = "STRIDEC_STATS=0", setting[3] = "PATH=/nowhere";
    in_child(true, setting, without_code);
    setting[3] = "PATH=/usr/local/bin:/usr/bin:/bin";
    assert_int_equal(said_times("neither cc, gcc nor clang is on PATH"), 1);
    assert_int_equal(said_times(": warn: "), 0);
}

/* Nobody is told how a compiler ended. */
static bool ignoring(void)
{
    signal(SIGCHLD, SIG_IGN);
    return one(false);
}

static bool impatient(void)
{
    host_compiler_timeout_s = 1;
    return one(false);
}

static void cut_short(void **state)
{
    (void)state;
    begin("cut");
    write_compiler("cc \"$@\"; while [ \"$1\" != -o ]; do shift; done; truncate -s 6000 \"$2\"; exit 1");
    in_child(true, setting, ignoring);
    assert_int_equal(said_times("can't be compiled"), 1);
    in_child(true, setting, ignoring);   /* nor is it kept */
    begin("patience");
    write_compiler("exec sleep 1000");
    in_child(true, setting, impatient);
    assert_int_equal(said_times("takes more than 1 s"), 1);
}

static void failing_compiler(void **state)
{
    (void)state;
    begin("failing");
    write_compiler("echo 'first line'; echo 'source.c: error: no such luck'; exit 1");
    in_child(true, setting, without_code);
    assert_int_equal(said_times("source.c: error: no such luck"), 1);
    write_compiler("while [ \"$1\" != -o ]; do shift; done; echo junk >\"$2\"");
    in_child(true, setting, without_code);
    assert_int_equal(said_times("can't be loaded"), 1);
}

/* A library without the entries is told apart from one that the loader refuses. */
static void no_entries(void **state)
{
    (void)state;
    begin("entries");
    write_compiler("while [ \"$1\" != -o ]; do shift; done; exec cc -shared -nostdlib -x c -o \"$2\" /dev/null");
    in_child(true, setting, without_code);
    assert_int_equal(said_times("can't be loaded: it has no entries"), 1);
}

static enum stage stage_of(const struct layout *l)
{
    return module_stage(module_for_target(kernel_code(l->kernel), &host_target));
}

/* Packs all of it so many times; true if code was asked for by the last one and not before. */
static bool asks_after(const char *tree, int times)
{
    struct sample s;
    bool good = true;
    sample_make(&s, parsed(tree), 1, 0);
    sample_compile(&s);
    unsigned char *packed = random_bytes(s.want.count), *user = random_bytes(s.high - s.low);
    for (int i = 1; i <= times; i++) {
        host_pack_pack(s.layout, 1, user - s.low, packed, 0, s.want.count);
        host_pack_pack(s.layout, 1, user - s.low, packed, 1, s.want.count);   /* the rest of it is no other use */
        good = good && (stage_of(s.layout) == STAGE_NONE) == (i < times);
    }
    free(packed), free(user);
    sample_free(&s);
    return good;
}

static bool used_once(void)
{
    random_begin("once");
    bool good = asks_after("s(37,24,d(8))", 2);
    cores_start(INT_MAX);
    good = good && asks_after("s(37,40,d(8))", 17);
    kernel_finish();
    return good;
}

/* A compiler never costs the program a processor: it runs at a low priority, and alone. */
static void behind_the_program(void **state)
{
    char line[512], name[256];
    int priority = 0, lines = 0;
    (void)state;
    begin("behind");
    snprintf(line, sizeof line,
             "cut -d' ' -f19 /proc/$$/stat >>%s/nice; mkdir %s/busy || >%s/two; cc \"$@\"; rmdir %s/busy",
             folder, folder, folder, folder);
    write_compiler(line);
    in_child(true, setting, with_code);
    snprintf(name, sizeof name, "%s/nice", folder);
    FILE *f = fopen(name, "r");
    assert_non_null(f);
    for (; fscanf(f, "%d", &priority) == 1; lines++) assert_in_range(priority, 10, 19);
    fclose(f);
    assert_int_equal(lines, 2);
    snprintf(name, sizeof name, "%s/two", folder);
    assert_int_not_equal(access(name, F_OK), 0);
}

/* No compiler is run for a layout that is used once; where processors are scarce, not for one that is used some times. */
static void seldom_used(void **state)
{
    (void)state;
    begin("seldom");
    in_child(true, setting, used_once);
}

/* This process is where one makes code: it has the file open by which others are kept from it. */
static bool at_lock(void)
{
    char target[256];
    bool found = false;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof target);
        found = n > 5 && !memcmp(target + n - 5, ".lock", 5);
    }
    if (d) closedir(d);
    return found;
}

static int begun;   /* runs() when the compiler hangs */

static bool stop_at_once(void)
{
    struct sample s;
    struct timespec pause = {.tv_nsec = 1000000}, start, end;
    sample_make(&s, parsed("s(37,24,d(8))"), 1, 0);
    sample_compile(&s);
    check_ranges(&s, 4);
    host_pack_ready(s.layout, false);
    while (runs() < begun || !at_lock()) nanosleep(&pause, NULL);
    clock_gettime(CLOCK_MONOTONIC, &start);
    kernel_finish();
    clock_gettime(CLOCK_MONOTONIC, &end);
    sample_free(&s);
    return end.tv_sec - start.tv_sec < 20;
}

/* Another process has begun to make the same code, and does not come to an end. */
static bool stop_behind_another(void)
{
    struct timespec pause = {.tv_nsec = 1000000};
    pid_t other = fork();
    if (other == 0) {
        struct sample s;
        sample_make(&s, parsed("s(37,24,d(8))"), 1, 0);
        sample_compile(&s);
        check_ranges(&s, 4);
        host_pack_ready(s.layout, false);
        for (;;) nanosleep(&pause, NULL);
    }
    while (runs() < begun) nanosleep(&pause, NULL);
    bool good = stop_at_once();
    kill(other, SIGKILL), waitpid(other, NULL, 0);
    return good && runs() == begun;
}

static void hanging_compiler(void **state)
{
    (void)state;
    const char *const path = setting[3];
    char temporary[128], body[256];
    begin("hanging");
    snprintf(temporary, sizeof temporary, "TMPDIR=%s", folder);
    snprintf(body, sizeof body, "echo >\"${TMPDIR:-/tmp}/left\"; echo run >>%s; sleep 60", counter);
    write_compiler(body);
    setting[3] = temporary, begun = 2;
    in_child(true, setting, stop_at_once);
    setting[3] = path;
    snprintf(temporary, sizeof temporary, "%s/left", folder);
    assert_int_not_equal(access(temporary, F_OK), 0);   /* the compiler's own files went with it */
    begin("hanging-both");
    write_compiler("exec sleep 60");
    begun = 1;
    in_child(true, setting, stop_behind_another);
}

/* A folder, last written so many days ago, with a file in it. */
static void lies_there(char path[512], const char *name, int days)
{
    char file[600];
    const time_t then = time(NULL) - days * 86400 - (days ? 60 : 0);
    const struct timespec when[2] = {{.tv_sec = then}, {.tv_sec = then}};
    snprintf(path, 512, "%s/%s", folder, name);
    snprintf(file, sizeof file, "%s/source.c", path);
    assert_int_equal(mkdir(path, 0700), 0);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(utimensat(AT_FDCWD, path, when, 0), 0);
}

/* The folders of compiles whose processes were killed go with the next compile, but none that may still be in use. */
static void owner_is_dead(void **state)
{
    (void)state;
    const char *const log = setting[2];
    char temporary[128], left[512], used[512], other[512];
    begin("left");
    snprintf(temporary, sizeof temporary, "TMPDIR=%s", folder);
    setting[2] = temporary;
    lies_there(left, "stridec-cc.a1B2c3", 1), lies_there(used, "stridec-cc.a1B2c4", 0);
    lies_there(other, "stridec-cc.sources", 300);   /* a longer name */
    in_child(true, setting, with_code);
    setting[2] = log;
    assert_int_not_equal(access(left, F_OK), 0);
    assert_true(!access(used, F_OK) && !access(other, F_OK));
}

static char keys[2][512];
static void see_key(void *arg, const char *file, const char *key, size_t bytes)
{
    (void)file, (void)bytes;
    snprintf(keys[(*(int *)arg)++ % 2], sizeof *keys, "%s", key ? key : "");
}

static bool store_junk(void)
{
    int n = 0;
    if (module_cache_list(see_key, &n) != 2) return false;
    for (int i = 0; i < 2; i++) module_cache_store(keys[i], "\177ELF and no more", 16);
    return true;
}

static void damage_files(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/cache", folder);
    DIR *d = opendir(path);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/cache/%s", folder, e->d_name);
        FILE *f = fopen(path, "r+");
        fseek(f, 4000, SEEK_SET);
        int c = getc(f);
        fseek(f, 4000, SEEK_SET);
        putc(c ^ 1, f);
        fclose(f);
    }
    closedir(d);
}

static void caches(void **state)
{
    (void)state;
    begin("cache");
    in_child(true, setting, with_code);
    assert_int_equal(runs(), 2);
    in_child(true, setting, with_code);
    assert_int_equal(runs(), 2);
    damage_files();
    in_child(true, setting, with_code);
    assert_int_equal(said_times("is damaged"), 1);
    assert_int_equal(runs(), 4);
    in_child(true, setting, store_junk);   /* whole files of no libraries */
    in_child(true, setting, with_code);
    assert_int_equal(said_times("can't be loaded"), 1);
    assert_int_equal(runs(), 6);
    assert_int_equal(chmod(cache + strlen("STRIDEC_CACHE_DIR="), 0777), 0);
    in_child(true, setting, with_code);
    assert_int_equal(said_times("others may write to it"), 1);
    assert_int_equal(runs(), 8);
}

static void in_code(bool (*body)(void), const char *name)
{
    begin(name);
    setting[1] = "STRIDEC_STATS=0";
    in_child(false, setting, body);
}
static void code(void **state) { (void)state, in_code(code_in_child, "code"); }
static void random_code(void **state) { (void)state, in_code(random_in_child, "random"); }

static bool words_in_child(void)
{
    compiled(parsed("s(700,128,d(12))"), 1, 0);
    compiled(parsed("s(2,40000,s(301,-68,d(12)))@20500"), 2, 90000);
    /* Columns beside each other, wholes of tiles and not. */
    compiled(parsed("s(19,4,s(33,512,d(4)))"), 1, 0);
    compiled(parsed("s(17,8,s(31,-2048,d(8)))@61440"), 2, 64000);
    compiled(parsed("s(21,16,s(30,1040,d(12)))"), 1, 0);
    compiled(parsed("s(8,-16,s(66,1024,d(16)))@112"), 1, 0);
    compiled(parsed("s(9,32,s(12,4096,d(32)))"), 2, 50000);
    /* Strided words, two at a time and one more. */
    compiled(parsed("s(701,-12,d(4))@8400"), 1, 0);
    compiled(parsed("s(37,512,s(5,24,d(8)))"), 2, 20000);
    compiled(parsed("s(5000,64,d(8))"), 1, 0);
    /* Short blocks whose words are put together. */
    compiled(parsed("s(2,40000,s(301,96,d(24)))"), 2, 90000);
    compiled(parsed("s(103,-72,d(24)@3)@7400"), 1, 0);
    compiled(parsed("s(3,90000,s(203,48,d(40)))"), 2, 280000);
    compiled(parsed("s(407,-72,d(40)@3)@29300"), 2, 29500);
    compiled(parsed("s(90,1040,d(40))"), 1, 0);
    compiled(parsed("s(97,720,d(40)@3)"), 2, 70000);
    compiled(parsed("s(7,2000,s(9,56,d(40)))"), 2, 15000);
    compiled(parsed("s(8,32,d(12))"), 3, 236);
    compiled(parsed("s(16,32,d(24))"), 3, 504);
    compiled(parsed("s(8,48,d(40))"), 4, 380);
    compiled_ranges(parsed("s(16500,48,d(40))"), 1, 0, 4);
    compiled_ranges(parsed("s(16500,-72,d(40)@3)@1188000"), 1, 0, 4);
    compiled(parsed("s(300,28,d(12))"), 1, 0);
    compiled(parsed("s(300,64,d(12))"), 2, 20000);
    /* Long blocks, to the same places in a line and others. */
    compiled(parsed("s(9,700,d(512))"), 2, 7000);
    compiled(parsed("s(7,-5003,d(4801))@30018"), 1, 0);
    compiled(parsed("s(5,1024,q(s(2,3,d(1)),d(600)@100))"), 1, 0);
    compiled_ranges(parsed("s(3,600000,d(530001)@5)"), 1, 0, 4);
    /* Listed ones, in more lines than the first cache holds: their places in the code, or with the call. */
    compiled(parsed("s(150,300,i(d(4);0,12,16,28,40,48,60,72,84,96,104,116,128,140,152,164,176,188,200,212))"), 1, 0);
    compiled(parsed("s(60,500,i(d(24);0,32,64,104,128,160,192,240,288))"), 2, 31000);
    compiled_ranges(parsed("s(9000,300,i(d(12);0,12,28,40,56,68,84,96,112,124,140,152,168,180,196,208,224,236,252,264))"), 1, 0, 4);
    compiled(made(tree_stride(0, 30, 6000, list_tree(380, LIST_WORDS, 3), &trees_why)), 2, 180000);
    return lists_in_child();
}

/* The code as processors get it that gather quickly, AMD's, these past the caches, and the others (templates/host.c).
 * With TEST_TURN, a number, every second way. */
static void words(void **state)
{
    static const char *const as[][2] = {
        {"gathered", "-D__AVX512FP16__=1"},
        {"amd", "-U__AVX512FP16__ -D__znver3__=1"},
        {"past", "-U__AVX512FP16__ -D__znver3__=1 -UCACHE -DCACHE=8192"},
        {"loaded", "-U__AVX512FP16__ -U__znver2__ -U__znver3__ -U__znver4__ -U__znver5__"},
    };
    enum { WAYS = sizeof as / sizeof *as };
    struct child child[WAYS];
    const char *turn = getenv("TEST_TURN");
    bool all = !turn || *turn < '0' || *turn > '9';
    size_t first = all ? 0 : strtoul(turn, NULL, 10) % 2, step = all ? 1 : 2;
    (void)state;
    for (size_t i = first; i < WAYS; i += step) {
        char line[160];
        snprintf(line, sizeof line, "exec cc \"$@\" %s", as[i][1]);
        begin(as[i][0]);
        write_compiler(line);
        child[i] = child_begin(false, setting, words_in_child);
    }
    for (size_t i = first; i < WAYS; i += step) child_end(child[i]);
}

/* What a call tests is what was found out for its class. */
static void classes(void **state)
{
    (void)state;
    for (int log = 0; log < 63; log++) {
        const int64_t ends[] = {(int64_t)1 << log, (int64_t)(((uint64_t)1 << (log + 1)) - 1)};
        for (int i = 0; i < 2; i++)
            for (int class = 0; class < PACK_FILTER_CLASSES; class++)
                assert_int_equal(host_pack_class_bits(class) >> host_pack_size_log(ends[i]) & 1, host_pack_class(ends[i]) == class);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks),            cmocka_unit_test(code),
        cmocka_unit_test(random_code),      cmocka_unit_test(no_compiler),
        cmocka_unit_test(failing_compiler), cmocka_unit_test(cut_short), cmocka_unit_test(hanging_compiler),
        cmocka_unit_test(owner_is_dead),      cmocka_unit_test(no_entries), cmocka_unit_test(seldom_used),
        cmocka_unit_test(behind_the_program),
        cmocka_unit_test(caches),           cmocka_unit_test(words),
        cmocka_unit_test(classes),
    };
    char remove[128];
    if (!mkdtemp(base)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(remove, sizeof remove, "rm -rf %s", base);
    return system(remove) || failed;
}
