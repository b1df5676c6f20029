/* test_tune.c: knobs: rows of tuned tables and what they make of a kernel, STRIDEC_KNOBS, trials. On the simulated GPU
 * (its folder is on LD_LIBRARY_PATH) or a real one; settings are read once a process, so that those cases
 * run in children. */
#include "../../runtime/kernel/kernel_internal.h"
#include "../../runtime/kernel/kernel_knobs.h"
#include "../../runtime/measure/progress.h"
#include "../../runtime/measure/timing.h"
#include "../../runtime/tune/table_knobs.h"
#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "child.h"
#include "device.h"

/* --- tables --- */

static const char curves[] =
    "curve pack_mapped\nbytes 1\nany 1\ncurve unpack_mapped\nbytes 1\nany 1\ncurve pack_staged\nbytes 1\nany 1\n"
    "curve unpack_staged\nbytes 1\nany 1\ncurve message_host\nbytes 1\nany 1\n";

/* A whole table with these lines; its first line of them is the fifth. */
static char *table_text(const char *machine, const char *lines)
{
    char *text;
    assert_true(asprintf(&text, "stridec tune 1\nmachine %s\nmpi any\ndate 2026-01-01\n%s%s", machine, lines,
                         curves) > 0);
    return text;
}

static struct tune_table *parse(const char *lines, struct reason *why)
{
    char *text = table_text("any", lines);
    struct tune_table *t = tune_parse(text, "FILE", why);
    free(text);
    return t;
}

static const char *found(const struct tune_table *t, int64_t block, int64_t bytes)
{
    const struct tune_knobs *k = tune_knobs_find(t, GEN_PACK, GEN_STRIDED, block, bytes);
    return k ? k->settings : NULL;
}

static const char rows[] = "knobs pack strided 4 1048576 word=4 each=4 threads=256\n"
                           "knobs pack strided 4 4194304 word=4\n"
                           "knobs  pack  strided  16  0  word=8\n"
                           "knobs pack strided 64 1048576 model\n"
                           "knobs unpack strided 0 0 store=exch\n"
                           "knobs pack indexed 0 0 each=2\n";

static void chosen(void **state)
{
    (void)state;
    struct reason why;
    struct tune_table *t = parse(rows, &why);
    assert_non_null(t);
    assert_int_equal(t->knob_rows, 6);
    assert_null(found(t, 3, 1 << 30));
    assert_null(found(t, 8, 1048575));
    assert_string_equal(found(t, 4, 1048576), "word=4 each=4 threads=256");
    assert_string_equal(found(t, 15, 4194303), "word=4 each=4 threads=256");
    assert_string_equal(found(t, 15, 4194304), "word=4");
    assert_string_equal(found(t, 16, 0), "word=8");
    assert_string_equal(found(t, 16, 1 << 30), "word=8");   /* the larger block counts before the larger element */
    assert_string_equal(found(t, 64, 1048575), "word=8");
    assert_string_equal(found(t, 64, 1048576), "");
    assert_string_equal(tune_knobs_find(t, GEN_UNPACK, GEN_STRIDED, 1, 1)->settings, "store=exch");
    assert_null(tune_knobs_find(t, GEN_PACK, GEN_STRUCT, 64, 1 << 30));
    assert_int_equal(tune_knobs_find(t, GEN_PACK, GEN_INDEXED, 64, 1 << 30)->line, 10);
    free(t);
}

static void written(void **state)
{
    (void)state;
    struct reason why;
    struct tune_table *t = parse(rows, &why), *again;
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    tune_write(t, f);
    fclose(f);
    again = tune_parse(text, "again", &why);
    assert_non_null(again);
    assert_int_equal(again->knob_rows, t->knob_rows);
    assert_memory_equal(&again->pipeline, &t->pipeline, sizeof t->pipeline);
    for (int i = 0; i < t->knob_rows; i++) {
        assert_string_equal(again->knobs[i].settings, t->knobs[i].settings);
        assert_int_equal(again->knobs[i].block, t->knobs[i].block);
        assert_int_equal(again->knobs[i].bytes, t->knobs[i].bytes);
        assert_int_equal(again->knobs[i].family, t->knobs[i].family);
        assert_int_equal(again->knobs[i].direction, t->knobs[i].direction);
    }
    free(text);
    free(t);
    free(again);
}

static void pipelines(void **state)
{
    (void)state;
    struct reason why;
    struct tune_table *t = parse("pipeline chunk=4096  least=0, device=1\n", &why), *usual = parse("", &why);
    assert_int_equal(t->pipeline.chunk, 4096);
    assert_int_equal(t->pipeline.least, 0);
    assert_int_equal(t->pipeline.device, 1);
    assert_int_equal(t->pipeline.depth, usual->pipeline.depth);
    assert_memory_equal(&usual->pipeline, &CHUNK_SETTINGS_DEFAULT, sizeof usual->pipeline);
    free(t), free(usual);
}

static void offers(void **state)
{
    (void)state;
    struct reason why;
    char *text = NULL;
    size_t bytes;
    struct tune_table *t = parse("offer 8 8192\noffer  256\t32768\noffer 4096 never\nmap 64 65536\n", &why), *none = parse("", &why);
    assert_int_equal(none->offers.rows, 0);
    FILE *f = open_memstream(&text, &bytes);
    tune_write(t, f);
    fclose(f);
    struct tune_table *again = tune_parse(text, "again", &why);
    assert_int_equal(tune_shm_least(&again->offers, 7), INT64_MAX);
    assert_int_equal(tune_shm_least(&again->offers, 8), 8192);
    assert_int_equal(tune_shm_least(&again->offers, 255), 8192);
    assert_int_equal(tune_shm_least(&again->offers, 4095), 32768);
    assert_int_equal(tune_shm_least(&again->offers, 1 << 20), INT64_MAX);
    assert_true(tune_shm_least(tune_shm_default, 1) < 1 << 20);
    free(t), free(none), free(again), free(text);
}

/* A table of host memory alone has the figures that come with the library, and does not write them. */
static void borrowed(void **state)
{
    (void)state;
    struct reason why;
    char *text = NULL;
    size_t bytes;
    struct tune_table *t = tune_parse("stridec tune 1\nmachine any\noffer 1 4096\n", "FILE", &why);
    struct tune_table *usual = tune_parse(tune_builtin, "built-in", &why);
    assert_non_null(t);
    assert_memory_equal(t->grid, usual->grid, sizeof t->grid);
    FILE *f = open_memstream(&text, &bytes);
    tune_write(t, f);
    fclose(f);
    assert_null(strstr(text, "curve"));
    assert_non_null(strstr(text, "offer 1 4096\n"));
    free(t), free(usual), free(text);
}

static void malformed(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "knobs send strided 4 4 word=4", "knobs pack round 4 4 word=4",    "knobs pack generic 4 4 word=4",
        "knobs pack strided x 4 word=4", "knobs pack strided -4 4 word=4", "knobs pack strided 4 word=4",
        "knobs pack strided 4 4",        "knobs pack strided 4 4 word",    "knobs pack strided 4 4 word= each=4",
        "knobs pack strided 99999999999999999999 4 word=4",                "knobs",
        "knobs pack strided 4 4 word=4\nknobs pack strided 4 4 word=8",
        "offer", "offer 8", "offer 0 8", "offer 8 0", "offer 8 x", "offer 8 8192 1", "offer 8 -1", "offer 8 nevermore",
        "offer 8 8192\noffer 8 4096",
        "pipeline", "pipeline chunk", "pipeline chunk=", "pipeline chunk=255", "pipeline chunk=1073741825",
        "pipeline depth=0", "pipeline depth=17", "pipeline device=2", "pipeline least=-1", "pipeline least=1x", "pipeline width=4",
        "pipeline chunk=99999999999999999999", "pipeline chunk=4096 4", "pipeline depth=2\npipeline depth=2",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct reason why = {""};
        char *text = NULL;
        assert_true(asprintf(&text, "%s\n", lines[i]) > 0);
        assert_null(parse(text, &why));
        assert_memory_equal(why.text, strchr(lines[i], '\n') ? "FILE:6: " : "FILE:5: ", 8);
        free(text);
    }
}

/* What was measured is what is found, with no more rows than that takes. */
static void recorded(void **state)
{
    (void)state;
    static const int64_t blocks[] = {4, 8, 64}, sizes[] = {1000, 100000};
    static const char *const best[3][2] = {{"", "word=4"}, {"word=8", ""}, {"", ""}};
    struct tune_table *t = calloc(1, sizeof *t);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++) {
            struct tune_knobs k = {GEN_PACK, GEN_STRIDED, blocks[i], sizes[j], "", 0};
            strcpy(k.settings, best[i][j]);
            assert_true(tune_knobs_add(t, &k));
        }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++) {
            const char *settings = found(t, blocks[i], sizes[j]);
            assert_string_equal(settings ? settings : "", best[i][j]);
        }
    assert_int_equal(t->knob_rows, 4);   /* the last point is the model's by the row before it */
    free(t);
}

/* Lists of one class share a row, which a table may have once only: it can be read back, and disputes are the model's. */
static void test_lists_share_rows(void **state)
{
    (void)state;
    struct tune_table *t = calloc(1, sizeof *t);
    const char *const wishes[] = {"each=2", "each=2", "each=4", "each=4"};
    const int64_t bytes[] = {4096, 4096, 65536, 65536};
    for (int i = 0; i < 4; i++) {
        struct tune_knobs k = {GEN_PACK, GEN_INDEXED, 0, bytes[i], "", 0};
        strcpy(k.settings, i == 3 ? "" : wishes[i]);
        assert_true(tune_knobs_add(t, &k));
    }
    assert_int_equal(t->knob_rows, 2);
    assert_string_equal(tune_knobs_find(t, GEN_PACK, GEN_INDEXED, 0, 4096)->settings, "each=2");
    assert_string_equal(tune_knobs_find(t, GEN_PACK, GEN_INDEXED, 0, 65536)->settings, "");
    free(t);
}

/* --- kernels, in children --- */

static char folder[] = "/tmp/stridec-tune-XXXXXX";

static struct kernel *column(int64_t block, int64_t count)
{
    struct reason why;
    struct tree *t = tree_stride(0, count, 256, tree_dense(0, block, &why), &why);
    struct kernel *k = kernel_get(t, &why);
    tree_unref(t);
    if (k) kernel_wait(k);
    return k;
}

static const struct module *served(struct kernel *k)
{
    return module_of(kernel_code(k), device);
}

static bool is(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static bool has(struct kernel *k, const char *pack, const char *unpack)
{
    const struct module *m = served(k);
    return module_stage(m) == STAGE_READY && is(m->knobs[GEN_PACK], pack) && is(m->knobs[GEN_UNPACK], unpack);
}

static bool finish(bool ok)
{
    kernel_finish();
    table_finish();
    return ok;
}

/* A dump that begins with this line. */
static bool dumped(const char *first)
{
    DIR *d = opendir(getenv("STRIDEC_DUMP"));
    bool there = false;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        char path[600], line[256] = "";
        if (!strstr(e->d_name, ".txt")) continue;
        snprintf(path, sizeof path, "%s/%s", getenv("STRIDEC_DUMP"), e->d_name);
        FILE *f = fopen(path, "r");
        if (f && fgets(line, sizeof line, f)) line[strcspn(line, "\n")] = 0;
        if (f) fclose(f);
        there |= !strcmp(line, first);
    }
    if (d) closedir(d);
    return there;
}

static bool by_row(void)
{
    if (!start()) return false;
    struct kernel *small = column(8, 10), *large = column(8, 1000);
    bool ok = has(small, NULL, NULL) && has(large, "threads=512", NULL);
    ok = ok && served(large)->plan.way[GEN_PACK].threads == 512 && served(large)->plan.way[GEN_UNPACK].threads == 256;
    ok = ok && dumped("s(1000,256,d(8)) pack:threads=512") && dumped("s(10,256,d(8))");
    return finish(ok);
}

static bool by_model(void)
{
    return start() && finish(has(column(8, 1000), NULL, NULL));
}

static bool by_variable(void)
{
    return start() && finish(has(column(8, 1000), "threads=512", "word=4 threads=128"));
}

/* A table's file for the machine, in a variable's text for putenv. */
static char *table_variable(const char *machine, const char *lines)
{
    char *variable, *text = table_text(machine, lines);
    assert_true(asprintf(&variable, "STRIDEC_TUNE=%s/table", folder) > 0);
    FILE *f = fopen(strchr(variable, '=') + 1, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
    free(text);
    return variable;
}

/* The name of the GPU, asked in a child: this process keeps away from the driver. */
static bool tell_name(void)
{
    return start() && fprintf(stderr, "%s", device->name) > 0;
}

static int count_of(const char *text)
{
    int n = 0;
    for (const char *at = said; (at = strstr(at, text)); at++) n++;
    return n;
}

static void overridden(void **state)
{
    (void)state;
    in_child(false, (const char *const[]){NULL}, tell_name);
    char *machine = strdup(said);
    char *table = table_variable(machine, "knobs pack strided 4 4096 threads=512\n");
    in_child(false, (const char *const[]){table, NULL}, by_row);
    assert_string_equal(said, "");
    in_child(false, (const char *const[]){table, "STRIDEC_KNOBS=unpack:word=4 threads=128", NULL}, by_variable);
    assert_string_equal(said, "");
    free(table);
    table = table_variable("Another GPU", "knobs pack strided 4 4096 threads=512\n");
    in_child(false, (const char *const[]){table, NULL}, by_model);
    free(table);
    free(machine);
}

/* Two kernels meet the same bad row. */
static bool by_model_twice(void)
{
    if (!start()) return false;
    struct kernel *one = column(8, 1000), *two = column(16, 1000);
    return finish(has(one, NULL, NULL) && has(two, NULL, "threads=128"));
}

static void warned_once(void **state)
{
    (void)state;
    in_child(false, (const char *const[]){NULL}, tell_name);
    char *machine = strdup(said);
    char *table = table_variable(machine, "# a comment\nknobs pack strided 4 4096 treads=512\n"
                                          "knobs unpack strided 16 4096 threads=128\n");
    in_child(false, (const char *const[]){table, NULL}, by_model_twice);
    assert_int_equal(count_of("warn"), 1);
    assert_non_null(strstr(said, "/table:6: "));
    assert_non_null(strstr(said, "treads"));
    in_child(false, (const char *const[]){"STRIDEC_KNOBS=pack:word=3;send:word=4", "STRIDEC_TUNE=", NULL}, by_model);
    assert_int_equal(count_of("warn"), 2);
    assert_non_null(strstr(said, "STRIDEC_KNOBS: \"word=3\""));
    assert_non_null(strstr(said, "send:word=4"));
    free(table);
    free(machine);
}

static bool tried(void)
{
    static const char *const quick[2] = {"threads=512", "threads=128"}, *const bad[2] = {"treads=1", NULL};
    if (!start()) return false;
    struct kernel *k = column(8, 1000);
    kernel_wait(&kernel_typed_copy);   /* requested with the first layout */
    uint64_t compiled = kernel_counts().compiled;
    const struct module *production = served(k);
    struct kernel_trial trial = {k, {quick[0], quick[1]}};
    kernel_prepare(&trial, 1, device, 2);
    bool ok = kernel_try(k, device, quick) == 0 && served(k) != production && has(k, quick[0], quick[1]);
    ok = ok && served(k)->plan.way[GEN_UNPACK].threads == 128 && kernel_ready(k, device);
    ok = ok && kernel_try(k, device, bad) == -1 && served(k) == production;
    ok = ok && kernel_try(k, device, quick) == 0 && kernel_try(k, device, NULL) == 0 && served(k) == production;
    return finish(ok && kernel_counts().compiled == compiled && !strcmp(kernel_state(k), "compiled"));
}

static bool listed(void)
{
    struct reason why;
    char **list;
    if (!start()) return false;
    struct kernel *k = column(8, 1000);
    int n = kernel_candidates(k, device, KERNEL_PACK, &list, &why);
    bool ok = n > 1 && n <= 60 && list[n] == NULL;
    for (int i = 0; ok && i < n; i++) ok = strstr(list[i], "word=") && strlen(list[i]) < TUNE_SETTINGS_MAX;
    gen_knob_list_free(list);
    return finish(ok);
}

static void trials(void **state)
{
    (void)state;
    char *cache;
    assert_true(asprintf(&cache, "STRIDEC_CACHE_DIR=%s/trials", folder) > 0);
    in_child(false, (const char *const[]){cache, "STRIDEC_TUNE=", NULL}, tried);
    in_child(false, (const char *const[]){"STRIDEC_TUNE=", NULL}, listed);
    free(cache);
}

/* Compiling takes longer than there is time: one layout is measured, the one whose turn is first; the others' rows say
 * that the model chooses, so that no row of shorter blocks counts for them. */
static bool late(void)
{
    static struct tune_table t;
    struct tune_gains gains = {0};
    if (!start()) return false;
    progress_begin(1, true);
    progress_stage("kernels", 1);
    bool ok = tune_kernels(&t, device, true, &gains) == 0 && gains.measured == 1 && gains.layouts == 4;
    const struct tune_knobs *lists = tune_knobs_find(&t, GEN_PACK, GEN_INDEXED, 0, 1 << 20);
    return finish(ok && lists && !*lists->settings && !progress_time_for(0));
}

/* A layout whose moves are too short for a kernel of its own is not searched: the model chooses. */
static bool none_own(void)
{
    static struct tune_table t;
    struct tune_gains gains = {0};
    if (!start()) return false;
    progress_begin(1, true);
    progress_stage("kernels", 1);
    bool ok = tune_kernels(&t, device, true, &gains) == 0 && gains.measured == 1 && gains.layouts == 3;
    const struct tune_knobs *column = tune_knobs_find(&t, GEN_PACK, GEN_STRIDED, 8, 1 << 20);
    return finish(ok && (!column || !*column->settings));
}

/* The curves of short moves are those of the module for all regular layouts: no other is made. Without time there is one
 * row. */
static bool shared_curves(void)
{
    static struct tune_table t;
    if (!start()) return false;
    progress_begin(1e-9, true);
    progress_stage("curves", 1);
    bool ok = tune_curves(&t, device, tune_points(true)) == 0 && t.grid[TUNE_PACK_DEVICE].blocks == 1;
    ok = ok && t.grid[TUNE_UNPACK_STAGED].blocks == 1 && t.grid[TUNE_PACK_DEVICE].sizes == tune_points(true)->sizes;
    return finish(ok && kernel_counts().compiled == 1);
}

/* The curves of moves that are worth kernels of their own are of those. */
static bool own_curves(void)
{
    static struct tune_table t;
    if (!start()) return false;
    progress_begin(1e-9, true);
    progress_stage("curves", 1);
    bool ok = tune_curves(&t, device, tune_points(true)) == 0;
    struct kernel_counts made = kernel_counts();
    return finish(ok && made.compiled + made.cache_hits > 3);
}

static void out_of_time(void **state)
{
    (void)state;
    char *cache;
    assert_true(asprintf(&cache, "STRIDEC_CACHE_DIR=%s/curves", folder) > 0);
    in_child(false, (const char *const[]){cache, "STRIDEC_TUNE=", NULL}, shared_curves);
    in_child(false, (const char *const[]){cache, "STRIDEC_TUNE=", "STRIDEC_SPECIAL=1", NULL}, own_curves);
    in_child(false,
             (const char *const[]){cache, "STRIDEC_TUNE=", "STRIDEC_SPECIAL=1000000", "SIMGPU_NVRTC_DELAY_MS=1200",
                                   NULL},
             none_own);
    free(cache);
    assert_true(asprintf(&cache, "STRIDEC_CACHE_DIR=%s/late", folder) > 0);
    in_child(false, (const char *const[]){cache, "STRIDEC_TUNE=", "SIMGPU_NVRTC_DELAY_MS=1200", NULL}, late);
    free(cache);
}

/* --- from a warm disk --- */

static bool nvrtc_loaded(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD)) return true;
    return false;
}

static bool cold(void)
{
    return start() && finish(!strcmp(kernel_state(column(24, 100)), "compiled") && nvrtc_loaded());
}

static bool warm(void)
{
    struct kernel *k = start() ? column(24, 100) : NULL;
    return k && finish(!strcmp(kernel_state(k), "cache") && served(k)->plan.way[GEN_PACK].threads > 0 &&
                       !nvrtc_loaded());
}

static bool lukewarm(void)
{
    return start() && finish(!strcmp(kernel_state(column(24, 100)), "cache") && nvrtc_loaded());
}

/* The second process has its kernel without NVRTC; a note that is wrong costs looking for it, once. */
static void warm_start(void **state)
{
    (void)state;
    char *cache, *note;
    assert_true(asprintf(&cache, "STRIDEC_CACHE_DIR=%s/warm", folder) > 0);
    assert_true(asprintf(&note, "%s/warm/nvrtc", folder) > 0);
    const char *const settings[] = {cache, "STRIDEC_TUNE=", "STRIDEC_DUMP=", NULL};
    in_child(false, settings, cold);
    in_child(false, settings, warm);
    FILE *f = fopen(note, "w");
    assert_true(f && fputs("stridec nvrtc 1\n/gone/libnvrtc.so\n1 2 3\n4\n1 0 90\n", f) >= 0 && fclose(f) == 0);
    in_child(false, settings, lukewarm);
    in_child(false, settings, warm);
    assert_string_equal(said, "");
    /* A pipe whose other end nobody holds is replaced. */
    assert_true(!unlink(note) && !mkfifo(note, 0600));
    alarm(60);
    in_child(false, settings, lukewarm);
    alarm(0);
    assert_non_null(strstr(said, "it is no regular file"));
    in_child(false, settings, warm);
    assert_string_equal(said, "");
    free(cache);
    free(note);
}

int main(void)
{
    char path[64], command[64];
    if (!mkdtemp(folder)) return 1;
    setenv("STRIDEC_CACHE_DIR", strcat(strcpy(path, folder), "/cache"), 1);
    setenv("STRIDEC_DUMP", strcat(strcpy(path, folder), "/made/dump"), 1);
    setenv("HOME", folder, 1);
    unsetenv("XDG_CONFIG_HOME");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen),
        cmocka_unit_test(test_lists_share_rows),     cmocka_unit_test(written),     cmocka_unit_test(pipelines), cmocka_unit_test(offers), cmocka_unit_test(borrowed), cmocka_unit_test(malformed),
        cmocka_unit_test(recorded),
        cmocka_unit_test(overridden), cmocka_unit_test(warned_once), cmocka_unit_test(trials),
        cmocka_unit_test(out_of_time),
        cmocka_unit_test(warm_start),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
