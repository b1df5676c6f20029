/* main.c: the stridec command: finds the subcommand and answers --help. */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct command commands[] = {
    {"run", "[--sim] [--stats] -- PROGRAM [ARGUMENT...]", "run a program with stridec under its MPI calls",
     "  --sim    use the simulated GPU\n"
     "  --stats  at the end print a table per datatype (rank 0)\n",
     run_main},
    {"inspect",
     "SPEC [NAME...] [--target cuda | host] [--signature | --source | --ptx | --sass | --asm] [--arch sm_NN], "
     "or --cache",
     "show what becomes of the types of a spec file",
     "  SPEC may be a signature in place of a file: d(LENGTH) is so many bytes, s(COUNT,STEP,X) copies of X, STEP apart,\n"
     "  i(X;OFFSET,...) copies at these offsets, q(X,X,...) several, packed in this order; @OFFSET behind any of them moves\n"
     "  it. All in bytes: 's(100,4096,d(400))@16'\n"
     "  --target T    kernels for GPUs (cuda, the default), or code for data in host memory (host)\n"
     "  --signature   only NAME<TAB>SIGNATURE, a line each\n"
     "  --source      the CUDA C, or C, generated for each\n"
     "  --ptx         its PTX\n"
     "  --sass        its machine code (needs nvdisasm or cuobjdump)\n"
     "  --asm         on the host: what the C compiler makes of it\n"
     "  --arch sm_NN  for this architecture; default the GPU present, else the newest that NVRTC knows\n"
     "  --cache       the modules in the cache folder: what for, whether of this version of stridec, of which type\n",
     inspect_main},
    {"gen", "SPEC -o DIR [--target cuda,host] [--arch sm_NN,...]",
     "compile the types of a spec file ahead of time, for STRIDEC_AOT=DIR",
     "  -o DIR            the folder for sources, modules and the manifest; made if needed\n"
     "  --target T,...    kernels for GPUs (cuda, the default), code for data in host memory on this processor (host)\n"
     "  --arch sm_NN,...  default the GPU present, else the newest that NVRTC knows\n",
     gen_main},
    {"tune", "[-o FILE] [--quick] [--no-kernels] [--pipeline] [--host], or --show [FILE] [TYPE COUNT]...",
     "measure this system (under mpirun), or show a table of measurements",
     "  -o FILE       default: where STRIDEC_TUNE points, else the user's configuration folder\n"
     "  --quick       a rough table: few sizes, few kernels\n"
     "  --no-kernels  leave out the search for quicker kernels, which takes most of the time\n"
     "  --pipeline    how messages between nodes are cut, though ranks 0 and 1 share one: for tests\n"
     "  --host        data in host memory alone: needs no GPU\n"
     "  --show        print a table, FILE or else the one that programs here use, and the choices that it leads to;\n"
     "                or which way COUNT elements of a TYPE take, to a rank of the node and elsewhere, and why.\n"
     "                TYPE is a signature as inspect prints it, a SPEC with all its types, or SPEC:NAME\n",
     tune_main},
    {"doctor", "[--calls]", "check driver, GPUs, NVRTC, C compiler, MPI, cache and tuned table; or list the MPI's calls",
     "  --calls  each function of this MPI that takes data, a datatype or a request: accelerated, staged or passed\n"
     "           through, and why\n",
     doctor_main},
    {NULL, NULL, NULL, NULL, NULL},
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
    printf("\nstridec COMMAND --help says more.\n");
    return 0;
}

static int help_one(const struct command *c)
{
    printf("usage: stridec %s %s\n\n%s\n", c->name, c->synopsis, c->summary);
    if (*c->options)
        printf("\n%s", c->options);
    return 0;
}

/* --help counts up to "--": what follows is for the program that is run. */
static bool asks_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return usage_error(NULL, "which command?");
    const struct command *c = find_command(argv[1]);
    int status;
    if (c)
        status = asks_help(argc - 1, argv + 1) ? help_one(c) : c->run(argc - 1, argv + 1);
    else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        status = help_all();
    else
        return usage_error(NULL, "there is no command '%s'", argv[1]);
    if (fflush(stdout) != 0 || ferror(stdout))
        return failure(c ? c->name : NULL, "standard output can't be written");
    return status;
}
