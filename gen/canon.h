/* canon.h: what the files of the canonical form share. canon.c says what they establish together. */
#ifndef STRIDEC_GEN_CANON_H
#define STRIDEC_GEN_CANON_H
#include "tree.h"

/* A seq that unfolds to no more contiguous runs than this is looked at run by run; to no more than
 * CANON_REGULAR_MAX if all its parts are chains of strides, which say much in few words: at some 25 ns a run, 13 us of
 * an MPI_Type_commit. Any number is looked at where the parts are half as many. */
#define CANON_RUNS_MAX ((int64_t)1 << 14)
#define CANON_REGULAR_MAX ((int64_t)1 << 9)

enum canon { CANON_KEPT, CANON_FIRED, CANON_FAILED };

/* What can be told of a rewriting. ORDER CANON_STEP: the sentences in canon_trace.c follow this order. */
enum canon_step {
    CANON_EMPTY,
    CANON_STRIDE_ONE, CANON_STRIDE_HOIST, CANON_STRIDE_FOLD, CANON_STRIDE_MERGE,
    CANON_INDEX_ONE, CANON_INDEX_HOIST, CANON_INDEX_EVEN, CANON_INDEX_PERIOD, CANON_INDEX_GROUPS, CANON_INDEX_STRIDES,
    CANON_RUNS, CANON_RUNS_ONE, CANON_RUNS_ALIKE, CANON_RUNS_COPIES, CANON_RUNS_BLOCKS, CANON_RUNS_STRIDES,
    CANON_RUNS_LISTS, CANON_RUNS_SEQ,
    CANON_SEQ_EMPTY, CANON_SEQ_FLATTEN, CANON_SEQ_DENSE, CANON_SEQ_JOIN, CANON_SEQ_ONE, CANON_SEQ_HOIST,
    CANON_SEQ_EQUAL, CANON_SEQ_PERIOD,
    CANON_STEPS
};

/* What all of them are handed: where failures are told, and who listens to the steps (NULL: nobody). */
struct canon_trace;
struct canon_work {
    struct reason *why;
    struct canon_trace *trace;
};
/* Tells of a step with the numbers of its sentence (canon_trace.c). */
void canon_trace_add(struct canon_trace *trace, enum canon_step step, const int64_t number[3]);
static inline void canon_note(const struct canon_work *w, enum canon_step step, int64_t a, int64_t b, int64_t c)
{
    if (w->trace)
        canon_trace_add(w->trace, step, (const int64_t[]){a, b, c});
}
/* The canonical form, told to w->trace. Does not consume t. */
struct tree *canon_tree(const struct tree *t, struct canon_work *w);

/* A rule looks at a node whose children are canonical and not empty. If it applies, it puts a smaller
 * node of the same packed byte sequence in *t, whose children are canonical too. */
typedef enum canon canon_rule(struct tree **t, struct canon_work *w);

/* Ends a rule that applies: `with` takes the place of *t; NULL tells that making it failed. */
enum canon canon_replace(struct tree **t, struct tree *with);

/* The canonical form of a node with canonical children. Consumes t; NULL passes through. */
struct tree *canon_settle(struct tree *t, struct canon_work *w);

/* Rules for a seq of too many runs (canon_seq.c), in the order of trial, NULL at the end. */
extern canon_rule *const canon_seq_rules[];

/* The same from the list of contiguous runs (canon_runs.c). Does not consume t. */
struct tree *canon_runs(const struct tree *t, struct canon_work *w);

/* Returns the least divisor of n that is more than d, a divisor of n itself; n + 1 behind n. n, d >= 1. */
int64_t canon_next_divisor(int64_t n, int64_t d);

/* How many dense leaves t unfolds to; most + 1 if more than that. */
int64_t canon_leaves(const struct tree *t, int64_t most);

/* Copies of x (canonical, offset 0, not empty) at at[0] = 0, at[1], ...: period, groups, progressions
 * (canon_offsets.c). Consumes x; at[] may be changed. canon_list is the last step alone, for lists that have
 * no period and no groups. With `whole`, the result is no seq. */
struct tree *canon_offsets(struct tree *x, int64_t count, int64_t at[], bool whole, struct canon_work *w);
struct tree *canon_list(struct tree *x, int64_t count, const int64_t at[], bool whole, struct canon_work *w);

/* The least p < n dividing n such that entry i + p is what entry i is, shifted by a constant, for all i
 * (canon_offsets.c); 0 if there is none. part may be NULL: all alike. */
int64_t canon_period(int64_t n, const int64_t at[], struct tree *const part[]);

/* One entry of a sequence: `shape` (offset 0) at `off`; a NULL shape is a run of `len` bytes. */
struct item {
    struct tree *shape;
    int64_t off, len;
};

/* Evenly spaced neighbours of one shape, three or more, become strides, level upon level (canon_items.c): if that
 * leaves at most a `least`th of the items, then neighbours that are strides of one shape become lists; puts
 * the items in *out (malloc'd, own their shapes) and returns how many; else 0; -1 on failure. The items given stay the
 * caller's. */
int64_t canon_items(int64_t n, const struct item items[], int64_t least, struct item **out, struct canon_work *w);
/* Neighbours of one shape become one list, in place; runs of one length only with `runs`. The count after, -1 on
 * failure: then the items must still be freed, n of them. */
int64_t canon_items_gather(int64_t n, struct item items[], bool runs, struct canon_work *w);
/* True if that first level leaves at most half of the items, runs (len: their lengths) or copies of one shape (len
 * NULL); entries lie `apart` words apart. */
bool canon_progresses(int64_t n, const int64_t off[], const int64_t len[], int64_t apart);
/* The seq of items (one: just that), and their end. Does not consume. */
struct tree *canon_items_seq(int64_t n, const struct item items[], struct canon_work *w);
void canon_items_free(int64_t n, struct item items[]);
bool canon_items_alike(const struct item *a, const struct item *b);

#endif
