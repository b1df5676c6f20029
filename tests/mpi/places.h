/* places.h: shapes of doubles in several arrays, which types of absolute addresses describe. */
#ifndef STRIDEC_TESTS_MPI_PLACES_H
#define STRIDEC_TESTS_MPI_PLACES_H
#include "check.h"

#define ARRAYS 4
#define DOUBLES 4096   /* of an array */
#define PIECES 200

/* n doubles of an array, `step` doubles apart. */
struct piece {
    int array, first, n, step;
};
struct shape {
    const char *name;
    int pieces;
    struct piece piece[PIECES];
    bool list;          /* by MPI_Type_create_hindexed_block: all pieces have one length */
    bool together;      /* the arrays lie in one allocation */
    enum mem_kind kind;
    int launches;       /* of the receiver; -1: any */
};

/* A shape in memory. */
struct place {
    const struct shape *shape;
    double *array[ARRAYS], *shadow[ARRAYS];
    MPI_Datatype type;
};

void shape_add(struct shape *s, int array, int first, int n, int step);
int shape_doubles(const struct shape *s);
/* Four shapes of 1,500 doubles: fields, particles, a list, and one that has more parts than a message may have. */
void shapes_make(struct shape *fields, struct shape *particles, struct shape *list, struct shape *many);

void place_make(struct place *p, const struct shape *s);
void place_free(struct place *p);
/* Writes first, first + 1, ... into the pieces of the shadows, and then the shadows into the arrays if `memory_too`. */
void place_fill(struct place *p, double first, bool memory_too);
/* Writes what no message brings, everywhere. */
void place_clear(struct place *p);
/* Compares the arrays with the shadows, after a message from a shape of this name. */
void place_check(const struct place *p, const char *name);

#endif
