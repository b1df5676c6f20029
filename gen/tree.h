/* tree.h: the stride tree, stridec's only description of a data layout.
 *
 * A tree says which bytes a type touches, relative to an origin (the address passed to MPI), and in
 * which order they are packed: typemap order, depth first, left to right. All offsets, steps and
 * lengths are bytes, signed 64-bit. Trees are immutable and reference counted, so they share subtrees.
 *
 * dense(off, len)                len contiguous bytes
 * stride(off, count, step, c)    count copies of c, step apart; a step may be negative, zero or small
 * seq(off, c, ...)               the children one after another
 * index(off, c, at[])            the same child at each listed offset
 * blocks(off, (at, len)[])       a seq of dense children alone, TREE_BLOCKS_MIN or more: one array, no nodes
 *
 * Every node's `off` is added to its children's. An empty tree is dense(0, 0).
 *
 * Errors: a function that can fail returns NULL (or -1) and writes one line to *why; the cases are
 * running out of memory, an argument that is negative, and arithmetic past 2^63. Constructors consume
 * the references that they are given, also when they fail; tree_ref first if you want to keep one. A NULL
 * child is a failure already told in *why and passes through, so that constructors nest.
 */
#ifndef STRIDEC_GEN_TREE_H
#define STRIDEC_GEN_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One line for a person: what went wrong. Never NULL; text is always terminated. */
struct reason {
    char text[256];
};

/* ORDER TREE_KIND: tables in signature.c, walk.c, program.c, tree.c and runtime/datatype/byte_types.c follow this
 * order. */
enum tree_kind { TREE_DENSE, TREE_STRIDE, TREE_SEQ, TREE_INDEX, TREE_BLOCKS };

/* A block of a list: `len` bytes at `off`. */
struct tree_block {
    int64_t off, len;
};

struct tree {
    enum tree_kind kind;
    int refs;            /* atomic; use tree_ref and tree_unref */
    int depth;           /* 1 for a leaf */
    int64_t off;         /* added to everything below */
    int64_t size;        /* packed bytes */
    int64_t low, high;   /* lowest byte touched, one past the highest, off included; 0, 0 when empty */
    int64_t count;       /* dense: length; stride: copies; seq: children; index: offsets; blocks: blocks */
    int64_t step;        /* stride only */
    struct tree *child;  /* stride, index */
    struct tree **part;  /* seq: count children */
    int64_t *at;         /* index: count offsets */
    struct tree_block *block;   /* blocks: count blocks, each of 1 byte or more */
    uint64_t bits;       /* blocks: of all their numbers, or'ed */
    bool touching;       /* blocks: some block begins where the one before it ends */
};

/* tree_seq makes blocks of so many dense parts, and tree_blocks a seq of fewer: equal layouts of either have one node.
 * Fewer are constants of a kernel's source (form.c). */
#define TREE_BLOCKS_MIN 33

/* Deeper trees are refused: recursion stays within a thread's stack. */
#define TREE_DEPTH_MAX 512

struct tree *tree_dense(int64_t off, int64_t len, struct reason *why);
struct tree *tree_stride(int64_t off, int64_t count, int64_t step, struct tree *child, struct reason *why);
/* Copies the array `part`, consumes the references in it. A seq or an index of count 0 is dense(0, 0). */
struct tree *tree_seq(int64_t off, int64_t count, struct tree *const part[], struct reason *why);
/* Copies the array `at`. */
struct tree *tree_index(int64_t off, int64_t count, const int64_t at[], struct tree *child, struct reason *why);
/* Returns room for `count` blocks, which the caller fills and gives to tree_blocks or tree_blocks_drop; NULL without
 * memory. */
struct tree_block *tree_blocks_room(int64_t count, struct reason *why);
void tree_blocks_drop(struct tree_block block[]);
/* Consumes `block`, which tree_blocks_room returned for `count` blocks or more. Each has 1 byte or more. */
struct tree *tree_blocks(int64_t off, int64_t count, struct tree_block block[], struct reason *why);

struct tree *tree_ref(struct tree *t);
void tree_unref(struct tree *t);   /* NULL is allowed */
bool tree_equal(const struct tree *a, const struct tree *b);   /* same nodes, same numbers */
/* Returns how many numbers the tree is written with but for its offset, or most + 1 if they are more. */
int64_t tree_numbers(const struct tree *t, int64_t most);

/* The same tree `by` bytes further on: a new root, shared children. Does not consume t. */
struct tree *tree_shift(const struct tree *t, int64_t by, struct reason *why);

/* The canonical form: an equal layout in the same pack order, with all offsets hoisted to the root where a
 * single child allows. Equal layouts give equal trees, however they were built, up to the limits that
 * canon.c opens with. Does not consume t. */
struct tree *tree_canonical(const struct tree *t, struct reason *why);
/* The same, and *steps says which rewrite rules made it so: a line a rule and its numbers, in the order of their
 * first firing, with how often; rules that fired with many different numbers show the first few. malloc'd. */
struct tree *tree_canonical_explained(const struct tree *t, char **steps, struct reason *why);

/* True if the tree is a chain of strides over one dense block (a plain dense block included): the
 * layouts that the strided family compiles. */
bool tree_is_strided(const struct tree *t);

/* The type signature: text, for example s(100,4096,d(400))@16. malloc'd, the caller frees. Grammar:
 *   node := body [ "@" off ]            "@off" is left out when off is 0
 *   body := "d(" len ")" | "s(" count "," step "," node ")" | "q(" node {"," node} ")"   (a seq, or blocks)
 *         | "i(" node ";" off {"," off} ")"
 * tree_shape_signature leaves out the root's offset: types that differ only in where they start have
 * one shape, and one compiled module, since the offset is added to the address at launch. */
char *tree_signature(const struct tree *t, struct reason *why);
char *tree_shape_signature(const struct tree *t, struct reason *why);
/* Returns the shape signature, or, of a tree of more numbers than TREE_KEY_NUMBERS, a hash in its place, which begins
 * with '#'. Equal shapes have equal keys; unequal ones may have equal hashes. malloc'd. */
#define TREE_KEY_NUMBERS 512
char *tree_key(const struct tree *t, struct reason *why);
/* Reads a signature; refuses anything that tree_signature would not write, but for canonical form. */
struct tree *tree_parse(const char *text, struct reason *why);
/* Indented lines for a person ("stride 100 x 4096 B ..."). malloc'd. */
char *tree_describe(const struct tree *t, struct reason *why);

/* The largest power of two, at most `limit`, that divides every offset (the root's excepted), step
 * and length: how wide a word can be if the addresses allow it. limit is a power of two. */
int tree_word(const struct tree *t, int limit);

/* Calls `run` for each contiguous run of the packed range [begin, end) of `count` elements laid
 * `extent` apart, in pack order: `user` is the run's offset from the origin, `packed` its offset in the
 * packed stream, `len` its length (merged across leaves where they touch; never 0). Stops early and
 * returns run's value if that is not 0. Needs no memory. */
typedef int tree_run(void *arg, int64_t user, int64_t packed, int64_t len);
int tree_walk(const struct tree *t, int64_t count, int64_t extent, int64_t begin, int64_t end,
              tree_run *run, void *arg);

/* The program that the generic kernel interprets (templates/generic.cu): an array of 64-bit words,
 * one record a node, root first. *words is its length. malloc'd. Layout in program.c. */
int64_t *tree_program(const struct tree *t, size_t *words, struct reason *why);

#endif
