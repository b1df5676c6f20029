/* test_table.c: tuned tables: what they make of a message, whether they are of this system, and what is wrong with one.
 * Needs no GPU; what is read once a process runs in children. */
#include "../../runtime/pack/explain.h"
#include "../../runtime/tune/active.h"
#include "../../runtime/tune/table_fit.h"
#include "../../runtime/tune/table_origin.h"
#include "../../runtime/tune/verdict.h"
#include <locale.h>
#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "child.h"
#include <sys/stat.h>

#define HEAD "stridec tune 1\n"
#define ONE(curve, us) "curve " curve "\nbytes 1024 65536\nany " us " " us "\n"
/* Packed messages: staged 30 us, oneshot 90, device 6; in one piece 2 where the MPI takes device memory. */
#define PACKED \
    ONE("pack_mapped", "30") ONE("unpack_mapped", "30") ONE("message_host", "30") ONE("pack_staged", "0.1") \
    ONE("unpack_staged", "0.1") ONE("pack_device", "2") ONE("unpack_device", "2") ONE("message_device", "2")
#define ZEROCOPY \
    "curve zerocopy\nbytes 1024 65536\nblock 8 100 40\nblock 64 6.5 6.7\n"

static struct tune_table *parse(const char *text)
{
    struct reason why = {""};
    struct tune_table *t = tune_parse(text, "FILE", &why);
    if (!t) fail_msg("%s", why.text);
    return t;
}

/* --- verdicts --- */

static void verdicts(void **state)
{
    static const struct {
        struct tune_message m;
        bool direct;
        enum tune_transport way;
    } cases[] = {
        {{.block = 8, .bytes = 1024}, false, TUNE_STAGED},                      /* 100 us against 30.2 */
        {{.block = 8, .bytes = 65536}, false, TUNE_STAGED},                     /* 40 */
        {{.block = 64, .bytes = 1024}, true, TUNE_STAGED},                      /* 6.5 */
        {{.block = 4096, .bytes = 1024}, true, TUNE_STAGED},                    /* as the longest */
        {{.block = 64, .bytes = 1024, .aware = true}, true, TUNE_DEVICE},       /* 6.5 against 6: noise */
        {{.block = 64, .bytes = 65536, .aware = true}, false, TUNE_DEVICE},     /* 6.7 against 6 */
        {{.block = 4, .bytes = 1024}, true, TUNE_STAGED},                       /* shorter than what was measured */
        {{.block = 8, .bytes = 65537}, true, TUNE_STAGED},                      /* longer */
        {{.block = 8, .bytes = 512}, false, TUNE_STAGED},                       /* as the shortest */
        {{.block = 8, .bytes = 1024, .foreign = true}, true, TUNE_STAGED},
        {{.block = 8, .bytes = 1024, .contiguous = true}, true, TUNE_ONESHOT},  /* blocks of 1024: 6.5 against 90 */
        {{.block = 8, .bytes = 1024, .contiguous = true, .aware = true}, true, TUNE_DEVICE},   /* against 2: all the same */
    };
    (void)state;
    struct tune_table *t = parse(HEAD PACKED ZEROCOPY), *without = parse(HEAD PACKED);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tune_verdict v = tune_judge(t, &cases[i].m);
        if (v.direct != cases[i].direct || v.way != cases[i].way) fail_msg("case %zu", i);
        v = tune_judge(without, &cases[i].m);
        if (!v.direct || v.way != cases[i].way) fail_msg("case %zu without the curve", i);
    }
    free(t), free(without);
}

static void reasons(void **state)
{
    char why[TUNE_WHY_MAX];
    (void)state;
    struct tune_table *t = parse(HEAD PACKED ZEROCOPY);
    struct tune_message m = {.block = 8, .bytes = 1024}, longer = {.block = 8, .bytes = 1 << 20};
    struct tune_verdict v = tune_judge(t, &m);
    tune_explain(&v, v.direct, "FILE", why);
    assert_string_equal(why, "30.2 us, zerocopy 100.0 by FILE");
    tune_explain(&v, true, "FILE", why);
    assert_string_equal(why, "100.0 us, staged 30.2 by FILE");
    v = tune_judge(t, &longer);
    tune_explain(&v, v.direct, "FILE", why);
    assert_non_null(strstr(why, "(no figures of it in FILE)"));
    free(t);
}

/* --- the built-in curves on other GPUs --- */

static struct tune_table *fitted(int sm, int memory)
{
    struct gen_gpu gpu = gen_gpu_of(sm, 0, 0, 0, memory);
    struct tune_table *t = parse(tune_builtin);
    tune_fit(t, &gpu);
    return t;
}

/* H100 and H200 keep the figures; slower memory and links make long messages slower, short ones take what they took. */
static void fits(void **state)
{
    (void)state;
    struct tune_table *t = parse(tune_builtin);
    struct tune_table *h100 = fitted(90, 3352), *h200 = fitted(90, 4916), *v100 = fitted(70, 898);
    struct tune_table *a100 = fitted(80, 2039), *b200 = fitted(100, 8183);
    assert_memory_equal(t->grid, h100->grid, sizeof t->grid);
    assert_memory_equal(t->grid, h200->grid, sizeof t->grid);
    for (int c = 0; c < TUNE_CURVES; c++)
        for (int i = 0; i < t->grid[c].blocks; i++)
            for (int j = 0; j < t->grid[c].sizes; j++) {
                assert_true(v100->grid[c].us[i][j] >= t->grid[c].us[i][j]);
                assert_true(v100->grid[c].us[i][j] >= a100->grid[c].us[i][j]);
                assert_true(b200->grid[c].us[i][j] <= t->grid[c].us[i][j]);
            }
    double large = 4194304;
    /* 88.82 - 6.83 us by a way to the host of 64 GB/s, on a V100 of 16 */
    assert_float_equal(tune_time(v100, TUNE_PACK_MAPPED, 1024, large), 6.83 + 4 * (88.82 - 6.83), 0.1);
    assert_float_equal(tune_time(v100, TUNE_MESSAGE_DEVICE, 1, large), 8.12 + 3 * (19.80 - 8.12), 0.1);
    assert_float_equal(tune_time(v100, TUNE_MESSAGE_HOST, 1, large), 335.58, 0.01);
    free(t), free(h100), free(h200), free(v100), free(a100), free(b200);
}

/* A table of short blocks alone, whose time in mapped memory is bad, says nothing of long ones: these are chosen for as
 * without a table. */
static void fills(void **state)
{
    (void)state;
    static const double blocks[] = {4, 4096};
    struct gen_gpu gpu = *gen_gpu_row(75);
    struct tune_message m = {.block = 4096, .bytes = 65536};
    struct tune_table *usual = parse(tune_builtin), *t = parse(tune_builtin);
    tune_fit(usual, &gpu);
    for (int c = TUNE_PACK_DEVICE; c <= TUNE_UNPACK_STAGED; c++) t->grid[c].blocks = 1;
    for (int j = 0; j < t->grid[TUNE_PACK_MAPPED].sizes; j++) t->grid[TUNE_PACK_MAPPED].us[0][j] = 777;
    assert_int_equal(tune_judge(usual, &m).way, TUNE_ONESHOT);
    assert_int_equal(tune_judge(t, &m).way, TUNE_STAGED);
    assert_true(tune_fill(t, &gpu, blocks, 2));
    assert_int_equal(tune_judge(t, &m).way, TUNE_ONESHOT);
    for (int c = TUNE_PACK_DEVICE; c <= TUNE_UNPACK_STAGED; c++) {
        assert_int_equal(t->grid[c].blocks, 2);
        for (int j = 0; j < t->grid[c].sizes; j++)
            assert_float_equal(t->grid[c].us[1][j], tune_time(usual, (enum tune_curve)c, 4096, t->grid[c].bytes[j]), 1e-6);
    }
    assert_true(t->grid[TUNE_PACK_MAPPED].us[0][0] == 777 && tune_fill(t, &gpu, blocks, 2));
    assert_int_equal(t->grid[TUNE_PACK_MAPPED].blocks, 2);   /* nothing is missing */
    free(t), free(usual);
}

/* The table in use: fitted to the process's GPU unless it was measured. */
static bool uses_fitted(void)
{
    struct gen_gpu v100 = *gen_gpu_row(70), h200 = *gen_gpu_row(90);
    table_start();
    const struct tune_table *active = table_active(NULL), *t = table_for(&v100);
    bool own = table_from_file() && !active->borrowed, ok = table_for(NULL) == active;
    ok = ok && (own ? t == active : t != active && t == table_for(&h200) &&
         tune_time(t, TUNE_PACK_MAPPED, 64, 4194304) > tune_time(active, TUNE_PACK_MAPPED, 64, 4194304));
    table_finish();
    return ok && !table_for(&v100);
}

static void fitted_tables(void **state)
{
    (void)state;
    char tune[80];
    char file[] = "/tmp/stridec-table-XXXXXX";
    int fd = mkstemp(file);
    assert_true(fd >= 0 && dprintf(fd, HEAD PACKED) > 0 && !close(fd));
    snprintf(tune, sizeof tune, "STRIDEC_TUNE=%s", file);
    in_child(true, (const char *const[]){"STRIDEC_TUNE=", NULL}, uses_fitted);
    in_child(true, (const char *const[]){tune, NULL}, uses_fitted);
    unlink(file);
}

/* --- where a table is from --- */

static void origins(void **state)
{
    struct tune_table t = {.machine = "GPU 1"};
    struct reason why;
    (void)state;
    assert_false(tune_other_machine(&t, "GPU 1", &why));
    assert_true(tune_other_machine(&t, "GPU 2", &why));
    t.borrowed = true;   /* the library's curves, and settings of kernels or not */
    assert_false(tune_other_machine(&t, "GPU 2", &why));
    t.knob_rows = 1;
    assert_true(tune_other_machine(&t, "GPU 2", &why));
    assert_string_equal(why.text, "was measured on GPU 1, this is GPU 2");
    assert_false(tune_other_mpi(&t, &why));
    assert_false(tune_other_stridec(&t, &why));
    strcpy(t.mpi, "any"), strcpy(t.stridec, "any");
    assert_false(tune_other_mpi(&t, &why));
    assert_false(tune_other_stridec(&t, &why));
    strcpy(t.mpi, "Some MPI 1.0"), strcpy(t.stridec, "0");
    assert_true(tune_other_mpi(&t, &why));
    assert_memory_equal(why.text, "was measured with Some MPI 1.0, this is ", 40);
    assert_true(strlen(why.text + 40) < sizeof t.mpi);
    strcpy(t.mpi, why.text + 40);
    assert_false(tune_other_mpi(&t, &why));
    assert_true(tune_other_stridec(&t, &why));
    assert_memory_equal(why.text, "was measured with stridec 0, this is ", 37);
    snprintf(t.stridec, sizeof t.stridec, "%s", gen_version());
    assert_false(tune_other_stridec(&t, &why));
}

/* --- reading and writing --- */

static void written(void **state)
{
    static const char jobs[] = "curve fused\nbytes 1024\njobs 1 5\njobs 26 6\ncurve apart\nbytes 1024\njobs 1 5\n";
    char *text = NULL, *all;
    size_t bytes;
    (void)state;
    assert_true(asprintf(&all, HEAD "machine A\nmpi B\nstridec C\ncuda 13.0\ndate D\n" PACKED ZEROCOPY "%s", jobs) > 0);
    struct tune_table *t = parse(all), *again;
    FILE *f = open_memstream(&text, &bytes);
    tune_write(t, f);
    fclose(f);
    again = parse(text);
    assert_memory_equal(again, t, sizeof *t);
    assert_string_equal(again->stridec, "C");
    assert_true(again->grid[TUNE_FUSED].block[1] == 26 && again->grid[TUNE_FUSED].us[1][0] == 6);
    free(text), free(all), free(t), free(again);
}

/* Each is refused by file and line, whatever else the table holds. */
static const struct {
    const char *text, *says;
} damaged[] = {
    {"", "FILE:1: "},
    {"stridec tune 2\n", "FILE:1: "},
    {"\177ELF", "FILE:1: "},
    {HEAD "curve warp\n", "FILE:2: unknown curve"},
    {HEAD ONE("pack_mapped", "1") "curve pack_mapped\n", "FILE:5: a second curve"},
    {HEAD "curve zerocopy\nany 1\n", "FILE:3: a row before"},
    {HEAD "bytes 1\n", "FILE:2: `bytes` belongs"},
    {HEAD "curve zerocopy\nbytes 4 2\n", "FILE:3: sizes"},
    {HEAD "curve zerocopy\nbytes 4 8\nblock 8 1\n", "FILE:4: a row needs"},
    {HEAD "curve zerocopy\nbytes 4 8\nblock 8 1 nan\n", "FILE:4: a row needs"},
    {HEAD "curve zerocopy\nbytes 4 8\nblock 8 1 -1\n", "FILE:4: a row needs"},
    {HEAD "curve zerocopy\nbytes 4 8\nblock 8 1 0\n", "FILE:4: a row needs"},
    {HEAD "curve zerocopy\nbytes 4 8\nblock 8 1 inf\n", "FILE:4: a row needs"},
    {HEAD "curve zerocopy\nbytes 4 8\nblock 8 1 1e16\n", "FILE:4: a row needs"},
    {HEAD "curve zerocopy\nbytes 4 8\nblock 8 1 2us\n", "FILE:4: a row needs"},
    {HEAD "curve zerocopy\nbytes 4 8\nblock -8 1 1\n", "FILE:4: a row begins"},
    {HEAD "curve zerocopy\nbytes 4 8\nblock 8 1 1\nblock 4 1 1\n", "FILE:5: block lengths"},
    {HEAD "curve zerocopy\nbytes 4 8\njobs 8 1 1\n", "FILE:4: rows of this curve begin with `block`"},
    {HEAD "curve fused\nbytes 4 8\nblock 8 1 1\n", "FILE:4: rows of this curve begin with `jobs`"},
    {HEAD "curve message_ho", "FILE:2: unknown curve"},
    {HEAD PACKED "date 2026\nfrob 1\n", "FILE:27: unknown line"},
    {HEAD ONE("pack_mapped", "1"), "FILE:6: no rows for curve unpack_mapped"},
};
enum { DAMAGED = sizeof damaged / sizeof *damaged };

static void refused(void **state)
{
    (void)state;
    for (int i = 0; i < DAMAGED; i++) {
        struct reason why = {""};
        assert_null(tune_parse(damaged[i].text, "FILE", &why));
        if (strncmp(why.text, damaged[i].says, strlen(damaged[i].says))) fail_msg("%d: %s", i, why.text);
    }
}

/* A table cut off anywhere is refused, or is one that still decides. */
static void cut(void **state)
{
    static const char whole[] = HEAD "machine A\n" PACKED ZEROCOPY;
    struct tune_message m = {.block = 8, .bytes = 4096};
    (void)state;
    for (size_t n = 0; n < sizeof whole; n++) {
        struct reason why = {""};
        char *text = strndup(whole, n);
        struct tune_table *t = tune_parse(text, "FILE", &why);
        if (t) assert_true(tune_judge(t, &m).transport_us > 0);
        else assert_memory_equal(why.text, "FILE:", 5);
        free(t), free(text);
    }
}

/* --- in use --- */

static char file[] = "/tmp/stridec-table-XXXXXX";

static void put(const char *text)
{
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

static int count_of(const char *text)
{
    int n = 0;
    for (const char *at = said; (at = strstr(at, text)); at++) n++;
    return n;
}

static bool in_use(bool own)
{
    const char *name;
    table_start();
    const struct tune_table *t = table_active(&name);
    bool ok = t && !strcmp(name, own ? file : "built-in");
    table_finish();
    return ok;
}

static bool serves(void)
{
    return in_use(true);
}

static bool gives_way(void)
{
    return in_use(false);
}

/* One warning for each thing that is wrong, by the file's name. */
static void warned(void **state)
{
    char variable[64];
    snprintf(variable, sizeof variable, "STRIDEC_TUNE=%s", file);
    const char *const settings[] = {variable, NULL};
    (void)state;
    put(HEAD "mpi any\n" PACKED);
    in_child(false, settings, serves);
    assert_string_equal(said, "");
    put(HEAD "mpi Some MPI 1.0\n" PACKED);
    in_child(false, settings, serves);
    assert_int_equal(count_of("warn"), 1);
    assert_non_null(strstr(said, file));
    assert_non_null(strstr(said, "was measured with Some MPI 1.0"));
    put(HEAD "mpi any\nstridec 0\n" PACKED);
    in_child(false, settings, serves);
    assert_int_equal(count_of("warn"), 1);
    assert_non_null(strstr(said, "was measured with stridec 0"));
    for (int i = 0; i < DAMAGED; i += 5) {
        put(damaged[i].text);
        in_child(false, settings, gives_way);
        assert_int_equal(count_of("warn"), 1);
        assert_non_null(strstr(said, file));
        assert_non_null(strstr(said, "using the built-in figures"));
    }
    /* A table that others may write to, and a pipe, whose other end nobody holds. */
    put(HEAD "mpi any\n" PACKED);
    assert_int_equal(chmod(file, 0664), 0);
    in_child(false, settings, gives_way);
    assert_int_equal(count_of("warn"), 1);
    assert_non_null(strstr(said, "others may write to it"));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(file, 0600), 0);
    alarm(20);
    in_child(false, settings, gives_way);
    alarm(0);
    assert_int_equal(count_of("warn"), 1);
    assert_non_null(strstr(said, "it is no regular file"));
    assert_int_equal(unlink(file), 0);
    in_child(false, settings, gives_way);
    assert_int_equal(count_of("warn"), 1);
}

/* Programs with windows set the user's locale before MPI_Init: there numbers may have commas. */
static bool by_commas(void)
{
    char text[8];
    bool set = setlocale(LC_ALL, "de_DE");
    snprintf(text, sizeof text, "%.1f", 1.5);
    return set && !strcmp(text, "1,5") && in_use(false);
}

static void locales(void **state)
{
    char folder[] = "/tmp/stridec-locale-XXXXXX", command[160], path[64];
    const char *const settings[] = {path, "STRIDEC_TUNE=", "HOME=", "XDG_CONFIG_HOME=", NULL};
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "LOCPATH=%s", folder);
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE >/dev/null 2>&1", folder);
    bool made = system(command) == 0;
    if (made) in_child(false, settings, by_commas);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    if (!made) skip();   /* no descriptions of locales here */
}

/* --- telling --- */

static bool told(void)
{
    struct reason why;
    struct tree *t = tree_parse("s(1000,256,d(8))", &why);
    struct layout l[2] = {{.tree = t, .signature = "s(1000,256,d(8))", .size = 8000, .extent = 255752, .block = 8}};
    table_start();
    l[0].stats = stats_row(NULL, NULL);
    l[1] = l[0];   /* made anew, with the same signature */
    for (int i = 0; i < 30; i++) {
        explain_path(&l[i % 2], 1 + i / 2 % 2, 8000 * (1 + i / 2 % 2), i % 5 ? "zerocopy" : "staged");
        explain_path(&l[0], 1, 8000, "direct");   /* no message */
    }
    explain_path(&l[0], 1, 8000, "spilled");
    table_finish();
    tree_unref(t);
    return explain_wanted();
}

static void tell_with(const char *setting)
{
    const char *const settings[] = {"STRIDEC_LOG=info", "STRIDEC_TUNE=", "HOME=", "XDG_CONFIG_HOME=", setting, NULL};
    in_child(false, settings, told);
}

/* A line for each layout, number of bytes and path, however often and in whatever order. */
static void tells_once(void **state)
{
    (void)state;
    tell_with("STRIDEC_TRANSPORT=");
    assert_int_equal(count_of("info"), 5);
    assert_int_equal(count_of("s(1000,256,d(8)): 8000 bytes: zerocopy: the rule within a node"), 1);
    assert_int_equal(count_of("s(1000,256,d(8)): 16000 bytes: zerocopy: the rule within a node"), 1);
    assert_int_equal(count_of("s(1000,256,d(8)): 8000 bytes: staged: "), 1);
    assert_int_equal(count_of("s(1000,256,d(8)): 16000 bytes: staged: "), 1);
    assert_int_equal(count_of("s(1000,256,d(8)): 8000 bytes: spilled: the receiver"), 1);
    tell_with("STRIDEC_TRANSPORT=staged");
    assert_int_equal(count_of("8000 bytes: staged: by STRIDEC_TRANSPORT"), 1);
    tell_with("STRIDEC_TRANSPORT=zerocopy");
    assert_int_equal(count_of("8000 bytes: zerocopy: by STRIDEC_TRANSPORT"), 1);
}

int main(void)
{
    int fd = mkstemp(file);
    if (fd < 0) return 1;
    close(fd);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits), cmocka_unit_test(fills), cmocka_unit_test(fitted_tables),
        cmocka_unit_test(verdicts), cmocka_unit_test(reasons), cmocka_unit_test(origins), cmocka_unit_test(written),
        cmocka_unit_test(refused),  cmocka_unit_test(cut),     cmocka_unit_test(warned),  cmocka_unit_test(locales),
        cmocka_unit_test(tells_once),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(file);
    return failed;
}
