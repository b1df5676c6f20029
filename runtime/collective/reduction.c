/* reduction.c: see reduction.h. */
#include "reduction.h"
#include "base/error.h"
#include "pack/typed_buffer.h"
#include <limits.h>

/* ---- operations and types ---- */

static const struct {
    MPI_Op mpi;
    enum gen_op op;
} operations[] = {
    {MPI_SUM, GEN_SUM}, {MPI_PROD, GEN_PROD}, {MPI_MAX, GEN_MAX}, {MPI_MIN, GEN_MIN},
    {MPI_LAND, GEN_LAND}, {MPI_LOR, GEN_LOR}, {MPI_LXOR, GEN_LXOR},
    {MPI_BAND, GEN_BAND}, {MPI_BOR, GEN_BOR}, {MPI_BXOR, GEN_BXOR},
    {MPI_MAXLOC, GEN_MAXLOC}, {MPI_MINLOC, GEN_MINLOC},
};

#define BIT(op) (1u << (op))
#define ARITHMETIC (BIT(GEN_SUM) | BIT(GEN_PROD) | BIT(GEN_MAX) | BIT(GEN_MIN))
#define LOGICAL (BIT(GEN_LAND) | BIT(GEN_LOR) | BIT(GEN_LXOR))
#define BITWISE (BIT(GEN_BAND) | BIT(GEN_BOR) | BIT(GEN_BXOR))
#define PLACES (BIT(GEN_MAXLOC) | BIT(GEN_MINLOC))

/* The classes of types of the MPI (MPI-4.1 section 6.9.2). INTEGERS: without logical operations. */
enum class { SIGNED, UNSIGNED, INTEGERS, FLOATS, COMPLEX, BOOL, BYTE, PAIRS_I, PAIRS_F, SHORT_PAIR, LONG_PAIR,
             FLOAT_PAIR, DOUBLE_PAIR };
static const struct {
    enum class class;
    int bytes;                   /* packed */
    enum gen_reduce_type type;
    unsigned operations;
} kinds[] = {
    {SIGNED, 1, GEN_REDUCE_i8, ARITHMETIC | LOGICAL | BITWISE},
    {SIGNED, 2, GEN_REDUCE_i16, ARITHMETIC | LOGICAL | BITWISE},
    {SIGNED, 4, GEN_REDUCE_i32, ARITHMETIC | LOGICAL | BITWISE},
    {SIGNED, 8, GEN_REDUCE_i64, ARITHMETIC | LOGICAL | BITWISE},
    {UNSIGNED, 1, GEN_REDUCE_u8, ARITHMETIC | LOGICAL | BITWISE},
    {UNSIGNED, 2, GEN_REDUCE_u16, ARITHMETIC | LOGICAL | BITWISE},
    {UNSIGNED, 4, GEN_REDUCE_u32, ARITHMETIC | LOGICAL | BITWISE},
    {UNSIGNED, 8, GEN_REDUCE_u64, ARITHMETIC | LOGICAL | BITWISE},
    {INTEGERS, 1, GEN_REDUCE_i8, ARITHMETIC | BITWISE},
    {INTEGERS, 2, GEN_REDUCE_i16, ARITHMETIC | BITWISE},
    {INTEGERS, 4, GEN_REDUCE_i32, ARITHMETIC | BITWISE},
    {INTEGERS, 8, GEN_REDUCE_i64, ARITHMETIC | BITWISE},
    {FLOATS, 4, GEN_REDUCE_f32, ARITHMETIC},
    {FLOATS, 8, GEN_REDUCE_f64, ARITHMETIC},
    {COMPLEX, 8, GEN_REDUCE_c64, BIT(GEN_SUM) | BIT(GEN_PROD)},
    {COMPLEX, 16, GEN_REDUCE_c128, BIT(GEN_SUM) | BIT(GEN_PROD)},
    {BOOL, 1, GEN_REDUCE_bool, LOGICAL},
    {BYTE, 1, GEN_REDUCE_u8, BITWISE},
    {PAIRS_I, 8, GEN_REDUCE_i32_i32, PLACES},
    {PAIRS_I, 16, GEN_REDUCE_i64_i64, PLACES},
    {PAIRS_F, 8, GEN_REDUCE_f32_f32, PLACES},
    {PAIRS_F, 16, GEN_REDUCE_f64_f64, PLACES},
    {SHORT_PAIR, 6, GEN_REDUCE_i16_i32, PLACES},
    {LONG_PAIR, 12, GEN_REDUCE_i64_i32, PLACES},
    {LONG_PAIR, 8, GEN_REDUCE_i32_i32, PLACES},
    {FLOAT_PAIR, 8, GEN_REDUCE_f32_i32, PLACES},
    {DOUBLE_PAIR, 12, GEN_REDUCE_f64_i32, PLACES},
};

/* Types that the MPI at hand lacks are MPI_DATATYPE_NULL. */
static const struct {
    MPI_Datatype mpi;
    enum class class;
} types[] = {
    {MPI_INT, SIGNED}, {MPI_LONG, SIGNED}, {MPI_SHORT, SIGNED}, {MPI_LONG_LONG, SIGNED}, {MPI_SIGNED_CHAR, SIGNED},
    {MPI_INT8_T, SIGNED}, {MPI_INT16_T, SIGNED}, {MPI_INT32_T, SIGNED}, {MPI_INT64_T, SIGNED},
    {MPI_UNSIGNED, UNSIGNED}, {MPI_UNSIGNED_LONG, UNSIGNED}, {MPI_UNSIGNED_SHORT, UNSIGNED},
    {MPI_UNSIGNED_LONG_LONG, UNSIGNED}, {MPI_UNSIGNED_CHAR, UNSIGNED},
    {MPI_UINT8_T, UNSIGNED}, {MPI_UINT16_T, UNSIGNED}, {MPI_UINT32_T, UNSIGNED}, {MPI_UINT64_T, UNSIGNED},
    {MPI_AINT, INTEGERS}, {MPI_OFFSET, INTEGERS}, {MPI_COUNT, INTEGERS}, {MPI_INTEGER, INTEGERS},
    {MPI_INTEGER1, INTEGERS}, {MPI_INTEGER2, INTEGERS}, {MPI_INTEGER4, INTEGERS}, {MPI_INTEGER8, INTEGERS},
    {MPI_FLOAT, FLOATS}, {MPI_DOUBLE, FLOATS}, {MPI_REAL, FLOATS}, {MPI_DOUBLE_PRECISION, FLOATS},
    {MPI_REAL4, FLOATS}, {MPI_REAL8, FLOATS},
    {MPI_C_FLOAT_COMPLEX, COMPLEX}, {MPI_C_DOUBLE_COMPLEX, COMPLEX}, {MPI_COMPLEX, COMPLEX},
    {MPI_DOUBLE_COMPLEX, COMPLEX}, {MPI_COMPLEX8, COMPLEX}, {MPI_COMPLEX16, COMPLEX},
    {MPI_CXX_FLOAT_COMPLEX, COMPLEX}, {MPI_CXX_DOUBLE_COMPLEX, COMPLEX},
    {MPI_C_BOOL, BOOL}, {MPI_CXX_BOOL, BOOL}, {MPI_BYTE, BYTE},
    {MPI_2INT, PAIRS_I}, {MPI_2INTEGER, PAIRS_I}, {MPI_2REAL, PAIRS_F}, {MPI_2DOUBLE_PRECISION, PAIRS_F},
    {MPI_SHORT_INT, SHORT_PAIR}, {MPI_LONG_INT, LONG_PAIR}, {MPI_FLOAT_INT, FLOAT_PAIR},
    {MPI_DOUBLE_INT, DOUBLE_PAIR},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool find_type(MPI_Datatype type, enum class *class)
{
    for (size_t i = 0; i < COUNT(types) && type != MPI_DATATYPE_NULL; i++)
        if (types[i].mpi == type) return *class = types[i].class, true;
    return false;
}

static bool find_op(MPI_Op mpi, enum gen_op *op)
{
    for (size_t i = 0; i < COUNT(operations); i++)
        if (operations[i].mpi == mpi) return *op = operations[i].op, true;
    return false;
}

bool reduction_of(MPI_Op op, MPI_Datatype type, struct reduction *r)
{
    enum class class;
    MPI_Aint low, extent;
    int bytes;
    if (!find_op(op, &r->op) || !find_type(type, &class)) return false;
    if (PMPI_Type_size(type, &bytes) != MPI_SUCCESS || PMPI_Type_get_extent(type, &low, &extent) != MPI_SUCCESS)
        return false;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (kinds[i].class != class || kinds[i].bytes != bytes) continue;
        r->type = kinds[i].type;
        return kinds[i].operations & BIT(r->op) && low == 0 && extent == reduce_element_bytes(r->type);
    }
    return false;
}

int reduction_run(struct layout *l, struct device *d, const void *buf, const struct reduce_job *job)
{
    struct typed_buffer stats = typed_buffer_on(l, d, buf, job->count);
    int64_t begun = typed_buffer_clock();
    if (device_enter(d)) return -1;
    struct stream *s = stream_get(d);
    int rc = s ? reduce_move(d, s, job, &stats.launches) : -1;
    if (s && stream_wait(d, s)) rc = -1;
    stream_put(d, s);
    device_leave(d);
    typed_buffer_stats(&stats, "reduce", stats.bytes, begun);
    return rc;
}

struct device *reduction_device(struct layout *l, const void *buf, int64_t count, enum gen_reduce_type type)
{
    if (buf == MPI_IN_PLACE || (uintptr_t)buf % (uintptr_t)reduce_alignment(type)) return NULL;
    struct location w = locate(l, buf, count);
    return w.parts ? NULL : w.device;
}

/* ---- MPI_Reduce_local ---- */

bool reduction_local(const struct args_set *o, MPI_Op op, int *rc)
{
    const struct arg *in = &o->of[0], *inout = &o->of[1];
    int64_t count = in->count;
    struct reduction r;
    if (count <= 0 || !driver_get() || !reduction_of(op, in->type, &r)) return false;
    struct layout *l = layout_of(in->type);
    if (!l || layout_bytes(l, count) < 0) return false;
    struct device *d = reduction_device(l, inout->buf, count, r.type);
    if (!d || reduction_device(l, in->buf, count, r.type) != d || !reduce_ready(r.type, d)) return false;
    uint64_t from = (uint64_t)(uintptr_t)in->buf, to = (uint64_t)(uintptr_t)inout->buf;
    struct reduce_job job = {.type = r.type, .op = r.op, .from = from, .to = to, .step = (int64_t)(to - from),
                             .rows = 2, .count = count};
    int failed = reduction_run(l, d, inout->buf, &job);
    *rc = failed ? raise_error(MPI_COMM_SELF, MPI_ERR_OTHER, "a reduction on the GPU failed") : MPI_SUCCESS;
    return true;
}
