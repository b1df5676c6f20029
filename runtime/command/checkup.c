/* checkup.c: see checkup.h. */
#include "checkup.h"
#include "base/json_text.h"
#include "command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ORDER LEVEL */
static const char *const LEVEL[] = {"none", "ok", "warn", "bad"};
static const enum colour COLOURS[] = {COLOUR_FAINT, COLOUR_GOOD, COLOUR_CARE, COLOUR_BAD};

/* Fields and findings in packed text; texts have no such bytes. */
#define FIELD '\x1f'
#define END '\x1e'

static void *needed(void *memory)
{
    if (!memory) exit(failure("doctor", "out of memory"));
    return memory;
}

/* ---- texts ---- */

/* Makes it one line of UTF-8: names of files may hold any byte. */
static void clean(char *text)
{
    for (int n; *text; text += n) {
        n = utf8_bytes(text);
        if (n == 0 || (n == 1 && ((unsigned char)*text < ' ' || *text == 0x7f))) *text = n ? ' ' : '?', n = 1;
    }
}

static char *text_of(const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0) text = NULL;
    clean(needed(text));
    return text;
}

static struct finding *add(struct checkup *c, enum level level, const char *check, const char *name)
{
    c->finding = needed(realloc(c->finding, ((size_t)c->count + 1) * sizeof *c->finding));
    struct finding *f = &c->finding[c->count++];
    *f = (struct finding){.level = level};
    snprintf(f->check, sizeof f->check, "%s", check);
    snprintf(f->name, sizeof f->name, "%s", name);
    return f;
}

void checkup_add(struct checkup *c, enum level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct finding *f = add(c, level, c->check, c->check);
    f->text = text_of(format, args), f->fix = needed(strdup(""));
    va_end(args);
}

void checkup_add_named(struct checkup *c, enum level level, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct finding *f = add(c, level, c->check, name);
    f->text = text_of(format, args), f->fix = needed(strdup(""));
    va_end(args);
}

void checkup_fix(struct checkup *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct finding *f = &c->finding[c->count - 1];
    free(f->fix);
    f->fix = text_of(format, args);
    va_end(args);
}

enum level checkup_worst(const struct checkup *c)
{
    enum level worst = LEVEL_OK;
    for (int i = 0; i < c->count; i++) worst = c->finding[i].level > worst ? c->finding[i].level : worst;
    return worst;
}

/* ---- lists of several ranks ---- */

char *checkup_pack(const struct checkup *c)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = needed(open_memstream(&text, &bytes));
    for (int i = 0; i < c->count; i++) {
        const struct finding *f = &c->finding[i];
        fprintf(out, "%d%c%s%c%s%c%s%c%s%c", f->level, FIELD, f->check, FIELD, f->name, FIELD, f->text, FIELD, f->fix,
                END);
    }
    if (fclose(out) != 0) needed(NULL);
    return needed(text);
}

/* Returns the next field and ends it; *rest is behind it. */
static const char *next_field(char **rest, char end)
{
    const char ends[] = {end, '\0'};
    const char *field = strsep(rest, ends);
    return field ? field : "";
}

static bool same(const struct finding *f, const struct finding *other)
{
    return f->level == other->level && !strcmp(f->check, other->check) && !strcmp(f->name, other->name) &&
           !strcmp(f->text, other->text) && !strcmp(f->fix, other->fix);
}

/* Puts the last finding behind the others of its check and name. */
static void sort_in(struct checkup *c)
{
    struct finding last = c->finding[c->count - 1];
    int at = c->count - 1, check = at, name = at;
    for (int i = 0; i < c->count - 1; i++) {
        if (strcmp(c->finding[i].check, last.check) != 0) continue;
        check = i + 1;
        if (strcmp(c->finding[i].name, last.name) == 0) name = i + 1;
    }
    at = name < at ? name : check;
    memmove(&c->finding[at + 1], &c->finding[at], (size_t)(c->count - 1 - at) * sizeof last);
    c->finding[at] = last;
}

static void merge_one(struct checkup *c, const struct finding *one, int rank)
{
    int i = 0;
    while (i < c->count && !same(&c->finding[i], one)) i++;
    if (i < c->count) {
        c->finding[i].ranks[rank] = 1;
        return;
    }
    struct finding *f = add(c, one->level, one->check, one->name);
    f->text = needed(strdup(one->text)), f->fix = needed(strdup(one->fix));
    f->ranks = needed(calloc((size_t)c->ranks, 1));
    f->ranks[rank] = 1;
    sort_in(c);
}

void checkup_merge(struct checkup *c, const char *packed, int rank, int ranks)
{
    char *copy = needed(strdup(packed)), *rest = copy;
    c->ranks = ranks;
    for (char *line; (line = strsep(&rest, (const char[]){END, '\0'})) && *line;) {
        struct finding one = {.level = (enum level)atoi(next_field(&line, FIELD))};
        snprintf(one.check, sizeof one.check, "%s", next_field(&line, FIELD));
        snprintf(one.name, sizeof one.name, "%s", next_field(&line, FIELD));
        one.text = (char *)(uintptr_t)next_field(&line, FIELD);
        one.fix = (char *)(uintptr_t)next_field(&line, FIELD);
        merge_one(c, &one, rank);
    }
    free(copy);
}

/* Returns the ranks of a finding, "0-3,5", malloc'd; "" if lists were not merged. */
static char *ranks_text(const struct checkup *c, const struct finding *f)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = needed(open_memstream(&text, &bytes));
    for (int i = 0, end, any = 0; i < c->ranks; i = end + 1) {
        for (end = i; end < c->ranks && f->ranks[end]; end++)
            ;
        if (end == i) continue;
        fprintf(out, "%s%d", any++ ? "," : "", i);
        if (end - 1 > i) fprintf(out, "-%d", end - 1);
    }
    if (fclose(out) != 0) needed(NULL);
    return needed(text);
}

/* ---- output ---- */

#define NAME_COLUMNS 17
#define TEXT_AT (5 + NAME_COLUMNS)

void checkup_print(const struct checkup *c)
{
    for (int i = 0; i < c->count; i++) {
        const struct finding *f = &c->finding[i];
        char *ranks = ranks_text(c, f), *line;
        const char *word = strpbrk(ranks, ",-") ? "ranks " : "rank ";
        if (asprintf(&line, "%s%s%s%s", *ranks ? word : "", ranks, *ranks ? ": " : "", f->text) < 0)
            line = needed(NULL);
        printf("%s%-4s%s %-*s ", text_colour(COLOURS[f->level]), f->level == LEVEL_NONE ? "-" : LEVEL[f->level],
               text_colour(COLOUR_NONE), NAME_COLUMNS - 1, f->name);
        text_wrap(TEXT_AT, TEXT_AT, line);
        free(line), free(ranks);
        if (*f->fix) text_wrap(printf("%*sfix: ", TEXT_AT, ""), TEXT_AT + 5, f->fix);
    }
}

static void print_string(const char *key, const char *text)
{
    printf("\"%s\": ", key);
    json_text(stdout, text, "?");
}

void checkup_print_json(const struct checkup *c, const char *version)
{
    printf("{");
    print_string("stridec", version);
    printf(", \"ranks\": %d, ", c->ranks ? c->ranks : 1);
    print_string("worst", LEVEL[checkup_worst(c)]);
    printf(", \"findings\": [");
    for (int i = 0; i < c->count; i++) {
        const struct finding *f = &c->finding[i];
        const char *keys[] = {"level", "check", "name", "text", "fix", "ranks"};
        char *ranks = ranks_text(c, f);
        const char *values[] = {LEVEL[f->level], f->check, f->name, f->text, f->fix, ranks};
        printf("%s\n  {", i ? "," : "");
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            printf("%s", k ? ", " : ""), print_string(keys[k], values[k]);
        printf("}");
        free(ranks);
    }
    printf("\n]}\n");
}

void checkup_free(struct checkup *c)
{
    for (int i = 0; i < c->count; i++) free(c->finding[i].text), free(c->finding[i].fix), free(c->finding[i].ranks);
    free(c->finding);
    *c = (struct checkup){0};
}
