/* main.c: the stridec command: the table of subcommands, --help and --version. */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char stridec_version[] = STRIDEC_VERSION;

#define MPI_OPTION                                                                                                     \
    {"--mpi", "MPI",                                                                                                   \
     "of the builds installed the one for openmpi-4, openmpi-5, mpich or mpi-abi (the standard ABI of MPI 5); "        \
     "default that of the program's MPI, else of the launcher's, else of the MPI that is found"}

#if __has_include(<nvtx3/nvToolsExt.h>)
#define RANGES "A profiler that takes NVTX ranges (nsys) shows each call that stridec serves, with its type."
#else
#define RANGES "This stridec was built without NVTX's header: it gives profilers no ranges."
#endif

static const struct option run_options[] = {
    MPI_OPTION,
    {"--sim", NULL, "use the simulated GPU"},
    {"--stats", "[=HOW]",
     "at the end rank 0 prints what stridec did, by protocol and datatype, and what it left to the MPI. "
     "--stats=all: every datatype; --stats=json:FILE: as JSON, into that file"},
    {"--record", "FILE",
     "at the end rank 0 writes the committed datatypes as a spec: `stridec gen FILE -o DIR` compiles them, and "
     "STRIDEC_AOT=DIR has a later run use that"},
    {"--trace", "DIR", "each rank writes a timeline, DIR/RANK.json: open it in ui.perfetto.dev; see stridec trace"},
    {NULL, NULL, NULL},
};

static const struct option inspect_options[] = {
    {"--target", "T",
     "kernels for NVIDIA GPUs (cuda, the default) or AMD ones (hip), or code for data in host memory (host)"},
    {"--signature", NULL, "only NAME<TAB>SIGNATURE, a line each"},
    {"--source", NULL, "the CUDA C, HIP or C generated for each"},
    {"--ptx", NULL, "its PTX"},
    {"--sass", NULL, "its machine code (needs nvdisasm or cuobjdump)"},
    {"--asm", NULL, "on the host: what the C compiler makes of it"},
    {"--arch", "sm_NN",
     "for this architecture, as gen/gpus.lua has it: a GPU of it may get other plans. Default the architecture of the "
     "GPU present, else sm_90; for PTX and machine code the newest that NVRTC knows; gfxNN stands for --target hip"},
    {"--svg", NULL, "a picture of one type: its memory and its tree, as built and in canonical form"},
    {"-o", "FILE", "where to write the picture; default standard output"},
    {"--cache", NULL, "the modules in the cache folder: what for, whether of this version of stridec, of which type"},
    {NULL, NULL, NULL},
};

static const struct option gen_options[] = {
    {"-o", "DIR", "the folder for sources, modules and the manifest; made if needed"},
    {"--target", "T,...",
     "kernels for NVIDIA GPUs (cuda, the default), code for data in host memory on this processor (host), "
     "sources of kernels for AMD GPUs (hip): they are not compiled, and programs do not use them"},
    {"--arch", "sm_NN,...", "default the GPUs present; where there is none the usual architectures that NVRTC knows; "
     "gfxNN stands for --target hip"},
    {"--common", NULL, "in place of SPEC: the kernels that serve all types, as an installation has them, by default "
     "for one architecture of each generation"},
    {NULL, NULL, NULL},
};

static const struct option report_options[] = {
    {"-o", "FILE", "the page to write; default FILE.json with .html in place of .json"},
    {NULL, NULL, NULL},
};

static const struct option tune_options[] = {
    MPI_OPTION,
    {"-o", "FILE", "default: where STRIDEC_TUNE points, else the user's configuration folder"},
    {"--seconds", "N", "the time that it may take, about, the most telling measurements first; default 60"},
    {"--quick", NULL, "a rough table: few sizes, few kernels"},
    {"--no-kernels", NULL, "leave out the search for quicker kernels"},
    {"--pipeline", NULL, "how messages between nodes are cut, though ranks 0 and 1 share one: for tests"},
    {"--host", NULL, "data in host memory alone: needs no GPU"},
    {"--show", NULL,
     "print a table, FILE or else the one that programs here use, and the choices that it leads to; "
     "or which way COUNT elements of a TYPE take, to a rank of the node and elsewhere, and why. "
     "TYPE is a signature as inspect prints it, a SPEC with all its types, or SPEC:NAME"},
    {NULL, NULL, NULL},
};

static const struct option trace_options[] = {
    {"-o", "FILE", "the file to write, which ui.perfetto.dev opens"},
    {NULL, NULL, NULL},
};

static const struct option doctor_options[] = {
    MPI_OPTION,
    {"--messages", NULL,
     "send checked messages by each protocol that is possible here, from host and device memory, and verify every "
     "byte; under mpirun -n 2 or more"},
    {"--sim", NULL, "look at the simulated GPU instead"},
    {"--calls", NULL,
     "each function of this MPI that takes data, a datatype or a request: accelerated, staged or passed through, and "
     "why"},
    {"--json", NULL, "one JSON object: version, ranks, worst, findings"},
    {"--color", "WHEN", "auto (the default: on a terminal, not under mpirun, unless NO_COLOR is set), always or never"},
    {NULL, NULL, NULL},
};

_Static_assert(sizeof inspect_options <= (OPTIONS_MAX + 1) * sizeof *inspect_options, "the longest table");

const struct command commands[] = {
    {"run",
     "[--mpi MPI] [--sim] [--stats[=all | =json:FILE]] [--record FILE] [--trace DIR] [--] PROGRAM [ARGUMENT...]",
     "run a program with stridec under its MPI calls",
     "What follows PROGRAM is for the program, options too. " RANGES, run_options, true, run_main},
    {"inspect",
     "SPEC [NAME...] [--target cuda | hip | host] [--signature | --source | --ptx | --sass | --asm | --svg [-o FILE]] "
     "[--arch sm_NN], "
     "or --cache",
     "show what becomes of the types of a spec file",
     "SPEC may be a signature in place of a file: d(LENGTH) is so many bytes, s(COUNT,STEP,X) copies of X, STEP apart, "
     "i(X;OFFSET,...) copies at these offsets, q(X,X,...) several, packed in this order; @OFFSET behind any of them "
     "moves it. All in bytes: 's(100,4096,d(400))@16'",
     inspect_options, false, inspect_main},
    {"gen", "SPEC... -o DIR [--target cuda,hip,host] [--arch sm_NN,...]; or --common -o DIR",
     "compile the types of spec files ahead of time, for STRIDEC_AOT=DIR",
     "SPEC is a file that `stridec run --record` or a person wrote, a signature, or a file of signatures, a line each, "
     "as `stridec inspect --signature` prints them.",
     gen_options, false, gen_main},
    {"report", "FILE.json [-o FILE]", "make one HTML page of a run's statistics",
     "FILE.json is what `stridec run --stats=json:FILE.json` wrote; - is standard input. The page needs no network and "
     "no other file. It shows bytes by way and reason, the types with their layouts and rates, who sent how much to "
     "whom, what was left to the MPI and why, and what would help.",
     report_options, false, report_main},
    {"tune",
     "[--mpi MPI] [-o FILE] [--seconds N] [--quick] [--no-kernels] [--pipeline] [--host], "
     "or --show [FILE] [TYPE COUNT]...",
     "measure this system (under mpirun), or show a table of measurements", "", tune_options, false, tune_main},
    {"trace", "DIR -o FILE", "join the timelines that the ranks of a job wrote (stridec run --trace DIR)",
     "Ranks of one node share a clock. Those of other nodes are aligned by the time of day, as exactly as that is.",
     trace_options, false, trace_main},
    {"doctor", "[PROGRAM] [--mpi MPI] [--messages] [--sim] [--json] [--color WHEN], or --calls",
     "check driver, GPUs, NVRTC, C compiler, MPI, launcher, limits, cache and tuned table; or a program",
     "Each line says ok, warn (stridec works, but slower or not in all) or bad, and what mends it. With PROGRAM also "
     "whether stridec can serve it: an MPI program, a script or an interpreter. Under mpirun there is one report for "
     "all ranks.", doctor_options, false, doctor_main},
    {NULL, NULL, NULL, NULL, NULL, false, NULL},
};

static const struct command *find_command(const char *name)
{
    const struct command *c = commands;
    while (c->name && strcmp(c->name, name) != 0)
        c++;
    return c->name ? c : NULL;
}

/* ORDER EXIT_STATUS. `command`: NULL for all; a row of a command's own replaces that of all. */
static const struct {
    const char *status, *command, *meaning;
} statuses[] = {
    {"0", NULL, "done"},
    {"0", "run", "or another: the program's own"},
    {"0", "doctor", "nothing is bad"},
    {"1", NULL, "failed: a line on standard error says why"},
    {"1", "doctor", "something is bad: its line says what, and what mends it"},
    {"2", NULL, "wrong command, option or value"},
    {"126", "run", "the program can't be run"},
    {"127", "run", "there is no such program"},
};

#define STATUSES (sizeof statuses / sizeof *statuses)

static bool is_own(size_t row, const char *command)
{
    return statuses[row].command && strcmp(statuses[row].command, command) == 0;
}

static bool is_shown(size_t row, const char *command)
{
    if (statuses[row].command)
        return is_own(row, command);
    for (size_t i = 0; i < STATUSES; i++)
        if (is_own(i, command) && strcmp(statuses[i].status, statuses[row].status) == 0)
            return false;
    return true;
}

/* Prints the exit statuses of a command; of all if it is NULL. */
static void print_statuses(const char *command)
{
    printf("\nExit status:\n");
    for (size_t i = 0; i < STATUSES; i++) {
        const char *of = command ? NULL : statuses[i].command;
        if (command && !is_shown(i, command))
            continue;
        text_wrap(printf("  %-3s  %s%s", statuses[i].status, of ? of : "", of ? ": " : ""), 7, statuses[i].meaning);
    }
}

static int help_all(void)
{
    text_wrap(0, 0, "stridec compiles MPI datatypes into GPU kernels, and into code that packs data in host memory.\n");
    for (const struct command *c = commands; c->name; c++) {
        int column = printf("  stridec %s ", c->name);
        text_wrap(column, 10, c->synopsis);
        printf("      ");
        text_wrap(6, 6, c->summary);
    }
    printf("\n");
    text_wrap(0, 0,
              "stridec help COMMAND says more; stridec --version tells the version. A file whose name begins with '-' "
              "is written ./-NAME.");
    print_statuses(NULL);
    return 0;
}

static int help_one(const struct command *c)
{
    int column = printf("usage: stridec %s ", c->name);
    text_wrap(column, 10, c->synopsis);
    printf("\n");
    text_wrap(0, 0, c->summary);
    if (*c->notes)
        printf("\n"), text_wrap(0, 0, c->notes);
    printf("\n");
    options_print(c);
    print_statuses(c->name);
    return 0;
}

/* Prints all commands for packaging/help.lua, which makes man pages and completions of them. */
static int help_list(void)
{
    for (const struct command *c = commands; c->name; c++) {
        printf("command\t%s\t%s\t%s\t%s\n", c->name, c->program ? "program" : "", c->synopsis, c->summary);
        options_list(c);
    }
    return 0;
}

static int unknown_command(const char *name)
{
    struct nearest n = {.wanted = name};
    const char *what = name[0] == '-' ? "unknown option" : "there is no command";
    for (const struct command *c = commands; c->name; c++)
        nearest_try(&n, c->name);
    nearest_try(&n, "help"), nearest_try(&n, "--help"), nearest_try(&n, "--version");
    return n.name ? usage_error(NULL, "%s '%s': did you mean '%s'?", what, name, n.name)
                  : usage_error(NULL, "%s '%s'", what, name);
}

static int version(int argc, char **argv)
{
    if (argc > 1)
        return usage_error(NULL, "unexpected %s", argv[1]);
    printf("stridec %s\n", stridec_version);
    return 0;
}

static int help(int argc, char **argv)
{
    const struct command *c = argc > 1 ? find_command(argv[1]) : NULL;
    if (argc > 2)
        return usage_error(NULL, "unexpected %s", argv[2]);
    if (argc > 1 && strcmp(argv[1], "--list") == 0)
        return help_list();
    if (argc > 1 && !c && strcmp(argv[1], "help") != 0)
        return unknown_command(argv[1]);
    return c ? help_one(c) : help_all();
}

static int run_command(const struct command *c, int argc, char **argv)
{
    struct args a;
    command_running = c;
    int status = options_read(&a, c, argc, argv);
    status = status == OPTIONS_HELP ? help_one(c) : status != 0 ? status : c->run(&a);
    free(a.word);
    return status;
}

static bool is_one_of(const char *text, const char *one, const char *two, const char *three)
{
    return strcmp(text, one) == 0 || strcmp(text, two) == 0 || strcmp(text, three) == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return usage_error(NULL, "which command?");
    const struct command *c = find_command(argv[1]);
    int status;
    if (c)
        status = run_command(c, argc - 1, argv + 1);
    else if (is_one_of(argv[1], "help", "--help", "-h"))
        status = help(argc - 1, argv + 1);
    else if (is_one_of(argv[1], "version", "--version", "-V"))
        status = version(argc - 1, argv + 1);
    else
        status = unknown_command(argv[1]);
    if (fflush(stdout) != 0 || ferror(stdout))
        return failure(c ? c->name : NULL, "standard output can't be written");
    return status;
}
