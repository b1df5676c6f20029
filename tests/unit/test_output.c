/* test_output.c: files that the user names: replaced whole, or written in place. */
#include "../../runtime/base/output.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64], path[128];

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

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

static bool put(const char *name, const char *text)
{
    return output_write(in_folder(name), 0666, text, strlen(text));
}

static void files_are_replaced(void **state)
{
    (void)state;
    mode_t old = umask(027);
    assert_true(put("file", "one"));
    assert_true(holds("file", "one"));
    assert_int_equal(mode_of("file"), S_IFREG | 0640);
    assert_int_equal(chmod(in_folder("file"), 0604), 0);
    assert_int_equal(symlink("file", in_folder("link")), 0);
    assert_true(put("link", "two"));
    assert_true(S_ISLNK(mode_of("link")) && holds("file", "two"));
    assert_int_equal(mode_of("file"), S_IFREG | 0604);
    assert_true(output_write(in_folder("file"), 0600, "two", 3));
    assert_int_equal(mode_of("file"), S_IFREG | 0600);
    umask(old);
    assert_int_equal(symlink("later", in_folder("dangling")), 0);
    assert_true(put("dangling", "three"));
    assert_true(S_ISLNK(mode_of("dangling")) && holds("later", "three"));
    assert_false(put(".", "four"));
    assert_false(put("none/file", "four"));
    assert_int_equal(errno, ENOENT);
}

static void others_are_written_in_place(void **state)
{
    char text[16] = "";
    (void)state;
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    int fd = open(path, O_RDWR | O_NONBLOCK);
    assert_true(put("pipe", "word"));
    assert_int_equal(read(fd, text, sizeof text), 4);
    assert_string_equal(text, "word");
    assert_true(S_ISFIFO(mode_of("pipe")));
    assert_int_equal(symlink("pipe", in_folder("to_pipe")), 0);
    assert_true(put("to_pipe", "more"));
    assert_int_equal(read(fd, text, sizeof text), 4);
    assert_string_equal(text, "more");
    assert_true(S_ISLNK(mode_of("to_pipe")) && S_ISFIFO(mode_of("pipe")));
    close(fd);
}

/* By a link of the folder: what is wrong must not replace the system's /dev/stdout. */
static void standard_output_goes_on(void **state)
{
    (void)state;
    assert_int_equal(symlink("/proc/self/fd/1", in_folder("stdout")), 0);
    fflush(stdout);
    int kept = dup(STDOUT_FILENO), fd = open(in_folder("out"), O_CREAT | O_RDWR | O_TRUNC, 0600);
    dup2(fd, STDOUT_FILENO);
    printf("before ");
    bool done = put("stdout", "text ");
    printf("after");
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(fd), close(kept);
    assert_true(done);
    assert_true(holds("out", "before text after"));
}

/* Root may make files in any folder: the test goes as somebody else then. */
static int write_in_closed_folder(void)
{
    if (geteuid() == 0 && (setgid(65534) || setuid(65534))) return 2;
    return put("closed/file", "new") ? 0 : 1;
}

static void a_closed_folder_is_no_obstacle(void **state)
{
    int status = -1;
    (void)state;
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(mkdir(in_folder("closed"), 0755), 0);
    assert_true(put("closed/file", "the old text"));
    assert_int_equal(chmod(in_folder("closed/file"), 0666), 0);
    assert_int_equal(chmod(in_folder("closed"), 0555), 0);
    pid_t child = fork();
    if (child == 0) _exit(write_in_closed_folder());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(holds("closed/file", "new"));
    assert_int_equal(chmod(in_folder("closed"), 0755), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_replaced),
        cmocka_unit_test(others_are_written_in_place),
        cmocka_unit_test(standard_output_goes_on),
        cmocka_unit_test(a_closed_folder_is_no_obstacle),
    };
    snprintf(folder, sizeof folder, "/tmp/stridec.XXXXXX");
    if (!mkdtemp(folder)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char remove[96];
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    return system(remove) != 0 || failed;
}
