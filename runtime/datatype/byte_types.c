/* byte_types.c: converts a stride tree into a datatype made of MPI_BYTE. */
#include "byte_types.h"
#include <limits.h>
#include <stdlib.h>

typedef int write(const struct tree *t, MPI_Datatype *out);   /* each returns an MPI error code */
static int write_tree(const struct tree *t, MPI_Datatype *out);

static int write_dense(const struct tree *t, MPI_Datatype *out)
{
    return type_of_bytes(t->count, MPI_BYTE, out);
}

static int write_stride(const struct tree *t, MPI_Datatype *out)
{
    MPI_Datatype child;
    int rc = write_tree(t->child, &child);
    if (rc != MPI_SUCCESS) return rc;
    rc = PMPI_Type_create_hvector((int)t->count, 1, (MPI_Aint)t->step, child, out);
    PMPI_Type_free(&child);
    return rc;
}

static int write_index(const struct tree *t, MPI_Datatype *out)
{
    MPI_Datatype child;
    MPI_Aint *at = malloc((size_t)t->count * sizeof *at);
    int rc = at ? write_tree(t->child, &child) : MPI_ERR_NO_MEM;
    for (int64_t i = 0; at && i < t->count; i++) at[i] = (MPI_Aint)t->at[i];
    if (rc == MPI_SUCCESS) {
        rc = PMPI_Type_create_hindexed_block((int)t->count, 1, at, child, out);
        PMPI_Type_free(&child);
    }
    free(at);
    return rc;
}

static int write_seq(const struct tree *t, MPI_Datatype *out)
{
    size_t n = (size_t)t->count;
    int *ones = malloc(n * sizeof *ones), rc = MPI_SUCCESS, made = 0;
    MPI_Aint *at = calloc(n, sizeof *at);
    MPI_Datatype *parts = malloc(n * sizeof *parts);
    if (!ones || !at || !parts) rc = MPI_ERR_NO_MEM;
    while (rc == MPI_SUCCESS && made < t->count && (rc = write_tree(t->part[made], &parts[made])) == MPI_SUCCESS)
        ones[made++] = 1;
    if (rc == MPI_SUCCESS) rc = PMPI_Type_create_struct((int)n, ones, at, parts, out);
    while (made-- > 0) PMPI_Type_free(&parts[made]);
    free(ones), free(at), free(parts);
    return rc;
}

static int write_blocks(const struct tree *t, MPI_Datatype *out)
{
    size_t n = (size_t)t->count;
    int *lengths = malloc(n * sizeof *lengths), rc = MPI_SUCCESS;
    MPI_Aint *at = malloc(n * sizeof *at);
    if (!lengths || !at) rc = MPI_ERR_NO_MEM;
    for (size_t i = 0; i < n && rc == MPI_SUCCESS; i++) {
        if (t->block[i].len > INT_MAX) rc = MPI_ERR_COUNT;
        lengths[i] = (int)t->block[i].len, at[i] = (MPI_Aint)t->block[i].off;
    }
    if (rc == MPI_SUCCESS) rc = PMPI_Type_create_hindexed((int)n, lengths, at, MPI_BYTE, out);
    free(lengths), free(at);
    return rc;
}

static write *const writers[] = {   /* ORDER TREE_KIND */
    write_dense, write_stride, write_seq, write_index, write_blocks,
};

static int write_tree(const struct tree *t, MPI_Datatype *out)
{
    MPI_Datatype body;
    MPI_Aint off = (MPI_Aint)t->off;
    if (t->kind != TREE_DENSE && t->count > INT_MAX) return MPI_ERR_COUNT;
    int rc = writers[t->kind](t, &body);
    if (rc != MPI_SUCCESS || off == 0) return *out = body, rc;
    rc = PMPI_Type_create_hindexed_block(1, 1, &off, body, out);
    PMPI_Type_free(&body);
    return rc;
}

#define CHUNK_BYTES (1 << 30)

/* Past INT_MAX the type has chunks, then the rest. */
int type_of_bytes(int64_t bytes, MPI_Datatype byte, MPI_Datatype *out)
{
    MPI_Datatype chunk;
    if (bytes <= INT_MAX) return PMPI_Type_contiguous((int)bytes, byte, out);
    int lengths[2] = {(int)(bytes / CHUNK_BYTES), (int)(bytes % CHUNK_BYTES)};
    int rc = PMPI_Type_contiguous(CHUNK_BYTES, byte, &chunk);
    if (rc != MPI_SUCCESS) return rc;
    rc = PMPI_Type_create_struct(2, lengths, (MPI_Aint[]){0, bytes - lengths[1]}, (MPI_Datatype[]){chunk, byte}, out);
    PMPI_Type_free(&chunk);
    return rc;
}

static int write_packed(const struct layout *l, MPI_Datatype *out)
{
    return type_of_bytes(l->size, MPI_BYTE, out);
}

static int write_layout(const struct layout *l, MPI_Datatype *out)
{
    MPI_Datatype body;
    int rc = l->tree ? write_tree(l->tree, &body) : MPI_ERR_TYPE;
    if (rc != MPI_SUCCESS) return rc;
    rc = PMPI_Type_create_resized(body, (MPI_Aint)l->low, (MPI_Aint)l->extent, out);
    PMPI_Type_free(&body);
    return rc;
}

/* Returns the type that a layout keeps in *kept; makes and commits it at first use. */
static MPI_Datatype kept_type(_Atomic(MPI_Datatype) *kept, const struct layout *l,
                              int (*make)(const struct layout *l, MPI_Datatype *out))
{
    MPI_Datatype none = MPI_DATATYPE_NULL, type = atomic_load_explicit(kept, memory_order_acquire);
    if (type != MPI_DATATYPE_NULL) return type;
    if (make(l, &type) != MPI_SUCCESS || PMPI_Type_commit(&type) != MPI_SUCCESS) return MPI_DATATYPE_NULL;
    if (atomic_compare_exchange_strong(kept, &none, type)) return type;
    PMPI_Type_free(&type);
    return none;
}

MPI_Datatype layout_bytes_type(struct layout *l)
{
    return kept_type(&l->bytes_type, l, write_packed);
}

bool type_parts_whole(const struct layout *l)
{
    return l->grain > 0 && TYPE_CUT_BYTES % l->grain == 0;
}

/* Leaves uncommitted types unchanged. */
MPI_Datatype type_to_receive(MPI_Datatype datatype, MPI_Comm comm)
{
    if (!ELEMENTS_ARE_WHOLE) return datatype;
    struct layout *l = layout_of(datatype);
    if (!l || l->size == 0 || type_parts_whole(l) || layout_committed(l, datatype, comm)) return datatype;
    MPI_Datatype runs = kept_type(&l->runs_type, l, write_layout);
    return runs == MPI_DATATYPE_NULL ? datatype : runs;
}
