/* libraries.c: see libraries.h. */
#include "libraries.h"
#include "base/file.h"
#include "capture.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_BYTES ((size_t)1 << 20)
#define SECONDS 20

/* Reads so many bytes at an offset. */
static bool read_at(int fd, void *to, size_t bytes, uint64_t at)
{
    return pread(fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

/* The header of this very program: what others must agree with to run here. */
static bool own_header(ElfW(Ehdr) *h)
{
    int fd = file_look("/proc/self/exe");
    bool read = fd >= 0 && read_at(fd, h, sizeof *h, 0);
    if (fd >= 0)
        close(fd);
    return read;
}

/* Finds the loader that a program names. Returns false if it names none. */
static bool find_loader(int fd, const ElfW(Ehdr) *h, char loader[PATH_MAX])
{
    for (int i = 0; i < h->e_phnum; i++) {
        ElfW(Phdr) p;
        if (!read_at(fd, &p, sizeof p, h->e_phoff + (uint64_t)i * h->e_phentsize))
            return false;
        if (p.p_type != PT_INTERP || p.p_filesz == 0 || p.p_filesz >= PATH_MAX)
            continue;
        if (!read_at(fd, loader, p.p_filesz, p.p_offset))
            return false;
        loader[p.p_filesz] = '\0';
        return true;
    }
    return false;
}

enum elf_kind libraries_kind(const char *file, char loader[PATH_MAX])
{
    ElfW(Ehdr) h, own;
    enum elf_kind kind = ELF_NONE;
    int fd = file_look(file);
    *loader = '\0';
    if (fd >= 0 && read_at(fd, h.e_ident, sizeof h.e_ident, 0) && memcmp(h.e_ident, ELFMAG, SELFMAG) == 0) {
        kind = ELF_OTHER;
        if (own_header(&own) && memcmp(h.e_ident, own.e_ident, EI_VERSION) == 0 && read_at(fd, &h, sizeof h, 0) &&
            h.e_machine == own.e_machine && h.e_phentsize == sizeof(ElfW(Phdr))) {
            kind = h.e_type == ET_DYN ? ELF_LIBRARY : ELF_STATIC;
            if (find_loader(fd, &h, loader))
                kind = ELF_DYNAMIC;
            else
                *loader = '\0';
        }
    }
    if (fd >= 0)
        close(fd);
    return kind;
}

/* Reads a line of the loader's list: "\tNAME => PATH (ADDRESS)", "\tNAME => not found", or "\tPATH (ADDRESS)". */
static void read_line(char *line, void (*each)(const char *soname, const char *path, void *arg), void *arg)
{
    char *name = line + strspn(line, " \t"), *arrow = strstr(name, " => "), *path = arrow ? arrow + 4 : name;
    char *end = strstr(path, " (0x");
    if (end)
        *end = '\0';
    if (arrow)
        *arrow = '\0';
    else if (*name != '/' || !end)
        return;   /* the kernel's own, which is no file; or no line of the list */
    const char *slash = strrchr(name, '/');
    each(slash ? slash + 1 : name, strncmp(path, "not found", 9) == 0 || !*path ? NULL : path, arg);
}

/* Reads which library the loader missed: it then lists none. Returns false for another failure. */
static bool read_failure(char *out, void (*each)(const char *soname, const char *path, void *arg), void *arg)
{
    static const char before[] = "error while loading shared libraries: ";
    char *name = strstr(out, before), *end = name ? strchr(name + sizeof before - 1, ':') : NULL;
    if (!end || !strstr(end, "No such file"))
        return false;
    *end = '\0';
    each(name + sizeof before - 1, NULL, arg);
    return true;
}

int libraries_of(const char *file, void (*each)(const char *soname, const char *path, void *arg), void *arg)
{
    char loader[PATH_MAX], own[PATH_MAX], *out = malloc(OUT_BYTES), *rest = out;
    enum elf_kind kind = libraries_kind(file, loader);
    if (kind == ELF_LIBRARY)
        libraries_kind("/proc/self/exe", loader);
    int status = -1;
    if (out && (kind == ELF_DYNAMIC || kind == ELF_LIBRARY) && *loader && realpath(file, own))
        status = capture((char *[]){loader, (char *)(uintptr_t)"--list", own, NULL}, out, OUT_BYTES, SECONDS);
    bool listed = status == 0 || (status > 0 && read_failure(out, each, arg));
    for (char *line; status == 0 && (line = strsep(&rest, "\n"));)
        read_line(line, each, arg);
    free(out);
    return listed ? 0 : -1;
}
