/* pack.c: see pack.h. The walk is tree_walk's; what makes it quick is that rows and lists of blocks of one length go by
 * loops in which that length is a constant. */
#include "pack.h"
#include "tree_inner.h"
#include <string.h>

/* Copies `n` blocks of `len` bytes between packed ones and those at user + i * step, or at user + at[i]. */
typedef void row_loop(char *packed, uintptr_t user, int64_t n, int64_t step, int64_t len);
typedef void list_loop(char *packed, uintptr_t user, int64_t n, const int64_t *at, int64_t len);

struct loops {
    row_loop *row;
    list_loop *list;
};

/* Any length: short ones by two moves that may overlap. */
static inline __attribute__((always_inline)) void copy_any(char *to, const char *from, int64_t len)
{
#define TWICE(width) \
    if (len >= (width)) { \
        char first[width], last[width]; \
        memcpy(first, from, width), memcpy(last, from + len - (width), width); \
        memcpy(to, first, width), memcpy(to + len - (width), last, width); \
        return; \
    }
    if (len > 64) {
        memcpy(to, from, (size_t)len);
        return;
    }
    TWICE(32) TWICE(16) TWICE(8) TWICE(4) TWICE(2)
    if (len) *to = *from;
#undef TWICE
}

#define PACK_BLOCK(copy, length) copy(packed, (const char *)block, length)
#define UNPACK_BLOCK(copy, length) copy((char *)block, packed, length)
#define LOOPS(name, move, copy, length) \
    static void row_##name(char *packed, uintptr_t user, int64_t n, int64_t step, int64_t len) \
    { \
        (void)len; \
        for (uintptr_t block = user; n > 0; n--, block += (uintptr_t)step, packed += length) move(copy, length); \
    } \
    static void list_##name(char *packed, uintptr_t user, int64_t n, const int64_t *at, int64_t len) \
    { \
        (void)len; \
        for (int64_t i = 0; i < n; i++, packed += length) { \
            uintptr_t block = user + (uintptr_t)at[i]; \
            move(copy, length); \
        } \
    }
/* The lengths that have loops of their own. */
#define LENGTHS(X) X(1) X(2) X(4) X(8) X(12) X(16) X(20) X(24) X(32) X(40) X(48) X(56) X(64) X(80) X(96) X(128)
#define BOTH(n) LOOPS(pack_##n, PACK_BLOCK, memcpy, n) LOOPS(unpack_##n, UNPACK_BLOCK, memcpy, n)
LENGTHS(BOTH)
LOOPS(pack_any, PACK_BLOCK, copy_any, len)
LOOPS(unpack_any, UNPACK_BLOCK, copy_any, len)

#define FIXED_MAX 128
#define PACK_ENTRY(n) [n] = {row_pack_##n, list_pack_##n},
#define UNPACK_ENTRY(n) [n] = {row_unpack_##n, list_unpack_##n},
static const struct loops fixed[2][FIXED_MAX + 1] = {{LENGTHS(PACK_ENTRY)}, {LENGTHS(UNPACK_ENTRY)}};
static const struct loops any[2] = {{row_pack_any, list_pack_any}, {row_unpack_any, list_unpack_any}};

struct walk {
    int direction;   /* 0: packing */
    char *packed;    /* where the next byte is or goes */
};

static const struct loops *loops_of(const struct walk *w, int64_t len)
{
    const struct loops *l = len <= FIXED_MAX ? &fixed[w->direction][len] : NULL;
    return l && l->row ? l : &any[w->direction];
}

static void move_bytes(struct walk *w, uintptr_t user, int64_t len)
{
    any[w->direction].row(w->packed, user, 1, 0, len);
    w->packed += len;
}

/* Each moves packed bytes [begin, end) of t, 0 <= begin < end; `user` is where t's offset has already been added. */
static void move_node(struct walk *w, const struct tree *t, uintptr_t user, int64_t begin, int64_t end);

static void move_child(struct walk *w, const struct tree *t, uintptr_t user, int64_t begin, int64_t end)
{
    if (begin < end) move_node(w, t, user + (uintptr_t)t->off, begin, end);
}

/* Where copy i lies: `step` apart, or by a list. */
struct copies {
    const struct tree *child;
    int64_t step;
    const int64_t *at;
};

static uintptr_t place(const struct copies *c, int64_t i)
{
    return (uintptr_t)(c->at ? c->at[i] : wrap_mul(i, c->step));
}

static void move_whole(struct walk *w, const struct copies *c, uintptr_t user, int64_t first, int64_t n)
{
    const struct tree *t = c->child;
    if (t->kind != TREE_DENSE) {
        for (int64_t i = first; i < first + n; i++) move_child(w, t, user + place(c, i), 0, t->size);
        return;
    }
    const struct loops *l = loops_of(w, t->size);
    user += (uintptr_t)t->off;
    if (c->at)
        l->list(w->packed, user, n, c->at + first, t->size);
    else
        l->row(w->packed, user + place(c, first), n, c->step, t->size);
    w->packed += n * t->size;
}

/* A piece of a copy, whole ones, a piece. */
static void move_copies(struct walk *w, const struct copies *c, uintptr_t user, int64_t begin, int64_t end)
{
    int64_t size = c->child->size, first = begin / size, at = begin % size, past = end / size;
    if (at) {
        int64_t stop = first < past ? size : end - first * size;
        move_child(w, c->child, user + place(c, first), at, stop);
        first++;
    }
    if (first > past) return;
    if (first < past) move_whole(w, c, user, first, past - first);
    if (end > past * size) move_child(w, c->child, user + place(c, past), 0, end - past * size);
}

static void move_seq(struct walk *w, const struct tree *t, uintptr_t user, int64_t begin, int64_t end)
{
    int64_t start = 0;
    for (int64_t i = 0; i < t->count && start < end; start += t->part[i++]->size) {
        const struct tree *part = t->part[i];
        int64_t from = begin > start ? begin - start : 0, to = part->size < end - start ? part->size : end - start;
        if (part->kind != TREE_DENSE)
            move_child(w, part, user, from, to);
        else if (from < to)
            move_bytes(w, user + (uintptr_t)part->off + (uintptr_t)from, to - from);
    }
}

static void move_blocks(struct walk *w, const struct tree *t, uintptr_t user, int64_t begin, int64_t end)
{
    const struct tree_block *b = t->block;
    int64_t start = 0;
    while (start + b->len <= begin) start += (b++)->len;
    for (; start < end; start += (b++)->len) {
        int64_t from = begin > start ? begin - start : 0, to = b->len < end - start ? b->len : end - start;
        move_bytes(w, user + (uintptr_t)b->off + (uintptr_t)from, to - from);
    }
}

static void move_node(struct walk *w, const struct tree *t, uintptr_t user, int64_t begin, int64_t end)
{
    switch (t->kind) {
    case TREE_DENSE: move_bytes(w, user + (uintptr_t)begin, end - begin); break;
    case TREE_SEQ: move_seq(w, t, user, begin, end); break;
    case TREE_STRIDE: move_copies(w, &(struct copies){t->child, t->step, NULL}, user, begin, end); break;
    case TREE_INDEX: move_copies(w, &(struct copies){t->child, 0, t->at}, user, begin, end); break;
    case TREE_BLOCKS: move_blocks(w, t, user, begin, end); break;
    }
}

static void move(struct walk *w, const struct tree *t, uintptr_t user, int64_t extent, int64_t begin, int64_t end)
{
    if (t->size > 0 && begin < end) move_copies(w, &(struct copies){t, extent, NULL}, user, begin, end);
}

void tree_pack(const struct tree *t, void *packed, uintptr_t user, int64_t extent, int64_t begin, int64_t end)
{
    move(&(struct walk){0, packed}, t, user, extent, begin, end);
}

void tree_unpack(const struct tree *t, const void *packed, uintptr_t user, int64_t extent, int64_t begin, int64_t end)
{
    move(&(struct walk){1, (char *)(uintptr_t)packed}, t, user, extent, begin, end);
}
