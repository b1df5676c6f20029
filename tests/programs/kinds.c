/* kinds.c: named datatypes, and units: the short lists of them that messages repeat. */
#include "programs.h"

struct kind kinds[KINDS_ALL];

static void plain(int i, MPI_Datatype type, const char *name, int size)
{
    kinds[i] = (struct kind){type, name, size, size, 1, {{0, size}, {0, 0}}};
}

static void pair(int i, MPI_Datatype type, const char *name, int first, int second, int extent)
{
    kinds[i] = (struct kind){type, name, first + 4, extent, 2, {{0, first}, {second, 4}}};
}

/* No MPI_LONG_DOUBLE: its padding is no data, and MPICH does not pack it. */
void kinds_make(void)
{
    plain(0, MPI_INT, "MPI_INT", 4);
    plain(1, MPI_DOUBLE, "MPI_DOUBLE", 8);
    plain(2, MPI_CHAR, "MPI_CHAR", 1);
    plain(3, MPI_BYTE, "MPI_BYTE", 1);
    plain(4, MPI_SHORT, "MPI_SHORT", 2);
    plain(5, MPI_FLOAT, "MPI_FLOAT", 4);
    plain(6, MPI_LONG_LONG, "MPI_LONG_LONG", 8);
    plain(7, MPI_UINT16_T, "MPI_UINT16_T", 2);
    plain(8, MPI_INT64_T, "MPI_INT64_T", 8);
    plain(9, MPI_UNSIGNED, "MPI_UNSIGNED", 4);
    plain(10, MPI_UINT8_T, "MPI_UINT8_T", 1);
    plain(11, MPI_C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX", 16);
    pair(12, MPI_2INT, "MPI_2INT", 4, 4, 8);
    pair(13, MPI_DOUBLE_INT, "MPI_DOUBLE_INT", 8, 8, 16);
    pair(14, MPI_SHORT_INT, "MPI_SHORT_INT", 2, 4, 8);
    pair(15, MPI_FLOAT_INT, "MPI_FLOAT_INT", 4, 4, 8);
}

static int kind_draw(struct chance *c)
{
    return draw(c, once_in(c, 6) ? KINDS_ALL : once_in(c, 3) ? KINDS_PLAIN : 5);
}

struct unit unit_draw(struct chance *c)
{
    struct unit u = {.n = once_in(c, 3) ? draw_in(c, 2, 3) : 1};
    for (int i = 0; i < u.n; i++) {
        u.part[i].kind = kind_draw(c);
        u.part[i].n = u.n > 1 ? draw_in(c, 1, 4) : 1;
    }
    return u;
}

int unit_bytes(const struct unit *u)
{
    int bytes = 0;
    for (int i = 0; i < u->n; i++) bytes += u->part[i].n * kinds[u->part[i].kind].size;
    return bytes;
}

int unit_elements(const struct unit *u)
{
    int elements = 0;
    for (int i = 0; i < u->n; i++) elements += u->part[i].n * kinds[u->part[i].kind].parts;
    return elements;
}

bool unit_pairs(const struct unit *u)
{
    for (int i = 0; i < u->n; i++)
        if (kinds[u->part[i].kind].parts > 1) return true;
    return false;
}
