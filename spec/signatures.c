/* signatures.c: signatures as types, and files that list them. */
#include "sandbox.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct type *spec_signature(const char *text, struct reason *why)
{
    struct tree *t = tree_parse(text, why);
    struct type *type = t ? calloc(1, sizeof *type) : NULL;
    if (type)
        *type = (struct type){.tree = t, .size = t->size, .lb = t->low, .ub = t->high, .align = 1};
    else if (t)
        snprintf(why->text, sizeof why->text, "out of memory"), tree_unref(t);
    return type;
}

/* ---- lists ---- */

static bool is_remark(const char *line)
{
    line += strspn(line, " \t\r");
    return !*line || *line == '\n' || *line == '#';
}

/* Returns where the signature of a line begins: behind a name and a tab, if it has them. */
static const char *signature_at(const char *line)
{
    const char *tab = line + strcspn(line, "\t\n");
    return *tab == '\t' ? tab + 1 : line;
}

static bool begins_signature(const char *text)
{
    return isalpha((unsigned char)text[0]) && text[1] == '(';
}

/* Returns true for no spec: it would begin by calling a function of one letter, and specs have none. */
bool signatures_are(const char *text)
{
    while (*text && is_remark(text)) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return begins_signature(text) || begins_signature(signature_at(text));
}

static char *name_of(const char *line, const char *signature, int number)
{
    char *name = NULL;
    if (signature != line)
        return strndup(line, (size_t)(signature - line - 1));
    return asprintf(&name, "line_%d", number) < 0 ? NULL : name;
}

/* Adds the type of a line, which ends with a terminator. */
static bool add_line(struct spec *s, const char *line, int number, struct reason *why)
{
    const char *signature = signature_at(line);
    struct spec_item item = {.line = number, .type = spec_signature(signature, why)};
    if (!item.type)
        return false;
    struct spec_item *more = realloc(s->item, (s->count + 1) * sizeof *more);
    if (more)
        s->item = more;
    if (!more || !(item.name = name_of(line, signature, number))) {
        snprintf(why->text, sizeof why->text, "out of memory");
        type_free(item.type);
        return false;
    }
    s->item[s->count++] = item;
    return true;
}

struct spec *signatures_load(const char *path, char *text, struct reason *why)
{
    struct spec *s = calloc(1, sizeof *s);
    struct reason inner = {"out of memory"};
    char *rest = text, *line;
    int number = 0;
    bool good = s;
    while (good && (line = strsep(&rest, "\n"))) {
        line[strcspn(line, "\r")] = '\0';
        number++;
        good = is_remark(line) || add_line(s, line, number, &inner);
    }
    if (good)
        return s;
    snprintf(why->text, sizeof why->text, "%.100s:%d: %.140s", path, number, inner.text);
    spec_free(s);
    return NULL;
}
