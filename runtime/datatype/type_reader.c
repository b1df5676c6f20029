/* type_reader.c: reads datatypes: one reader a combiner, listed in `readers`; `named` lists the predefined types. */
#include "type_reader.h"
#include "base/mpi_abi.h"
#include "type_contents.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int read_combiner(MPI_Datatype datatype)
{
    struct contents c = {0};
    return contents_envelope(datatype, &c) == MPI_SUCCESS ? c.combiner : MPI_UNDEFINED;
}

typedef struct type *reader(struct contents *c, struct type *const old[], struct reason *why);

static struct type *read_dup(struct contents *c, struct type *const old[], struct reason *why)
{
    (void)c;
    return type_dup(old[0], why);
}

static struct type *read_contiguous(struct contents *c, struct type *const old[], struct reason *why)
{
    return type_contiguous(take_count(c), old[0], why);
}

static struct type *read_vector(struct contents *c, struct type *const old[], struct reason *why)
{
    int64_t count = take_count(c), blocklength = take_count(c), stride = take_count(c);
    return type_vector(count, blocklength, stride, old[0], why);
}

static struct type *read_hvector(struct contents *c, struct type *const old[], struct reason *why)
{
    int64_t count = take_count(c), blocklength = take_count(c), stride = take_address(c);
    return type_hvector(count, blocklength, stride, old[0], why);
}

static struct type *read_indexed(struct contents *c, struct type *const old[], struct reason *why)
{
    int64_t count = take_count(c), *lengths = take_list(counts(c), count);
    return type_indexed(count, lengths, take_list(counts(c), count), old[0], why);
}

static struct type *read_hindexed(struct contents *c, struct type *const old[], struct reason *why)
{
    int64_t count = take_count(c), *lengths = take_list(counts(c), count);
    return type_hindexed(count, lengths, take_list(addresses(c), count), old[0], why);
}

static struct type *read_indexed_block(struct contents *c, struct type *const old[], struct reason *why)
{
    int64_t count = take_count(c), length = take_count(c);
    return type_indexed_block(count, length, take_list(counts(c), count), old[0], why);
}

static struct type *read_hindexed_block(struct contents *c, struct type *const old[], struct reason *why)
{
    int64_t count = take_count(c), length = take_count(c);
    return type_hindexed_block(count, length, take_list(addresses(c), count), old[0], why);
}

static struct type *read_struct(struct contents *c, struct type *const old[], struct reason *why)
{
    int64_t count = take_count(c), *lengths = take_list(counts(c), count);
    return type_struct(count, lengths, take_list(addresses(c), count), (const struct type *const *)old, why);
}

static struct type *read_subarray(struct contents *c, struct type *const old[], struct reason *why)
{
    int ndims = (int)take_int(c);
    int64_t *sizes = take_list(counts(c), ndims), *subsizes = take_list(counts(c), ndims);
    int64_t *starts = take_list(counts(c), ndims);
    enum type_order order = take_int(c) == MPI_ORDER_FORTRAN ? TYPE_ORDER_FORTRAN : TYPE_ORDER_C;
    return type_subarray(ndims, sizes, subsizes, starts, order, old[0], why);
}

static enum type_distribution distribution(int64_t distrib)
{
    return distrib == MPI_DISTRIBUTE_BLOCK    ? TYPE_DISTRIBUTE_BLOCK
           : distrib == MPI_DISTRIBUTE_CYCLIC ? TYPE_DISTRIBUTE_CYCLIC
                                              : TYPE_DISTRIBUTE_NONE;
}

static struct type *read_darray(struct contents *c, struct type *const old[], struct reason *why)
{
    int64_t size = take_int(c), rank = take_int(c);
    int ndims = (int)take_int(c);
    int64_t *gsizes = take_list(counts(c), ndims), *distribs = take_list(&c->int_at, ndims);
    int64_t *dargs = take_list(&c->int_at, ndims), *psizes = take_list(&c->int_at, ndims);
    enum type_order order = take_int(c) == MPI_ORDER_FORTRAN ? TYPE_ORDER_FORTRAN : TYPE_ORDER_C;
    enum type_distribution kinds[TREE_DEPTH_MAX];
    for (int d = 0; d < ndims && d < TREE_DEPTH_MAX; d++) {
        kinds[d] = distribution(distribs[d]);
        if (dargs[d] == MPI_DISTRIBUTE_DFLT_DARG) dargs[d] = TYPE_DARG_DEFAULT;
    }
    return type_darray(size, rank, ndims, gsizes, kinds, dargs, psizes, order, old[0], why);
}

static struct type *read_resized(struct contents *c, struct type *const old[], struct reason *why)
{
    int64_t lb = take_address(c), extent = take_address(c);
    return type_resized(lb, extent, old[0], why);
}

static const struct {
    int combiner;
    reader *read;
} readers[] = {
    {MPI_COMBINER_DUP, read_dup},
    {MPI_COMBINER_CONTIGUOUS, read_contiguous},
    {MPI_COMBINER_VECTOR, read_vector},
    {MPI_COMBINER_HVECTOR, read_hvector},
    {MPI_COMBINER_INDEXED, read_indexed},
    {MPI_COMBINER_HINDEXED, read_hindexed},
    {MPI_COMBINER_INDEXED_BLOCK, read_indexed_block},
    {MPI_COMBINER_HINDEXED_BLOCK, read_hindexed_block},
    {MPI_COMBINER_STRUCT, read_struct},
    {MPI_COMBINER_SUBARRAY, read_subarray},
    {MPI_COMBINER_DARRAY, read_darray},
    {MPI_COMBINER_RESIZED, read_resized},
#ifdef OLD_COMBINER
    {OLD_COMBINER(HVECTOR_INTEGER), read_hvector},
    {OLD_COMBINER(HINDEXED_INTEGER), read_hindexed},
    {OLD_COMBINER(STRUCT_INTEGER), read_struct},
#endif
};

static reader *find_reader(int combiner)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (readers[i].combiner == combiner) return readers[i].read;
    return NULL;
}

/* Predefined value-index pairs have a gap that only their C struct shows. */
/* clang-format off */
#define PAIR_OF(value) struct { value v; int i; }
#define PAIR(handle, value) { handle, sizeof(value), offsetof(PAIR_OF(value), i), sizeof(PAIR_OF(value)) }
/* clang-format on */
static struct type *read_pair(MPI_Datatype datatype, struct reason *why)
{
    const struct {
        MPI_Datatype handle;
        size_t value, at, extent;
    } pairs[] = {
        PAIR(MPI_FLOAT_INT, float), PAIR(MPI_DOUBLE_INT, double), PAIR(MPI_LONG_INT, long),
        PAIR(MPI_SHORT_INT, short), PAIR(MPI_LONG_DOUBLE_INT, long double),
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (datatype == pairs[i].handle)
            return type_pair((int64_t)pairs[i].value, (int64_t)pairs[i].at, sizeof(int), (int64_t)pairs[i].extent, 1,
                             why);
    snprintf(why->text, sizeof why->text, "a named type with gaps that is no known pair");
    return NULL;
}

/* Takes the MPI's bounds, which differ where the MPI pads structs its own way. Returns NULL if the MPI's size differs:
 * then the type was misread. */
static struct type *trust_mpi(MPI_Datatype datatype, struct type *t, struct reason *why)
{
    MPI_Count size, lb, extent;
    if (!t) return NULL;
    if (PMPI_Type_size_x(datatype, &size) == MPI_SUCCESS &&
        PMPI_Type_get_extent_x(datatype, &lb, &extent) == MPI_SUCCESS && size == t->size) {
        t->lb = lb, t->ub = lb + extent;
        return t;
    }
    snprintf(why->text, sizeof why->text, "the MPI gives the type another size than its contents do");
    type_free(t);
    return NULL;
}

/* State of one call of read_type. */
struct reading {
    int left;
    int depth;         /* of the type that is being read, within the first one */
    MPI_Count grain;   /* bytes of each basic element; 0: none so far; -1: they differ */
    MPI_Datatype basic;   /* their named type; MPI_DATATYPE_NULL: none so far, or they differ */
    bool named;           /* the type read last is a named one */
};

static void note_basic(struct reading *r, MPI_Datatype named, MPI_Count size)
{
    if (size <= 0) return;
    if (!r->grain) r->basic = named;
    else if (r->basic != named) r->basic = MPI_DATATYPE_NULL;
    if (size != r->grain) r->grain = r->grain ? -1 : size;
}

static struct type *read_named(MPI_Datatype datatype, struct reading *r, struct reason *why)
{
    MPI_Count size, lb, extent;
    if (PMPI_Type_size_x(datatype, &size) != MPI_SUCCESS ||
        PMPI_Type_get_extent_x(datatype, &lb, &extent) != MPI_SUCCESS || size < 0) {
        snprintf(why->text, sizeof why->text, "the MPI does not tell the size of a named type");
        return NULL;
    }
    if (lb == 0 && extent == size) return note_basic(r, datatype, size), type_named(size, 1, why);
    r->grain = -1, r->basic = MPI_DATATYPE_NULL;
    return read_pair(datatype, why);
}

/* Limit of reads; types that need more are left to the MPI. Open MPI returns copies of inner types, so equal ones look
 * different: types nested n deep with two inner types each need 2^n reads. */
#define READS_MAX (1 << 22)
#define DEPTH_MAX 512   /* a level takes some 400 bytes of the stack */

static struct type *read_some(MPI_Datatype datatype, struct reading *r, struct reason *why);

/* The types inside a type. A struct names the same few again and again: they are read once, and found at one of two
 * places that their handle gives, without a search, whose end would be guessed wrong. */
#define PLACES 32
struct inner {
    MPI_Datatype handle;
    struct type *type;   /* NULL: free entry */
    bool named;
};
struct inners {
    struct inner known[PLACES];
    struct type **owned;          /* those that were read */
    int n;                        /* that are owned */
    bool derived;                 /* some are derived */
    struct type *old[];           /* one for each handle; `owned` lies behind */
};

static unsigned place_of(MPI_Datatype handle)
{
    return (unsigned)(((uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u) >> 59);
}
_Static_assert(PLACES == 1 << (64 - 59), "places");

static const struct inner *inner_find(const struct inners *in, MPI_Datatype handle)
{
    const struct inner *e = &in->known[place_of(handle)], *other = &in->known[place_of(handle) ^ 1];
    return e->type && e->handle == handle ? e : other->type && other->handle == handle ? other : NULL;
}

/* Returns the type of a handle; NULL on failure. */
static struct type *inner_type(struct inners *in, MPI_Datatype handle, struct reading *r, struct reason *why)
{
    const struct inner *known = inner_find(in, handle);
    struct type *t = known ? known->type : read_some(handle, r, why);
    if (!t || known) return t;
    struct inner *e = &in->known[place_of(handle)];
    if (e->type) e = &in->known[place_of(handle) ^ 1];
    *e = (struct inner){handle, t, r->named};
    in->derived |= !r->named;
    return in->owned[in->n++] = t;
}

static struct inners *inners_new(int handles)
{
    struct inners *in = calloc(1, sizeof *in + 2 * (size_t)handles * sizeof *in->old);
    if (in) in->owned = in->old + handles;
    return in;
}

/* Frees the types, and the handles that are not predefined. */
static void inners_free(struct inners *in, struct contents *c, bool all_read)
{
    for (int i = 0; i < in->n; i++) type_free(in->owned[i]);
    for (int i = 0; i < c->ntypes && (in->derived || !all_read); i++) {
        const struct inner *e = inner_find(in, c->types[i]);
        if (!e || !e->named) contents_free_handle(&c->types[i]);
    }
    free(in);
}

static struct type *read_derived(MPI_Datatype datatype, struct contents *c, struct reading *r, struct reason *why)
{
    struct type *t = NULL;
    reader *read = find_reader(c->combiner);
    if (!read) {
        snprintf(why->text, sizeof why->text, "combiner %d has no reader", c->combiner);
        return NULL;
    }
    struct inners *in = inners_new(c->ntypes);
    if (in && contents_read(datatype, c)) {
        int n = 0;
        while (n < c->ntypes && (in->old[n] = inner_type(in, c->types[n], r, why))) n++;
        if (n == c->ntypes) t = read(c, in->old, why);
        inners_free(in, c, n == c->ntypes);
    } else {
        free(in);
    }
    contents_free(c);
    return trust_mpi(datatype, t, why);
}

static struct type *read_some(MPI_Datatype datatype, struct reading *r, struct reason *why)
{
    struct contents c = {0};
    struct type *t = NULL;
    snprintf(why->text, sizeof why->text, "out of memory");
    if (contents_envelope(datatype, &c) != MPI_SUCCESS)
        snprintf(why->text, sizeof why->text, "the MPI does not tell how the type was made");
    else if (contents_named(c.combiner))
        t = read_named(datatype, r, why);
    else if (r->depth == DEPTH_MAX)
        snprintf(why->text, sizeof why->text, "types are nested more than %d deep", DEPTH_MAX);
    else if (r->left-- > 0)
        r->depth++, t = read_derived(datatype, &c, r, why), r->depth--;
    else
        snprintf(why->text, sizeof why->text, "the type holds more than %d others", READS_MAX);
    r->named = contents_named(c.combiner);
    return t;
}

struct type *read_type(MPI_Datatype datatype, int64_t *grain, MPI_Datatype *basic, struct reason *why)
{
    struct reading r = {.left = READS_MAX, .basic = MPI_DATATYPE_NULL};
    struct type *t = read_some(datatype, &r, why);
    if (basic) *basic = r.grain > 0 ? r.basic : MPI_DATATYPE_NULL;
    *grain = r.grain > 0 ? r.grain : 0;
    return t;
}
