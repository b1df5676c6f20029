/* test_knobs.c: kernels of every setting of gen/knobs.lua, run by the simulated GPU against tree_walk.
 *
 * Without the simulated GPU's libcuda.so.1 in LD_LIBRARY_PATH there is nothing to run. TEST_SEED picks ranges and
 * settings. */
#include "../../gen/gen.h"
#include "../../runtime/device/gpu_runtime.h"
#include "../../runtime/device/driver.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define LIST "0,816,272,544,1360,1088,2720,1640,1912,2184,2456,3000,3280,3552,4000,4304,4576,5000,5280"

static const char *const signatures[] = {
    "s(150,512,d(64))",
    "s(70,8,s(45,1024,d(8)))",              /* transposed: ragged tiles */
    "s(40,-4,s(3,40000,s(37,256,d(4))))",   /* and within another dimension */
    "s(40,16,s(33,1024,d(16)))",
    "s(300,24,q(d(8),d(4)@8,d(4)@12,d(1)@16))",
    "i(s(9,32,d(8));" LIST ")",
    "s(3,90000,q(i(d(24);" LIST "),s(20,64,d(32))@40000,d(8)@50000))",
    "s(70,1021,d(381))",                    /* long runs of narrow words */
    "s(50,1020,d(380))",
    "s(90,134,d(130))",
    "s(60,-520,d(264))",
    "s(3,30001,q(i(d(77);" LIST "),s(2,500,d(250))@6000,d(333)@7100))",
    NULL,                                   /* many_runs() */
};

static const char *const settings[][2] = {
    {NULL, NULL},
    {"move=tile threads=256", "move=tile threads=1024 store=exch"},
    {"move=tile threads=1024 load=last", "move=tile threads=128 load=nc"},
    {"move=tile threads=512 word=4", "move=bulk each=2"},
    {"move=bulk word=8 each=4 load=first", "store=exch word=8 each=2 move=direct"},
    {"order=far each=4 threads=128 move=direct", "order=far each=8 threads=256 store=exch word=4 move=direct"},
    {"word=1 each=16 threads=128", "word=2 threads=512"},
    {"move=shift", "move=shift"},
    {"move=shift each=32 threads=128", "move=shift each=64"},
    {"move=direct", "move=shift each=32"},
};
enum { FIXED = COUNT(settings), PICKED = 3, SETTINGS = FIXED + PICKED, GUARD = 64 };

static const struct driver *driver;
static struct gen *generator;
static uint64_t seed = 1;
static uint32_t *flag; /* in mapped host memory */
static char arch[16];

static int64_t draw(int64_t low, int64_t high)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((seed >> 24) % (uint64_t)(high - low + 1));
}

/* One tree, its kernels of all settings in one module, and its lists on the device. */
struct subject {
    const char *signature;
    struct tree *tree;
    struct form *form;
    struct gen_kernel kernel[SETTINGS];
    char knobs[SETTINGS][2][120];
    CUmodule module;
    CUdeviceptr lists;
};

static int setup(void **state)
{
    struct reason why = {""};
    CUdevice device;
    CUcontext context;
    int major, minor;
    (void)state;
    generator = gen_open(&why);
    if (!generator) fail_msg("%s", why.text);
    if (getenv("TEST_SEED")) seed = strtoull(getenv("TEST_SEED"), NULL, 10);
    driver = driver_load();
    if (!driver || driver->cuInit(0)) {
        print_message("NO GPU AND NO SIMULATED ONE: nothing runs here\n");
        driver = NULL;
        return 0;
    }
    assert_int_equal(driver->cuDeviceGet(&device, 0), 0);
    assert_int_equal(driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device), 0);
    assert_int_equal(driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device), 0);
    snprintf(arch, sizeof arch, "sm_%d%d", major, minor);
    assert_int_equal(driver->cuDevicePrimaryCtxRetain(&context, device), 0);
    assert_int_equal(driver->cuCtxPushCurrent(context), 0);
    assert_int_equal(driver->cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (driver) driver->cuMemFreeHost(flag);
    gen_close(generator);
    return 0;
}

/* ---- making kernels ---- */

/* A few of the settings worth trying, at random. */
static void pick(struct subject *s)
{
    struct reason why;
    for (int way = 0; way < 2; way++) {
        char **list;
        int n = gen_knob_list(generator, s->form, "cuda", (enum gen_direction)way, &list, &why);
        if (n < 1) fail_msg("%s: %s", s->signature, n ? why.text : "no setting is worth trying");
        assert_null(list[n]);
        for (int i = FIXED; i < SETTINGS; i++)
            snprintf(s->knobs[i][way], sizeof s->knobs[i][way], "%s", list[draw(0, n - 1)]);
        gen_knob_list_free(list);
    }
}

static void write_kernel(FILE *f, const char *source, int number)
{
    static const int widths[] = {16, 8, 4, 2, 1};
    for (size_t i = 0; i < COUNT(widths); i++)
        fprintf(f,
                "#undef stridec_pack_w%d\n#undef stridec_unpack_w%d\n"
                "#define stridec_pack_w%d k%d_pack_w%d\n#define stridec_unpack_w%d k%d_unpack_w%d\n",
                widths[i], widths[i], widths[i], number, widths[i], widths[i], number, widths[i]);
    fprintf(f, "#undef stridec_pack_marked\n#undef stridec_unpack_marked\n"
            "#define stridec_pack_marked k%d_pack_marked\n#define stridec_unpack_marked k%d_unpack_marked\n", number, number);
    fprintf(f, "namespace kernel_%d {\n%s}\nusing namespace kernel_%d;\n", number, source, number);
}

static void load(struct subject *s)
{
    struct reason why = {""};
    char *text = NULL;
    void *image = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    fputs("#pragma GCC optimize(0)\n", f);   /* they run once, and compile in half the time */
    for (int i = 0; i < SETTINGS; i++) write_kernel(f, s->kernel[i].source, i);
    assert_int_equal(fclose(f), 0);
    if (gpu_runtime->jit_compile(text, "knobs.cu", arch, false, &image, &bytes, &why))
        fail_msg("%s: %s", s->signature, why.text);
    assert_int_equal(driver->cuModuleLoadData(&s->module, image), 0);
    free(image);
    free(text);
}

static CUdeviceptr to_device(const void *data, size_t bytes)
{
    CUdeviceptr p;
    assert_int_equal(driver->cuMemAlloc(&p, bytes), 0);
    assert_int_equal(driver->cuMemcpyHtoDAsync(p, data, bytes, NULL), 0);
    assert_int_equal(driver->cuStreamSynchronize(CU_STREAM_LEGACY), 0);
    return p;
}

static void open_subject(struct subject *s, const char *signature)
{
    struct reason why = {""};
    size_t bytes;
    *s = (struct subject){.signature = signature};
    s->tree = tree_parse(signature, &why);
    s->form = s->tree ? form_of(s->tree, &why) : NULL;
    if (!s->form) fail_msg("%s: %s", signature, why.text);
    for (int i = 0; i < FIXED; i++)
        for (int way = 0; way < 2; way++)
            snprintf(s->knobs[i][way], sizeof s->knobs[i][way], "%s", settings[i][way] ? settings[i][way] : "");
    pick(s);
    for (int i = 0; i < SETTINGS; i++) {
        const char *const knobs[2] = {s->knobs[i][0], s->knobs[i][1]};
        if (gen_kernel_form(generator, s->form, "cuda", knobs, &s->kernel[i], &why))
            fail_msg("%s: %s", signature, why.text);
    }
    void *lists = form_lists(s->form, &bytes, &why);
    if (lists) s->lists = to_device(lists, bytes);
    free(lists);
    load(s);
}

/* 70 blocks of 1 to 191 bytes at any place: a list in memory. */
static const char *many_runs(void)
{
    static char text[4096];
    char *end = text + sprintf(text, "q(");
    int at = 5;
    for (int i = 0; i < 70; i++) {
        int length = (int)draw(1, 191);
        end += sprintf(end, "%sd(%d)@%d", i ? "," : "", length, at);
        at += length + (int)draw(1, 40);
    }
    strcpy(end, ")");
    return text;
}

static void close_subject(struct subject *s)
{
    for (int i = 0; i < SETTINGS; i++) gen_kernel_free(&s->kernel[i]);
    form_free(s->form);
    tree_unref(s->tree);
    driver->cuModuleUnload(s->module);
    if (s->lists) driver->cuMemFree(s->lists);
}

/* ---- one launch and what it must do ---- */

struct check {
    const struct subject *s;
    int setting, direction, width;
    int64_t count, extent, begin, end, grid;
    unsigned char *user, *packed; /* as tree_walk moves them */
    int64_t origin;               /* of element 0 in user */
    int64_t base;                 /* of packed byte `begin` in packed */
    bool marked;                  /* in chunks: all marks are there before, or after */
};

static int walk_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct check *c = arg;
    unsigned char *at = c->user + c->origin + user, *in = c->packed + c->base + (packed - c->begin);
    memcpy(c->direction == GEN_PACK ? in : at, c->direction == GEN_PACK ? at : in, (size_t)len);
    return 0;
}

#define MARK UINT64_C(0x123456789abcdef)

/* The marks of all chunks: of what is packed, they come. */
static CUdeviceptr marks_of(const struct check *c, int64_t chunks)
{
    uint64_t *marks = calloc((size_t)chunks, sizeof *marks);
    for (int64_t i = 0; i < chunks && c->direction == GEN_UNPACK; i++) marks[i] = MARK;
    CUdeviceptr p = to_device(marks, (size_t)chunks * sizeof *marks);
    free(marks);
    return p;
}

static void expect_marks(CUdeviceptr marks, int64_t chunks)
{
    uint64_t *copy = malloc((size_t)chunks * sizeof *copy);
    assert_int_equal(driver->cuMemcpyDtoHAsync(copy, marks, (size_t)chunks * sizeof *copy, NULL), 0);
    assert_int_equal(driver->cuStreamSynchronize(CU_STREAM_LEGACY), 0);
    for (int64_t i = 0; i < chunks; i++) assert_int_equal(copy[i], MARK);
    free(copy);
    driver->cuMemFree(marks);
}

static void launch(const struct check *c, CUdeviceptr user, CUdeviceptr packed)
{
    const struct gen_kernel *k = &c->s->kernel[c->setting];
    const struct gen_way *way = &k->plan.way[c->direction];
    struct stridec_launch a = {.packed = packed + (uint64_t)c->base, .user = user + (uint64_t)c->origin,
                               .extent = c->extent, .begin = c->begin, .end = c->end, .wrap = c->count > 1,
                               .program = c->s->lists, .ticket = 0x12345678};
    char name[40];
    CUfunction function;
    CUdeviceptr done;
    void *arguments[] = {&a};
    assert_int_equal(driver->cuMemHostGetDevicePointer(&done, flag, 0), 0);
    int threads = c->marked ? k->plan.marked.threads : way->threads;
    int64_t chunks = 0;
    if (c->marked) {
        a.chunk = (int64_t)threads * k->plan.marked.words_per_thread * c->width * (1 + (c->begin / c->width) % 3);
        a.mark = MARK, a.patience = 1000;
        chunks = (c->end - c->begin + a.chunk - 1) / a.chunk;
        a.marks = marks_of(c, chunks);
    }
    if (c->grid == 1 || c->marked) a.done = done;
    *flag = 0;
    form_numbers(c->s->form, c->width, a.number);
    const char *way_name = c->direction == GEN_PACK ? "pack" : "unpack";
    if (c->marked) snprintf(name, sizeof name, "k%d_%s_marked", c->setting, way_name);
    else snprintf(name, sizeof name, "k%d_%s_w%d", c->setting, way_name, c->width);
    if (driver->cuModuleGetFunction(&function, c->s->module, name)) fail_msg("no entry %s", name);
    assert_int_equal(driver->cuLaunchKernel(function, (unsigned)c->grid, 1, 1, (unsigned)threads, 1, 1, 0, NULL,
                                            arguments, NULL), 0);
    assert_int_equal(driver->cuStreamSynchronize(CU_STREAM_LEGACY), 0);
    assert_int_equal(*flag, c->grid == 1 && !c->marked ? 0x12345678 : 0);
    if (c->marked) expect_marks(a.marks, chunks);
}

static unsigned char *random_bytes(size_t n)
{
    unsigned char *p = malloc(n);
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)draw(0, 255);
    return p;
}

static void same(const struct check *c, CUdeviceptr got, const unsigned char *want, size_t bytes)
{
    unsigned char *copy = malloc(bytes);
    assert_int_equal(driver->cuMemcpyDtoHAsync(copy, got, bytes, NULL), 0);
    assert_int_equal(driver->cuStreamSynchronize(CU_STREAM_LEGACY), 0);
    if (memcmp(copy, want, bytes))
        fail_msg("%s: wrong bytes, %s with \"%s\", words of %d B, [%lld, %lld) of %lld elements, %lld blocks",
                 c->s->signature,
                 c->direction ? "unpack" : "pack", c->s->knobs[c->setting][c->direction], c->width, (long long)c->begin,
                 (long long)c->end, (long long)c->count, (long long)c->grid);
    free(copy);
}

/* Every byte of both sides, those around and between the layout's included. */
static void compare(struct check *c)
{
    const struct tree *t = c->s->tree;
    size_t user_bytes = (size_t)((t->high - t->low) + (c->count - 1) * c->extent + 2 * GUARD);
    size_t packed_bytes = (size_t)(c->end - c->begin + 2 * GUARD);
    c->user = random_bytes(user_bytes);
    c->packed = random_bytes(packed_bytes);
    c->origin = GUARD - (t->low & ~(int64_t)15);
    c->base = GUARD + draw(0, 16 / c->width) * c->width;
    if (c->base > GUARD + 16) c->base = GUARD;
    CUdeviceptr user = to_device(c->user, user_bytes), packed = to_device(c->packed, packed_bytes);
    launch(c, user, packed);
    tree_walk(t, c->count, c->extent, c->begin, c->end, walk_run, c);
    same(c, user, c->user, user_bytes);
    same(c, packed, c->packed, packed_bytes);
    driver->cuMemFree(user);
    driver->cuMemFree(packed);
    free(c->user);
    free(c->packed);
}

/* Whole elements and random ranges, by few blocks and by as many as the words fill. */
static void compare_ranges(struct check c)
{
    const struct tree *t = c.s->tree;
    const struct gen_way *way = &c.s->kernel[c.setting].plan.way[c.direction];
    for (int round = 0; round < 4; round++) {
        c.count = round % 2 ? draw(2, 3) : 1;
        c.extent = ((t->high - t->low + 15) & ~(int64_t)15) + 16 * draw(0, 2);
        int64_t words = t->size * c.count / c.width, length = round < 2 ? words : draw(1, words);
        c.begin = draw(0, words - length) * c.width;
        c.end = c.begin + length * c.width;
        int64_t block = gen_block_words(way, c.width), whole = (length + block - 1) / block;
        int64_t grids[] = {whole, 1, 2, whole + 3};
        c.grid = grids[draw(0, 3)];
        c.marked = false;
        compare(&c);
        c.marked = c.width == c.s->kernel[c.setting].plan.marked.word[c.direction];
        if (c.marked) compare(&c);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    if (!driver) skip();
    for (size_t i = 0; i < COUNT(signatures); i++) {
        struct subject s;
        open_subject(&s, signatures[i] ? signatures[i] : many_runs());
        for (int k = 0; k < SETTINGS; k++) {
            const struct gen_plan *plan = &s.kernel[k].plan;
            for (int w = 0; w < plan->nwords; w++)
                for (int way = 0; way < 2; way++)
                    if (plan->words[w] == plan->way[way].word || draw(0, 1))
                        compare_ranges((struct check){&s, .setting = k, .direction = way, .width = plan->words[w]});
        }
        close_subject(&s);
    }
}

/* The interpreter has no knobs, but refuses what is none. */
static void test_refusals(void **state)
{
    static const char *const wrong[] = {"wrod=8", "word=3", "move=", "threads", "each=4,load=nc", "load=exch"};
    struct reason why;
    struct gen_kernel k;
    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        why.text[0] = '\0';
        assert_int_equal(gen_kernel(generator, "s(4,64,d(8))", "cuda", (const char *[]){NULL, wrong[i]}, &k, &why), -1);
        assert_non_null(strstr(why.text, wrong[i][0] == 'w' && wrong[i][1] == 'r' ? "wrod" : "="));
        assert_null(k.source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
