/* test_output.c: files that the user names: replaced whole, or written in place. */
#include "../../runtime/base/output.h"
#include "folder.h"
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
    bool done = put("stdout", "text "), is = output_is_standard(in_folder("stdout"));
    printf("after");
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(fd), close(kept);
    assert_true(done && is);
    assert_true(holds("out", "before text after"));
    assert_false(output_is_standard(in_folder("out")));
}

/* So do standard error, and a descriptor by its number. */
static void other_descriptors_go_on(void **state)
{
    char name[32];
    (void)state;
    assert_int_equal(symlink("/proc/self/fd/2", in_folder("stderr")), 0);
    int kept = dup(STDERR_FILENO), fd = open(in_folder("err"), O_CREAT | O_RDWR | O_TRUNC, 0600);
    dup2(fd, STDERR_FILENO);
    fprintf(stderr, "one ");
    bool done = put("stderr", "two ");
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    done &= output_write(name, 0666, "three ", 6);
    fprintf(stderr, "four");
    dup2(kept, STDERR_FILENO);
    close(fd), close(kept);
    assert_true(done);
    assert_true(holds("err", "one two three four"));
    assert_false(output_write("/dev/fd/", 0666, "x", 1));
}

/* A draft takes no name that a file has. */
static void drafts_replace_nothing(void **state)
{
    char name[64], first[64];
    (void)state;
    snprintf(name, sizeof name, "log.%d", (int)getpid()), snprintf(first, sizeof first, "log.%d.0", (int)getpid());
    assert_true(put(name, "old") && put(first, "older"));
    assert_true(put("log", "new") && holds("log", "new"));
    assert_true(holds(name, "old") && holds(first, "older"));
}

/* Makes a file in a folder with this mode, and writes it anew; root may make files in any folder, so as somebody else
 * then. */
static void write_in(const char *in, mode_t mode)
{
    char name[64];
    int status = -1;
    snprintf(name, sizeof name, "%s/file", in);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(mkdir(in_folder(in), 0755), 0);
    assert_true(put(name, "the old text"));
    assert_int_equal(chmod(in_folder(name), 0666), 0);
    assert_int_equal(chmod(in_folder(in), mode), 0);
    pid_t child = fork();
    if (child == 0) _exit(geteuid() == 0 && (setgid(65534) || setuid(65534)) ? 2 : put(name, "new") ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(holds(name, "new"));
    assert_int_equal(chmod(in_folder(in), 0755), 0);
    assert_int_equal(unlink(in_folder(name)), 0);
    assert_int_equal(rmdir(in_folder(in)), 0);   /* no draft is left */
}

/* It takes no new file, or lets nobody replace another one's. */
static void a_closed_folder_is_no_obstacle(void **state)
{
    (void)state;
    write_in("closed", 0555);
    write_in("sticky", 01777);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_replaced),
        cmocka_unit_test(others_are_written_in_place),
        cmocka_unit_test(standard_output_goes_on),
        cmocka_unit_test(other_descriptors_go_on),
        cmocka_unit_test(drafts_replace_nothing),
        cmocka_unit_test(a_closed_folder_is_no_obstacle),
    };
    return RUN_IN_FOLDER(tests);
}
