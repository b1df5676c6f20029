/* canon.h: what the files of the canonical form share. canon.c says what they establish together. */
#ifndef STRIDEC_GEN_CANON_H
#define STRIDEC_GEN_CANON_H
#include "tree.h"

/* A seq that unfolds to no more contiguous runs than this is looked at run by run. */
#define CANON_RUNS_MAX ((int64_t)1 << 14)

enum canon { CANON_KEPT, CANON_FIRED, CANON_FAILED };

/* A rule looks at a node whose children are canonical and not empty. If it applies, it puts a smaller
 * node of the same packed byte sequence in *t, whose children are canonical too. */
typedef enum canon canon_rule(struct tree **t, struct reason *why);

/* Ends a rule that applies: `with` takes the place of *t; NULL tells that making it failed. */
enum canon canon_replace(struct tree **t, struct tree *with);

/* The canonical form of a node with canonical children. Consumes t; NULL passes through. */
struct tree *canon_settle(struct tree *t, struct reason *why);

/* Rules for a seq of too many runs (canon_seq.c), in the order of trial, NULL at the end. */
extern canon_rule *const canon_seq_rules[];

/* The same from the list of contiguous runs (canon_runs.c). Does not consume t. */
struct tree *canon_runs(const struct tree *t, struct reason *why);

/* How many dense leaves t unfolds to; most + 1 if more than that. */
int64_t canon_leaves(const struct tree *t, int64_t most);

/* Copies of x (canonical, offset 0, not empty) at at[0] = 0, at[1], ...: period, groups, progressions
 * (canon_offsets.c). Consumes x; at[] may be changed. canon_list is the last step alone, for lists that have
 * no period and no groups. With `whole`, the result is no seq. */
struct tree *canon_offsets(struct tree *x, int64_t count, int64_t at[], bool whole, struct reason *why);
struct tree *canon_list(struct tree *x, int64_t count, const int64_t at[], bool whole, struct reason *why);

/* The least p < n dividing n such that entry i + p is what entry i is, shifted by a constant, for all i
 * (canon_offsets.c); 0 if there is none. part may be NULL: all alike. */
int64_t canon_period(int64_t n, const int64_t at[], struct tree *const part[]);

/* One entry of a sequence: `shape` (offset 0) at `off`; a NULL shape is a run of `len` bytes. */
struct item {
    struct tree *shape;
    int64_t off, len;
};

/* Evenly spaced neighbours of one shape become strides, level upon level (canon_items.c): if that leaves at
 * most a `least`th of the items, puts them in *out (malloc'd, own their shapes) and returns how many; else 0;
 * -1 on failure. The items given stay the caller's. */
int64_t canon_items(int64_t n, const struct item items[], int64_t least, struct item **out, struct reason *why);
/* How many items that first level leaves of runs (len: their lengths) or of copies of one shape (len NULL), from
 * three in a progression on or from `few`; entries lie `apart` words apart. */
int64_t canon_progressions(int64_t n, const int64_t off[], const int64_t len[], int64_t apart, int64_t few);
/* The seq of items (one: just that), and their end. Does not consume. */
struct tree *canon_items_seq(int64_t n, const struct item items[], struct reason *why);
void canon_items_free(int64_t n, struct item items[]);
bool canon_items_alike(const struct item *a, const struct item *b);

#endif
