/* layouts.h: the layouts that the benchmarks measure, by name, as MPI datatypes. */
#ifndef STRIDEC_BENCH_LAYOUTS_H
#define STRIDEC_BENCH_LAYOUTS_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct layout {
    char name[80];
    int count;              /* elements of type in one message */
    MPI_Datatype type;      /* committed */
    size_t packed_bytes;
    size_t list_bytes;      /* of the shortest list that says where the blocks are; 0 where strides say it */
    size_t span_bytes;      /* from the buffer's first byte to one past the last that is touched */
    size_t block_bytes;     /* LAYOUTS_PINGPONG: of a contiguous run, on average */
    bool quick;             /* LAYOUTS_PINGPONG: one of those that stand for all */
};

/* ORDER LAYOUT_SET: which table of layouts.c. */
enum layout_set { LAYOUTS_PACK, LAYOUTS_PINGPONG };

size_t layout_total(enum layout_set set);
/* Makes the i-th layout; layout_free gives its type back. */
struct layout layout_make(enum layout_set set, size_t i);
void layout_free(struct layout *l);

#endif
