/* command.h: the subcommands of stridec, and functions that they share. */
#ifndef STRIDEC_COMMAND_H
#define STRIDEC_COMMAND_H

#include "../../gen/gen.h"
#include "../../gen/nearest.h"
#include "../../spec/spec.h"
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

/* ORDER EXIT_STATUS: the texts of --help in main.c. A command returns 0 when all is done. */
#define EXIT_FAILED 1
#define EXIT_USAGE 2
#define EXIT_NO_RUN 126       /* of run: the program can't be run */
#define EXIT_NO_PROGRAM 127   /* of run: there is no such program */

/* The text of the file VERSION, "1.2.3". */
extern const char stridec_version[];

/* ---- options (options.c) ---- */

struct option {
    const char *name;    /* "--arch" */
    const char *value;   /* the name of its value, "sm_NN"; NULL if it takes none; "[=HOW]" if it may have one */
    const char *help;    /* one paragraph; --help wraps it */
};
#define OPTIONS_MAX 10

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
    const char *notes;              /* a paragraph a line, which --help prints above the options; "" for none */
    const struct option *options;   /* ends with name == NULL */
    bool program;                   /* the first word is a program, and the rest is for that program */
    int (*run)(const struct args *a);
};
extern const struct command commands[];   /* ends with name == NULL */
extern const struct command *command_running;   /* the one that was asked for; NULL: none so far (messages.c) */

/* Reads argv[1] and the words after it; "--" ends the options. The caller frees a->word. Returns 0, the exit status
 * after a message, or OPTIONS_HELP for --help. */
enum { OPTIONS_HELP = -1 };
int options_read(struct args *a, const struct command *c, int argc, char **argv);
/* Returns the option's value, its name if it has none, or NULL if it is not given. */
const char *option(const struct args *a, const char *name);
/* Returns true if the command has such an option and it is given. */
bool options_has(const struct args *a, const char *name);
void options_print(const struct command *c);
/* Prints the notes and options for packaging/help.lua: lines of fields between tabs. */
void options_list(const struct command *c);

int inspect_main(const struct args *a);
int inspect_cache(void);   /* cached.c */
/* Prints the machine code of a cubin by the CUDA toolkit's tools (disassemble.c). Returns 0, or -1 with *why. */
int disassemble(const void *cubin, size_t bytes, struct reason *why);
int gen_main(const struct args *a);
int run_main(const struct args *a);
int report_main(const struct args *a);
int trace_main(const struct args *a);
int doctor_main(const struct args *a);
int tune_main(const struct args *a);
/* Returns 1 if the MPI itself takes device memory, else 0 (in libstridec.so). */
int stridec_mpi_cuda_aware(void);

/* Write "stridec NAME: message" to standard error. failure returns 1; usage_error adds the synopsis of the running
 * command and returns 2. */
int failure(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
int usage_error(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- the terminal (text.c) ---- */

/* Returns the columns of standard output: COLUMNS, else the terminal's, else 80. */
int text_width(void);
/* Prints a text from `column` on, with line breaks at spaces and \n, and a line's end. Later lines begin at
 * `indent`. */
void text_wrap(int column, int indent, const char *text);
/* Decides about colours: "auto" (on a terminal, unless NO_COLOR is set), "always" or "never". Returns false for
 * another word. */
bool text_colours(const char *when);
/* ORDER COLOUR. Returns the codes that begin a colour; "" without colours. */
enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_CARE, COLOUR_BAD, COLOUR_FAINT };
const char *text_colour(enum colour colour);

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
/* Writes that the spec file `path` has no such type, and which one may be meant. */
void stages_no_type(const char *path, const char *name, const struct spec *spec, struct reason *why);
/* Loads the types of a file as spec_load does, or a signature as one type named "signature". */
struct spec *stages_load(const char *text, struct reason *why);
/* Loads each of n > 0 texts by stages_load. The types of all stand in the order of the texts; names may be equal. */
struct spec *stages_load_all(char *const texts[], int n, struct reason *why);

/* ---- files beside the program (beside.c) ---- */

/* Finds the first of these places that exists, with links resolved; false if none does. The places are relative to the
 * program's folder and end with NULL. */
bool find_beside(const char *const places[], char path[PATH_MAX]);
/* Puts the simulated GPU before other libraries, for programs that this process starts (run.c). Returns 0, or 1 after a
 * message of the command `name`. */
int run_simulated(const char *name);

/* ---- files (files.c) ---- */

/* Returns true for an architecture's name, "sm_90" or "sm_90a". */
bool arch_is_valid(const char *arch);
/* Returns true for the name of an AMD GPU's architecture, "gfx90a". */
bool arch_is_amd(const char *arch);
/* Returns a GPU's compute capability, 90 for 9.0; 0 if there is no such GPU. */
int gpu_arch(int ordinal);
/* Returns the first GPU's architecture, "sm_90", else the newest that NVRTC knows; NULL with *why. Static. */
const char *arch_default(struct reason *why);
/* Writes a file that the user named, as output_write does. Returns 0, or -1 with *why. */
int save_file(const char *path, const void *data, size_t bytes, struct reason *why);
/* Returns where the command tells what it has written: not into a file on standard output. */
FILE *tell_of(const char *path);

#endif
