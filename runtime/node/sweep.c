/* sweep.c: see sweep.h. */
#include "sweep.h"
#include "base/file.h"
#include "base/file_share.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Returns true if the process of a rank's own file has ended. Reads the file unmapped: a full folder may lack pages. A
 * file that is not ready is still being made. */
static bool owner_is_dead(const char *name)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    uint32_t ready = 0;
    const char *why;
    int fd = file_open(name, O_RDWR, FILE_OWN, &why);
    if (fd < 0) return errno == ENOENT;
    bool made = pread(fd, &ready, sizeof ready, offsetof(struct node_file, ready)) == sizeof ready && ready;
    bool left = made && !fcntl(fd, F_GETLK, &l) && l.l_type == F_UNLCK;
    close(fd);
    return left;
}

/* Writes the name of the file of the rank that `file` belongs to. Returns false if `file` is such a file itself, or a
 * draft of one. */
static bool owner_name(char owner[256], const char *file)
{
    snprintf(owner, 256, "%s%s", NODE_FOLDER, file);
    char *more = owner;
    for (int words = 0; words < 6 && more; words++) more = strchr(more + 1, '.');
    if (!more || !strcmp(more, ".new")) return false;
    *more = '\0';
    return true;
}

/* Returns true for the last word of a fallback copy's name. */
static bool is_number(const char *word)
{
    const char *end = word;
    while (isdigit((unsigned char)*end)) end++;
    return end > word && !*end;
}

/* Files on the disk may be of anybody, or of another node that shares it: these are removed when they are old. */
static void sweep_one(const char *name, const char *folder)
{
    char owner[256];
    struct stat s;
    bool on_disk = strcmp(folder, NODE_FOLDER), more = owner_name(owner, name + strlen(folder));
    bool old = on_disk && !lstat(name, &s) && file_is_stale(&s);
    if (on_disk && !(more && old && is_number(strrchr(name, '.') + 1))) return;
    if (owner_is_dead(owner)) unlink(name);
    if (!on_disk) file_share_drop(name);
}

static void sweep_folder(const char *folder, const char *job)
{
    char pattern[128];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%sstridec.%u.*", folder, (unsigned)geteuid());
    if (glob(pattern, GLOB_NOSORT, NULL, &found)) return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (strncmp(found.gl_pathv[i] + strlen(folder), job, strlen(job))) sweep_one(found.gl_pathv[i], folder);
    globfree(&found);
}

void sweep_disk(char folder[64])
{
    struct stat s = {0};
    stat(NODE_FOLDER, &s);
    snprintf(folder, 64, "%s%llx-", NODE_DISK, (unsigned long long)s.st_dev);
}

void sweep_others(const char *prefix)
{
    char disk[64];
    const char *job = prefix + strlen(NODE_FOLDER);
    sweep_disk(disk);
    sweep_folder(NODE_FOLDER, job);
    sweep_folder(disk, job);
}
