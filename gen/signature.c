/* signature.c: writes trees as text: the type signature, and a description for a person. */
#include "reason.h"
#include "text.h"

static const char *const letters[] = {"d", "s", "q", "i", "q"};              /* ORDER TREE_KIND */
static const char *const names[] = {"dense", "stride", "seq", "index", "blocks"};   /* ORDER TREE_KIND */

static void write_node(struct text *x, const struct tree *t);

static void write_off(struct text *x, int64_t off)
{
    if (off == 0)
        return;
    text_add(x, "@");
    text_add_int(x, off);
}

static void write_body(struct text *x, const struct tree *t)
{
    text_add(x, letters[t->kind]);
    text_add(x, "(");
    if (t->kind == TREE_DENSE || t->kind == TREE_STRIDE)
        text_add_int(x, t->count);
    if (t->kind == TREE_STRIDE) {
        text_add(x, ",");
        text_add_int(x, t->step);
        text_add(x, ",");
    }
    if (t->child)
        write_node(x, t->child);
    for (int64_t i = 0; t->part && i < t->count && !text_failed(x); i++) {
        text_add(x, i ? "," : "");
        write_node(x, t->part[i]);
    }
    for (int64_t i = 0; t->at && i < t->count && !text_failed(x); i++) {
        text_add(x, i ? "," : ";");
        text_add_int(x, t->at[i]);
    }
    for (int64_t i = 0; t->block && i < t->count && !text_failed(x); i++) {
        text_add(x, i ? ",d(" : "d(");
        text_add_int(x, t->block[i].len);
        text_add(x, ")");
        write_off(x, t->block[i].off);
    }
    text_add(x, ")");
}

static void write_node(struct text *x, const struct tree *t)
{
    if (text_failed(x))
        return;
    write_body(x, t);
    write_off(x, t->off);
}

char *tree_signature(const struct tree *t, struct reason *why)
{
    struct text x = {0};
    write_node(&x, t);
    return text_take(&x, why);
}

char *tree_shape_signature(const struct tree *t, struct reason *why)
{
    struct text x = {0};
    write_body(&x, t);
    return text_take(&x, why);
}

/* ---- description ---- */

/* Longer lists are cut: a person wants to see how they begin and how long they are. */
#define SHOWN_MAX 16

static void describe_indent(struct text *x, int level)
{
    while (level-- > 0)
        text_add(x, "  ");
}

static void describe_rest(struct text *x, int64_t count, const char *what)
{
    if (count <= SHOWN_MAX)
        return;
    text_add(x, " ... ");
    text_add_int(x, count - SHOWN_MAX);
    text_add(x, what);
}

/* The numbers after the node's name. */
static void describe_numbers(struct text *x, const struct tree *t)
{
    static const char *const units[] = {" B", " x ", " parts", " offsets", " of lengths and offsets"};  /* ORDER TREE_KIND */
    text_add(x, " ");
    text_add_int(x, t->count);
    text_add(x, units[t->kind]);
    if (t->kind == TREE_STRIDE) {
        text_add_int(x, t->step);
        text_add(x, " B");
    }
    if (t->off) {
        text_add(x, " at ");
        text_add_int(x, t->off);
    }
    for (int64_t i = 0; t->at && i < t->count && i < SHOWN_MAX; i++) {
        text_add(x, i ? " " : ": ");
        text_add_int(x, t->at[i]);
    }
    for (int64_t i = 0; t->block && i < t->count && i < SHOWN_MAX; i++) {
        text_add(x, i ? " " : ": ");
        text_add_int(x, t->block[i].len);
        text_add(x, "@");
        text_add_int(x, t->block[i].off);
    }
    if (t->at || t->block)
        describe_rest(x, t->count, " more");
    text_add(x, "\n");
}

static void describe_node(struct text *x, const struct tree *t, int level)
{
    if (text_failed(x))
        return;
    describe_indent(x, level);
    text_add(x, names[t->kind]);
    describe_numbers(x, t);
    if (t->child)
        describe_node(x, t->child, level + 1);
    for (int64_t i = 0; t->part && i < t->count && i < SHOWN_MAX; i++)
        describe_node(x, t->part[i], level + 1);
    if (t->part && t->count > SHOWN_MAX) {
        describe_indent(x, level);
        describe_rest(x, t->count, " more parts\n");
    }
}

char *tree_describe(const struct tree *t, struct reason *why)
{
    struct text x = {0};
    describe_node(&x, t, 0);
    return text_take(&x, why);
}
