/* form_lists.c: a form's lists as kernels read them, and the form as text. */
#include "form.h"
#include "reason.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

static unsigned char *list_of(const struct form *f, unsigned char *all, int number)
{
    return all + f->number[number].value;
}

static void fill_table(const struct form *f, const struct form_node *n, unsigned char *all)
{
    struct form_writer w;
    int bits = __builtin_ctz((unsigned)n->unit);
    form_writer_begin(&w, n->code, list_of(f, all, n->number));
    for (int64_t i = 0; i < n->tree->count; i++) form_writer_add(&w, n->tree->at[i] >> bits);
    form_writer_group(&w);
}

struct filler {
    const struct form_node *node;
    unsigned char *chunk;
    int unit;                  /* as a shift; all offsets and lengths are multiples */
    int64_t shift, block, chunks;
    struct form_writer where, start;
};

/* `at` is an offset within the node. */
static inline void fill_block(struct filler *l, int64_t at, int64_t packed, int64_t len)
{
    int64_t past = (packed + len) >> l->unit;
    form_writer_add(&l->where, (at - packed) >> l->unit);
    form_writer_add(&l->start, packed >> l->unit);
    for (; l->chunks < l->node->chunks && l->chunks << l->shift < past; l->chunks++)
        form_put(l->chunk + l->chunks * 4, 4, l->block);
    l->block++;
}

static int fill_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct filler *l = arg;
    fill_block(l, user - l->node->off, packed, len);
    return 0;
}

/* Blocks that are runs as they are need no walk. */
static void fill_list(struct filler *l, const struct tree *t)
{
    int64_t packed = 0;
    for (const struct tree_block *b = t->block, *end = b + t->count; b < end; packed += (b++)->len)
        fill_block(l, b->off, packed, b->len);
}

static void fill_blocks(const struct form *f, const struct form_node *n, unsigned char *all)
{
    struct filler l = {.node = n,
                       .chunk = list_of(f, all, n->number + FORM_AT),
                       .unit = __builtin_ctz((unsigned)n->unit),
                       .shift = f->number[n->number + FORM_SHIFT].value};
    form_writer_begin(&l.where, n->code, list_of(f, all, n->number + FORM_AT_ENTRIES));
    form_writer_begin(&l.start, n->start, list_of(f, all, n->number + FORM_AT_STARTS));
    if (n->tree->kind == TREE_BLOCKS && n->tree->count == n->blocks)
        fill_list(&l, n->tree);
    else
        tree_walk(n->tree, 1, 0, 0, n->size, fill_run, &l);
    form_writer_group(&l.where);
    form_writer_group(&l.start);
    /* Past the end: searches stop at the last block. */
    for (; l.chunks < n->chunks; l.chunks++) form_put(l.chunk + l.chunks * 4, 4, n->blocks - 1);
}

static void fill_node(const struct form *f, const struct form_node *n, unsigned char *all)
{
    if (n->kind == FORM_TABLE) fill_table(f, n, all);
    if (n->kind == FORM_BLOCKS) fill_blocks(f, n, all);
    for (int i = 0; i < n->count; i++) fill_node(f, n->child[i], all);
}

void form_lists_write(const struct form *f, void *lists)
{
    fill_node(f, f->root, lists);
}

void *form_lists(const struct form *f, size_t *bytes, struct reason *why)
{
    *bytes = f->list_bytes;
    if (!*bytes) return NULL;
    unsigned char *all = calloc(1, *bytes);
    if (!all) return reason_memory(why);
    form_lists_write(f, all);
    return all;
}

/* ---- text ---- */

static void write_node(struct text *x, const struct form_node *n, bool root);

static void write_numbers(struct text *x, const char *before, int64_t a, const char *between, int64_t b)
{
    text_add(x, before);
    text_add_int(x, a);
    text_add(x, between);
    text_add_int(x, b);
}

static void write_children(struct text *x, const struct form_node *n)
{
    for (int i = 0; i < n->count; i++) {
        text_add(x, i ? "," : "");
        write_node(x, n->child[i], false);
    }
}

static void write_offsets(struct text *x, const struct form_node *n)
{
    for (int64_t i = 0; i < n->tree->count; i++) {
        text_add(x, i ? "," : ";");
        text_add_int(x, n->tree->at[i]);
    }
}

static void write_code(struct text *x, const struct form_node *n)
{
    if (n->code->base) {
        text_add_int(x, n->code->base);
        text_add(x, ":");
    }
    write_numbers(x, "", n->code->entry, "*", n->unit);
}

static void write_node(struct text *x, const struct form_node *n, bool root)
{
    static const char *const letters[] = {"d(", "s(", "q(", "i(", "i(", "b("}; /* ORDER FORM_KIND */
    text_add(x, letters[n->kind]);
    if (n->kind == FORM_DENSE) text_add_int(x, n->size);
    if (n->kind == FORM_STRIDE) {
        write_numbers(x, "", n->tree->count, ",", n->tree->step);
        text_add(x, ",");
    }
    write_children(x, n);
    if (n->kind == FORM_INDEX) write_offsets(x, n);
    if (n->kind == FORM_TABLE || n->kind == FORM_BLOCKS) text_add(x, n->kind == FORM_TABLE ? ";#" : "#");
    if (n->kind == FORM_BLOCKS) {
        text_add_int(x, form_start_bytes(n));
        text_add(x, "+");
    }
    if (n->code) write_code(x, n);
    if (n->kind == FORM_BLOCKS && form_blocks_long(n)) text_add(x, "l");
    /* A size that found no number is a constant of the source. */
    if (n->varies && n->size_number < 0) {
        text_add(x, "=");
        text_add_int(x, n->size);
    }
    text_add(x, ")");
    if (n->off && !root) {
        text_add(x, "@");
        text_add_int(x, n->off);
    }
}

char *form_text(const struct form *f, const struct tree *t, struct reason *why)
{
    struct text x = {0};
    if (!f->root) return strdup("generic");
    if (!f->list_bytes) return tree_shape_signature(t, why);
    write_node(&x, f->root, true);
    write_numbers(&x, "~", f->plan_bytes, "/", f->word);
    return text_take(&x, why);
}
