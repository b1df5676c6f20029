/* messages.c: what the command says on standard error when it fails. */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>

const struct command *command_running;

static void complain(const char *name, const char *format, va_list args)
{
    fprintf(stderr, "stridec%s%s: ", name ? " " : "", name ? name : "");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int failure(const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(name, format, args);
    va_end(args);
    return 1;
}

int usage_error(const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(name, format, args);
    va_end(args);
    if (command_running)
        fprintf(stderr, "usage: stridec %s %s\n", command_running->name, command_running->synopsis);
    else
        fprintf(stderr, "usage: stridec COMMAND ...; stridec --help lists the commands\n");
    return EXIT_USAGE;
}
