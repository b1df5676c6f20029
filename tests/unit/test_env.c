/* test_env.c: STRIDEC_* variables: what they set, and the warnings for what is not allowed.
 * Settings are read once a process, so that each case runs in a child. */
#include "../../runtime/base/env.h"
#include "../../runtime/base/log.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "child.h"

static bool are_defaults(void)
{
    const struct env *e = env_get();
    env_check();
    return !e->disable && e->log_level == LOG_WARN && e->transport == ENV_AUTO &&
           e->engine == ENV_ENGINE_AUTO && e->sm_limit == 0 && e->keep == 0 && !e->cache_dir && !e->dump &&
           !e->stats && !e->trace && e->trace_mib == 64 && !e->observed && !e->timed && !e->aot &&
           !e->tune && !e->tune_named &&
           !e->pipeline && !e->pipeline_named && !e->chunks;
}

static bool votes_no(void)
{
    return !env_get()->pipeline && env_get()->pipeline_named;
}

static void defaults(void **state)
{
    (void)state;
    in_child(true, (const char *const[]){NULL}, are_defaults);
    assert_string_equal(said, "");
    in_child(true, (const char *const[]){"STRIDEC_DUMP=", "STRIDEC_LOG=", "STRIDEC_STATS=", "STRIDEC_PIPELINE=", NULL}, are_defaults);
    assert_string_equal(said, "");
    in_child(true, (const char *const[]){"STRIDEC_PIPELINE=0", NULL}, votes_no);
}

static bool are_set(void)
{
    const struct env *e = env_get();
    env_check();
    return e->disable && e->log_level == LOG_DEBUG && e->transport == ENV_STAGED &&
           e->engine == ENV_ENGINE_COPY && e->sm_limit == 12 && e->keep == 300 && !strcmp(e->cache_dir, "/c") &&
           !strcmp(e->dump, "/d") && e->stats && !strcmp(e->trace, "/tr") && e->trace_mib == 7 &&
           e->observed && e->timed && !strcmp(e->aot, "/a") && !strcmp(e->tune, "/t") && e->tune_named &&
           e->pipeline && e->pipeline_named && !strcmp(e->chunks, "depth=2");
}

static bool stands(const char *path, const char *where, const char *name)
{
    size_t n = strlen(where);
    return path && !strncmp(path, where, n) && path[n] == '/' && !strcmp(path + n + 1, name);
}

/* Each is opened when it is wanted: by then the program may be elsewhere. */
static bool are_where_it_began(void)
{
    char *here = getcwd(NULL, 0);
    const struct env *e = env_get();
    bool all = here && stands(e->cache_dir, here, "c") && stands(e->dump, here, "d/e") && stands(e->aot, here, "./a") &&
               stands(e->tune, here, "t") && stands(e->cc, here, "bin/cc") && !strcmp(e->chunks, "depth=2");
    free(here);
    return all;
}

static bool is_searched_for(void)
{
    return !strcmp(env_get()->cc, "gcc");
}

static void relative_paths(void **state)
{
    (void)state;
    in_child(true,
             (const char *const[]){"STRIDEC_CACHE_DIR=c", "STRIDEC_DUMP=d/e", "STRIDEC_AOT=./a", "STRIDEC_TUNE=t",
                                   "STRIDEC_CC=bin/cc", "STRIDEC_CHUNKS=depth=2", NULL},
             are_where_it_began);
    in_child(true, (const char *const[]){"STRIDEC_CC=gcc", NULL}, is_searched_for);
}

static void all_set(void **state)
{
    (void)state;
    in_child(true,
             (const char *const[]){"STRIDEC_DISABLE=1", "STRIDEC_LOG=debug", "STRIDEC_TRANSPORT=staged",
                                   "STRIDEC_ENGINE=copy", "STRIDEC_SM_LIMIT=12", "STRIDEC_KEEP=300", "STRIDEC_CACHE_DIR=/c",
                                   "STRIDEC_DUMP=/d", "STRIDEC_STATS=1", "STRIDEC_TRACE=/tr", "STRIDEC_TRACE_MIB=7", "STRIDEC_AOT=/a", "STRIDEC_TUNE=/t",
                                   "STRIDEC_PIPELINE=1", "STRIDEC_CHUNKS=depth=2", NULL},
             are_set);
    assert_string_equal(said, "");
}

static bool are_all(void)
{
    env_check();
    return env_get()->stats && env_get()->stats_form == ENV_STATS_ALL && !env_get()->stats_file;
}

static bool are_json(void)
{
    char *here = getcwd(NULL, 0);
    const struct env *e = env_get();
    env_check();
    bool there = here && stands(e->stats_file, here, "a/b.json");
    free(here);
    return there && e->stats && e->stats_form == ENV_STATS_JSON;
}

/* Counts are kept, and nothing is printed. */
static bool are_recorded(void)
{
    const struct env *e = env_get();
    return e->stats && e->stats_form == ENV_STATS_NONE && !strcmp(e->record, "/r");
}

static void forms_of_statistics(void **state)
{
    (void)state;
    in_child(true, (const char *const[]){"STRIDEC_STATS=all", NULL}, are_all);
    in_child(true, (const char *const[]){"STRIDEC_STATS=json:a/b.json", NULL}, are_json);
    in_child(true, (const char *const[]){"STRIDEC_STATS=0", "STRIDEC_RECORD=/r", NULL}, are_recorded);
    assert_string_equal(said, "");
    const char *const wrong[] = {"STRIDEC_STATS=json:", "STRIDEC_STATS=json", "STRIDEC_STATS=2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        in_child(true, (const char *const[]){wrong[i], NULL}, are_defaults);
        assert_non_null(strstr(said, "is not allowed and counts as 0 (statistics at MPI_Finalize): allowed: 0, 1, all, "
                                     "json:FILE\n"));
    }
}

static bool under_home(void)
{
    return !strcmp(env_get()->cache_dir, "/home/u/.cache/stridec") &&
           !strcmp(env_get()->tune, "/home/u/.config/stridec/tune") && !env_get()->tune_named;
}

static bool under_xdg(void)
{
    return !strcmp(env_get()->cache_dir, "/x/stridec") && !strcmp(env_get()->tune, "/y/stridec/tune");
}

static void usual_folders(void **state)
{
    (void)state;
    in_child(true, (const char *const[]){"HOME=/home/u", NULL}, under_home);
    in_child(true, (const char *const[]){"HOME=/home/u", "XDG_CACHE_HOME=/x", "XDG_CONFIG_HOME=/y", NULL}, under_xdg);
}

static void wrong_values(void **state)
{
    (void)state;
    in_child(true, (const char *const[]){"STRIDEC_TRANSPORT=pigeon", "STRIDEC_DISABLE=yes", NULL}, are_defaults);
    assert_non_null(strstr(said, "STRIDEC_TRANSPORT=pigeon is not allowed"));
    assert_non_null(strstr(said, "allowed: auto, device, oneshot, staged, zerocopy, pipelined\n"));
    assert_non_null(strstr(said, "STRIDEC_DISABLE=yes"));
    assert_non_null(strstr(said, "allowed: 0, 1\n"));
    in_child(true, (const char *const[]){"STRIDEC_TRANSPORT=onehsot", NULL}, are_defaults);
    assert_non_null(strstr(said, "zerocopy, pipelined; did you mean oneshot?\n"));
    const char *const numbers[] = {"STRIDEC_SM_LIMIT=-1", "STRIDEC_SM_LIMIT=half", "STRIDEC_SM_LIMIT=4x",
                                   "STRIDEC_SM_LIMIT= 4", "STRIDEC_SM_LIMIT=2147483648",
                                   "STRIDEC_SM_LIMIT=99999999999999999999"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        in_child(true, (const char *const[]){numbers[i], NULL}, are_defaults);
        assert_non_null(strstr(said, "is not allowed and counts as 0"));
        assert_non_null(strstr(said, "allowed: 0 to 2147483647\n"));
    }
}

static bool has_chunks(void)
{
    env_check();
    return env_get()->chunks && !env_get()->pipeline;
}

/* Whether or not messages are to go in chunks. */
static void wrong_chunks(void **state)
{
    (void)state;
    static const char *const bad[] = {"STRIDEC_CHUNKS=65536", "STRIDEC_CHUNKS=chunk=1", "STRIDEC_CHUNKS=depth=4 size=9"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        in_child(true, (const char *const[]){bad[i], NULL}, has_chunks);
        assert_non_null(strstr(said, bad[i]));
        assert_non_null(strstr(said, "is not allowed and counts as none"));
        assert_non_null(strstr(said, "depth= 1 to 16 chunks"));
    }
    in_child(true, (const char *const[]){"STRIDEC_CHUNKS=chunk=256,depth=16 least=0 device=1", NULL}, has_chunks);
    assert_string_equal(said, "");
}

static void wrong_names(void **state)
{
    (void)state;
    in_child(true, (const char *const[]){"STRIDEC_TRANSPOR=device", "STRIDEC_PARROT=", "STRIDE=1", NULL}, are_defaults);
    assert_non_null(strstr(said, "STRIDEC_TRANSPOR is not a variable of stridec: did you mean STRIDEC_TRANSPORT?\n"));
    assert_non_null(strstr(said, "STRIDEC_PARROT is not a variable of stridec; allowed: STRIDEC_DISABLE, STRIDEC_LOG"));
    assert_non_null(strstr(said, "STRIDEC_TUNE\n"));
    assert_null(strstr(said, "STRIDE "));
}

static bool logs(void)
{
    log_set_rank(3);
    log_write(LOG_INFO, "%s", "hidden");
    log_write(LOG_ERROR, "%d apples", 2);
    for (int i = 0; i < 3; i++) log_once(LOG_WARN, "key", "once %d", i);
    char *longer = malloc(10001);
    memset(longer, 'x', 10000);
    longer[10000] = '\0';
    log_write(LOG_ERROR, "%s", longer);
    free(longer);
    return log_enabled(LOG_WARN) && !log_enabled(LOG_INFO);
}

static void messages(void **state)
{
    (void)state;
    in_child(true, (const char *const[]){NULL}, logs);
    assert_memory_equal(said, "stridec[3]: error: 2 apples\nstridec[3]: warn: once 0\nstridec[3]: error: xxx", 70);
    assert_true(said[strlen(said) - 1] == '\n' && strlen(said) < 4096);
}

static void on_abort(int signal)
{
    (void)signal;
    _exit(0);
}

static bool ends(void)
{
    signal(SIGABRT, on_abort);
    log_fatal("no memory for %d apples", 3);
}

static void last_words(void **state)
{
    (void)state;
    in_child(true, (const char *const[]){"STRIDEC_LOG=error", NULL}, ends);
    assert_non_null(strstr(said, ": error: no memory for 3 apples\n"));
}

/* What the program does to its environment, stridec's threads don't see. */
static bool stays(void)
{
    bool first = !strcmp(env_variable("APPLES"), "3") && !env_variable("APPLE") && !env_variable("EMPTY");
    setenv("APPLES", "4", 1), setenv("PEARS", "5", 1);
    bool same = !strcmp(env_variable("APPLES"), "3") && !env_variable("PEARS") && !strcmp(env_all()[1], "APPLES=3");
    clearenv();
    return first && same && !strcmp(env_variable("APPLES"), "3") && !env_all()[2];
}

static void environment(void **state)
{
    (void)state;
    in_child(true, (const char *const[]){"EMPTY=", "APPLES=3", NULL}, stays);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),     cmocka_unit_test(all_set),     cmocka_unit_test(relative_paths),
        cmocka_unit_test(usual_folders),
        cmocka_unit_test(forms_of_statistics), cmocka_unit_test(wrong_values), cmocka_unit_test(wrong_names), cmocka_unit_test(messages),
        cmocka_unit_test(wrong_chunks),
        cmocka_unit_test(last_words),   cmocka_unit_test(environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
