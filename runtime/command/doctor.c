/* doctor.c: stridec doctor: looks at this system, and says what is wrong and what mends it. A table of checks; under
 * mpirun one report for all ranks. */
#include "base/env.h"
#include "checkup.h"
#include "command.h"
#include "doctor.h"
#include "interpose/call_table.h"
#include "measure/messages.h"
#include "measure/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of the report. Rows without a function are added by doctor_main. */
static const struct {
    const char *name;
    doctor_check *check;
} checks[] = {
    {"stridec", doctor_version},       {"library", doctor_library},   {"mpi", doctor_mpi},
    {"cuda-aware", doctor_cuda_aware}, {"launcher", doctor_launcher}, {"mpirun", doctor_mpirun},
    {"driver", doctor_driver},         {"gpu", doctor_gpus},          {"peer access", doctor_peers},
    {"nvrtc", doctor_nvrtc},           {"compiler", doctor_compiler}, {"aot", doctor_aot},
    {"/dev/shm", doctor_shm},          {"cma", doctor_cma},           {"limits", doctor_limits},
    {"cache", doctor_cache},           {"tuned table", doctor_tune},  {"variables", doctor_variables},
};

static int list_calls(void)
{
    size_t widest = 0;
    for (int i = 0; i < call_row_total; i++) {
        size_t n = strlen(call_rows[i].name);
        widest = n > widest ? n : widest;
    }
    for (int i = 0; i < call_row_total; i++) {
        const struct call_row *row = &call_rows[i];
        const char *how = strcmp(row->how, "passed") == 0 ? "passed through" : row->how;
        printf("%-*s  %-14s  %s\n", (int)widest, row->name, how, row->why);
    }
    return 0;
}

static void add_row(void *arg, const struct messages_row *row)
{
    struct checkup *c = arg;
    char name[24];
    snprintf(name, sizeof name, "%s %s", row->memory, row->path);
    if (row->wrong) {
        checkup_add_named(c, LEVEL_BAD, name, "%ld of %ld messages wrong: %s", row->wrong, row->sent, row->why);
        checkup_fix(c, "please report it with `stridec doctor --json`; till then %s", row->without);
    } else if (row->sent) {
        checkup_add_named(c, LEVEL_OK, name, "%ld messages, %.1f MB: every byte is right", row->sent, row->bytes / 1e6);
    } else {
        checkup_add_named(c, LEVEL_NONE, name, "not available: %s", row->why);
    }
}

static bool as_json;

static void print(const struct checkup *c)
{
    if (as_json) checkup_print_json(c, stridec_version);
    else checkup_print(c);
}

/* The last word on a job whose MPI_Init ends the process: what this rank has found until then. */
static struct checkup *unsaid;

static void say_rest(void)
{
    if (!unsaid || doctor_start_rank() != 0) return;
    unsaid->check = "mpi";
    checkup_add(unsaid, LEVEL_BAD, "MPI_Init ends the program: its message is on standard error");
    checkup_fix(unsaid, "does a small program without stridec start by the same mpirun?");
    print(unsaid);
    fflush(stdout);
}

/* Collects the findings of all ranks on rank 0, and those of --messages, which one rank asks of all. Returns false on
 * other ranks. */
static bool of_all_ranks(struct checkup *c, bool messages)
{
    unsaid = c;
    atexit(say_rest);
    env_widen();
    ranks_begin();
    unsaid = NULL;
    messages = ranks_any(messages);
    int rank = ranks_own(), n = ranks_count();
    char *own = checkup_pack(c), **list = ranks_gather(own);
    struct checkup all = {.check = messages ? "messages" : "launcher"};
    for (int i = 0; list && i < n; i++) checkup_merge(&all, list[i], i, n), free(list[i]);
    free(own), free(list);
    if (n < doctor_start_size()) {
        checkup_add(&all, LEVEL_BAD, "the launcher started %d ranks, each is a job of its own", doctor_start_size());
        checkup_fix(&all, "start by the mpirun of the MPI that stridec is for");
    }
    if (messages && n < 2)
        checkup_add(&all, LEVEL_WARN, "none sent: they need two ranks, as by mpirun -n 2");
    else if (messages)
        messages_check(add_row, &all);
    for (int i = 0; i < all.count; i++)
        if (!all.finding[i].ranks && !(all.finding[i].ranks = calloc((size_t)n, 1)))
            exit(failure("doctor", "out of memory"));
    ranks_end();
    checkup_free(c);
    *c = all;
    return rank == 0 && doctor_start_rank() == 0;
}

/* Returns true if this process prints. */
static bool look(struct checkup *c, const struct args *a)
{
    enum doctor_start start = doctor_start();
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) c->check = checks[i].name, checks[i].check(c);
    c->check = "program";
    if (a->words) doctor_program(c, a->word[0]);
    return start == START_JOB ? of_all_ranks(c, option(a, "--messages")) : doctor_start_rank() == 0;
}

static int read_arguments(const struct args *a)
{
    /* Under a launcher a rank's standard output may be a terminal of the launcher's, whatever its own is. */
    const char *asked = option(a, "--color"), *when = asked ? asked : doctor_start() == START_NONE ? "auto" : "never";
    if (a->words > 1) return usage_error("doctor", "unexpected %s: one program, without its arguments", a->word[1]);
    if (option(a, "--calls") && (a->words || option(a, "--messages") || option(a, "--json")))
        return usage_error("doctor", "--calls stands alone");
    if (!text_colours(when)) return usage_error("doctor", "--color %s: it is auto, always or never", when);
    if (option(a, "--messages") && doctor_start() == START_NONE)
        return usage_error("doctor", "--messages needs two ranks: mpirun -n 2 stridec doctor --messages");
    return 0;
}

int doctor_main(const struct args *a)
{
    struct checkup c = {.count = 0};
    int status = read_arguments(a);
    if (status != 0) return status;
    if (option(a, "--calls")) return list_calls();
    as_json = option(a, "--json");
    if (look(&c, a)) print(&c);
    status = checkup_worst(&c) == LEVEL_BAD ? EXIT_FAILED : 0;
    checkup_free(&c);
    return status;
}
