/* args_replace.c: the arguments that are passed to the MPI for a packed argument. */
#include "args_internal.h"
#include <limits.h>
#include <stdlib.h>

/* Returns a type of one element's bytes: a named type, or one that lives with the layout. */
static MPI_Datatype plain_type(struct layout *l)
{
    switch (l->size) {
    case 1: return MPI_BYTE;
    case 2: return MPI_UINT16_T;
    case 4: return MPI_UINT32_T;
    case 8: return MPI_UINT64_T;
    case 16: return MPI_C_DOUBLE_COMPLEX;
    default: return layout_bytes_type(l);
    }
}

/* Sets the displacements of pieces that lie one after the other. Returns false if they don't fit the call's ints. */
static bool pack_displs(const struct args_set *o, struct arg *p, const struct group *g, struct bounced *c)
{
    int n = args_pieces(o, p, g);
    int64_t at = 0;
    struct arg_piece from;
    c->displs = malloc((size_t)(n ? n : 1) * (p->displs_wide ? sizeof(MPI_Aint) : sizeof(int)));
    for (int i = 0; c->displs && i < n; i++) {
        if (p->displs_wide) ((MPI_Aint *)c->displs)[i] = (MPI_Aint)at;
        else if (at > INT_MAX) return false;
        else ((int *)c->displs)[i] = (int)at;
        if (args_piece(o, p, g, i, &from)) at += p->types ? from.bytes : from.count;
    }
    p->use_displs = c->displs;
    return c->displs != NULL;
}

/* Sets the count and type: bytes for a message, elements of plain bytes for a collective. */
static bool pack_type(const struct args_set *o, struct arg *p, const struct bounced *c)
{
    if (o->message && c->whole.bytes <= INT_MAX) {
        p->use_count = c->whole.bytes, p->use_type = MPI_BYTE;
        return true;
    }
    p->use_type = plain_type(layout_of(p->type));
    return p->use_type != MPI_DATATYPE_NULL;
}

/* Sets the count and type of a piece that has its own type: bytes, or elements of that size if an int can't count
 * the bytes. Wrong arguments stay, so that the MPI refuses them.
 * Workaround (MPICH before 4.1.1): MPI_Ialltoallw in place confuses the sizes of two ranks' types
 * (pmodels/mpich#6404); bytes have one size. */
static bool plain_piece(const struct arg *p, const struct arg_piece *from, int64_t *n, MPI_Datatype *type)
{
    bool fits = p->counts_wide || from->bytes <= INT_MAX;
    *n = from->count, *type = from->type;
    if (from->count < 0 || (from->count > 0 && from->type == MPI_DATATYPE_NULL)) return true;
    if (from->count > 0 && !from->layout) return false;
    if (fits) *n = from->bytes;
    *type = fits ? MPI_BYTE : plain_type(from->layout);
    return *type != MPI_DATATYPE_NULL;
}

static bool pack_types(const struct args_set *o, struct arg *p, const struct group *g, struct bounced *c)
{
    int n = args_pieces(o, p, g);
    struct arg_piece from;
    int64_t count;
    c->types = calloc((size_t)args_list_length(o, n), sizeof *c->types);
    c->counts = malloc((size_t)(n ? n : 1) * (p->counts_wide ? sizeof(MPI_Count) : sizeof(int)));
    for (int i = 0; c->types && c->counts && i < n; i++) {
        args_piece(o, p, g, i, &from);
        if (!plain_piece(p, &from, &count, &c->types[i])) return false;
        if (p->counts_wide) ((MPI_Count *)c->counts)[i] = (MPI_Count)count;
        else ((int *)c->counts)[i] = (int)count;
    }
    p->use_types = c->types, p->use_counts = c->counts;
    return c->types && c->counts;
}

bool args_arguments(const struct args_set *o, struct arg *p, const struct group *g, struct bounced *c)
{
    p->use = c->whole.address;
    return (!p->displs || pack_displs(o, p, g, c)) && (p->types ? pack_types(o, p, g, c) : pack_type(o, p, c));
}
