/* layout_parts.c: cuts a tree where its pieces end: allocations, or ranges of packed bytes. */
#include "layout_parts.h"
#include "locate.h"
#include <stdlib.h>
#include <string.h>

#define NONE (-1)

struct cut {
    struct layout_parts *parts;
    bool apart;              /* nests of strides that follow each other are parts of their own, even in one piece */
    struct memory memory;    /* by memory: the allocation found last */
    int n;                   /* by bytes: number of pieces, and their sizes; 0: by memory */
    const int64_t *bytes;
};

/* Returns the piece that holds packed bytes [from, past); NONE if there is none. */
static int64_t piece_of_bytes(const struct cut *c, int64_t from, int64_t past)
{
    int64_t begin = 0;
    for (int i = 0; i < c->n; begin += c->bytes[i++])
        if (from < begin + c->bytes[i]) return past <= begin + c->bytes[i] ? i : NONE;
    return NONE;
}

/* Returns a number for the piece that holds all of a tree at `base`, whose packed bytes begin at `packed`. */
static int64_t piece_of(struct cut *c, const struct tree *t, int64_t base, int64_t packed)
{
    if (c->n) return piece_of_bytes(c, packed, packed + t->size);
    int64_t bytes = t->high - t->low;
    bool whole = locate_run(&c->memory, (uint64_t)(base + t->low), bytes) == bytes && c->memory.device;
    return whole ? (int64_t)(c->memory.start >> 1) : NONE;
}

/* Adds a part; consumes t, which may be NULL. Returns false if it is the last straw. */
static bool add(struct cut *c, struct tree *t, struct reason *why)
{
    struct tree *canonical = t ? tree_canonical(t, why) : NULL;
    tree_unref(t);
    if (!canonical || c->parts->n == LAYOUT_PARTS) return tree_unref(canonical), false;
    struct layout *l = layout_new();
    l->tree = canonical, l->kernel = kernel_get(canonical, why);
    l->size = l->extent = canonical->size, l->low = canonical->low, l->high = canonical->high;
    c->parts->part[c->parts->n++] = l;
    return l->kernel != NULL;
}

/* Sets *off to the offset of a child within its parent, and returns it; a block as *block. */
static const struct tree *child_of(const struct tree *t, int64_t i, int64_t *off, struct tree *block)
{
    if (t->kind == TREE_BLOCKS) {
        const struct tree_block *b = &t->block[i];
        *off = t->off;
        *block = (struct tree){.kind = TREE_DENSE, .depth = 1, .off = b->off, .size = b->len, .low = b->off,
                               .high = b->off + b->len, .count = b->len};
        return block;
    }
    *off = t->off + (t->kind == TREE_INDEX ? t->at[i] : t->kind == TREE_STRIDE ? i * t->step : 0);
    return t->kind == TREE_SEQ ? t->part[i] : t->child;
}

/* Returns n children of t from `first` on, `base` further on, as a tree; NULL without memory. */
static struct tree *children(const struct tree *t, int64_t first, int64_t n, int64_t base, struct reason *why)
{
    int64_t off = base + t->off;
    if (t->kind == TREE_SEQ) {
        for (int64_t i = first; i < first + n; i++) tree_ref(t->part[i]);
        return tree_seq(off, n, t->part + first, why);
    }
    if (t->kind == TREE_BLOCKS) {
        struct tree_block *some = tree_blocks_room(n, why);
        return some ? tree_blocks(off, n, memcpy(some, t->block + first, (size_t)n * sizeof *some), why) : NULL;
    }
    tree_ref(t->child);
    return t->kind == TREE_INDEX ? tree_index(off, n, t->at + first, t->child, why)
                                 : tree_stride(off + first * t->step, n, t->step, t->child, why);
}

/* Returns true if the children of a sequence are to be parts of their own: nests, which a list of links moves by
 * numbers. Others in one allocation are one part: each part has a slot, and a list of random places has neighbours. */
static bool all_apart(const struct cut *c, const struct tree *t, int64_t first, int64_t n)
{
    bool nests = c->apart && (t->kind == TREE_SEQ || t->kind == TREE_BLOCKS);
    for (int64_t i = first; t->kind == TREE_SEQ && i < first + n && nests; i++) nests = tree_is_strided(t->part[i]);
    return nests;
}

/* Adds n children of t that lie in one piece. */
static bool add_children(struct cut *c, const struct tree *t, int64_t first, int64_t n, int64_t base,
                         struct reason *why)
{
    if (!all_apart(c, t, first, n)) return add(c, children(t, first, n, base, why), why);
    for (int64_t i = first; i < first + n; i++)
        if (!add(c, children(t, i, 1, base, why), why)) return false;
    return true;
}

/* Cuts contiguous bytes, by bytes only. */
static bool cut_dense(struct cut *c, const struct tree *t, int64_t base, int64_t packed, struct reason *why)
{
    int64_t begin = 0, past = packed + t->size;
    for (int i = 0; i < c->n; begin += c->bytes[i++]) {
        int64_t from = begin > packed ? begin : packed, end = begin + c->bytes[i] < past ? begin + c->bytes[i] : past;
        if (from < end && !add(c, tree_dense(base + t->off + from - packed, end - from, why), why)) return false;
    }
    return c->n != 0;
}

static bool cut_tree(struct cut *c, const struct tree *t, int64_t base, int64_t packed, struct reason *why)
{
    struct tree block;
    if (!t->size) return true;
    if (!all_apart(c, t, 0, t->count) && piece_of(c, t, base, packed) != NONE)
        return add(c, tree_shift(t, base, why), why);
    if (t->kind == TREE_DENSE) return cut_dense(c, t, base, packed, why);
    int64_t first = 0, piece = NONE, off;
    for (int64_t i = 0; i < t->count; i++) {
        const struct tree *child = child_of(t, i, &off, &block);
        int64_t here = piece_of(c, child, base + off, packed);
        if (here != piece || here == NONE) {
            if (piece != NONE && !add_children(c, t, first, i - first, base, why)) return false;
            first = i, piece = here;
        }
        if (here == NONE && !cut_tree(c, child, base + off, packed, why)) return false;
        packed += child->size;
    }
    return piece == NONE || add_children(c, t, first, t->count - first, base, why);
}

static void drop(struct layout_parts *p)
{
    while (p->n) layout_unref(p->part[--p->n]);
}

void layout_parts_free(struct layout_parts *p)
{
    if (p) drop(p);
    free(p);
}

/* Publishes the parts of a layout, or what another thread has published. */
static const struct layout_parts *keep(_Atomic(struct layout_parts *) *place, struct layout_parts *p)
{
    struct layout_parts *none = NULL;
    if (!atomic_compare_exchange_strong(place, &none, p)) layout_parts_free(p), p = none;
    return p->n ? p : NULL;
}

const struct layout_parts *layout_parts_by_memory(struct layout *l)
{
    struct layout_parts *p = atomic_load_explicit(&l->by_memory, memory_order_acquire);
    struct reason why;
    if (p) return p;
    struct cut c = {.apart = true};
    if (!l->tree || !layout_looks(&l->no_parts) || !(c.parts = calloc(1, sizeof *c.parts))) return NULL;
    bool cut = cut_tree(&c, l->tree, 0, 0, &why);
    if (!cut) {
        drop(c.parts), c.apart = false;
        cut = cut_tree(&c, l->tree, 0, 0, &why);
    }
    if (!cut) return layout_parts_free(c.parts), NULL;
    return keep(&l->by_memory, c.parts);
}

/* Returns true if the parts have these sizes. */
static bool fit(const struct layout_parts *p, int n, const int64_t bytes[])
{
    bool all = p->n == n;
    for (int i = 0; all && i < n; i++) all = p->part[i]->size == bytes[i];
    return all;
}

const struct layout_parts *layout_parts_by_bytes(struct layout *l, int n, const int64_t bytes[])
{
    struct layout_parts *p = atomic_load_explicit(&l->by_bytes, memory_order_acquire);
    struct reason why;
    if (p) return fit(p, n, bytes) ? p : NULL;
    struct cut c = {.n = n, .bytes = bytes};
    if (!l->tree || n > LAYOUT_PARTS || !(c.parts = calloc(1, sizeof *c.parts))) return NULL;
    if (!cut_tree(&c, l->tree, 0, 0, &why) || !fit(c.parts, n, bytes)) drop(c.parts);
    return keep(&l->by_bytes, c.parts);
}
