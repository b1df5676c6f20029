/* type.h: types built the way MPI builds them, from named types up, without an MPI.
 *
 * A type is a stride tree plus the numbers that MPI keeps beside a typemap. Counts and block lengths
 * are in elements of the old type, displacements and strides in the units of the MPI call of the same
 * name, 64-bit throughout. Constructors do not consume their old types; each returns a new type that the
 * caller frees, or NULL with one line in *why. Trees are as built; use tree_canonical on `tree`.
 */
#ifndef STRIDEC_GEN_TYPE_H
#define STRIDEC_GEN_TYPE_H

#include "tree.h"

struct type {
    struct tree *tree;
    int64_t size;         /* packed bytes: tree->size */
    int64_t lb, ub;       /* MPI's lower and upper bound; extent = ub - lb */
    int align;            /* strictest alignment of a named type inside, bytes; pads structs */
    bool lb_set, ub_set;  /* set by resized, here or below: then lb, ub ignore the bytes (MPI-4.1 §5.1.6) */
};

enum type_order { TYPE_ORDER_C, TYPE_ORDER_FORTRAN };
enum type_distribution { TYPE_DISTRIBUTE_NONE, TYPE_DISTRIBUTE_BLOCK, TYPE_DISTRIBUTE_CYCLIC };
#define TYPE_DARG_DEFAULT 0

/* A named type: size contiguous bytes (extent == size). */
struct type *type_named(int64_t size, int align, struct reason *why);
/* A predefined value-index pair such as MPI_DOUBLE_INT: value, then an int at `at`, of the C struct's extent. */
struct type *type_pair(int64_t value_size, int64_t at, int64_t index_size, int64_t extent, int align, struct reason *why);
struct type *type_contiguous(int64_t count, const struct type *old, struct reason *why);
struct type *type_vector(int64_t count, int64_t blocklength, int64_t stride, const struct type *old, struct reason *why);
struct type *type_hvector(int64_t count, int64_t blocklength, int64_t stride_bytes, const struct type *old, struct reason *why);
struct type *type_indexed(int64_t count, const int64_t blocklengths[], const int64_t displacements[],
                          const struct type *old, struct reason *why);
struct type *type_hindexed(int64_t count, const int64_t blocklengths[], const int64_t displacements[],
                           const struct type *old, struct reason *why);
struct type *type_indexed_block(int64_t count, int64_t blocklength, const int64_t displacements[],
                                const struct type *old, struct reason *why);
struct type *type_hindexed_block(int64_t count, int64_t blocklength, const int64_t displacements[],
                                 const struct type *old, struct reason *why);
struct type *type_struct(int64_t count, const int64_t blocklengths[], const int64_t displacements[],
                         const struct type *const old[], struct reason *why);
struct type *type_subarray(int ndims, const int64_t sizes[], const int64_t subsizes[], const int64_t starts[],
                           enum type_order order, const struct type *old, struct reason *why);
/* The part of process `rank` of `size`; arrays of ndims entries, dargs as MPI has them or TYPE_DARG_DEFAULT. */
struct type *type_darray(int64_t size, int64_t rank, int ndims, const int64_t gsizes[],
                         const enum type_distribution distribs[], const int64_t dargs[], const int64_t psizes[],
                         enum type_order order, const struct type *old, struct reason *why);
struct type *type_resized(int64_t lb, int64_t extent, const struct type *old, struct reason *why);
struct type *type_dup(const struct type *old, struct reason *why);
void type_free(struct type *t);   /* NULL is allowed */

#endif
