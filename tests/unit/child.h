/* child.h: test bodies in children, for what is read once a process. */
#ifndef STRIDEC_TESTS_UNIT_CHILD_H
#define STRIDEC_TESTS_UNIT_CHILD_H
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[8192]; /* what the last child wrote to standard error */

struct child {
    pid_t pid;
    int out;
};

/* Begins `body` in a child with these settings ("NAME=value"), in an empty environment or beside the test's own. */
static inline struct child child_begin(bool empty, const char *const settings[], bool (*body)(void))
{
    int out[2];
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(out[1], STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL), signal(SIGBUS, SIG_DFL);   /* cmocka's handler would go on with the next test, here */
        if (empty) clearenv();
        for (; *settings; settings++) putenv((char *)*settings);
        _exit(body() ? 0 : 1);
    }
    close(out[1]);
    return (struct child){child, out[0]};
}

/* Its result must be true. */
static inline void child_end(struct child c)
{
    int status;
    size_t used = 0;
    ssize_t got;
    while ((got = read(c.out, said + used, sizeof said - 1 - used)) > 0) used += (size_t)got;
    said[used] = '\0';
    close(c.out);
    assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
    if (status) fputs(said, stderr);
    assert_int_equal(status, 0);
}

static inline void in_child(bool empty, const char *const settings[], bool (*body)(void))
{
    child_end(child_begin(empty, settings, body));
}

#endif
