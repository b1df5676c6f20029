/* options.c: reads a subcommand's options by its table, and prints that table. */
#include "command.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static const struct option *find_option(const struct command *c, const char *text, size_t length)
{
    for (const struct option *o = c->options; o->name; o++)
        if (strlen(o->name) == length && memcmp(o->name, text, length) == 0)
            return o;
    return NULL;
}

const char *option(const struct args *a, const char *name)
{
    const struct option *o = find_option(a->command, name, strlen(name));
    if (!o)
        abort();
    return a->value[o - a->command->options];
}

bool options_has(const struct args *a, const char *name)
{
    return find_option(a->command, name, strlen(name)) && option(a, name);
}

static int unknown_option(const struct command *c, const char *text)
{
    struct nearest n = {.wanted = text};
    for (const struct option *o = c->options; o->name; o++)
        nearest_try(&n, o->name);
    nearest_try(&n, "--help");
    return n.name ? usage_error(c->name, "unknown option %s: did you mean %s?", text, n.name)
                  : usage_error(c->name, "unknown option %s", text);
}

/* Returns true if the next word is the option's value unless that stands after '='. */
static bool takes_word(const struct option *o)
{
    return o->value && o->value[0] != '[';
}

/* Reads the option at argv[*i]; its value is after '=', or the next word. */
static int read_option(struct args *a, char **argv, int *i)
{
    const struct command *c = a->command;
    const char *text = argv[*i], *equals = strncmp(text, "--", 2) == 0 ? strchr(text, '=') : NULL;
    const struct option *o = find_option(c, text, equals ? (size_t)(equals - text) : strlen(text));
    if (!o)
        return unknown_option(c, text);
    if (!o->value && equals)
        return usage_error(c->name, "%s takes no value", o->name);
    if (a->value[o - c->options])
        return usage_error(c->name, "%s is given twice", o->name);
    const char *value = equals ? equals + 1 : takes_word(o) ? argv[++*i] : o->name;
    if (!value || (!equals && takes_word(o) && value[0] == '-' && value[1]))
        return usage_error(c->name, "%s needs a value: %s %s", o->name, o->name, o->value);
    a->value[o - c->options] = value;
    return 0;
}

/* Returns true if the text begins like an option; a negative number does not. */
static bool looks_like_option(const char *text)
{
    return text[0] == '-' && text[1] && !isdigit((unsigned char)text[1]);
}

int options_read(struct args *a, const struct command *c, int argc, char **argv)
{
    bool ended = false;
    *a = (struct args){.command = c, .argc = argc, .argv = argv, .word = calloc((size_t)argc + 1, sizeof *a->word)};
    if (!a->word)
        return failure(c->name, "out of memory");
    for (int i = 1; i < argc; i++) {
        int status = 0;
        if (!ended && strcmp(argv[i], "--") == 0)
            ended = true;
        else if (!ended && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0))
            return OPTIONS_HELP;
        else if (!ended && looks_like_option(argv[i]))
            status = read_option(a, argv, &i);
        else
            a->word[a->words++] = argv[i], ended = ended || c->program;
        if (status != 0)
            return status;
    }
    return 0;
}

/* ---- help ---- */

static int width_of(const struct option *o)
{
    return (int)(strlen(o->name) + (o->value ? takes_word(o) + strlen(o->value) : 0));
}

void options_print(const struct command *c)
{
    int widest = 6;   /* --help */
    for (const struct option *o = c->options; o->name; o++)
        widest = width_of(o) > widest ? width_of(o) : widest;
    for (const struct option *o = c->options; o->name; o++) {
        printf("  %s%s%s%*s  ", o->name, takes_word(o) ? " " : "", o->value ? o->value : "", widest - width_of(o), "");
        text_wrap(widest + 4, widest + 4, o->help);
    }
    printf("  %-*s  this text\n", widest, "--help");
}

void options_list(const struct command *c)
{
    for (const char *line = c->notes; *line; line += strcspn(line, "\n"), line += *line == '\n')
        printf("note\t%.*s\n", (int)strcspn(line, "\n"), line);
    for (const struct option *o = c->options; o->name; o++) {
        printf("option\t%s\t%s\n", o->name, o->value ? o->value : "");
        for (const char *line = o->help; *line; line += strcspn(line, "\n"), line += *line == '\n')
            printf("help\t%.*s\n", (int)strcspn(line, "\n"), line);
    }
}
