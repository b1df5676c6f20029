/* command.h: the subcommands of stridec, and functions that they share. */
#ifndef STRIDEC_COMMAND_H
#define STRIDEC_COMMAND_H

#include "../../gen/gen.h"
#include "../../spec/spec.h"
#include <limits.h>
#include <stdbool.h>

/* Exit statuses: 0 done, 1 failed (one line on standard error), 2 wrong usage; 126 and 127 as in a shell. */
#define EXIT_USAGE 2

/* The text of the file VERSION, "1.2.3". */
extern const char stridec_version[];

/* ---- options (options.c) ---- */

struct option {
    const char *name;    /* "--arch" */
    const char *value;   /* the name of its value, "sm_NN"; NULL if it takes none */
    const char *help;    /* lines, with \n between them */
};
#define OPTIONS_MAX 8

/* The words after a subcommand's name. */
struct args {
    const struct command *command;
    const char *value[OPTIONS_MAX];   /* in the table's order; NULL if not given */
    int words;
    char **word;                      /* words that are no options, then NULL; malloc'd */
    int argc;                         /* all words; argv[0] is the subcommand's name */
    char **argv;
};

/* ORDER COMMANDS: the table in main.c. */
struct command {
    const char *name;
    const char *synopsis;           /* without "stridec NAME" */
    const char *summary;            /* one line */
    const char *notes;              /* lines that --help prints above the options */
    const struct option *options;   /* ends with name == NULL */
    bool program;                   /* the first word is a program, and the rest is for that program */
    int (*run)(const struct args *a);
};
extern const struct command commands[];   /* ends with name == NULL */

/* Reads argv[1] and the words after it; "--" ends the options. The caller frees a->word. Returns 0, the exit status
 * after a message, or OPTIONS_HELP for --help. */
enum { OPTIONS_HELP = -1 };
int options_read(struct args *a, const struct command *c, int argc, char **argv);
/* Returns the option's value, its name if it takes none, or NULL if it is not given. */
const char *option(const struct args *a, const char *name);
void options_print(const struct command *c);
/* Prints the notes and options for packaging/help.lua: lines of fields between tabs. */
void options_list(const struct command *c);

/* The name nearest to a mistyped one; NULL if none is near. */
struct nearest {
    const char *wanted, *name;
    int far;
};
void nearest_try(struct nearest *n, const char *name);

int inspect_main(const struct args *a);
int inspect_cache(void);   /* cached.c */
/* Prints the machine code of a cubin by the CUDA toolkit's tools (disassemble.c). Returns 0, or -1 with *why. */
int disassemble(const void *cubin, size_t bytes, struct reason *why);
int gen_main(const struct args *a);
int run_main(const struct args *a);
int doctor_main(const struct args *a);
int tune_main(const struct args *a);
/* Returns 1 if the MPI itself takes device memory, else 0 (in libstridec.so). */
int stridec_mpi_cuda_aware(void);

/* Write "stridec NAME: message" to standard error. failure returns 1; usage_error adds the synopsis and returns 2. */
int failure(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
int usage_error(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- how the compiler treats a type (stages.c) ---- */

struct stages {
    struct tree *canonical;
    char *steps;                /* the rewrite rules applied, by tree_canonical_explained */
    char *signature;
    struct form *form;
    bool whole;                 /* false for the generic family, whose `kernel` is the shared interpreter */
    struct gen_kernel kernel;
};
/* The targets of gen.h, with the names of --target; 1 << target makes sets. */
enum target { TARGET_CUDA, TARGET_HIP, TARGET_HOST, TARGETS };
extern const char *const target_names[TARGETS];
/* Returns the target of that name, or TARGETS. */
enum target target_find(const char *name);
/* Compiles a type up to its kernel, for a GPU of `arch` ("sm_80"), NULL being sm_90. Returns 0, or -1 with *why; free
 * `out` with stages_free in both cases.
 * kernel.source is NULL for an empty type, and on the host if the tree is walked. */
int stages_of(struct gen *g, const struct type *t, enum target target, const char *arch, struct stages *out,
              struct reason *why);
/* Writes the generator's name of a target. */
void target_text(enum target target, const char *arch, char text[GEN_TARGET_MAX]);
void stages_free(struct stages *l);
/* Returns true if the text is a signature (gen/tree.h) and no file. */
bool stages_signature(const char *text);
/* Loads the types of a file as spec_load does, or a signature as one type named "signature". */
struct spec *stages_load(const char *text, struct reason *why);

/* ---- files beside the program (beside.c) ---- */

/* Finds the first of these places that exists, with links resolved; false if none does. The places are relative to the
 * program's folder and end with NULL. */
bool find_beside(const char *const places[], char path[PATH_MAX]);

/* ---- files (files.c) ---- */

/* Returns true for an architecture's name, "sm_90" or "sm_90a". */
bool arch_is_valid(const char *arch);
/* Returns true for the name of an AMD GPU's architecture, "gfx90a". */
bool arch_is_amd(const char *arch);
/* Returns a GPU's compute capability, 90 for 9.0; 0 if there is no such GPU. */
int gpu_arch(int ordinal);
/* Returns the first GPU's architecture, "sm_90", else the newest that NVRTC knows; NULL with *why. Static. */
const char *arch_default(struct reason *why);
/* Writes the whole file or nothing: makes a temporary file and renames it. Returns 0, or -1 with *why. */
int write_output(const char *path, const void *data, size_t bytes, struct reason *why);

#endif
