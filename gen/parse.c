/* parse.c: reads a type signature. The text may come from a file that anyone wrote: nesting is bounded,
 * numbers are checked, and only what tree_signature would write is taken. */
#include <stdlib.h>
#include <string.h>

#include "reason.h"
#include "tree_inner.h"

struct parser {
    const char *text;   /* from the beginning, for messages */
    const char *p;
    struct reason *why;
};

static bool expected(const struct parser *r, const char *what)
{
    reason_set(r->why, "signature: %s expected at byte %zu", what, (size_t)(r->p - r->text));
    return false;
}

static bool parse_text(struct parser *r, const char *what)
{
    size_t n = strlen(what);
    if (strncmp(r->p, what, n) != 0)
        return expected(r, what);
    r->p += n;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Canonical decimal: an optional minus, no leading zeros, no minus zero. Built downwards, since -2^63 has
 * no positive counterpart. */
static bool parse_int(struct parser *r, int64_t *n)
{
    const char *p = r->p;
    bool negative = *p == '-', fits = true;
    p += negative;
    if (!is_digit(*p) || (*p == '0' && (negative || is_digit(p[1]))))
        return expected(r, "a number");
    for (*n = 0; is_digit(*p); p++)
        fits = fits && !__builtin_mul_overflow(*n, 10, n) && !__builtin_sub_overflow(*n, *p - '0', n);
    if (!fits || (!negative && __builtin_sub_overflow(0, *n, n)))
        return expected(r, "a number of 63 bits");
    r->p = p;
    return true;
}

static bool parse_optional_off(struct parser *r, int64_t *off)
{
    *off = 0;
    if (*r->p != '@')
        return true;
    r->p++;
    if (*r->p == '0')
        return expected(r, "an offset other than 0");
    return parse_int(r, off);
}

static struct tree *parse_node(struct parser *r, int depth);

/* The list with room for one more entry (of 8 bytes), or NULL when out of memory: then it is as it was. */
static void *grown(void *entries, int64_t count, int64_t *room, struct reason *why)
{
    if (count < *room)
        return entries;
    int64_t wider = *room * 2 + 8;
    void *p = realloc(entries, (size_t)wider * sizeof(int64_t));
    if (!p)
        return reason_memory(why);
    *room = wider;
    return p;
}

static struct tree *parse_dense(struct parser *r, int depth)
{
    int64_t len;
    (void)depth;
    return parse_int(r, &len) && parse_text(r, ")") ? tree_dense(0, len, r->why) : NULL;
}

static struct tree *parse_stride(struct parser *r, int depth)
{
    int64_t count, step;
    if (!parse_int(r, &count) || !parse_text(r, ",") || !parse_int(r, &step) || !parse_text(r, ","))
        return NULL;
    struct tree *t = tree_stride(0, count, step, parse_node(r, depth + 1), r->why);
    if (t && !parse_text(r, ")")) {
        tree_unref(t);
        return NULL;
    }
    return t;
}

/* One more part of a list under way; false on failure. */
static bool parse_part(struct parser *r, int depth, struct tree ***part, int64_t *count, int64_t *room)
{
    struct tree **wider = grown(*part, *count, room, r->why);
    if (!wider)
        return false;
    *part = wider;
    wider[*count] = parse_node(r, depth + 1);
    return wider[*count] && ++*count;
}

static bool parse_at(struct parser *r, int64_t **at, int64_t *count, int64_t *room)
{
    int64_t *wider = grown(*at, *count, room, r->why);
    if (!wider)
        return false;
    *at = wider;
    return parse_int(r, &wider[*count]) && ++*count;
}

static struct tree *parse_seq(struct parser *r, int depth)
{
    struct tree **part = NULL, *t = NULL;
    int64_t count = 0, room = 0;
    bool good;
    do
        good = parse_part(r, depth, &part, &count, &room);
    while (good && *r->p == ',' && r->p++);
    if (good && parse_text(r, ")"))
        t = tree_seq(0, count, part, r->why);
    else
        while (count > 0)
            tree_unref(part[--count]);
    free(part);
    return t;
}

static struct tree *parse_index(struct parser *r, int depth)
{
    int64_t *at = NULL, count = 0, room = 0;
    struct tree *t = NULL, *child = parse_node(r, depth + 1);
    bool good = child && parse_text(r, ";");
    while (good && (good = parse_at(r, &at, &count, &room)) && *r->p == ',')
        r->p++;
    if (good && parse_text(r, ")"))
        t = tree_index(0, count, at, child, r->why);
    else
        tree_unref(child);
    free(at);
    return t;
}

/* What follows a letter and its bracket, up to the closing bracket. */
static const struct {
    char letter;
    struct tree *(*parse)(struct parser *r, int depth);
} bodies[] = {{'d', parse_dense}, {'s', parse_stride}, {'q', parse_seq}, {'i', parse_index}};

static struct tree *parse_body(struct parser *r, int depth)
{
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        if (r->p[0] == bodies[i].letter && r->p[1] == '(') {
            r->p += 2;
            return bodies[i].parse(r, depth);
        }
    }
    expected(r, "d(, s(, q( or i(");
    return NULL;
}

static struct tree *parse_node(struct parser *r, int depth)
{
    int64_t off;
    if (depth > TREE_DEPTH_MAX) {
        reason_set(r->why, "signature: nested more than %d deep at byte %zu", TREE_DEPTH_MAX,
                   (size_t)(r->p - r->text));
        return NULL;
    }
    struct tree *t = parse_body(r, depth);
    if (!t)
        return NULL;
    struct tree *moved = parse_optional_off(r, &off) ? tree_shift(t, off, r->why) : NULL;
    tree_unref(t);
    return moved;
}

struct tree *tree_parse(const char *text, struct reason *why)
{
    struct parser r = {text, text, why};
    struct tree *t = parse_node(&r, 1);
    if (t && *r.p != '\0') {
        expected(&r, "the end");
        tree_unref(t);
        return NULL;
    }
    return t;
}
