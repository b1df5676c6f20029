/* places.c: shapes in memory, and their shadows. */
#include "places.h"
#include <stdlib.h>

void shape_add(struct shape *s, int array, int first, int n, int step)
{
    s->piece[s->pieces++] = (struct piece){array, first, n, step};
}

int shape_doubles(const struct shape *s)
{
    int n = 0;
    for (int i = 0; i < s->pieces; i++) n += s->piece[i].n;
    return n;
}

static enum mem_kind kind_of(const struct shape *s)
{
    return host_mode ? MEM_HOST : s->kind;
}

void place_make(struct place *p, const struct shape *s)
{
    static MPI_Datatype parts[PIECES];
    static MPI_Aint at[PIECES];
    static int ones[PIECES];
    double *all = s->together ? mem_alloc(kind_of(s), ARRAYS * DOUBLES * sizeof(double)) : NULL;
    p->shape = s;
    for (int i = 0; i < ARRAYS; i++) {
        p->array[i] = all ? all + i * DOUBLES : mem_alloc(kind_of(s), DOUBLES * sizeof(double));
        p->shadow[i] = malloc(DOUBLES * sizeof(double));
    }
    for (int i = 0; i < s->pieces; i++) {
        const struct piece *q = &s->piece[i];
        MPI_Get_address(p->array[q->array] + q->first, &at[i]);
        ones[i] = 1;
        if (!s->list) MPI_Type_vector(q->n, 1, q->step, MPI_DOUBLE, &parts[i]);
    }
    if (s->list) MPI_Type_create_hindexed_block(s->pieces, s->piece[0].n, at, MPI_DOUBLE, &p->type);
    else MPI_Type_create_struct(s->pieces, ones, at, parts, &p->type);
    for (int i = 0; i < s->pieces && !s->list; i++) MPI_Type_free(&parts[i]);
    type_commit(&p->type);
}

void place_free(struct place *p)
{
    for (int i = 0; i < ARRAYS; i++) {
        if (!i || !p->shape->together) mem_free(kind_of(p->shape), p->array[i]);
        free(p->shadow[i]);
    }
    MPI_Type_free(&p->type);
}

void place_fill(struct place *p, double first, bool memory_too)
{
    for (int i = 0; i < p->shape->pieces; i++)
        for (int j = 0; j < p->shape->piece[i].n; j++) {
            const struct piece *q = &p->shape->piece[i];
            p->shadow[q->array][q->first + j * q->step] = first++;
        }
    for (int i = 0; i < ARRAYS && memory_too; i++)
        mem_write(kind_of(p->shape), p->array[i], p->shadow[i], DOUBLES * sizeof(double));
}

void place_clear(struct place *p)
{
    for (int i = 0; i < ARRAYS; i++) {
        for (int j = 0; j < DOUBLES; j++) p->shadow[i][j] = -1.0 - j;
        mem_write(kind_of(p->shape), p->array[i], p->shadow[i], DOUBLES * sizeof(double));
    }
}

void place_check(const struct place *p, const char *name)
{
    double *is = malloc(DOUBLES * sizeof(double));
    int wrong = 0;
    for (int i = 0; i < ARRAYS; i++) {
        mem_read(kind_of(p->shape), is, p->array[i], DOUBLES * sizeof(double));
        for (int j = 0; j < DOUBLES; j++) wrong += is[j] != p->shadow[i][j];
    }
    expect(!wrong, "%s into %s: %d doubles are wrong", name, p->shape->name, wrong);
    free(is);
}

void shapes_make(struct shape *fields, struct shape *particles, struct shape *list, struct shape *many)
{
    *fields = (struct shape){.name = "four fields", .kind = MEM_DEVICE, .launches = 1};
    shape_add(fields, 0, 5, 300, 3), shape_add(fields, 1, 0, 500, 2);
    shape_add(fields, 2, 17, 400, 1), shape_add(fields, 3, 1, 300, 12);
    *particles = (struct shape){.name = "particles of three arrays", .kind = MEM_DEVICE, .launches = 1};
    for (int i = 0; i < 50; i++) shape_add(particles, i / 17, (i % 17 * 89) % 4000, 30, 1);
    *list = (struct shape){.name = "a list over two arrays", .kind = MEM_DEVICE, .launches = 1, .list = true};
    for (int i = 0; i < 150; i++) shape_add(list, i / 40 % 2, (i * 37) % 400 * 10, 10, 1);
    *many = (struct shape){.name = "a list that changes often", .kind = MEM_DEVICE, .launches = -1, .list = true};
    for (int i = 0; i < 150; i++) shape_add(many, i % 2, (i * 37) % 400 * 10, 10, 1);
}
