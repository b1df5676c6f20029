/* test_command.c: parts of the command: what it captures of other programs, its findings, the files that it writes. */
#include "../../runtime/command/capture.h"
#include "../../runtime/command/command.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64];

/* --- other programs --- */

#define WORD(text) ((char *)(uintptr_t)(text))

static int shell(const char *script, char *out, size_t bytes, int seconds)
{
    return capture((char *[]){WORD("sh"), WORD("-c"), WORD(script), NULL}, out, bytes, seconds);
}

static void ended_and_hanging(void **state)
{
    char out[16];
    (void)state;
    time_t begin = time(NULL);
    assert_int_equal(shell("echo word; exit 3", out, sizeof out, 60), 3);
    assert_string_equal(out, "word\n");
    assert_int_equal(shell("echo word; exec >&- 2>&-; exec sleep 100", out, sizeof out, 1), -1);
    assert_string_equal(out, "word\n");
    assert_int_equal(shell("echo word; sleep 100", out, sizeof out, 1), -1);
    assert_true(time(NULL) - begin < 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ended_and_hanging),
    };
    snprintf(folder, sizeof folder, "/tmp/stridec.XXXXXX");
    if (!mkdtemp(folder)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char remove[96];
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    return system(remove) != 0 || failed;
}
