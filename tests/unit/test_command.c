/* test_command.c: parts of the command: what it captures of other programs, its findings, the files that it writes. */
#include "../../runtime/command/capture.h"
#include "../../runtime/command/checkup.h"
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

static char folder[64], path[128];

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

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

/* --- files --- */

static bool holds(const char *name, const char *wanted)
{
    char text[64] = "";
    FILE *f = fopen(in_folder(name), "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    return n == strlen(wanted) && strcmp(text, wanted) == 0;
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    return lstat(in_folder(name), &st) ? 0 : st.st_mode;
}

static int put(const char *name, const char *text)
{
    struct reason why;
    return write_output(in_folder(name), 0666, text, strlen(text), &why);
}

static void files_are_replaced(void **state)
{
    (void)state;
    mode_t old = umask(027);
    assert_int_equal(put("file", "one"), 0);
    assert_true(holds("file", "one"));
    assert_int_equal(mode_of("file"), S_IFREG | 0640);
    umask(old);
    assert_int_equal(symlink("file", in_folder("link")), 0);
    assert_int_equal(put("link", "two"), 0);
    assert_true(S_ISLNK(mode_of("link")) && holds("file", "two"));
    assert_int_equal(symlink("later", in_folder("dangling")), 0);
    assert_int_equal(put("dangling", "three"), 0);
    assert_true(S_ISLNK(mode_of("dangling")) && holds("later", "three"));
    assert_int_equal(put(".", "four"), -1);
    assert_int_equal(put("none/file", "four"), -1);
}

static void others_are_written_in_place(void **state)
{
    char text[16] = "";
    (void)state;
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    int fd = open(path, O_RDWR | O_NONBLOCK);
    assert_int_equal(put("pipe", "word"), 0);
    assert_int_equal(read(fd, text, sizeof text), 4);
    assert_string_equal(text, "word");
    assert_true(S_ISFIFO(mode_of("pipe")));
    assert_int_equal(symlink("pipe", in_folder("to_pipe")), 0);
    assert_int_equal(put("to_pipe", "more"), 0);
    assert_int_equal(read(fd, text, sizeof text), 4);
    assert_string_equal(text, "more");
    assert_true(S_ISLNK(mode_of("to_pipe")) && S_ISFIFO(mode_of("pipe")));
    close(fd);
}

/* By a link of the folder: what is wrong must not replace the system's /dev/stdout. */
static void print_output(const struct checkup *c)
{
    (void)c;
    printf("before ");
    assert_int_equal(put("stdout", "text "), 0);
    printf("after");
}

static void standard_output_goes_on(void **state)
{
    (void)state;
    assert_int_equal(symlink("/proc/self/fd/1", in_folder("stdout")), 0);
    assert_string_equal(printed(print_output, NULL), "before text after");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ended_and_hanging),           cmocka_unit_test(texts_are_utf8),
        cmocka_unit_test(all_ranks_are_named),         cmocka_unit_test(files_are_replaced),
        cmocka_unit_test(others_are_written_in_place), cmocka_unit_test(standard_output_goes_on),
    };
    snprintf(folder, sizeof folder, "/tmp/stridec.XXXXXX");
    if (!mkdtemp(folder)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char remove[96];
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    return system(remove) != 0 || failed;
}
