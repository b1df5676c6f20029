/* libraries.h: ELF files, and the shared libraries that they need. */
#ifndef STRIDEC_COMMAND_LIBRARIES_H
#define STRIDEC_COMMAND_LIBRARIES_H

#include <limits.h>
#include <stdbool.h>

/* Kinds of files, by their first bytes. */
enum elf_kind {
    ELF_NONE,      /* no ELF file, or it can't be read */
    ELF_OTHER,     /* for another processor, or of other word length */
    ELF_STATIC,    /* a program without an interpreter: LD_PRELOAD means nothing to it */
    ELF_DYNAMIC,   /* a program that the loader starts */
    ELF_LIBRARY    /* a shared library, or a static program that may lie anywhere */
};
/* Returns the kind; `loader` is the program's interpreter, "" if it has none. */
enum elf_kind libraries_kind(const char *file, char loader[PATH_MAX]);
/* Calls `each` for the names of the shared libraries that an ELF file needs (DT_NEEDED), and those that its needed
 * libraries need, as the loader finds them. Where one is missing, for this one alone, with path NULL. Runs the loader,
 * never the file, with the present LD_LIBRARY_PATH and without LD_PRELOAD. A file names its own loader: do not ask
 * about one that is not trusted. Returns 0, or -1 if the loader can't tell. */
int libraries_of(const char *file, void (*each)(const char *soname, const char *path, void *arg), void *arg);

#endif
