/* reference.c: see reference.h. */
#include "reference.h"
#include "check.h"
#include <complex.h>
#include <stdlib.h>

const char *const operation_name[OPERATIONS] = {"MPI_SUM", "MPI_PROD", "MPI_MAX", "MPI_MIN", "MPI_LAND", "MPI_LOR",
    "MPI_LXOR", "MPI_BAND", "MPI_BOR", "MPI_BXOR", "MPI_MAXLOC", "MPI_MINLOC"};
MPI_Op operation_mpi[OPERATIONS] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR,
    MPI_BXOR, MPI_MAXLOC, MPI_MINLOC};

/* Every rank draws numbers of its own. */
static uint64_t random_bits(void)
{
    static uint64_t x;
    if (!x) x = test_seed * 77 + (uint64_t)my_rank * 1000003 + 12345;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

/* Odd halves up to 7.5, of either sign. */
static double random_half(void)
{
    uint64_t r = random_bits() >> 40;
    double half = (double)(r % 8 * 2 + 1) / 2;
    return r & 8 ? -half : half;
}

#define INTEGER(NAME, T)                                                                                               \
    static void copy_##NAME(void *to, const void *from)                                                                \
    {                                                                                                                  \
        *(T *)to = *(const T *)from;                                                                                 \
    }                                                                                                                  \
    static void fill_##NAME(void *to, size_t n)                                                                        \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            ((T *)to)[i] = random_bits() % 8 ? (T)(random_bits() >> 8) : (T)(random_bits() >> 8 & 1);                   \
    }                                                                                                                  \
    static void reduce_##NAME(enum operation op, const void *in, void *inout, size_t n)                                \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            T a = ((const T *)in)[i], *b = (T *)inout + i;                                                             \
            switch (op) {                                                                                              \
            case SUM: *b = (T)((uint64_t)a + (uint64_t)*b); break;                                                     \
            case PROD: *b = (T)((uint64_t)a * (uint64_t)*b); break;                                                    \
            case MAX: *b = a > *b ? a : *b; break;                                                                     \
            case MIN: *b = a < *b ? a : *b; break;                                                                     \
            case LAND: *b = (T)(a && *b); break;                                                                       \
            case LOR: *b = (T)(a || *b); break;                                                                        \
            case LXOR: *b = (T)(!a != !*b); break;                                                                     \
            case BAND: *b = (T)(a & *b); break;                                                                        \
            case BOR: *b = (T)(a | *b); break;                                                                         \
            case BXOR: *b = (T)(a ^ *b); break;                                                                        \
            default: abort();                                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }
INTEGER(i8, int8_t)
INTEGER(i16, int16_t)
INTEGER(i32, int32_t)
INTEGER(i64, int64_t)
INTEGER(u8, uint8_t)
INTEGER(u16, uint16_t)
INTEGER(u32, uint32_t)
INTEGER(u64, uint64_t)

static void copy_flag(void *to, const void *from)
{
    *(bool *)to = *(const bool *)from;
}

static void fill_flag(void *to, size_t n)
{
    for (size_t i = 0; i < n; i++) ((bool *)to)[i] = random_bits() >> 33 & 1;
}

static void reduce_flag(enum operation op, const void *in, void *inout, size_t n)
{
    const bool *a = in;
    bool *b = inout;
    for (size_t i = 0; i < n; i++) b[i] = op == LAND ? a[i] && b[i] : op == LOR ? a[i] || b[i] : a[i] != b[i];
}

#define FLOATING(NAME, T)                                                                                              \
    static void copy_##NAME(void *to, const void *from)                                                                \
    {                                                                                                                  \
        *(T *)to = *(const T *)from;                                                                                   \
    }                                                                                                                  \
    static void fill_##NAME(void *to, size_t n)                                                                        \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) ((T *)to)[i] = (T)random_half();                                                \
    }                                                                                                                  \
    static void reduce_##NAME(enum operation op, const void *in, void *inout, size_t n)                                \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            T a = ((const T *)in)[i], *b = (T *)inout + i;                                                             \
            *b = op == SUM ? a + *b : op == PROD ? a * *b : op == MAX ? (a > *b ? a : *b) : (a < *b ? a : *b);         \
        }                                                                                                              \
    }
FLOATING(f32, float)
FLOATING(f64, double)

#define COMPLEX(NAME, T)                                                                                               \
    static void copy_##NAME(void *to, const void *from)                                                                \
    {                                                                                                                  \
        *(T complex *)to = *(const T complex *)from;                                                                 \
    }                                                                                                                  \
    static void fill_##NAME(void *to, size_t n)                                                                        \
    {                                                                                                                  \
        for (size_t i = 0; i < 2 * n; i++) ((T *)to)[i] = (T)random_half();                                            \
    }                                                                                                                  \
    static void reduce_##NAME(enum operation op, const void *in, void *inout, size_t n)                                \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            T complex a = ((const T complex *)in)[i], *b = (T complex *)inout + i;                                     \
            *b = op == SUM ? a + *b : a * *b;                                                                          \
        }                                                                                                              \
    }
COMPLEX(c64, float)
COMPLEX(c128, double)

#define PAIR(NAME, V, P)                                                                                               \
    struct NAME {                                                                                                      \
        V value;                                                                                                       \
        P place;                                                                                                       \
    };                                                                                                                 \
    static void copy_##NAME(void *to, const void *from)                                                                \
    {                                                                                                                  \
        ((struct NAME *)to)->value = ((const struct NAME *)from)->value;                                               \
        ((struct NAME *)to)->place = ((const struct NAME *)from)->place;                                               \
    }                                                                                                                  \
    static void fill_##NAME(void *to, size_t n)                                                                        \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            ((struct NAME *)to)[i].value = (V)(random_bits() % 4),                                                     \
            ((struct NAME *)to)[i].place = (P)(random_bits() % 1000);                                                  \
    }                                                                                                                  \
    static void reduce_##NAME(enum operation op, const void *in, void *inout, size_t n)                                \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const struct NAME *a = (const struct NAME *)in + i;                                                        \
            struct NAME *b = (struct NAME *)inout + i;                                                                 \
            bool better = op == MAXLOC ? a->value > b->value : a->value < b->value;                                    \
            if (better || (a->value == b->value && a->place < b->place)) b->value = a->value, b->place = a->place;     \
        }                                                                                                              \
    }
PAIR(short_int, short, int)
PAIR(int_int, int, int)
PAIR(long_int, long, int)
PAIR(float_int, float, int)
PAIR(double_int, double, int)
PAIR(float_float, float, float)
PAIR(double_double, double, double)

#define BITS(first, last) ((1u << (last + 1)) - (1u << first))
#define ARITHMETIC BITS(SUM, MIN)
#define C_INTEGER BITS(SUM, BXOR)
#define OTHER_INTEGER (ARITHMETIC | BITS(BAND, BXOR))
#define ROW(type, c, name, operations) \
    {#type, type, sizeof(c), sizeof(c), operations, fill_##name, copy_##name, reduce_##name}
#define PLACES(type, name, bytes) {#type, type, bytes, sizeof(struct name), BITS(MAXLOC, MINLOC), fill_##name, copy_##name, \
        reduce_##name}

const struct number numbers[] = {
    ROW(MPI_INT, int, i32, C_INTEGER), ROW(MPI_LONG, int64_t, i64, C_INTEGER), ROW(MPI_SHORT, short, i16, C_INTEGER),
    ROW(MPI_LONG_LONG, int64_t, i64, C_INTEGER), ROW(MPI_SIGNED_CHAR, signed char, i8, C_INTEGER),
    ROW(MPI_INT8_T, int8_t, i8, C_INTEGER), ROW(MPI_INT16_T, int16_t, i16, C_INTEGER),
    ROW(MPI_INT32_T, int32_t, i32, C_INTEGER), ROW(MPI_INT64_T, int64_t, i64, C_INTEGER),
    ROW(MPI_UNSIGNED, unsigned, u32, C_INTEGER), ROW(MPI_UNSIGNED_LONG, uint64_t, u64, C_INTEGER),
    ROW(MPI_UNSIGNED_SHORT, uint16_t, u16, C_INTEGER), ROW(MPI_UNSIGNED_LONG_LONG, uint64_t, u64, C_INTEGER),
    ROW(MPI_UNSIGNED_CHAR, uint8_t, u8, C_INTEGER), ROW(MPI_UINT8_T, uint8_t, u8, C_INTEGER),
    ROW(MPI_UINT16_T, uint16_t, u16, C_INTEGER), ROW(MPI_UINT32_T, uint32_t, u32, C_INTEGER),
    ROW(MPI_UINT64_T, uint64_t, u64, C_INTEGER),
    ROW(MPI_AINT, int64_t, i64, OTHER_INTEGER), ROW(MPI_OFFSET, int64_t, i64, OTHER_INTEGER),
    ROW(MPI_COUNT, int64_t, i64, OTHER_INTEGER), ROW(MPI_INTEGER, int32_t, i32, OTHER_INTEGER),
    ROW(MPI_FLOAT, float, f32, ARITHMETIC), ROW(MPI_DOUBLE, double, f64, ARITHMETIC),
    ROW(MPI_REAL, float, f32, ARITHMETIC), ROW(MPI_DOUBLE_PRECISION, double, f64, ARITHMETIC),
    ROW(MPI_C_FLOAT_COMPLEX, float complex, c64, BITS(SUM, PROD)),
    ROW(MPI_C_DOUBLE_COMPLEX, double complex, c128, BITS(SUM, PROD)),
    ROW(MPI_COMPLEX, float complex, c64, BITS(SUM, PROD)),
    ROW(MPI_DOUBLE_COMPLEX, double complex, c128, BITS(SUM, PROD)),
    ROW(MPI_C_BOOL, bool, flag, BITS(LAND, LXOR)), ROW(MPI_BYTE, uint8_t, u8, BITS(BAND, BXOR)),
    PLACES(MPI_2INT, int_int, 8), PLACES(MPI_SHORT_INT, short_int, 6), PLACES(MPI_LONG_INT, long_int, 12),
    PLACES(MPI_FLOAT_INT, float_int, 8), PLACES(MPI_DOUBLE_INT, double_int, 12),
#ifdef MPI_INTEGER1   /* an MPI built with Fortran */
    PLACES(MPI_2INTEGER, int_int, 8), PLACES(MPI_2REAL, float_float, 8),
    PLACES(MPI_2DOUBLE_PRECISION, double_double, 16),
    ROW(MPI_INTEGER1, int8_t, i8, OTHER_INTEGER), ROW(MPI_INTEGER2, int16_t, i16, OTHER_INTEGER),
    ROW(MPI_INTEGER4, int32_t, i32, OTHER_INTEGER), ROW(MPI_INTEGER8, int64_t, i64, OTHER_INTEGER),
    ROW(MPI_REAL4, float, f32, ARITHMETIC), ROW(MPI_REAL8, double, f64, ARITHMETIC),
    ROW(MPI_COMPLEX8, float complex, c64, BITS(SUM, PROD)), ROW(MPI_COMPLEX16, double complex, c128, BITS(SUM, PROD)),
#endif
};
const int number_total = sizeof numbers / sizeof *numbers;

const struct number *number_of(MPI_Datatype type)
{
    const struct number *t = numbers;
    while (t->type != type) t++;
    return t;
}
