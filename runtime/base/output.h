/* output.h: files that the user names for output, by an option or a variable. */
#ifndef STRIDEC_OUTPUT_H
#define STRIDEC_OUTPUT_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A regular file, also behind links, is replaced when all is written: readers see the old file or all of the new one.
 * Written in place is what no new file can replace: pipes, devices, files that this process has open as standard output
 * or error or that /dev/fd names, and files in folders that take no new ones. */
struct output {
    int fd;
    char *draft, *path;   /* NULL: written in place */
};
/* Opens it, above descriptor 2; waits for a pipe's other end. `mode` is that of a new file, less the umask; an old one
 * keeps its own, as far as `mode` allows. Returns false with errno. */
bool output_open(struct output *o, const char *path, mode_t mode);
/* Ends it after its descriptor was closed; keeps the old file if not good. Returns false with errno. */
bool output_close(struct output *o, bool good);
/* Writes all of such a file. Returns false with errno. */
bool output_write(const char *path, mode_t mode, const void *data, size_t bytes);
/* Returns true if the path names standard output: nothing else should be written there then. */
bool output_is_standard(const char *path);

#endif
