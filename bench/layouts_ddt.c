/* layouts_ddt.c: the communication kernels of DDTBench as datatypes.
 *
 * After Schneider, Gerstenberger and Hoefler, "Micro-applications for communication data access patterns and MPI
 * datatypes", EuroMPI 2012: which datatypes each application would use and what its arrays look like. Rebuilt from the
 * description; the sizes are ours and stand beside each row. */
#include "layouts_make.h"
#include <stdlib.h>

/* A struct of the types, at the places; frees the types. */
static void join(int n, const MPI_Aint at[], MPI_Datatype types[], MPI_Datatype *type)
{
    int lengths[16];

    for (int i = 0; i < n; i++)
        lengths[i] = 1;
    MPI_Type_create_struct(n, lengths, at, types, type);
    for (int i = 0; i < n; i++)
        MPI_Type_free(&types[i]);
}

/* WRF: halos of several arrays in one message, floats, i fastest, then k (levels), then j. {ni, nk, nj, direction: 0 for
 * x, 1 for y}: a halo 3 wide of two 2-D arrays (i, j) and four 3-D ones (i, k, j), one after the other in memory. */
enum { WRF_FLAT = 2, WRF_DEEP = 4, WRF_WIDTH = 3 };

static int wrf(const int a[6], MPI_Datatype *type, void (*face)(const int size[3], const int part[3], MPI_Datatype *t))
{
    MPI_Datatype types[WRF_FLAT + WRF_DEEP];
    MPI_Aint at[WRF_FLAT + WRF_DEEP], place = 0;

    for (int i = 0; i < WRF_FLAT + WRF_DEEP; i++) {
        const int size[3] = { a[2], i < WRF_FLAT ? 1 : a[1], a[0] };
        int part[3] = { size[0], size[1], size[2] };

        part[a[3] ? 0 : 2] = WRF_WIDTH;
        at[i] = place;
        place += (MPI_Aint)size[0] * size[1] * size[2] * 4;
        face(size, part, &types[i]);
    }
    join(WRF_FLAT + WRF_DEEP, at, types, type);
    return 1;
}

static void face_subarray(const int size[3], const int part[3], MPI_Datatype *t)
{
    const int starts[3] = { 0, 0, 0 };

    MPI_Type_create_subarray(3, size, part, starts, MPI_ORDER_C, MPI_FLOAT, t);
}

static void face_vector(const int size[3], const int part[3], MPI_Datatype *t)
{
    MPI_Datatype rows;

    MPI_Type_vector(part[1], part[2], size[2], MPI_FLOAT, &rows);
    MPI_Type_create_hvector(part[0], 1, (MPI_Aint)size[1] * size[2] * 4, rows, t);
    MPI_Type_free(&rows);
}

int wrf_vec(const int a[6], MPI_Datatype *type)
{
    return wrf(a, type, face_vector);
}

int wrf_sa(const int a[6], MPI_Datatype *type)
{
    return wrf(a, type, face_subarray);
}

/* MILC su3_zdown: {x, y, z, t}: the z face of a 4-D lattice of su3 vectors (6 floats), of even and odd sites, which lie in
 * two halves. */
int milc(const int a[6], MPI_Datatype *type)
{
    int plane = a[0] * a[1] / 2;
    MPI_Datatype vector, half;

    MPI_Type_contiguous(6, MPI_FLOAT, &vector);
    MPI_Type_vector(a[3], plane, plane * a[2], vector, &half);
    MPI_Type_create_hvector(2, 1, (MPI_Aint)plane * a[2] * a[3] * 24, half, type);
    MPI_Type_free(&vector);
    MPI_Type_free(&half);
    return 1;
}

/* NAS LU: {n, direction: 0 for x, 1 for y}: a face of (5, n + 2, n + 2, ...) doubles: along x it is contiguous. */
int lu(const int a[6], MPI_Datatype *type)
{
    if (a[1])
        MPI_Type_vector(a[0], 5, 5 * (a[0] + 2), MPI_DOUBLE, type);
    else
        MPI_Type_contiguous(5 * a[0], MPI_DOUBLE, type);
    return 1;
}

/* NAS MG: {n, direction}: the inner points of a face of n^3 doubles: 0 is x, the fastest. */
int mg(const int a[6], MPI_Datatype *type)
{
    const int inner = a[0] - 2;
    MPI_Datatype rows;

    if (a[1] == 0) {
        MPI_Type_vector(inner, 1, a[0], MPI_DOUBLE, &rows);
        MPI_Type_create_hvector(inner, 1, (MPI_Aint)a[0] * a[0] * 8, rows, type);
        MPI_Type_free(&rows);
    } else {
        MPI_Type_vector(inner, inner, a[1] == 1 ? a[0] * a[0] : a[0], MPI_DOUBLE, type);
    }
    return 1;
}

/* n blocks of `length` elements at scattered multiples of it. */
static void scattered(int n, int length, int mean, unsigned long long seed, MPI_Datatype element, MPI_Datatype *type)
{
    int *at = malloc((size_t)n * sizeof *at);

    layouts_scatter(at, n, mean, seed);
    for (int i = 0; i < n; i++)
        at[i] *= length;
    MPI_Type_create_indexed_block(n, length, at, element, type);
    free(at);
}

/* SPECFEM3D, outer core: {points, mean gap}: one float a point of the mesh's boundary. */
int specfem_oc(const int a[6], MPI_Datatype *type)
{
    scattered(a[0], 1, a[1], 7, MPI_FLOAT, type);
    return 1;
}

/* SPECFEM3D, crust and mantle with inner core: {points, mean gap}: three floats a point, of two meshes of different size. */
int specfem_cm(const int a[6], MPI_Datatype *type)
{
    MPI_Datatype types[2];
    MPI_Aint at[2] = { 0, (MPI_Aint)a[0] * a[1] * 2 * 12 };

    scattered(a[0], 3, a[1], 11, MPI_FLOAT, &types[0]);
    scattered(a[0] / 2, 3, a[1], 13, MPI_FLOAT, &types[1]);
    join(2, at, types, type);
    return 1;
}

/* SPECFEM3D, matrix transpose: {columns, rows}: three floats of each row of 2 * columns. */
int specfem_mt(const int a[6], MPI_Datatype *type)
{
    MPI_Type_vector(a[1], 3, 2 * a[0], MPI_FLOAT, type);
    return 1;
}

/* LAMMPS: {atoms, mean gap, full}: of the same scattered atoms the position (3 doubles), tag, type and mask (ints); with
 * `full` also the charge (double) and the molecule (int). Each property is an array of its own. */
int lammps(const int a[6], MPI_Datatype *type)
{
    MPI_Datatype types[6];
    MPI_Aint at[6], place = 0;
    int n = a[2] ? 6 : 4;

    for (int i = 0; i < n; i++) {
        int bytes = i == 0 ? 24 : i == 4 ? 8 : 4;

        at[i] = place;
        place += (MPI_Aint)a[0] * a[1] * 2 * bytes;
        scattered(a[0], i == 0 ? 3 : 1, a[1], 17, i == 0 || i == 4 ? MPI_DOUBLE : MPI_INT, &types[i]);
    }
    join(n, at, types, type);
    return 1;
}

/* FFT2D: {n, ranks}: what one rank sends to another in the transpose of n^2 complex doubles, n / ranks rows a rank: the
 * columns of the other one, each read down the rows. */
int fft2d(const int a[6], MPI_Datatype *type)
{
    int share = a[0] / a[1];
    MPI_Datatype column, next;

    MPI_Type_vector(share, 2, 2 * a[0], MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, 16, &next);
    MPI_Type_contiguous(share, next, type);
    MPI_Type_free(&column);
    MPI_Type_free(&next);
    return 1;
}
