/* reduce_task.h: what the tests of reductions share: elements of predefined types between guards, and the six
 * reductions in their three forms, with the results that reference.h brings. */
#ifndef STRIDEC_TESTS_MPI_REDUCE_TASK_H
#define STRIDEC_TESTS_MPI_REDUCE_TASK_H
#include "check.h"
#include "reference.h"
#include "rows.h"

#define ELEMENTS_GUARD 3   /* on both sides */

/* Elements in memory of a kind, behind and before guards, and an image of them in host memory. */
struct elements {
    enum mem_kind kind;
    char *base, *image, *at;   /* at: the first element */
    size_t bytes;
};
void elements_make(struct elements *r, enum mem_kind kind, const struct number *t, int count);
void elements_fill(struct elements *r, const struct number *t);
void elements_check(const struct elements *r, const char *what);   /* every byte, against the image */
void elements_free(struct elements *r);

enum call { REDUCE, ALLREDUCE, REDUCE_SCATTER_BLOCK, REDUCE_SCATTER, SCAN, EXSCAN, CALLS };
extern const char *const call_name[CALLS];

/* One call: each rank brings `count` elements, or a block for each rank. */
struct task {
    const struct number *t;
    enum call call;
    enum operation op;
    bool in_place;
    enum mem_kind from, to;
    int root, count, counts[8];
    int all, own, first;        /* elements of a rank; of those that it gets, and where they begin */
};
void task_counts(struct task *k, int count);
void task_make(const struct task *k, struct elements *from, struct elements *to);
int task_run(const struct task *k, enum form form, void *from, void *to, MPI_Comm comm, MPI_Request *q);
/* Returns true if this rank gets a result. */
bool task_gets(const struct task *k);
/* Compares every byte, after the call; the images are as before it. Collective. */
void task_check(const struct task *k, struct elements *from, struct elements *to, const char *what);
/* Returns false where the MPI alone crashes in place. */
bool task_mpi_can_place(const struct task *k);

/* Types of several classes, with an operation each that gives the MPI the same bits in any order. */
struct task_type {
    const char *name;
    enum operation op;
};
extern const struct task_type task_types[];
extern const size_t task_type_total;
const struct number *number_named(const char *name);

/* Returns stridec_exchanges(); 0 without stridec. */
long task_exchanges(void);

#endif
