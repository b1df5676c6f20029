/* canon.h: what the files of rewrite rules share (canon.c, canon_list.c). */
#ifndef STRIDEC_GEN_CANON_H
#define STRIDEC_GEN_CANON_H
#include "tree.h"

enum canon { CANON_KEPT, CANON_FIRED, CANON_FAILED };

/* A rule looks at a node whose children are canonical and not empty. If it applies, it puts a smaller
 * node of the same packed byte sequence in *t, whose children are canonical too. */
typedef enum canon canon_rule(struct tree **t, struct reason *why);

/* Ends a rule that applies: `with` takes the place of *t; NULL tells that making it failed. */
enum canon canon_replace(struct tree **t, struct tree *with);

/* Applies the rules to a node with canonical children until none fires. Consumes t; NULL passes through. */
struct tree *canon_settle(struct tree *t, struct reason *why);

/* Rules for seq and index (canon_list.c), each list in the order of trial, NULL at the end. */
extern canon_rule *const canon_seq_rules[], *const canon_index_rules[];

#endif
