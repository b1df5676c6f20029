/* trees.h: for tests of trees: a naive enumerator, random trees, and short ways to make and compare. */
#ifndef STRIDEC_TESTS_TREES_H
#define STRIDEC_TESTS_TREES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/tree.h"

/* The offsets of all packed bytes, in order. */
struct bytes {
    int64_t *at;
    int64_t count, room;
};

static inline void bytes_add(struct bytes *b, int64_t at)
{
    if (b->count == b->room) {
        b->room = b->room * 2 + 64;
        b->at = realloc(b->at, (size_t)b->room * sizeof *b->at);
        assert_non_null(b->at);
    }
    b->at[b->count++] = at;
}

/* By the words of tree.h alone: every byte of every copy of every child, one at a time. */
static inline void bytes_of_node(struct bytes *b, const struct tree *t, int64_t base)
{
    base += t->off;
    for (int64_t i = 0; i < t->count; i++) {
        switch (t->kind) {
        case TREE_DENSE: bytes_add(b, base + i); break;
        case TREE_STRIDE: bytes_of_node(b, t->child, base + i * t->step); break;
        case TREE_SEQ: bytes_of_node(b, t->part[i], base); break;
        case TREE_INDEX: bytes_of_node(b, t->child, base + t->at[i]); break;
        case TREE_BLOCKS:
            for (int64_t k = 0; k < t->block[i].len; k++)
                bytes_add(b, base + t->block[i].off + k);
            break;
        }
    }
}

static inline struct bytes bytes_of_tree(const struct tree *t)
{
    struct bytes b = {0};
    bytes_of_node(&b, t, 0);
    return b;
}

static inline void assert_same_bytes(struct bytes a, struct bytes b)
{
    assert_int_equal(a.count, b.count);
    if (a.count > 0)
        assert_memory_equal(a.at, b.at, (size_t)a.count * sizeof *a.at);
}

/* ---- random numbers (splitmix64), from TEST_SEED or a fixed start ---- */

static uint64_t random_state;

static inline void random_begin(const char *test)
{
    const char *seed = getenv("TEST_SEED");
    random_state = seed ? strtoull(seed, NULL, 0) : 20200612;
    printf("%s: TEST_SEED=%llu\n", test, (unsigned long long)random_state);
}

static inline int64_t random_from(int64_t low, int64_t high)
{
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return low + (int64_t)((z ^ (z >> 31)) % (uint64_t)(high - low + 1));
}

/* ---- trees ---- */

static struct reason trees_why;

static inline struct tree *made(struct tree *t)
{
    if (!t)
        fail_msg("%s", trees_why.text);
    return t;
}

static inline struct tree *parsed(const char *text)
{
    return made(tree_parse(text, &trees_why));
}

/* Often 0, often such that copies touch, else anything. */
static inline int64_t random_step(int64_t size)
{
    switch (random_from(0, 4)) {
    case 0: return size;
    case 1: return size * random_from(-2, 3);
    default: return random_from(-12, 24);
    }
}

/* Some of which touch. */
static inline struct tree *few_blocks(int64_t off, int64_t n)
{
    struct tree_block *block = tree_blocks_room(n, &trees_why);
    assert_non_null(block);
    for (int64_t i = 0, at = random_from(-3, 3); i < n; i++) {
        block[i] = (struct tree_block){at, random_from(1, 3)};
        at = random_from(0, 2) ? at + block[i].len + random_from(1, 2) * random_from(0, 1) : random_step(3);
    }
    return made(tree_blocks(off, n, block, &trees_why));
}

static inline struct tree *random_tree(int depth)
{
    int64_t off = random_from(0, 2) ? 0 : random_from(-20, 20), n = random_from(0, 9) ? random_from(1, 5) : 0;
    int kind = depth > 1 ? (int)random_from(0, 3) : random_from(0, 9) ? TREE_DENSE : TREE_BLOCKS;
    if (kind == TREE_DENSE)
        return made(tree_dense(off, n, &trees_why));
    if (kind == TREE_BLOCKS)
        return few_blocks(off, n && random_from(0, 3) == 0 ? random_from(30, 40) : n);
    if (kind == TREE_SEQ) {
        struct tree *part[5];
        int64_t at = 0, equal = random_from(0, 2);
        for (int64_t i = 0; i < n; i++) {
            struct tree *p = equal && i > 0 ? tree_ref(part[random_from(0, 1) * (i - 1)]) : random_tree(depth - 1);
            part[i] = made(tree_shift(p, at, &trees_why));
            tree_unref(p);
            at = random_step(part[i]->size);
        }
        return made(tree_seq(off, n, part, &trees_why));
    }
    struct tree *child = random_tree(depth - 1);
    if (kind == TREE_STRIDE)
        return made(tree_stride(off, n, random_step(child->size), child, &trees_why));
    int64_t at[8], first = random_from(0, 3), gap = random_step(child->size);
    n = n ? random_from(1, 8) : 0;
    for (int64_t i = 0; i < n; i++)
        at[i] = first + (i / 2) * gap * (random_from(0, 3) ? 2 : 1) + (i % 2) * gap;
    return made(tree_index(off, n, at, child, &trees_why));
}

/* For each length of a table that ends with 0, an array of atoms of so many bytes: the same runs of one to three, scattered,
 * of each; then blocks of 12 bytes. Sets how many atoms there are. */
static inline struct tree *properties_tree(int64_t runs, const int *lengths, int64_t others, int64_t *atoms)
{
    struct tree *part[1000];
    int64_t at[200], run[200], count = 0, end = 0, base = 0;
    *atoms = 0;
    for (int64_t i = 0; i < runs; i++) {
        at[i] = end + random_from(1, 9), run[i] = random_from(1, 3);
        end = at[i] + run[i], *atoms += run[i];
    }
    for (; *lengths; base += end * *lengths + 16 * random_from(1, 90), lengths++)
        for (int64_t i = 0; i < runs; i++)
            part[count++] = made(tree_dense(base + at[i] * *lengths, run[i] * *lengths, &trees_why));
    for (int64_t i = 0; i < others; i++, base += 12 + 4 * random_from(1, 50))
        part[count++] = made(tree_dense(base, 12, &trees_why));
    return made(tree_seq(0, count, part, &trees_why));
}

#endif
