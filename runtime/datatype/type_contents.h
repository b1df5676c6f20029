/* type_contents.h: an MPI datatype's envelope and contents, for what reads datatypes (type_reader.c, type_text.c). */
#ifndef STRIDEC_TYPE_CONTENTS_H
#define STRIDEC_TYPE_CONTENTS_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A datatype's contents as the MPI gives them, with a cursor on each list. A type made by a large-count constructor
 * (MPI-4 `_c`) has all counts and displacements in `large`. Readers use the lists where they are. */
struct contents {
    int combiner;
    int nints, naddresses, ntypes;
    MPI_Count nlarge;
    int64_t *ints, *int_at;
    int64_t *addresses, *address_at;
    int64_t *large, *large_at;
    MPI_Datatype *types;
};

/* Sets the combiner and the lengths of the lists. Returns the MPI's status. */
int contents_envelope(MPI_Datatype datatype, struct contents *c);
/* Reads the lists of a derived type that has its envelope. Returns false on failure. Then, too, contents_free. */
bool contents_read(MPI_Datatype datatype, struct contents *c);
void contents_free(struct contents *c);
/* Returns true for the combiners of predefined types. Those must not be freed. */
bool contents_named(int combiner);
/* Frees a handle that the MPI has given, as of a type's contents, unless it is predefined. */
void contents_free_handle(MPI_Datatype *datatype);

static inline int64_t take_int(struct contents *c)
{
    return *c->int_at++;
}

/* Returns the cursor of counts, or of addresses. Old Fortran combiners (*_INTEGER) have their addresses among the
 * integers. */
static inline int64_t **counts(struct contents *c)
{
    return c->nlarge ? &c->large_at : &c->int_at;
}
static inline int64_t **addresses(struct contents *c)
{
    return c->nlarge || !c->naddresses ? counts(c) : &c->address_at;
}

static inline int64_t take_count(struct contents *c)
{
    return *(*counts(c))++;
}
static inline int64_t take_address(struct contents *c)
{
    return *(*addresses(c))++;
}

/* Returns a list of n values behind a cursor, which it moves. */
static inline int64_t *take_list(int64_t **cursor, int64_t n)
{
    *cursor += n;
    return *cursor - n;
}

#endif
