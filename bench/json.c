/* json.c: see json.h. */
#include "json.h"
#include <mpi.h>
#include <string.h>
#include <time.h>

void json_string(FILE *f, const char *text)
{
    putc('"', f);
    for (; *text && *text != '\n'; text++)
        if (*text == '"' || *text == '\\')
            fprintf(f, "\\%c", *text);
        else if ((unsigned char)*text >= ' ')
            putc(*text, f);
    putc('"', f);
}

void json_mpi(FILE *f)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;

    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';   /* what follows tells where it was built */
    json_string(f, version);
}

void json_run(FILE *f, int argc, char **argv)
{
    char command[1024] = "", date[32];
    time_t now = time(NULL);

    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    for (int i = 0; i < argc; i++) {
        size_t used = strlen(command);
        const char *word = i ? argv[i] : strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];

        snprintf(command + used, sizeof(command) - used, "%s%s", i ? " " : "", word);
    }
    fprintf(f, "\"date\": \"%s\",\n\"command\": ", date);
    json_string(f, command);
    fprintf(f, ",\n");
}
