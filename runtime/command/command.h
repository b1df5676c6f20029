/* command.h: the stridec command: its subcommands and what they share. */
#ifndef STRIDEC_COMMAND_H
#define STRIDEC_COMMAND_H

#include "../../gen/gen.h"
#include "../../spec/spec.h"
#include <limits.h>
#include <stdbool.h>

/* Exit statuses: 0 done, 1 failed (one line on standard error), 2 wrong usage, 126 and 127 as a shell says of
 * programs. */
#define EXIT_USAGE 2

/* The text of the file VERSION, "1.2.3". */
extern const char stridec_version[];

/* ---- options (options.c) ---- */

struct option {
    const char *name;    /* "--arch" */
    const char *value;   /* names what comes behind it, "sm_NN"; NULL: nothing does */
    const char *help;    /* lines, with \n between them */
};
#define OPTIONS_MAX 8

/* The words behind a subcommand's name, read. */
struct args {
    const struct command *command;
    const char *value[OPTIONS_MAX];   /* in the table's order; NULL: not given */
    int words;
    char **word;                      /* what is no option, then NULL; malloc'd */
    int argc;                         /* all as it came, argv[0] being the subcommand's name */
    char **argv;
};

/* ORDER COMMANDS: the table in main.c. */
struct command {
    const char *name;
    const char *synopsis;           /* without "stridec NAME" */
    const char *summary;            /* one line */
    const char *notes;              /* lines of --help above the options */
    const struct option *options;   /* ends with name == NULL */
    bool program;                   /* the first word is a program: all behind it are that program's words */
    int (*run)(const struct args *a);
};
extern const struct command commands[];   /* ends with name == NULL */

/* Reads argv[1] and what follows; "--" ends the options. 0; or the exit status after a message; or OPTIONS_HELP
 * where --help is asked for. The caller frees a->word. */
enum { OPTIONS_HELP = -1 };
int options_read(struct args *a, const struct command *c, int argc, char **argv);
/* Returns the option's value, its name where it takes none, or NULL where it is not given. */
const char *option(const struct args *a, const char *name);
void options_print(const struct command *c);

/* The name that is nearest to a mistyped one; NULL where none is near. */
struct nearest {
    const char *wanted, *name;
    int far;
};
void nearest_try(struct nearest *n, const char *name);

int inspect_main(const struct args *a);
int inspect_cache(void);   /* cached.c */
int gen_main(const struct args *a);
int run_main(const struct args *a);
int doctor_main(const struct args *a);
int tune_main(const struct args *a);
/* In libstridec.so: 1 if the MPI itself takes device memory, else 0. */
int stridec_mpi_cuda_aware(void);

/* Writes "stridec NAME: message" to standard error and returns 1; usage_error adds the synopsis, returns 2. */
int failure(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
int usage_error(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- a type on its way through the compiler (stages.c) ---- */

struct stages {
    struct tree *canonical;
    char *steps;                /* the rewrite rules that led there, as tree_canonical_explained says */
    char *signature;
    struct form *form;
    bool whole;                 /* false where the family is generic: `kernel` is the shared interpreter's */
    struct gen_kernel kernel;
};
/* The targets of gen.h, as --target names them; 1 << their numbers make sets. */
enum target { TARGET_CUDA, TARGET_HOST, TARGETS };
extern const char *const target_names[TARGETS + 1];   /* ends with NULL */
/* 0, or -1 with *why. Free with stages_free, also after -1. An empty type has no kernel (source NULL), nor has on
 * the host one that a walk serves. */
int stages_of(struct gen *g, const struct type *t, enum target target, struct stages *out, struct reason *why);
void stages_free(struct stages *l);
/* It is written as a signature (gen/tree.h), and is no file. */
bool stages_signature(const char *text);
/* The types of a file; or, where `text` is a signature and no file, that one type, named "signature". As spec_load. */
struct spec *stages_load(const char *text, struct reason *why);

/* ---- what lies beside the program (beside.c) ---- */

/* The first of these places, relative to the program's folder, that exists, its links resolved; false if none. They
 * end with NULL. */
bool find_beside(const char *const places[], char path[PATH_MAX]);

/* ---- files (files.c) ---- */

/* True for an architecture's name as nvrtc_compile.h writes it ("sm_90", "sm_90a"). */
bool arch_is_valid(const char *arch);
/* The compute capability of a GPU, 90 for 9.0; 0 where there is none of this number. */
int gpu_arch(int ordinal);
/* The architecture of the first GPU, else the newest that NVRTC knows ("sm_90"); NULL with *why. Static. */
const char *arch_default(struct reason *why);
/* The whole file or none: written to a temporary name and renamed. */
int file_replace(const char *path, const void *data, size_t bytes, struct reason *why);

#endif
