/* signature.c: writes trees as text: the type signature, its short form as a key, and a description for a person. */
#include <stdio.h>
#include <stdlib.h>

#include "hash.h"
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

/* ---- keys ---- */

static uint64_t hash_list(uint64_t h, const int64_t at[], int64_t count)
{
    for (int64_t i = 0; i < count - 1; i += 2)
        h = hash_pair(h, (uint64_t)at[i], (uint64_t)at[i + 1]);
    return count % 2 ? hash_pair(h, (uint64_t)at[count - 1], 0) : h;
}

/* A tree of more nodes, shared ones counted as often as they are met, is refused like a longer text. */
#define KEY_NODES (1 << 24)

/* All that tree_same_shape compares. */
static uint64_t hash_shape(uint64_t h, const struct tree *t, int *nodes)
{
    if (++*nodes > KEY_NODES)
        return h;
    h = hash_pair(h, (uint64_t)t->kind, (uint64_t)t->count);
    h = hash_pair(h, (uint64_t)t->step, t->child ? (uint64_t)t->child->off : 0);
    if (t->child)
        h = hash_shape(h, t->child, nodes);
    if (t->at)
        h = hash_list(h, t->at, t->count);
    for (int64_t i = 0; t->block && i < t->count; i++)
        h = hash_pair(h, (uint64_t)t->block[i].off, (uint64_t)t->block[i].len);
    for (int64_t i = 0; t->part && i < t->count && *nodes <= KEY_NODES; i++)
        h = hash_shape(hash_pair(h, (uint64_t)t->part[i]->off, 0), t->part[i], nodes);
    return h;
}

char *tree_key(const struct tree *t, struct reason *why)
{
    char *key;
    int nodes = 0;
    if (tree_numbers(t, TREE_KEY_NUMBERS) <= TREE_KEY_NUMBERS)
        return tree_shape_signature(t, why);
    unsigned long long hash = hash_shape(0, t, &nodes);
    if (nodes > KEY_NODES) {
        reason_set(why, "the layout unfolds to more than %d nodes", KEY_NODES);
        return NULL;
    }
    return asprintf(&key, "#%016llx of %lld bytes", hash, (long long)t->size) < 0 ? reason_memory(why) : key;
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
    /* ORDER TREE_KIND */
    static const char *const units[] = {" B", " x ", " parts", " offsets", " of lengths and offsets"};
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
