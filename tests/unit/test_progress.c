/* test_progress.c: what `stridec tune` tells: how far it is, how noisy the machine is, what it found. */
#include "../../runtime/measure/findings.h"
#include "../../runtime/measure/progress.h"
#include "../../runtime/measure/timing.h"
#include "../../runtime/tune/table_fit.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "child.h"

/* --- time --- */

static bool stages(void)
{
    progress_begin(1000, true);
    bool ok = progress_time_for(0) && progress_time_for(999) && !progress_time_for(1001);
    progress_stage("first", 0.5);
    ok = ok && progress_time_for(499) && !progress_time_for(501);
    progress_step(1, 2);
    progress_say("%d things", 3);
    progress_stage("last", 1);
    ok = ok && progress_time_for(999);
    progress_end();
    return ok && progress_mean(1) < 100 && progress_elapsed() < 100;
}

static bool silent(void)
{
    progress_begin(1000, false);
    progress_stage("first", 0.5);
    progress_step(1, 2);
    progress_say("%d things", 3);
    progress_end();
    return true;
}

/* A stage that is told to take no time has none left. */
static bool over(void)
{
    progress_begin(1e-9, true);
    progress_stage("late", 1);
    return !progress_time_for(0);
}

static void lines_without_a_terminal(void **state)
{
    (void)state;
    in_child(false, (const char *const[]){NULL}, stages);
    assert_string_equal(said, "stridec tune: first, at most 1000 s left\nstridec tune: 3 things\n"
                              "stridec tune: last, at most 1000 s left\n");
    in_child(false, (const char *const[]){NULL}, silent);
    assert_string_equal(said, "");
    in_child(false, (const char *const[]){NULL}, over);
    assert_string_equal(said, "stridec tune: late, at most 0 s left\n");
}

/* Runs stages() with a terminal as standard error, and writes all that it showed to the real one. What is written to
 * a terminal arrives in pieces: it is read until no one holds the terminal any more. */
static bool on_a_terminal(void)
{
    char shown[2048];
    int out = dup(STDERR_FILENO), terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) || unlockpt(terminal)) return false;
    int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    if (end < 0 || dup2(end, STDERR_FILENO) < 0) return false;
    bool ok = stages() && fflush(stderr) == 0 && dup2(out, STDERR_FILENO) >= 0 && close(end) == 0;
    size_t size = 0;
    for (ssize_t n; (n = read(terminal, shown + size, sizeof shown - size)) > 0;) size += (size_t)n;
    return size > 0 && write(out, shown, size) == (ssize_t)size && ok;
}

static void a_bar_on_a_terminal(void **state)
{
    (void)state;
    in_child(false, (const char *const[]){NULL}, on_a_terminal);
    assert_non_null(strstr(said, "\r[........................] first, at most 1000 s left\033[K"));
    assert_non_null(strstr(said, "\r\033[Kstridec tune: 3 things"));
    assert_non_null(strstr(said, "] last, "));
}

/* --- noise --- */

static int calls;

/* Takes 10 us, or 10 and 14 in turns. */
static double once(void *wide)
{
    return calls++ % 2 && *(bool *)wide ? 14 : 10;
}

static void noise(void **state)
{
    (void)state;
    bool wide = false;
    assert_true(tune_scatter() == 0);   /* too few */
    for (int i = 0; i < 20; i++) assert_true(tune_repeat(once, &wide) == 10);
    assert_true(tune_scatter() == 0);
    wide = true;
    for (int i = 0; i < 40; i++) tune_repeat(once, &wide);
    assert_in_range((int)(100 * tune_scatter()), 28, 40);
}

/* --- findings --- */

#define HEAD "stridec tune 1\n"
#define SIZES "bytes 1024 65536 1048576\n"
static const char table[] =
    HEAD "curve pack_device\n" SIZES "block 64 6 8 20\ncurve unpack_device\n" SIZES "block 64 6 8 20\n"
    "curve pack_mapped\n" SIZES "any 5 10 100\ncurve unpack_mapped\n" SIZES "any 5 10 100\n"
    "curve pack_staged\n" SIZES "any 9 11 40\ncurve unpack_staged\n" SIZES "any 9 11 40\n"
    "curve message_host\n" SIZES "any 1 2 3\n"
    "curve zerocopy\n" SIZES "block 64 50 9 10\ncurve peer_read\n" SIZES "block 64 5 6 8\n";

static bool findings(void)
{
    struct reason why;
    struct tune_gains gains = {.layouts = 42, .measured = 30, .better = 4, .sum = 0.4, .most = 0.25};
    struct tune_table *t = tune_parse(table, "FILE", &why);
    if (!t || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return false;
    findings_print(t, 1, gen_gpu_row(90), &gains);
    t->grid[TUNE_PEER_READ].blocks = t->grid[TUNE_ZEROCOPY].blocks = 0;
    findings_print(t, 1, gen_gpu_row(70), NULL);
    gains.better = 0;
    /* Time for one row, of shorter blocks; the other is no measured one. */
    struct tune_grid *g = &t->grid[TUNE_PACK_DEVICE];
    g->blocks = 2, g->block[0] = 4, g->block[1] = 64;
    for (int j = 0; j < g->sizes; j++) g->us[1][j] = g->us[0][j] / 2;
    findings_print(t, 1, gen_gpu_row(70), &gains);
    return fflush(stdout) == 0;
}

static void found_against_assumed(void **state)
{
    (void)state;
    in_child(false, (const char *const[]){NULL}, findings);
    int lines = 0;
    for (const char *at = said; (at = strchr(at, '\n')) != NULL; at++) lines++;
    assert_int_equal(lines, 15);
    static const char *const parts[] = {
        "crossover  found: zero-copy on the node from 16 KiB, staged elsewhere from 256 KiB; assumed: zero-copy on the "
        "node always, staged elsewhere never\n",
        "launch     found: 6.0 us a kernel, waited for; assumed: 8.0 us\n",
        "link       found: 492 GB/s between the GPUs of ranks 0 and 1; assumed: 450 GB/s\n",
        "packing    found: 52.4 GB/s of 64 B blocks; assumed: 127 GB/s\n",
        "kernels    found: 4 of 60 beat the model, by 10 %, at most 25 % (30 of 42 layouts); assumed: the model's "
        "everywhere\n",
        "link       found: not measured; assumed: 150 GB/s\n",
        "kernels    found: not measured; assumed: the model's everywhere\n",
        "launch     found: 6.0 us a kernel, waited for; assumed: 8.0 us\nlink       found: not measured; assumed: 150 GB/s\n"
        "packing    found: not measured; assumed: ",
        "kernels    found: none beats the model (30 of 42 layouts); assumed: the model's everywhere\n",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(said, parts[i])) fail_msg("no line %s in\n%s", parts[i], said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_without_a_terminal), cmocka_unit_test(a_bar_on_a_terminal), cmocka_unit_test(noise),
        cmocka_unit_test(found_against_assumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
