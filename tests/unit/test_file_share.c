/* test_file_share.c: one process of a job reads a file, the others have its bytes from memory; nobody waits for one
 * that is dead, and the last one leaves nothing. Each process of a "job" is a child of the test. */
#include "../../runtime/base/file.h"
#include "../../runtime/base/file_share.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

static char base[] = "/tmp/stridec-share-XXXXXX", prefix[64], folder[80];

static bool shared(const char *path, const char *text)
{
    size_t bytes = 0;
    char *got = file_share_get(path, &bytes);
    if (!got) return !text;
    bool same = text && bytes == strlen(text) && !strcmp(got, text);
    free(got);
    return same;
}

/* Runs a process of the job; `body` returns its exit status. */
static pid_t begin(int (*body)(void))
{
    pid_t child = fork();
    if (child == 0) _exit(file_share_start(prefix) ? body() : 99);
    return child;
}

static int end(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int gate[2], other[2];

static void pass(int fd[2])
{
    if (write(fd[1], "x", 1) != 1) _exit(98);
}

static void await(int fd[2])
{
    char byte;
    if (read(fd[0], &byte, 1) != 1) _exit(97);
}

static int set_up(void **state)
{
    (void)state;
    return pipe(gate) || pipe(other);
}

static int tear_down(void **state)
{
    (void)state;
    close(gate[0]), close(gate[1]), close(other[0]), close(other[1]);
    return access(folder, F_OK) == 0;   /* nothing is left */
}

static void not_started(void **state)
{
    (void)state;
    file_share_put("a", "text", 4);
    assert_true(shared("a", NULL));
    file_share_remove("a");
    file_share_finish();
}

static int reads(void)
{
    bool good = shared("a", NULL);
    file_share_put("a", "text", 4);
    good &= shared("b", NULL);
    file_share_put("b", NULL, 0);
    pass(gate);
    await(other);
    file_share_finish();
    return !good;
}

static int finds(void)
{
    struct stat s;
    bool good = shared("a", "text") && shared("a", "text") && shared("b", NULL);
    file_share_put("b", NULL, 0);
    good &= !stat(folder, &s) && (s.st_mode & 07777) == 0700;
    file_share_put("a", "newer", 5);
    good &= shared("a", "newer");
    file_share_remove("a");
    good &= shared("a", NULL);
    file_share_finish();
    return !good;
}

/* The first to end leaves the folder to the other. */
static void one_reads(void **state)
{
    (void)state;
    pid_t first = begin(reads);
    await(gate);
    assert_int_equal(end(begin(finds)), 0);
    assert_int_equal(access(folder, F_OK), 0);
    pass(other);
    assert_int_equal(end(first), 0);
}

/* The first one finds the file, the second its bytes alone. */
static int reads_for_all(void)
{
    const char *why;
    size_t bytes = 0;
    char path[120];
    snprintf(path, sizeof path, "%s/all", base);
    FILE *f = fopen(path, "w");
    bool good = f && fputs("text", f) >= 0 && !fclose(f);
    for (int i = 0; i < 2; i++) {
        char *text = file_share_read(path, FILE_OWN, 10, &bytes, &why);
        good &= text && bytes == 4 && !strcmp(text, "text");
        free(text);
        good &= unlink(path) == 0 || i;
    }
    file_share_remove(path);
    good &= !file_share_read(path, FILE_OWN, 10, &bytes, &why) && errno == ENOENT;
    file_share_finish();
    return !good;
}

static void one_reads_for_all(void **state)
{
    (void)state;
    assert_int_equal(end(begin(reads_for_all)), 0);
}

static int reads_slowly(void)
{
    bool good = shared("a", NULL);
    pass(gate);
    await(other);
    file_share_put("a", "text", 4);
    pass(gate);
    await(other);
    file_share_finish();
    return !good;
}

static int waits(void)
{
    pass(other);
    bool good = shared("a", "text");
    file_share_finish();
    return !good;
}

static void others_wait(void **state)
{
    (void)state;
    pid_t first = begin(reads_slowly);
    await(gate);
    pid_t second = begin(waits);
    await(gate);
    assert_int_equal(end(second), 0);
    pass(other);
    assert_int_equal(end(first), 0);
}

static int dies(void)
{
    if (!shared("a", NULL)) return 1;
    raise(SIGKILL);
    return 1;
}

static int is_alone(void)
{
    bool good = shared("a", NULL);
    file_share_put("a", "text", 4);
    good &= shared("a", "text");
    file_share_finish();
    return !good;
}

/* While one is stopped as it reads, the other goes on after two seconds; as soon as it is dead, at once. */
static void dead_or_stopped(void **state)
{
    (void)state;
    assert_int_equal(end(begin(dies)), 1000 + SIGKILL);
    assert_int_equal(access(folder, F_OK), 0);
    assert_int_equal(end(begin(is_alone)), 0);
    pid_t stopped = begin(reads_slowly);
    await(gate);
    kill(stopped, SIGSTOP);
    assert_int_equal(end(begin(is_alone)), 0);
    kill(stopped, SIGCONT);
    pass(other), await(gate), pass(other);
    assert_int_equal(end(stopped), 0);
}

/* Removes what a killed job has left, but not what a living one has, nor what is no such folder. */
static void dropped(void **state)
{
    (void)state;
    char stays[96];
    pid_t lives = begin(reads);
    await(gate);
    file_share_drop(folder);
    assert_int_equal(access(folder, F_OK), 0);
    kill(lives, SIGKILL);
    assert_int_equal(end(lives), 1000 + SIGKILL);
    file_share_drop(folder);
    assert_int_equal(access(folder, F_OK), -1);
    snprintf(stays, sizeof stays, "%s/other", base);
    assert_int_equal(mkdir(stays, 0700), 0);
    strcat(stays, "/file");
    assert_true(file_replace(stays, 0600, "x", 1));
    *strrchr(stays, '/') = '\0';
    file_share_drop(stays);
    strcat(stays, "/file");
    assert_int_equal(access(stays, F_OK), 0);
    file_share_drop(stays);
    assert_int_equal(access(stays, F_OK), 0);
}

static int fills(void)
{
    enum { PART = 3 << 20 };
    char *part = calloc(1, PART), name[16];
    size_t bytes;
    int found = 0;
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "%d", i);
        file_share_put(name, part, PART);
    }
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "%d", i);
        char *text = file_share_get(name, &bytes);
        found += text && bytes == PART;
        free(text);
    }
    free(part);
    file_share_finish();
    return found != 5;
}

static void bounded(void **state)
{
    (void)state;
    assert_int_equal(end(begin(fills)), 0);
}

/* The application has closed the descriptor, and has a file of its own by that number. */
static int loses_lock(void)
{
    struct stat lock, s;
    char name[96];
    snprintf(name, sizeof name, "%s/lock", folder);
    if (stat(name, &lock)) return 1;
    for (int fd = 3; fd < 64; fd++)
        if (!fstat(fd, &s) && s.st_ino == lock.st_ino && s.st_dev == lock.st_dev) dup2(gate[0], fd);
    file_share_put("a", "text", 4);
    bool good = shared("a", NULL);
    file_share_finish();
    file_share_drop(folder);
    return !good;
}

static void closed(void **state)
{
    (void)state;
    assert_int_equal(end(begin(loses_lock)), 0);
}

/* A folder that others may write to, and a link to one: each reads its files itself. */
static void not_trusted(void **state)
{
    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(end(begin(is_alone)), 99);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(symlink("/tmp", folder), 0);
    assert_int_equal(end(begin(is_alone)), 99);
    assert_int_equal(unlink(folder), 0);
}

static void nowhere(void **state)
{
    (void)state;
    assert_false(file_share_start("/nowhere/of.all."));
    assert_true(shared("a", NULL));
}

int main(void)
{
    if (!mkdtemp(base)) return 1;
    snprintf(prefix, sizeof prefix, "%s/job.", base);
    snprintf(folder, sizeof folder, "%sread", prefix);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(not_started), TEST(one_reads), TEST(one_reads_for_all), TEST(others_wait), TEST(dead_or_stopped),
        TEST(dropped), TEST(bounded),
        TEST(closed),
        TEST(not_trusted), TEST(nowhere),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command) || failed;
}
