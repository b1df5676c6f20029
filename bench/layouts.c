/* layouts.c: the tables of layouts and how each kind becomes an MPI datatype. */
#include "layouts.h"
#include "layouts_make.h"
#include <stdio.h>

#define KiB 1024
#define MiB (1024 * KiB)

/* One row: a name, the function that builds it, that function's numbers, and the least bytes of a list that any way
 * of packing it must read: 4 an offset, 2 a length where lengths differ. */
struct row {
    const char *name;
    layout_maker *make;
    int a[6];
    size_t list_bytes;
};

/* {packed bytes, bytes of a block, bytes from block to block} */
static int vector(const int a[6], MPI_Datatype *type)
{
    MPI_Type_create_hvector(a[0] / a[1], a[1] / 4, a[2], MPI_FLOAT, type);
    return 1;
}

/* {elements, bytes from element to element}: one double each, as elements of a contiguous type ... */
static int contiguous_of_resized(const int a[6], MPI_Datatype *type)
{
    MPI_Datatype element;

    MPI_Type_create_resized(MPI_DOUBLE, 0, a[1], &element);
    MPI_Type_contiguous(a[0], element, type);
    MPI_Type_free(&element);
    return 1;
}

/* ... or as the count of the call. */
static int elements_of_resized(const int a[6], MPI_Datatype *type)
{
    MPI_Type_create_resized(MPI_DOUBLE, 0, a[1], type);
    return a[0];
}

/* {n, axis}: the plane at index 0 of an axis of n^3 doubles; axis 2 varies fastest. */
static int face(const int a[6], MPI_Datatype *type)
{
    const int sizes[3] = { a[0], a[0], a[0] }, starts[3] = { 0, 0, 0 };
    int subsizes[3] = { a[0], a[0], a[0] };

    subsizes[a[1]] = 1;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, type);
    return 1;
}

/* {n, m, odd}: m^4 of n^4 doubles: those in the middle, or, where odd, from cell (3, 5, 7, 9). */
static int middle4(const int a[6], MPI_Datatype *type)
{
    int sizes[4], subsizes[4], starts[4];

    for (int i = 0; i < 4; i++) {
        sizes[i] = a[0];
        subsizes[i] = a[1];
        starts[i] = a[2] ? 3 + 2 * i : (a[0] - a[1]) / 2;
    }
    MPI_Type_create_subarray(4, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, type);
    return 1;
}

/* {n}: n^2 doubles read column by column. */
static int transpose(const int a[6], MPI_Datatype *type)
{
    MPI_Datatype column, next;

    MPI_Type_vector(a[0], 1, a[0], MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &next);
    MPI_Type_contiguous(a[0], next, type);
    MPI_Type_free(&column);
    MPI_Type_free(&next);
    return 1;
}

static const struct row pack_rows[] = {
    { "vector 1 KiB, 8 B blocks", vector, { 1 * KiB, 8, 512 }, 0 },
    { "vector 1 MiB, 4 B blocks", vector, { 1 * MiB, 4, 512 }, 0 },
    { "vector 1 MiB, 8 B blocks", vector, { 1 * MiB, 8, 512 }, 0 },
    { "vector 1 MiB, 32 B blocks", vector, { 1 * MiB, 32, 512 }, 0 },
    { "vector 1 MiB, 128 B blocks", vector, { 1 * MiB, 128, 512 }, 0 },
    { "vector 1 MiB, 256 B blocks", vector, { 1 * MiB, 256, 512 }, 0 },
    { "vector 4 MiB, 4 B blocks", vector, { 4 * MiB, 4, 512 }, 0 },
    { "vector 4 MiB, 8 B blocks", vector, { 4 * MiB, 8, 512 }, 0 },
    { "vector 4 MiB, 32 B blocks", vector, { 4 * MiB, 32, 512 }, 0 },
    { "vector 4 MiB, 128 B blocks", vector, { 4 * MiB, 128, 512 }, 0 },
    { "vector 64 MiB, 4 B blocks", vector, { 64 * MiB, 4, 512 }, 0 },
    { "vector 64 MiB, 16 B blocks", vector, { 64 * MiB, 16, 512 }, 0 },
    { "vector 64 MiB, 32 B blocks", vector, { 64 * MiB, 32, 512 }, 0 },
    { "vector 64 MiB, 128 B blocks", vector, { 64 * MiB, 128, 512 }, 0 },
    { "vector 64 MiB, 256 B blocks", vector, { 64 * MiB, 256, 512 }, 0 },
    { "vector 64 MiB, 512 B blocks, pitch 1 KiB", vector, { 64 * MiB, 512, 1024 }, 0 },
    { "contiguous of resized, 1 MiB", contiguous_of_resized, { 131072, 512, 0 }, 0 },
    { "131,072 elements of an 8 B resized type", elements_of_resized, { 131072, 512, 0 }, 0 },
    { "x-z face of 512^3 doubles", face, { 512, 1, 0 }, 0 },
    { "y-z face of 512^3 doubles", face, { 512, 2, 0 }, 0 },
    { "16^4 of 64^4 doubles", middle4, { 64, 16, 0 }, 0 },
    { "32^4 of 64^4 doubles", middle4, { 64, 32, 0 }, 0 },
    { "indexed, irregular, 32,768 blocks of 1 to 64 doubles", irregular_blocks, { 32768, 64 }, 32768 * 6 },
    { "gather of 524,288 doubles, 2 apart on average", gather_doubles, { 524288, 2 }, 524288 * 4 },
    { "lower triangle of 1024^2 doubles", lower_triangle, { 1024 }, 0 },
    { "struct {double,int,int,char} x 65,536", records, { 65536 }, 0 },
    { "WRF-style struct of two subarrays, 3 of 128 floats in 128^3", two_subarrays, { 128, 3 }, 0 },
    { "transpose type, 512^2 doubles", transpose, { 512, 0, 0 }, 0 },
    { "WRF_x_vec, 256 x 40 x 256 floats", wrf_vec, { 256, 40, 256, 0 }, 0 },
    { "WRF_y_vec, 256 x 40 x 256 floats", wrf_vec, { 256, 40, 256, 1 }, 0 },
    { "WRF_x_sa, 256 x 40 x 256 floats", wrf_sa, { 256, 40, 256, 0 }, 0 },
    { "WRF_y_sa, 256 x 40 x 256 floats", wrf_sa, { 256, 40, 256, 1 }, 0 },
    { "MILC_su3_zdown, 32^4", milc, { 32, 32, 32, 32 }, 0 },
    { "NAS_LU_x, 1024", lu, { 1024, 0 }, 0 },
    { "NAS_LU_y, 1024", lu, { 1024, 1 }, 0 },
    { "NAS_MG_x, 258^3", mg, { 258, 0 }, 0 },
    { "NAS_MG_y, 258^3", mg, { 258, 1 }, 0 },
    { "NAS_MG_z, 258^3", mg, { 258, 2 }, 0 },
    { "SPECFEM3D_oc, 65,536 points", specfem_oc, { 65536, 4 }, 65536 * 4 },
    { "SPECFEM3D_cm, 65,536 and 32,768 points", specfem_cm, { 65536, 4 }, (65536 + 32768) * 4 },
    { "SPECFEM3D_mt, 65,536 rows of 64 floats", specfem_mt, { 32, 65536 }, 0 },
    { "LAMMPS_full, 32,768 atoms", lammps, { 32768, 4, 1 }, 32768 * 4 },
    { "LAMMPS_atomic, 32,768 atoms", lammps, { 32768, 4, 0 }, 32768 * 4 },
    { "FFT2D, 2048^2 over 8 ranks", fft2d, { 2048, 8 }, 0 },
    { "32^4 of 64^4 doubles, from (3,5,7,9)", middle4, { 64, 32, 1 }, 0 },
    { "48^4 of 64^4 doubles, from (3,5,7,9)", middle4, { 64, 48, 1 }, 0 },
    { "vector 16 MiB, 380 B blocks, pitch 1020 B", vector, { 44150 * 380, 380, 1020 }, 0 },
    { "vector 1 MiB, 264 B blocks, pitch 520 B", vector, { 3972 * 264, 264, 520 }, 0 },
    { "vector 64 MiB, 264 B blocks, pitch 520 B", vector, { 254200 * 264, 264, 520 }, 0 },
    { "vector 64 MiB, 260 B blocks, pitch 524 B", vector, { 258111 * 260, 260, 524 }, 0 },
    { "x-y face of 512^3 doubles", face, { 512, 0, 0 }, 0 },
    { "lower triangle of 4096^2 doubles", lower_triangle, { 4096 }, 0 },
    { "indexed, irregular, 8,192 blocks of 1 to 1,024 doubles", irregular_blocks, { 8192, 1024 }, 8192 * 6 },
    { "indexed, irregular, 262,144 blocks of 1 to 32 doubles", irregular_blocks, { 262144, 32 }, 262144 * 6 },
    { "indexed, irregular, 16,384 blocks of 1 to 2,048 bytes", irregular_bytes, { 16384, 2048 }, 16384 * 6 },
    { "gather of 524,288 doubles, shuffled", shuffled_doubles, { 524288, 2 }, 524288 * 4 },
    { "transpose type, 2048^2 doubles", transpose, { 2048, 0, 0 }, 0 },
};

/* What two ranks exchange: these, and then a grid of vectors, by size and block length. */
static const struct {
    struct row row;
    size_t block_bytes;
} sent_rows[] = {
    { { "32^4 of 64^4 doubles", middle4, { 64, 32, 0 }, 0 }, 256 },
    { { "indexed, irregular, 32,768 blocks of 1 to 64 doubles", irregular_blocks, { 32768, 64 }, 32768 * 6 }, 260 },
    { { "indexed, irregular, 128 blocks of 1 to 64 doubles", irregular_blocks, { 128, 64 }, 128 * 6 }, 260 },
    { { "struct {double,int,int,char} x 16,384", records, { 16384 }, 0 }, 17 },
    { { "struct {double,int,int,char} x 64", records, { 64 }, 0 }, 17 },
};

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define SIZES 9             /* 1 KiB to 64 MiB, by powers of 4 */
#define BLOCKS 8            /* 4 to 512 bytes, by powers of 2 */
#define PITCH 512           /* from block to block, or twice the block, or less where the span would pass SPAN_MOST */
#define SPAN_MOST (1024 * MiB)
#define QUICK_SIZES (1 << 0 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8)   /* 1 KiB, 64 KiB, 1 MiB, 4 MiB, 64 MiB */
#define QUICK_BLOCKS (1 << 0 | 1 << 1 | 1 << 3 | 1 << 6)           /* 4, 8, 32, 256 bytes */

size_t layout_total(enum layout_set set)
{
    return set == LAYOUTS_PACK ? LENGTH(pack_rows) : LENGTH(sent_rows) + SIZES * BLOCKS;
}

static struct layout from_row(const struct row *row)
{
    struct layout l = { .list_bytes = row->list_bytes };
    MPI_Count size, true_lb, true_extent, lb, extent;

    snprintf(l.name, sizeof(l.name), "%s", row->name);
    l.count = row->make(row->a, &l.type);
    MPI_Type_commit(&l.type);
    MPI_Type_size_x(l.type, &size);
    MPI_Type_get_extent_x(l.type, &lb, &extent);
    MPI_Type_get_true_extent_x(l.type, &true_lb, &true_extent);
    l.packed_bytes = (size_t)(size * l.count);
    l.span_bytes = (size_t)(true_lb + true_extent + extent * (l.count - 1));
    return l;
}

static struct layout from_grid(size_t i)
{
    size_t size = i / BLOCKS, length = i % BLOCKS;
    int bytes = KiB << 2 * size, block = 4 << length, pitch = PITCH;
    const char *unit = bytes < MiB ? "KiB" : "MiB";
    struct layout l;
    char name[sizeof(l.name)];
    int used = snprintf(name, sizeof(name), "%d %s, %d B blocks", bytes / (bytes < MiB ? KiB : MiB), unit, block);

    if (bytes / block > SPAN_MOST / pitch)
        pitch = SPAN_MOST / (bytes / block);
    if (pitch < 2 * block)
        pitch = 2 * block;
    if (pitch != PITCH)
        snprintf(name + used, sizeof(name) - (size_t)used, ", pitch %d B", pitch);
    l = from_row(&(struct row){ name, vector, { bytes, block, pitch }, 0 });
    l.block_bytes = (size_t)block;
    l.quick = QUICK_SIZES >> size & 1 && QUICK_BLOCKS >> length & 1;
    return l;
}

struct layout layout_make(enum layout_set set, size_t i)
{
    struct layout l;

    if (set == LAYOUTS_PACK)
        return from_row(&pack_rows[i]);
    if (i >= LENGTH(sent_rows))
        return from_grid(i - LENGTH(sent_rows));
    l = from_row(&sent_rows[i].row);
    l.block_bytes = sent_rows[i].block_bytes;
    l.quick = true;
    return l;
}

void layout_free(struct layout *l)
{
    MPI_Type_free(&l->type);
}
