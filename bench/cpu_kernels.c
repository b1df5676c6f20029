/* cpu_kernels.c: see cpu_kernels.h. The kernels are DDTBench's (layouts_ddt.c tells the source) and a 7-point
 * stencil's faces as subarrays; their arrays grow in the face alone, so that 16 MiB of it fit into memory. */
#include "cpu_kernels.h"
#include "layouts_make.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define DEPTH 16   /* of an array across its face */
#define SPREAD 4   /* mean gap of scattered points */

#define INLINE static inline __attribute__((always_inline))
#define MOVE(unpack, p, u) ((unpack) ? (void)((u) = (p)) : (void)((p) = (u)))

/* n3 x n2 runs of n1 elements; strides in elements. Returns where the packed bytes go on. */
#define FACE(name, element) \
    INLINE element *name(bool unpack, element *restrict p, element *restrict u, int n3, long s3, int n2, long s2, \
                         int n1) \
    { \
        for (int i3 = 0; i3 < n3; i3++) \
            for (int i2 = 0; i2 < n2; i2++) \
                for (int i1 = 0; i1 < n1; i1++, p++) MOVE(unpack, *p, u[i3 * s3 + i2 * s2 + i1]); \
        return p; \
    }
FACE(face_of_floats, float)
FACE(face_of_doubles, double)

/* Blocks of `length` elements at listed places. */
#define LIST(name, element) \
    INLINE element *name(bool unpack, element *restrict p, element *restrict u, const int *at, int n, int length) \
    { \
        for (int i = 0; i < n; i++) \
            for (int k = 0; k < length; k++, p++) MOVE(unpack, *p, u[at[i] * (long)length + k]); \
        return p; \
    }
LIST(list_of_floats, float)
LIST(list_of_ints, int)
LIST(list_of_doubles, double)

/* For a compiler that knows the way. */
#define BOTH_WAYS(name) \
    static void name(const struct cpu_kernel *k, bool unpack, void *packed, void *user) \
    { \
        if (unpack) name##_by_hand(k, true, packed, user); \
        else name##_by_hand(k, false, packed, user); \
    }
#define BY_HAND(name) INLINE void name##_by_hand(const struct cpu_kernel *k, bool unpack, void *packed, void *user)

static int side(size_t bytes, double each, double power)
{
    double n = pow((double)bytes / each, 1 / power);
    return n < 2 ? 2 : (int)n;
}

/* WRF: {ni, nk, nj, direction}: two arrays of one level and four of nk, 3 wide. */
enum { FLAT = 2, ARRAYS = 6, WIDTH = 3 };
BY_HAND(wrf_x)
{
    float *p = packed, *u = user;
    for (int i = 0; i < ARRAYS; i++) {
        int levels = i < FLAT ? 1 : k->a[1];
        long row = k->a[0], plane = row * levels;
        p = face_of_floats(unpack, p, u, k->a[2], plane, levels, row, WIDTH);
        u += plane * k->a[2];
    }
}
BY_HAND(wrf_y)
{
    float *p = packed, *u = user;
    for (int i = 0; i < ARRAYS; i++) {
        int levels = i < FLAT ? 1 : k->a[1];
        long row = k->a[0], plane = row * levels;
        p = face_of_floats(unpack, p, u, WIDTH, plane, levels, row, k->a[0]);
        u += plane * k->a[2];
    }
}
BOTH_WAYS(wrf_x)
BOTH_WAYS(wrf_y)
static void wrf_size(struct cpu_kernel *k, size_t bytes, int direction)
{
    k->a[1] = side(bytes, 192, 2);
    int along = (int)(bytes / 12 / (size_t)(2 + 4 * k->a[1]));
    if (along < 4) along = 4;
    k->a[0] = direction ? along : 4 * DEPTH, k->a[2] = direction ? 4 * DEPTH : along, k->a[3] = direction;
}
static void wrf_x_vec_make(struct cpu_kernel *k, size_t bytes) { wrf_size(k, bytes, 0), wrf_vec(k->a, &k->type); }
static void wrf_y_vec_make(struct cpu_kernel *k, size_t bytes) { wrf_size(k, bytes, 1), wrf_vec(k->a, &k->type); }
static void wrf_x_sa_make(struct cpu_kernel *k, size_t bytes) { wrf_size(k, bytes, 0), wrf_sa(k->a, &k->type); }
static void wrf_y_sa_make(struct cpu_kernel *k, size_t bytes) { wrf_size(k, bytes, 1), wrf_sa(k->a, &k->type); }

/* MILC: {x, y, z, t}. */
BY_HAND(milc_zdown)
{
    int plane = k->a[0] * k->a[1] / 2 * 6;
    long step = (long)plane * k->a[2];
    face_of_floats(unpack, packed, user, 2, step * k->a[3], k->a[3], step, plane);
}
BOTH_WAYS(milc_zdown)
static void milc_make(struct cpu_kernel *k, size_t bytes)
{
    int n = side(bytes, 24, 3) / 2 * 2;
    if (n < 4) n = 4;
    k->a[0] = k->a[1] = k->a[3] = n, k->a[2] = DEPTH / 2;
    milc(k->a, &k->type);
}

/* NAS LU, y: {rows}: 5 doubles of each. */
BY_HAND(lu_y)
{
    face_of_doubles(unpack, packed, user, 1, 0, k->a[0], 5 * (DEPTH + 2), 5);
}
BOTH_WAYS(lu_y)
static void lu_make(struct cpu_kernel *k, size_t bytes)
{
    k->a[0] = (int)(bytes / 40);
    MPI_Type_vector(k->a[0], 5, 5 * (DEPTH + 2), MPI_DOUBLE, &k->type);
}

/* Faces of doubles: {n3, n2, n1, s3, s2} in doubles. NAS MG as nested vectors, without the borders ... */
BY_HAND(face_3)
{
    face_of_doubles(unpack, packed, user, k->a[0], k->a[3], k->a[1], k->a[4], k->a[2]);
}
BOTH_WAYS(face_3)
BY_HAND(face_1)
{
    face_of_doubles(unpack, packed, user, k->a[0], k->a[3], k->a[1], k->a[4], 1);
}
BOTH_WAYS(face_1)
static void set_face(struct cpu_kernel *k, int n3, int n2, int n1, int s3, int s2)
{
    const int a[6] = { n3, n2, n1, s3, s2 };
    for (int i = 0; i < 6; i++) k->a[i] = a[i];
}
static void nested(struct cpu_kernel *k)
{
    MPI_Datatype rows;
    MPI_Type_vector(k->a[1], k->a[2], k->a[4], MPI_DOUBLE, &rows);
    MPI_Type_create_hvector(k->a[0], 1, (MPI_Aint)k->a[3] * 8, rows, &k->type);
    MPI_Type_free(&rows);
}
static void mg_x_make(struct cpu_kernel *k, size_t bytes)
{
    int n = side(bytes, 8, 2);
    set_face(k, n, n, 1, (n + 2) * DEPTH, DEPTH), nested(k);
}
static void mg_y_make(struct cpu_kernel *k, size_t bytes)
{
    int n = side(bytes, 8, 2);
    set_face(k, 1, n, n, 0, (n + 2) * DEPTH), nested(k);
}
static void mg_z_make(struct cpu_kernel *k, size_t bytes)
{
    int n = side(bytes, 8, 2);
    set_face(k, 1, n, n, 0, n + 2), nested(k);
}

/* ... and a stencil's as subarrays; {1, n, n} is the face, its thickness on axis 2 (x, the fastest), 1 or 0. */
static void stencil(struct cpu_kernel *k, size_t bytes, int axis)
{
    int n = side(bytes, 8, 2), sizes[3] = { n + 2, n + 2, n + 2 }, part[3] = { n, n, n }, starts[3] = { 0, 0, 0 };
    sizes[axis] = DEPTH, part[axis] = 1;
    set_face(k, part[0], part[1], part[2], sizes[1] * sizes[2], sizes[2]);
    MPI_Type_create_subarray(3, sizes, part, starts, MPI_ORDER_C, MPI_DOUBLE, &k->type);
}
static void stencil_x_make(struct cpu_kernel *k, size_t bytes) { stencil(k, bytes, 2); }
static void stencil_y_make(struct cpu_kernel *k, size_t bytes) { stencil(k, bytes, 1); }
static void stencil_z_make(struct cpu_kernel *k, size_t bytes) { stencil(k, bytes, 0); }

/* SPECFEM3D. */
BY_HAND(oc)
{
    list_of_floats(unpack, packed, user, k->list, k->a[0], 1);
}
BY_HAND(cm)
{
    float *p = list_of_floats(unpack, packed, user, k->list, k->a[0], 3);
    list_of_floats(unpack, p, (float *)user + (long)k->a[0] * k->a[1] * 6, k->list + k->a[0], k->a[0] / 2, 3);
}
BY_HAND(mt)
{
    face_of_floats(unpack, packed, user, 1, 0, k->a[1], 2 * k->a[0], 3);
}
BOTH_WAYS(oc)
BOTH_WAYS(cm)
BOTH_WAYS(mt)
static void scatter(struct cpu_kernel *k, int more)
{
    k->a[1] = SPREAD;
    k->list = malloc((size_t)(k->a[0] + more + 1) * sizeof *k->list);
}
static void oc_make(struct cpu_kernel *k, size_t bytes)
{
    k->a[0] = (int)(bytes / 4);
    scatter(k, 0);
    layouts_scatter(k->list, k->a[0], SPREAD, 7);
    specfem_oc(k->a, &k->type);
}
static void cm_make(struct cpu_kernel *k, size_t bytes)
{
    k->a[0] = (int)(bytes / 18);
    scatter(k, k->a[0] / 2);
    layouts_scatter(k->list, k->a[0], SPREAD, 11);
    layouts_scatter(k->list + k->a[0], k->a[0] / 2, SPREAD, 13);
    specfem_cm(k->a, &k->type);
}
static void mt_make(struct cpu_kernel *k, size_t bytes)
{
    k->a[0] = 2 * DEPTH, k->a[1] = (int)(bytes / 12);
    specfem_mt(k->a, &k->type);
}

/* LAMMPS: {atoms, mean gap, full}: property after property. */
BY_HAND(atoms)
{
    long n = k->a[0], room = n * k->a[1] * 2;
    char *u = user;
    double *p = list_of_doubles(unpack, packed, (double *)u, k->list, (int)n, 3);
    int *q = (int *)p;
    u += room * 24;
    for (int i = 0; i < 3; i++, u += room * 4) q = list_of_ints(unpack, q, (int *)u, k->list, (int)n, 1);
    if (!k->a[2]) return;
    p = list_of_doubles(unpack, (double *)q, (double *)u, k->list, (int)n, 1);
    list_of_ints(unpack, (int *)p, (int *)(u + room * 8), k->list, (int)n, 1);
}
BOTH_WAYS(atoms)
static void lammps_make(struct cpu_kernel *k, int n, int full)
{
    k->a[0] = n / 2 * 2, k->a[2] = full;   /* what lies behind the ints stays aligned */
    scatter(k, 0);
    layouts_scatter(k->list, k->a[0], SPREAD, 17);
    lammps(k->a, &k->type);
}
static void full_make(struct cpu_kernel *k, size_t bytes) { lammps_make(k, (int)(bytes / 48), 1); }
static void atomic_make(struct cpu_kernel *k, size_t bytes) { lammps_make(k, (int)(bytes / 36), 0); }

/* FFT2D: {n, ranks}: columns of complex doubles, down the rows. */
BY_HAND(transpose)
{
    struct { double re, im; } *p = packed, *u = user;
    int share = k->a[0] / k->a[1];
    for (int c = 0; c < share; c++)
        for (int r = 0; r < share; r++, p++) MOVE(unpack, *p, u[(long)r * k->a[0] + c]);
}
BOTH_WAYS(transpose)
static void fft_make(struct cpu_kernel *k, size_t bytes)
{
    k->a[1] = 4, k->a[0] = 4 * side(bytes, 16, 2);
    fft2d(k->a, &k->type);
}

static const struct {
    const char *name;
    void (*make)(struct cpu_kernel *k, size_t bytes);
    void (*hand)(const struct cpu_kernel *k, bool unpack, void *packed, void *user);
} kernels[] = {
    { "MILC_su3_zdown", milc_make, milc_zdown }, { "WRF_x_vec", wrf_x_vec_make, wrf_x },
    { "WRF_y_vec", wrf_y_vec_make, wrf_y },      { "WRF_x_sa", wrf_x_sa_make, wrf_x },
    { "WRF_y_sa", wrf_y_sa_make, wrf_y },        { "NAS_LU_y", lu_make, lu_y },
    { "NAS_MG_x", mg_x_make, face_1 },           { "NAS_MG_y", mg_y_make, face_3 },
    { "NAS_MG_z", mg_z_make, face_3 },           { "SPECFEM3D_oc", oc_make, oc },
    { "SPECFEM3D_cm", cm_make, cm },             { "SPECFEM3D_mt", mt_make, mt },
    { "LAMMPS_full", full_make, atoms },         { "LAMMPS_atomic", atomic_make, atoms },
    { "FFT2D", fft_make, transpose },            { "stencil x", stencil_x_make, face_1 },
    { "stencil y", stencil_y_make, face_3 },     { "stencil z", stencil_z_make, face_3 },
};

size_t cpu_kernel_total(void)
{
    return sizeof kernels / sizeof *kernels;
}

static struct cpu_kernel committed(struct cpu_kernel k)
{
    MPI_Count size, low, extent;

    MPI_Type_commit(&k.type);
    MPI_Type_size_x(k.type, &size);
    MPI_Type_get_true_extent_x(k.type, &low, &extent);
    k.packed_bytes = (size_t)size, k.span_bytes = (size_t)(low + extent);
    return k;
}

struct cpu_kernel cpu_kernel_make(size_t i, size_t bytes)
{
    struct cpu_kernel k = { .name = kernels[i].name, .hand = kernels[i].hand };

    kernels[i].make(&k, bytes);
    return committed(k);
}

/* Doubles: so many blocks, of so many, from one to the next so many. */
static const struct {
    const char *name;
    int blocks, length, step;
} downs[] = {
    { "4 blocks of 8 B", 4, 1, 3 }, { "30 blocks of 8 B", 30, 1, 3 }, { "one block of 64 B", 1, 8, 8 },
    { "one block of 64 KiB", 1, 8192, 8192 },
};

size_t cpu_down_total(void)
{
    return sizeof downs / sizeof *downs;
}

struct cpu_kernel cpu_down_make(size_t i)
{
    struct cpu_kernel k = { .name = downs[i].name, .hand = face_3 };

    set_face(&k, 1, downs[i].blocks, downs[i].length, 0, downs[i].step);
    MPI_Type_vector(downs[i].blocks, downs[i].length, downs[i].step, MPI_DOUBLE, &k.type);
    return committed(k);
}

void cpu_kernel_free(struct cpu_kernel *k)
{
    MPI_Type_free(&k->type);
    free(k->list);
}
