/* form.h: what a tree's own kernel is compiled for.
 *
 * A form is the shape with each long list taken out: the offsets of an index, the blocks of a long seq. The lists lie
 * in device memory, and what follows from their lengths comes with the launch as numbers; so types that differ in
 * their lists alone have one form signature and share one module, and a type of ten million blocks has a short one.
 * Without lists the form signature is the shape signature. Grammar of the rest (tree.h has the first four bodies):
 *   body := "i(" node ";#" code "*" unit ")"                     an index with its offsets in memory
 *         | "b(#" start "+" code "*" unit [ "l" ] ")"             a list of dense blocks in memory
 *   code := entry | base ":" entry                                how offsets lie there (form_code.h)
 *   form := node, and with lists "~" class                        a power of 4 that one element's bytes reach
 * "l": blocks of FORM_LONG bytes or more on average. entry, base and start are bytes; offsets count in units, the
 * largest power of two (up to 16) dividing them. The code
 * follows from the offsets alone, the shortest that holds them: types with alike lists share a form.
 *
 * In memory an index is its offsets. A list of blocks is three arrays (Wu et al., section 3.2): for every 2^shift units
 * of the packed stream the block that holds the first, then for each block where it lies (its offset less its
 * place in the packed stream), then the low 16, 24 or 32 bits of its place. A thread so searches the few blocks that
 * begin in its own 2^shift units: at most shift + 1 steps, and no more than the logarithm of the number of blocks.
 * 2^shift is at most 24 times the mean length of a block in units, or 1/500 of the list's units where that is more; so
 * words cost alike, however long or short the blocks around them.
 *
 * A list takes at most 7.5 bytes a block and 4 KiB (device memory is rounded up by a sixteenth: 8 a block). More only
 * where the numbers themselves have more bits:
 *   blocks longer than 2^19 units on average: 8.2 bytes a block, for where one starts and where it lies have 32 each;
 *   longer than 2^12, and offsets of near blocks more than 2^32 units apart: 8, or 9 where they come to more than
 *   2^33 units in all;
 *   offsets past 2^39 units: at most 12.
 */
#ifndef STRIDEC_GEN_FORM_H
#define STRIDEC_GEN_FORM_H
#include "form_code.h"
#include "gen.h"

/* ORDER FORM_KIND: letters in form_lists.c, Lua names in gen_tables.c. */
enum form_kind { FORM_DENSE, FORM_STRIDE, FORM_SEQ, FORM_INDEX, FORM_TABLE, FORM_BLOCKS };

#define FORM_LONG 64

/* Numbers of a list's node, counted from `number`. A table has the first only. */
enum { FORM_AT, FORM_AT_ENTRIES, FORM_AT_STARTS, FORM_SHIFT, FORM_LIST_NUMBERS };

struct form_node {
    enum form_kind kind;
    const struct tree *tree;    /* what it stands for */
    int64_t off, size;
    bool varies;                /* with the length of a list */
    int size_number;            /* the number that is its size in words, the next its inverse; -1: size is a constant */
    int count;                  /* children */
    struct form_node *child[32];
    const struct form_code *code;
    int unit;                   /* of lists, bytes */
    const struct form_code *start; /* of FORM_BLOCKS */
    int number;                 /* of lists: the first of their own */
    int64_t blocks, chunks;     /* of FORM_BLOCKS */
};

/* Returns true if the blocks of a FORM_BLOCKS are FORM_LONG bytes or more on average. */
static inline bool form_blocks_long(const struct form_node *n)
{
    return n->size / FORM_LONG >= n->blocks;
}

/* What of a block's place in the packed stream its list tells. */
static inline int form_start_bytes(const struct form_node *n)
{
    return n->start->base + n->start->entry;
}

/* How a number of the launch comes from its value: as it is, in words, or the inverse of that (form_numbers). */
enum form_unit { FORM_RAW, FORM_WORDS, FORM_INVERSE };

/* form_lists.c: the signature, malloc'd. */
char *form_text(const struct form *f, const struct tree *t, struct reason *why);

struct form {
    struct form_node *root;     /* NULL for GEN_GENERIC: no family serves the tree */
    enum gen_family family;
    char *signature;
    int word;                   /* widest word that the tree allows */
    int64_t plan_bytes;         /* one element's bytes as the plan may know them: the class of form.h with lists */
    int numbers;
    struct {
        enum form_unit unit;
        int64_t value;
    } number[GEN_NUMBERS_MAX];
    size_t list_bytes;
};

#endif
