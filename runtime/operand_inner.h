/* operand_inner.h: what operand.c and operand_carry.c share. */
#ifndef STRIDEC_OPERAND_INNER_H
#define STRIDEC_OPERAND_INNER_H
#include "operand.h"
#include "request.h"

/* The own rank in the communicator of a call. */
struct group {
    int rank, ranks, peers;   /* peers: of the remote group between two groups */
    bool root, leaf;
    bool grid;                /* a cartesian topology: neighbours past its edges are MPI_PROC_NULL */
};

struct piece_of {
    struct layout *layout;    /* borrowed from the type */
    MPI_Datatype type;
    char *buf;
    int64_t count, bytes;
};

/* The MPI takes device memory itself. */
bool takes_devices(const struct operands *o);
/* The i-th of its lists. */
int64_t operand_count(const struct operand *p, int i);
int64_t operand_displ(const struct operand *p, int i);
int operand_pieces(const struct operands *o, const struct operand *p, const struct group *g);
/* The i-th; false if it holds nothing, or nothing that can be told. */
bool operand_piece(const struct operands *o, const struct operand *p, const struct group *g, int i, struct piece_of *out);
/* Sets what goes down to what the call was given. */
void operand_as_is(struct operand *p);
/* Makes p->carried and what goes down. An MPI error that has been raised, or MPI_SUCCESS. */
int operand_carry(const struct operands *o, struct operand *p, const struct group *g);

static inline MPI_Comm operands_comm(const struct operands *o)
{
    return o->comm == MPI_COMM_NULL ? MPI_COMM_SELF : o->comm;
}

#endif
