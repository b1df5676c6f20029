/* layouts_list.c: layouts of targets that no stride describes: lists of blocks, and records. */
#include "layouts_make.h"
#include <stdlib.h>

unsigned long long layouts_random(unsigned long long *state)
{
    unsigned long long z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void layouts_scatter(int *at, int n, int mean, unsigned long long seed)
{
    int place = 0;

    for (int i = 0; i < n; i++) {
        at[i] = place;
        place += 1 + (int)(layouts_random(&seed) % (unsigned)(2 * mean - 1));
    }
}

static int blocks_of(MPI_Datatype element, const int a[6], MPI_Datatype *type)
{
    int *lengths = malloc((size_t)a[0] * sizeof *lengths), *at = malloc((size_t)a[0] * sizeof *at), place = 0;
    unsigned long long seed = 3;

    for (int i = 0; i < a[0]; i++) {
        lengths[i] = 1 + (int)(layouts_random(&seed) % (unsigned)a[1]);
        at[i] = place;
        place += lengths[i] + 1 + (int)(layouts_random(&seed) % (unsigned)a[1]);
    }
    MPI_Type_indexed(a[0], lengths, at, element, type);
    free(lengths);
    free(at);
    return 1;
}

/* {blocks, longest}: blocks of 1 to `longest` doubles, as many skipped between them at random ... */
int irregular_blocks(const int a[6], MPI_Datatype *type)
{
    return blocks_of(MPI_DOUBLE, a, type);
}

/* ... and of bytes. */
int irregular_bytes(const int a[6], MPI_Datatype *type)
{
    return blocks_of(MPI_BYTE, a, type);
}

/* {n, mean}: n doubles, `mean` apart on average. */
int gather_doubles(const int a[6], MPI_Datatype *type)
{
    int *at = malloc((size_t)a[0] * sizeof *at);

    layouts_scatter(at, a[0], a[1], 5);
    MPI_Type_create_indexed_block(a[0], 1, at, MPI_DOUBLE, type);
    free(at);
    return 1;
}

/* {n, mean}: the same in any order. */
int shuffled_doubles(const int a[6], MPI_Datatype *type)
{
    int *at = malloc((size_t)a[0] * sizeof *at);
    unsigned long long seed = 7;

    layouts_scatter(at, a[0], a[1], 5);
    for (int i = a[0] - 1; i > 0; i--) {
        int other = (int)(layouts_random(&seed) % (unsigned)(i + 1)), place = at[i];

        at[i] = at[other];
        at[other] = place;
    }
    MPI_Type_create_indexed_block(a[0], 1, at, MPI_DOUBLE, type);
    free(at);
    return 1;
}

/* {n}: row i of n^2 doubles up to the diagonal. */
int lower_triangle(const int a[6], MPI_Datatype *type)
{
    int *lengths = malloc((size_t)a[0] * sizeof *lengths), *at = malloc((size_t)a[0] * sizeof *at);

    for (int i = 0; i < a[0]; i++) {
        lengths[i] = i + 1;
        at[i] = i * a[0];
    }
    MPI_Type_indexed(a[0], lengths, at, MPI_DOUBLE, type);
    free(lengths);
    free(at);
    return 1;
}

/* {elements}: struct { double; int; int; char }, 17 bytes of each 24. */
int records(const int a[6], MPI_Datatype *type)
{
    int lengths[] = { 1, 1, 1, 1 };
    MPI_Aint at[] = { 0, 8, 12, 16 };
    MPI_Datatype types[] = { MPI_DOUBLE, MPI_INT, MPI_INT, MPI_CHAR }, record;

    MPI_Type_create_struct(4, lengths, at, types, &record);
    MPI_Type_create_resized(record, 0, 24, type);
    MPI_Type_free(&record);
    return a[0];
}

/* {n, width}: the `width` planes at the low end of the fastest axis of two n^3 blocks of floats, one after the other. */
int two_subarrays(const int a[6], MPI_Datatype *type)
{
    int sizes[] = { a[0], a[0], a[0] }, subsizes[] = { a[0], a[0], a[1] }, starts[] = { 0, 0, 0 };
    int lengths[] = { 1, 1 };
    MPI_Aint at[] = { 0, (MPI_Aint)a[0] * a[0] * a[0] * 4 };
    MPI_Datatype halo, types[2];

    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_FLOAT, &halo);
    types[0] = types[1] = halo;
    MPI_Type_create_struct(2, lengths, at, types, type);
    MPI_Type_free(&halo);
    return 1;
}
