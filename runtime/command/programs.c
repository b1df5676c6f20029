/* programs.c: see programs.h. */
#include "programs.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool programs_find(const char *word, char path[PATH_MAX])
{
    const char *list = getenv("PATH");
    if (!strchr(word, '/')) return file_program(list ? list : "/bin:/usr/bin", true, word, path);
    return snprintf(path, PATH_MAX, "%s", word) < PATH_MAX && access(path, F_OK) == 0;
}

bool programs_tool(const char *name, char path[PATH_MAX])
{
    return file_program(getenv("PATH"), false, name, path);
}

bool programs_interpreter(const char *script, char path[PATH_MAX])
{
    char line[PATH_MAX] = "", *rest = line + 2;
    int fd = file_look(script);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : 0;
    if (fd >= 0) close(fd);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "#!", 2) != 0) return false;
    const char *word = strtok_r(rest, " \t", &rest);
    if (word && strcmp(word, programs_name(word)) != 0 && strcmp(programs_name(word), "env") == 0)
        while ((word = strtok_r(NULL, " \t", &rest)) && (*word == '-' || strchr(word, '=')))
            ;
    return word && programs_find(word, path);
}

const char *programs_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
