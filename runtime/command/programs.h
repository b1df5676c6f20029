/* programs.h: what the system starts for a word that names a program. */
#ifndef STRIDEC_COMMAND_PROGRAMS_H
#define STRIDEC_COMMAND_PROGRAMS_H

#include <limits.h>
#include <stdbool.h>

/* Finds a program as execvp does. A word with a slash need only exist. Returns false if there is none. */
bool programs_find(const char *word, char path[PATH_MAX]);
/* Finds a program that stridec itself runs: an empty part of PATH is not the present folder. Returns false if there is
 * none. */
bool programs_tool(const char *name, char path[PATH_MAX]);
/* Finds the interpreter of a script, as the kernel or env(1) does. Returns false if there is none, or no line "#!". */
bool programs_interpreter(const char *script, char path[PATH_MAX]);
/* Returns the name of a file without its folders. */
const char *programs_name(const char *path);

#endif
