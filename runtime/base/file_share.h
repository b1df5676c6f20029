/* file_share.h: files that one rank of a machine reads for all ranks of its job, such as compiled modules.
 *
 * The first rank that wants a file reads it and leaves a copy in a folder of the job's in shared memory, for this user
 * alone. Nothing depends on the copies: a rank that finds none, or no such folder, reads the file itself. The last rank
 * to end removes the folder; of a job that was killed, the next job does (file_share_drop). Functions do nothing
 * before file_share_start. get, put, read and remove may be called by any thread, the others by one at a time. */
#ifndef STRIDEC_FILE_SHARE_H
#define STRIDEC_FILE_SHARE_H
#include "file.h"
#include <stdbool.h>
#include <stddef.h>

/* The most bytes of copies in a folder, in whole pages; more is read by each rank. */
#define FILE_SHARE_BYTES_MAX ((size_t)16 << 20)

/* Makes the folder or joins it; its name is `prefix`, which only this job has, and "read". Returns false if there will
 * be no copies. */
bool file_share_start(const char *prefix);
/* Leaves the folder. No other thread may use the copies any more. */
void file_share_finish(void);
/* Removes the folder of another job, unless a process of that job lives. */
void file_share_drop(const char *folder);

/* Returns a malloc'd copy of the file at `path`, with a terminator: the bytes that a rank gave to file_share_put.
 * After NULL the caller reads the file and calls file_share_put. Waits while another rank is about to read the same
 * file, at most 2 s; one that dies is not waited for. */
char *file_share_get(const char *path, size_t *bytes);
/* Gives the file's checked bytes to the other ranks, in place of an earlier copy; NULL: there are none to give. */
void file_share_put(const char *path, const char *text, size_t bytes);
/* Returns the file's bytes as file_read does, of which one rank reads them for all. */
char *file_share_read(const char *path, enum file_from from, size_t most, size_t *bytes, const char **why);
/* Removes the copy. */
void file_share_remove(const char *path);

#endif
