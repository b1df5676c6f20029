/* form.h: what a tree's own kernel is compiled for.
 *
 * A form is the shape with each long list taken out: the offsets of an index, the blocks of a long seq. The lists lie
 * in device memory, and what follows from their lengths comes with the launch as numbers; so types that differ in
 * their lists alone have one form signature and share one module, and a type of ten million blocks has a short one.
 * Without lists the form signature is the shape signature. Grammar of the rest (tree.h has the first four bodies):
 *   body := "i(" node ";#" entry "*" unit ")"                    an index with its offsets in memory
 *         | "b(#" start "+" entry "*" unit ")"                    a list of dense blocks in memory
 *   form := node, and with lists "~" class                        a power of 4 that one element's bytes reach
 * entry and start are bytes of an entry; offsets count in units, the largest power of two (up to 16) dividing them.
 *
 * In memory an index is its offsets. A list of blocks is three arrays (Wu et al., section 3.2): for every 2^shift units
 * of the packed stream the block that holds the first, then for each block where it lies (its offset less its
 * place in the packed stream), then the low bits of its place. A thread so searches the few blocks that begin in
 * its own 2^shift units. Entries take 4 bytes while offsets fit, and a block at most 8 in all, but for 4 KiB and very
 * long blocks (form_lists).
 */
#ifndef STRIDEC_GEN_FORM_H
#define STRIDEC_GEN_FORM_H
#include "gen.h"

/* ORDER FORM_KIND: letters and Lua names in form_text.c and gen.c. */
enum form_kind { FORM_DENSE, FORM_STRIDE, FORM_SEQ, FORM_INDEX, FORM_TABLE, FORM_BLOCKS };

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
    int unit, entry, start;     /* of lists, bytes */
    int number;                 /* of lists: the first of their own */
    int64_t blocks, chunks;     /* of FORM_BLOCKS */
};

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
