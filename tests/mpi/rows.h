/* rows.h: what the tests of collectives among the ranks of a node share: buffers of doubles, and the ten calls in their
 * three forms, with one piece a rank: every second double of ROWS. */
#ifndef STRIDEC_TESTS_MPI_ROWS_H
#define STRIDEC_TESTS_MPI_ROWS_H
#include "check.h"

#define ROWS 64

/* Collective: true if it is so on all ranks. */
bool everywhere(bool here);

/* A buffer of doubles in memory of this rank's kind, and a host copy. */
struct doubles {
    enum mem_kind kind;
    double *at, *shadow;
    size_t n;
};
void doubles_make(struct doubles *d, enum mem_kind kind, size_t n);
void doubles_free(struct doubles *d);
void doubles_write(struct doubles *d);
/* Compares all of it with the shadow. */
void doubles_check(const struct doubles *d, const char *what);

/* ROWS doubles, every second one; its extent is 2 * ROWS doubles. */
extern MPI_Datatype row;
void rows_begin(void);
void rows_end(void);

enum kind { ALLTOALL, ALLTOALLV, ALLTOALLW, ALLGATHER, ALLGATHER_IN_PLACE, ALLGATHERV, BCAST, GATHER, GATHER_IN_PLACE,
            GATHERV, SCATTER, SCATTER_IN_PLACE, SCATTERV, KINDS };
enum form { BLOCKING, NONBLOCKING, PERSISTENT };
extern const char *const kind_name[KINDS];

/* A buffer for a piece of each rank. */
void rows_make(struct doubles *d, enum mem_kind kind);
void rows_clear(struct doubles *d);
void rows_put(struct doubles *d, int place, int rank, int piece, int round);
/* Fills what this rank sends, and clears the rest. */
void rows_fill(enum kind k, struct doubles *out, struct doubles *in, int root, int round);
/* Makes the call with this rank's piece(s) in `out`; what comes is in `in`. A persistent one is not started. */
int rows_call(enum kind k, enum form form, struct doubles *out, struct doubles *in, int root, MPI_Comm comm,
              MPI_Request *q);
/* Sets what must be in `in` afterwards. Lists go backwards. */
void rows_expected(enum kind k, struct doubles *in, int root, int round);
/* The launches of this rank that are wanted: one where anything comes. */
int rows_wanted(enum kind k, int root);

#endif
