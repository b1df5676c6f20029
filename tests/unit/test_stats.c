/* test_stats.c: the statistics of many types: long signatures are not sent without a limit, and many types of one name
 * get names of their own. */
#include "../../runtime/observe/stats_job.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define LONG (((size_t)1 << 20) + 1)   /* 11 of them leave room */

/* Adds types with this name and a whole signature of so many bytes. */
static void add_types(struct stats_job *job, int types, size_t bytes, const char *name)
{
    char *text = NULL, *whole = malloc(bytes + 1);
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_true(f && whole);
    memset(whole, 'd', bytes), whole[bytes] = 0;
    for (int i = 0; i < types; i++)
        fprintf(f, "R\ts%d\t-\tf\t8\t8\t0\t0\t0\t0\t0\nx\t%s\nn\t%s\n", i, whole, name);
    fclose(f), free(whole);
    stats_job_add(job, text);
}

static char *contents(FILE *f)
{
    long size = (fflush(f), fseek(f, 0, SEEK_END), ftell(f));
    char *text = calloc(1, (size_t)size + 1);
    rewind(f);
    assert_int_equal(fread(text, 1, (size_t)size, f), size);
    fclose(f);
    return text;
}

static int times(const char *text, const char *part)
{
    int n = 0;
    while ((text = strstr(text, part))) n++, text += strlen(part);
    return n;
}

static FILE *record(const struct stats_job *job)
{
    char path[] = "/tmp/stridec-stats-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && !close(fd) && stats_record(job, path));
    FILE *f = fopen(path, "r");
    unlink(path);
    return f;
}

/* One rank sends 20 signatures of more than 1 MiB each; the next reads and records them. */
static void long_signatures(void **state)
{
    struct stats_job job = {.ranks = 1}, next = {.ranks = 2};
    (void)state;
    add_types(&job, 20, LONG, "long");
    FILE *f = tmpfile();
    stats_job_write(&job, f);
    char *text = contents(f);
    assert_true(strlen(text) > STATS_WHOLE_MAX - LONG && strlen(text) < STATS_WHOLE_MAX);
    stats_job_add(&next, text);
    char *spec = contents(record(&next));
    assert_int_equal(times(spec, "] = signature"), STATS_WHOLE_MAX / LONG);
    assert_int_equal(times(spec, "-- left out, too long a list: s"), 20 - (int)(STATS_WHOLE_MAX / LONG));
    /* Another rank may send what this one left out. */
    add_types(&next, 20, 4, "short");
    free(spec), spec = contents(record(&next));
    assert_int_equal(times(spec, "-- left out"), 0);
    free(spec);
    stats_job_free(&job), stats_job_free(&next);
}

/* A minute and more if each name is sought from the first. */
static void one_name(void **state)
{
    enum { TYPES = 60000 };
    struct stats_job job = {.ranks = 1};
    (void)state;
    add_types(&job, TYPES, 4, "face");
    alarm(20);
    char *spec = contents(record(&job));
    alarm(0);
    assert_int_equal(times(spec, "[\"face_"), TYPES - 1);
    assert_int_equal(times(spec, "[\"face_60000\"]"), 1);
    free(spec);
    stats_job_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_signatures), cmocka_unit_test(one_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
