/* command.h: the stridec command: its subcommands and what they share. */
#ifndef STRIDEC_COMMAND_H
#define STRIDEC_COMMAND_H

#include "../../spec/spec.h"
#include "../gen.h"
#include <limits.h>

/* Exit statuses: 0 done, 1 failed (one line on standard error), 2 wrong usage, 127 program not found. */
#define EXIT_USAGE 2

/* ORDER COMMANDS: the table in main.c. argv[0] is the subcommand's name. */
struct command {
    const char *name;
    const char *synopsis;   /* without "stridec NAME" */
    const char *summary;    /* one line */
    const char *options;    /* lines for --help */
    int (*run)(int argc, char **argv);
};
extern const struct command commands[];   /* ends with name == NULL */

int inspect_main(int argc, char **argv);
int inspect_cache(void);   /* cached.c */
int gen_main(int argc, char **argv);
int run_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int tune_main(int argc, char **argv);
/* In libstridec.so: it measures through the production code. */
int stridec_tune_main(int argc, char **argv);
/* There too: 1 if the MPI itself takes device memory, else 0. */
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
/* 0, or -1 with *why. Free with stages_free, also after -1. An empty type has no kernel (source NULL), nor has on the host
 * one that a walk serves. */
int stages_of(struct gen *g, const struct type *t, enum target target, struct stages *out, struct reason *why);
void stages_free(struct stages *l);
/* It is written as a signature (gen/tree.h), and is no file. */
bool stages_signature(const char *text);
/* The types of a file; or, where `text` is a signature and no file, that one type, named "signature". As spec_load. */
struct spec *stages_load(const char *text, struct reason *why);

/* ---- what lies beside the program (beside.c) ---- */

/* The first of these places, relative to the program's folder, that exists, its links resolved; false if none. They end with
 * NULL. */
bool find_beside(const char *const places[], char path[PATH_MAX]);

/* ---- files (files.c) ---- */

/* True for an architecture's name as compile.h writes it ("sm_90", "sm_90a"). */
bool arch_is_valid(const char *arch);
/* The architecture of the first GPU, else the newest that NVRTC knows ("sm_90"); NULL with *why. Static. */
const char *arch_default(struct reason *why);
/* The whole file or none: written to a temporary name and renamed. */
int file_replace(const char *path, const void *data, size_t bytes, struct reason *why);

#endif
