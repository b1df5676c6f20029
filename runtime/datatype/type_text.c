/* type_text.c: one writer a combiner, listed in `writers`. */
#include "type_text.h"
#include "base/mpi_abi.h"
#include "type_contents.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 5            /* types in types */
#define MEMBERS_MAX 4          /* of a struct */
#define NUMBERS_MAX (1 << 16)  /* longer lists are not read */

/* Text that grows to `size` bytes with its terminator. */
struct text {
    char *at;
    size_t size;
    int depth;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->at, t->size, format, args);
    va_end(args);
    size_t written = n < 0 ? 0 : (size_t)n < t->size ? (size_t)n : t->size - 1;
    t->at += written, t->size -= written;
}

static void add_type(struct text *t, MPI_Datatype datatype);

typedef void writer(struct text *t, struct contents *c, const char *name);

static void add_old(struct text *t, const struct contents *c)
{
    add(t, " of ");
    add_type(t, c->types[0]);
}

static void write_dup(struct text *t, struct contents *c, const char *name)
{
    (void)name;
    add_type(t, c->types[0]);
}

static void write_contiguous(struct text *t, struct contents *c, const char *name)
{
    add(t, "%s(%lld)", name, (long long)take_count(c));
    add_old(t, c);
}

static void write_vector(struct text *t, struct contents *c, const char *name)
{
    long long count = take_count(c), length = take_count(c);
    add(t, "%s(%lld, %lld, %lld)", name, count, length, (long long)take_count(c));
    add_old(t, c);
}

static void write_hvector(struct text *t, struct contents *c, const char *name)
{
    long long count = take_count(c), length = take_count(c);
    add(t, "%s(%lld, %lld, %lld)", name, count, length, (long long)take_address(c));
    add_old(t, c);
}

/* Writes the number of blocks and the range of their lengths. */
static void write_blocks(struct text *t, struct contents *c, const char *name)
{
    int64_t count = take_count(c), *length = take_list(counts(c), count), least = INT64_MAX, most = 0;
    for (int64_t i = 0; i < count; i++) {
        if (length[i] < least) least = length[i];
        if (length[i] > most) most = length[i];
    }
    add(t, "%s(%lld block%s", name, (long long)count, count == 1 ? "" : "s");
    if (count) add(t, " of %lld", (long long)least);
    if (count && most > least) add(t, " to %lld", (long long)most);
    add(t, ")");
    add_old(t, c);
}

static void write_equal_blocks(struct text *t, struct contents *c, const char *name)
{
    long long count = take_count(c);
    add(t, "%s(%lld block%s of %lld)", name, count, count == 1 ? "" : "s", (long long)take_count(c));
    add_old(t, c);
}

static void write_struct(struct text *t, struct contents *c, const char *name)
{
    int64_t count = take_count(c), *length = take_list(counts(c), count);
    add(t, "%s(", name);
    for (int64_t i = 0; i < count && i < MEMBERS_MAX && i < c->ntypes; i++) {
        add(t, "%s", i ? ", " : "");
        if (length[i] != 1) add(t, "%lld ", (long long)length[i]);
        add_type(t, c->types[i]);
    }
    if (count > MEMBERS_MAX) add(t, ", %lld more", (long long)(count - MEMBERS_MAX));
    add(t, ")");
}

static void add_numbers(struct text *t, const int64_t *number, int n)
{
    for (int i = 0; i < n; i++) add(t, "%s%lld", i ? "x" : "", (long long)number[i]);
}

static void write_subarray(struct text *t, struct contents *c, const char *name)
{
    int n = (int)take_int(c);
    const int64_t *sizes = take_list(counts(c), n), *parts = take_list(counts(c), n);
    take_list(counts(c), n);
    add(t, "%s ", name);
    add_numbers(t, sizes, n);
    add_old(t, c);
    add(t, ": ");
    add_numbers(t, parts, n);
    if (n > 1 && take_int(c) == MPI_ORDER_FORTRAN) add(t, " (Fortran)");
}

static void write_darray(struct text *t, struct contents *c, const char *name)
{
    long long ranks = take_int(c), rank = take_int(c);
    int n = (int)take_int(c);
    add(t, "%s ", name);
    add_numbers(t, take_list(counts(c), n), n);
    add_old(t, c);
    add(t, ": rank %lld of %lld", rank, ranks);
}

static void write_resized(struct text *t, struct contents *c, const char *name)
{
    take_address(c);
    long long extent = take_address(c);
    add_type(t, c->types[0]);
    add(t, " %s to %lld", name, extent);
}

static const struct {
    int combiner;
    writer *write;
    const char *name;
} writers[] = {
    {MPI_COMBINER_DUP, write_dup, "dup"},
    {MPI_COMBINER_CONTIGUOUS, write_contiguous, "contiguous"},
    {MPI_COMBINER_VECTOR, write_vector, "vector"},
    {MPI_COMBINER_HVECTOR, write_hvector, "hvector"},
    {MPI_COMBINER_INDEXED, write_blocks, "indexed"},
    {MPI_COMBINER_HINDEXED, write_blocks, "hindexed"},
    {MPI_COMBINER_INDEXED_BLOCK, write_equal_blocks, "indexed_block"},
    {MPI_COMBINER_HINDEXED_BLOCK, write_equal_blocks, "hindexed_block"},
    {MPI_COMBINER_STRUCT, write_struct, "struct"},
    {MPI_COMBINER_SUBARRAY, write_subarray, "subarray"},
    {MPI_COMBINER_DARRAY, write_darray, "darray"},
    {MPI_COMBINER_RESIZED, write_resized, "resized"},
#ifdef OLD_COMBINER
    {OLD_COMBINER(HVECTOR_INTEGER), write_hvector, "hvector"},
    {OLD_COMBINER(HINDEXED_INTEGER), write_blocks, "hindexed"},
    {OLD_COMBINER(STRUCT_INTEGER), write_struct, "struct"},
#endif
};

/* Writes a predefined type's name without its prefix, "double". */
static void add_named(struct text *t, MPI_Datatype datatype)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "", *at = name;
    int length = 0;
    if (PMPI_Type_get_name(datatype, name, &length) != MPI_SUCCESS || !*name) {
        add(t, "a Fortran type");
        return;
    }
    if (!strncmp(name, "MPI_", 4)) at += 4;
    for (char *c = at; *c; c++) *c = (char)tolower((unsigned char)*c);
    add(t, "%s", at);
}

static void add_derived(struct text *t, MPI_Datatype datatype, struct contents *c)
{
    size_t i = 0, n = sizeof writers / sizeof *writers;
    int64_t numbers = (int64_t)c->nints + c->naddresses + c->nlarge + c->ntypes;
    while (i < n && writers[i].combiner != c->combiner) i++;
    if (i == n) add(t, "combiner %d", c->combiner);
    else if (numbers > NUMBERS_MAX) add(t, "%s of %lld numbers", writers[i].name, (long long)numbers);
    else if (contents_read(datatype, c)) {
        writers[i].write(t, c, writers[i].name);
        for (int k = 0; k < c->ntypes; k++) contents_free_handle(&c->types[k]);
    }
    contents_free(c);
}

static void add_type(struct text *t, MPI_Datatype datatype)
{
    struct contents c = {0};
    if (t->depth == DEPTH_MAX || contents_envelope(datatype, &c) != MPI_SUCCESS) {
        add(t, "...");
        return;
    }
    t->depth++;
    if (contents_named(c.combiner)) add_named(t, datatype);
    else add_derived(t, datatype, &c);
    t->depth--;
}

void type_text(MPI_Datatype datatype, char *text, size_t size)
{
    struct text t = {text, size, 0};
    add_type(&t, datatype);
    if (t.size == 1 && size > 4) memcpy(text + size - 4, "...", 4);
}
