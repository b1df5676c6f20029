/* main.c: the stridec command: the table of subcommands, --help and --version. */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char stridec_version[] = STRIDEC_VERSION;

#define MPI_OPTION                                                                                                     \
    {"--mpi", "MPI",                                                                                                   \
     "of the builds installed the one for openmpi-4, openmpi-5, mpich or mpi-abi (the standard ABI of MPI 5);\n"       \
     "default that of the program's MPI, else of the launcher's, else of the MPI that is found"}

static const struct option run_options[] = {
    MPI_OPTION,
    {"--sim", NULL, "use the simulated GPU"},
    {"--stats", NULL, "at the end print a table per datatype (rank 0)"},
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
     "for this architecture, as gen/gpus.lua has it: a GPU of it may get other plans. Default the architecture of the\n"
     "GPU present, else sm_90; for PTX and machine code the newest that NVRTC knows; gfxNN stands for --target hip"},
    {"--cache", NULL, "the modules in the cache folder: what for, whether of this version of stridec, of which type"},
    {NULL, NULL, NULL},
};

static const struct option gen_options[] = {
    {"-o", "DIR", "the folder for sources, modules and the manifest; made if needed"},
    {"--target", "T,...",
     "kernels for NVIDIA GPUs (cuda, the default), code for data in host memory on this processor (host),\n"
     "sources of kernels for AMD GPUs (hip): they are not compiled, and programs do not use them"},
    {"--arch", "sm_NN,...", "default the GPUs present; where there is none the usual architectures that NVRTC knows;\n"
     "gfxNN stands for --target hip"},
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
     "print a table, FILE or else the one that programs here use, and the choices that it leads to;\n"
     "or which way COUNT elements of a TYPE take, to a rank of the node and elsewhere, and why.\n"
     "TYPE is a signature as inspect prints it, a SPEC with all its types, or SPEC:NAME"},
    {NULL, NULL, NULL},
};

static const struct option doctor_options[] = {
    MPI_OPTION,
    {"--calls", NULL,
     "each function of this MPI that takes data, a datatype or a request: accelerated, staged or passed\nthrough, and "
     "why"},
    {NULL, NULL, NULL},
};

_Static_assert(sizeof inspect_options <= (OPTIONS_MAX + 1) * sizeof *inspect_options, "the longest table");

const struct command commands[] = {
    {"run", "[--mpi MPI] [--sim] [--stats] [--] PROGRAM [ARGUMENT...]",
     "run a program with stridec under its MPI calls",
     "  What follows PROGRAM is for the program, options too.\n", run_options, true, run_main},
    {"inspect",
     "SPEC [NAME...] [--target cuda | hip | host] [--signature | --source | --ptx | --sass | --asm] [--arch sm_NN], "
     "or --cache",
     "show what becomes of the types of a spec file",
     "  SPEC may be a signature in place of a file: d(LENGTH) is so many bytes, s(COUNT,STEP,X) copies of X, STEP "
     "apart,\n"
     "  i(X;OFFSET,...) copies at these offsets, q(X,X,...) several, packed in this order; @OFFSET behind any of them "
     "moves\n"
     "  it. All in bytes: 's(100,4096,d(400))@16'\n",
     inspect_options, false, inspect_main},
    {"gen", "SPEC -o DIR [--target cuda,hip,host] [--arch sm_NN,...]",
     "compile the types of a spec file ahead of time, for STRIDEC_AOT=DIR", "", gen_options, false, gen_main},
    {"tune",
     "[--mpi MPI] [-o FILE] [--seconds N] [--quick] [--no-kernels] [--pipeline] [--host], "
     "or --show [FILE] [TYPE COUNT]...",
     "measure this system (under mpirun), or show a table of measurements", "", tune_options, false, tune_main},
    {"doctor", "[--mpi MPI] [--calls]",
     "check driver, GPUs, NVRTC, C compiler, MPI, cache and tuned table; or list the MPI's calls", "", doctor_options,
     false, doctor_main},
    {NULL, NULL, NULL, NULL, NULL, false, NULL},
};

static const struct command *find_command(const char *name)
{
    const struct command *c = commands;
    while (c->name && strcmp(c->name, name) != 0)
        c++;
    return c->name ? c : NULL;
}

static void complain(const char *name, const char *format, va_list args)
{
    fprintf(stderr, "stridec%s%s: ", name ? " " : "", name ? name : "");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int failure(const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(name, format, args);
    va_end(args);
    return 1;
}

int usage_error(const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(name, format, args);
    va_end(args);
    const struct command *c = name ? find_command(name) : NULL;
    if (c)
        fprintf(stderr, "usage: stridec %s %s\n", name, c->synopsis);
    else
        fprintf(stderr, "usage: stridec COMMAND ...; stridec --help lists the commands\n");
    return EXIT_USAGE;
}

static int help_all(void)
{
    printf("stridec compiles MPI datatypes into GPU kernels, and into code that packs data in host memory.\n\n");
    for (const struct command *c = commands; c->name; c++)
        printf("  stridec %s %s\n      %s\n", c->name, c->synopsis, c->summary);
    printf("\nstridec COMMAND --help says more; stridec --version tells the version.\n"
           "Exit status: 0 done, 1 failed, 2 wrong usage; of run the program's, or 126 or 127 where it can't be run.\n"
           "A file whose name begins with '-' is written ./-NAME.\n");
    return 0;
}

static int help_one(const struct command *c)
{
    printf("usage: stridec %s %s\n\n%s\n\n%s", c->name, c->synopsis, c->summary, c->notes);
    options_print(c);
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
