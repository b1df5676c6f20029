/* test_command.c: parts of the command: what it captures of other programs, its findings. */
#include "../../runtime/command/capture.h"
#include "../../runtime/command/checkup.h"
#include "../../runtime/command/command.h"
#include "folder.h"
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

/* --- findings --- */

static void texts_are_utf8(void **state)
{
    static const struct {
        const char *text, *cleaned;
    } cases[] = {
        {"a\xc3\xa9\xe2\x82\xac", "a\xc3\xa9\xe2\x82\xac"},
        {"\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf", "\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf"},
        {"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80", "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80"},
        {"\xc0\x80", "??"},
        {"\xe0\x9f\xbf", "???"},
        {"\xed\xa0\x80", "???"},
        {"\xf0\x8f\xbf\xbf", "????"},
        {"\xf4\x90\x80\x80", "????"},
        {"\xf5\x80\x80\x80", "????"},
        {"\xe2\x82", "??"},
        {"tab\tline\n\x7f", "tab line  "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checkup c = {.check = "text"};
        checkup_add(&c, LEVEL_OK, "%s", cases[i].text);
        assert_string_equal(c.finding[0].text, cases[i].cleaned);
        checkup_free(&c);
    }
}

/* Sends standard output to a file, and gives its text. */
static char *printed(void (*print)(const struct checkup *c), const struct checkup *c)
{
    static char text[1 << 16];
    fflush(stdout);
    int kept = dup(STDOUT_FILENO), fd = open(in_folder("out"), O_CREAT | O_RDWR | O_TRUNC, 0600);
    dup2(fd, STDOUT_FILENO);
    print(c);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    close(fd), close(kept);
    text[n < 0 ? 0 : n] = '\0';
    return text;
}

static void print_json(const struct checkup *c)
{
    checkup_print_json(c, "0");
}

static void all_ranks_are_named(void **state)
{
    enum { RANKS = 1000 };
    struct checkup all = {.check = "job"}, odd = {.check = "job"};
    (void)state;
    checkup_add(&odd, LEVEL_OK, "odd");
    char *packed = checkup_pack(&odd);
    for (int i = 0; i < RANKS; i++) checkup_merge(&all, i % 2 ? packed : "", i, RANKS);
    assert_non_null(strstr(printed(print_json, &all), ",995,997,999\""));
    assert_non_null(strstr(printed(checkup_print, &all), ",995,997,999:"));
    free(packed);
    checkup_free(&odd), checkup_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ended_and_hanging),
        cmocka_unit_test(texts_are_utf8),
        cmocka_unit_test(all_ranks_are_named),
    };
    return RUN_IN_FOLDER(tests);
}
