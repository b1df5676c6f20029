/* layout.c: random datatypes of every combiner, each with its typemap.
 *
 * A type is grown from the outside in: so many repetitions of a unit are divided among the blocks of a combiner, and each block's
 * type is grown in turn. Extents are the MPI's own words; what a combiner does with them is worked out here. */
#include "known.h"
#include "programs.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 12, SPAN = 1 << 20, ATTEMPTS = 8, RUNS = 60000 };

/* A type under construction. */
struct made {
    MPI_Datatype type;
    bool named, wide;        /* wide: some constructor was a large-count one */
    int64_t extent;
    struct map map;
    char text[TEXT];
};

static struct made grow(struct chance *c, const struct unit *u, int reps, int depth);

static void say(struct made *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct made *m, const char *format, ...)
{
    size_t at;
    va_list args;
    if (!setup.tell) return;
    at = strlen(m->text);
    va_start(args, format);
    vsnprintf(m->text + at, sizeof m->text - at, format, args);
    va_end(args);
}

static void say_list(struct made *m, int n, const MPI_Aint list[])
{
    for (int i = 0; i < n; i++) say(m, "%s%lld", i ? "," : "{", (long long)list[i]);
    say(m, "%s", n ? "}" : "{}");
}

static void drop(struct made *m)
{
    if (!m->named && m->type != MPI_DATATYPE_NULL) MPI_Type_free(&m->type);
    map_free(&m->map);
}

static int64_t extent_of(MPI_Datatype type)
{
    MPI_Aint lb, extent = 0;
    if (type != MPI_DATATYPE_NULL) MPI_Type_get_extent(type, &lb, &extent);
    return extent;
}

/* Closes what a constructor has built out of `child`. */
static void close_made(struct made *m, struct made *child)
{
    m->extent = extent_of(m->type);
    if (!child) return;
    m->wide |= child->wide;
    say(m, ", %s)", child->text);
    drop(child);
}

/* How far apart copies of a type must be so that they don't overlap. */
static int64_t pitch(const struct made *m)
{
    int64_t low, high;
    map_range(&m->map, &low, &high);
    return high - low;
}

/* The bytes from one block of `n` copies to the next. */
static int64_t block_pitch(const struct made *m, int64_t n)
{
    int64_t step = m->extent < 0 ? -m->extent : m->extent, all = (n > 0 ? n - 1 : 0) * step + pitch(m);
    return n * step > all ? n * step : all;
}

static int gap(struct chance *c)
{
    return once_in(c, 2) ? 0 : once_in(c, 4) ? draw(c, 300) : draw(c, 20);
}

static struct made named(int kind)
{
    struct made m = {.type = kinds[kind].type, .named = true, .extent = kinds[kind].extent};
    map_add(&m.map, 0, 1, kind, 0);
    say(&m, "%s", kinds[kind].name);
    return m;
}

/* ---- combiners; each takes a child and how many copies of it there are ---- */

#define LARGE (MPI_VERSION >= 4)
static bool large(struct chance *c)
{
    bool may = once_in(c, 4);
    return LARGE && may;
}
#if LARGE
#define EITHER(wide, small, large_form) ((wide) ? large_form : small)
#else
#define EITHER(wide, small, large_form) ((void)(wide), small)
#endif

static struct made contiguous(struct chance *c, struct made *child, int n)
{
    struct made m = {.type = MPI_DATATYPE_NULL};
    EITHER(m.wide = large(c), MPI_Type_contiguous(n, child->type, &m.type), MPI_Type_contiguous_c(n, child->type, &m.type));
    map_repeat(&m.map, &child->map, 0, n, child->extent);
    say(&m, "contiguous(%d", n);
    close_made(&m, child);
    return m;
}

static struct made vector(struct chance *c, struct made *child, int n)
{
    struct made m = {.type = MPI_DATATYPE_NULL};
    int length = draw_divisor(c, n ? n : 1), count = n / length;
    bool wide = large(c), bytes = once_in(c, 2);
    int64_t least = block_pitch(child, length), each = child->extent ? child->extent : 1, step;
    step = bytes ? least + gap(c) : (least + llabs(each) - 1) / llabs(each) + draw(c, 3);
    if (once_in(c, 6)) step = -step;
    if (KNOWN_STEP && step * (bytes ? 1 : each) == -1) step = -2;
    if (bytes)
        EITHER(wide, MPI_Type_create_hvector(count, length, step, child->type, &m.type),
               MPI_Type_create_hvector_c(count, length, step, child->type, &m.type));
    else
        EITHER(wide, MPI_Type_vector(count, length, (int)step, child->type, &m.type),
               MPI_Type_vector_c(count, length, step, child->type, &m.type));
    m.wide = wide;
    say(&m, "%svector(%d, %d, %lld", bytes ? "h" : "", count, length, (long long)step);
    for (int i = 0; i < count; i++)
        map_repeat(&m.map, &child->map, i * step * (bytes ? 1 : each), length, child->extent);
    close_made(&m, child);
    return m;
}

/* Splits n among `parts`, some of which may get nothing. */
static void split(struct chance *c, int n, int parts, int length[])
{
    for (int i = 0; i < parts; i++) length[i] = 0;
    for (int i = 0; i < parts && n > 0; i++) {
        length[i] = i == parts - 1 ? n : draw(c, 2 * n / (parts - i) + 1);
        if (length[i] > n) length[i] = n;
        n -= length[i];
    }
}

static void shuffle(struct chance *c, int n, int order[])
{
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = draw(c, i + 1), k = order[i];
        order[i] = order[j], order[j] = k;
    }
}

/* The four combiners of a list. In memory blocks lie in an order of their own. */
static struct made list(struct chance *c, struct made *child, int n)
{
    struct made m = {.type = MPI_DATATYPE_NULL};
    int lengths[BLOCKS], order[BLOCKS], small[BLOCKS];
    MPI_Aint at[BLOCKS] = {0}, wide_lengths[BLOCKS] = {0};
    bool equal = once_in(c, 2), bytes = once_in(c, 2) || child->extent <= 0, wide = large(c);
    int count = draw_in(c, 1, BLOCKS), each = equal && n ? draw_divisor(c, n) : n;
    if (equal && n && n / each > BLOCKS) each = n;
    if (equal) count = n ? n / each : draw(c, 3);
    if (equal)
        for (int i = 0; i < count; i++) lengths[i] = each;
    else
        split(c, n, count, lengths);
    if (once_in(c, 3)) shuffle(c, count, order);
    else
        for (int i = 0; i < count; i++) order[i] = i;
    int64_t next = once_in(c, 4) ? -draw(c, 9) : 0, unit = bytes ? 1 : child->extent;
    for (int i = 0; i < count; i++) {
        int b = order[i];
        at[b] = next;
        next += (block_pitch(child, lengths[b]) + unit - 1) / unit + (bytes ? gap(c) : draw(c, 4));
    }
    for (int i = 0; i < count; i++) {
        small[i] = (int)at[i], wide_lengths[i] = lengths[i];
        map_repeat(&m.map, &child->map, at[i] * unit, lengths[i], child->extent);
    }
#if LARGE
    MPI_Count l[BLOCKS], d[BLOCKS];
    for (int i = 0; i < count; i++) l[i] = lengths[i], d[i] = at[i];
#endif
    if (equal && bytes)
        EITHER(wide, MPI_Type_create_hindexed_block(count, each, at, child->type, &m.type),
               MPI_Type_create_hindexed_block_c(count, each, d, child->type, &m.type));
    else if (equal)
        EITHER(wide, MPI_Type_create_indexed_block(count, each, small, child->type, &m.type),
               MPI_Type_create_indexed_block_c(count, each, d, child->type, &m.type));
    else if (bytes)
        EITHER(wide, MPI_Type_create_hindexed(count, lengths, at, child->type, &m.type),
               MPI_Type_create_hindexed_c(count, l, d, child->type, &m.type));
    else
        EITHER(wide, MPI_Type_indexed(count, lengths, small, child->type, &m.type),
               MPI_Type_indexed_c(count, l, d, child->type, &m.type));
    m.wide = wide;
    say(&m, "%sindexed%s(%d, ", bytes ? "h" : "", equal ? "_block" : "", count);
    if (equal) say(&m, "%d", each);
    else say_list(&m, count, wide_lengths);
    say(&m, ", ");
    say_list(&m, count, at);
    close_made(&m, child);
    return m;
}

/* Members of one type each, laid down one after another in an order of their own. */
static struct made join(struct chance *c, int count, struct made child[], const int lengths[])
{
    struct made m = {.type = MPI_DATATYPE_NULL};
    MPI_Datatype types[BLOCKS];
    MPI_Aint at[BLOCKS] = {0}, wide_lengths[BLOCKS] = {0};
    int order[BLOCKS];
    int64_t next = once_in(c, 4) ? -draw(c, 40) : 0, low, high;
    bool wide = large(c);
    if (once_in(c, 4)) shuffle(c, count, order);
    else
        for (int i = 0; i < count; i++) order[i] = i;
    for (int i = 0; i < count; i++) {
        int b = order[i];
        map_range(&child[b].map, &low, &high);
        if (child[b].extent < 0 && lengths[b] > 0) low += (lengths[b] - 1) * child[b].extent;
        at[b] = next - low;
        next += block_pitch(&child[b], lengths[b]) + gap(c);
    }
    for (int i = 0; i < count; i++) {
        types[i] = child[i].type, wide_lengths[i] = lengths[i];
        map_repeat(&m.map, &child[i].map, at[i], lengths[i], child[i].extent);
    }
#if LARGE
    MPI_Count l[BLOCKS], d[BLOCKS];
    for (int i = 0; i < count; i++) l[i] = lengths[i], d[i] = at[i];
#endif
    EITHER(wide, MPI_Type_create_struct(count, lengths, at, types, &m.type),
           MPI_Type_create_struct_c(count, l, d, types, &m.type));
    close_made(&m, NULL);
    m.wide = wide;
    for (int i = 0; i < count; i++) m.wide |= child[i].wide;
    say(&m, "struct(%d, ", count);
    say_list(&m, count, wide_lengths);
    say(&m, ", ");
    say_list(&m, count, at);
    say(&m, ", {");
    for (int i = 0; i < count; i++) say(&m, "%s%s", i ? ", " : "", child[i].text), drop(&child[i]);
    say(&m, "})");
    return m;
}

static struct made structure(struct chance *c, const struct unit *u, int n, int depth)
{
    struct made child[BLOCKS];
    int count = draw_in(c, 1, 4), lengths[BLOCKS];
    split(c, n, count, lengths);
    for (int i = 0; i < count; i++) {
        int inner = lengths[i] ? draw_divisor(c, lengths[i]) : 1;
        child[i] = grow(c, u, inner, depth - 1);
        lengths[i] /= inner;
    }
    return join(c, count, child, lengths);
}

enum { DIMENSIONS = 3 };

/* The map of an array whose dimension d has the indices index(d, i), i < local[d]. */
struct array {
    int n, order, sizes[DIMENSIONS], local[DIMENSIONS];
    int *index[DIMENSIONS];
};

static void map_array(struct map *m, const struct array *a, const struct made *child)
{
    int at[DIMENSIONS] = {0}, all = 1;
    for (int d = 0; d < a->n; d++) all *= a->local[d];
    for (int i = 0; i < all; i++) {
        int64_t linear = 0;
        for (int k = 0; k < a->n; k++) {
            int d = a->order == MPI_ORDER_C ? k : a->n - 1 - k;
            linear = linear * a->sizes[d] + a->index[d][at[d]];
        }
        map_repeat(m, &child->map, linear * child->extent, 1, 0);
        for (int k = a->n - 1; k >= 0; k--) {
            int d = a->order == MPI_ORDER_C ? k : a->n - 1 - k;
            if (++at[d] < a->local[d]) break;
            at[d] = 0;
        }
    }
}

static void array_draw(struct chance *c, struct array *a, int n)
{
    *a = (struct array){.n = draw_in(c, 1, DIMENSIONS), .order = once_in(c, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN};
    for (int d = 0; d < a->n; d++) {
        a->local[d] = d == a->n - 1 ? n : draw_divisor(c, n);
        n /= a->local[d];
        a->index[d] = malloc(((size_t)a->local[d] + 1) * sizeof(int));
    }
}

static void say_ints(struct made *m, int n, const int list[])
{
    for (int i = 0; i < n; i++) say(m, "%s%d", i ? "," : "{", list[i]);
    say(m, "}, ");
}

static struct made subarray(struct chance *c, struct made *child, int n)
{
    struct made m = {.type = MPI_DATATYPE_NULL};
    struct array a;
    int starts[DIMENSIONS];
    array_draw(c, &a, n);
    for (int d = 0; d < a.n; d++) {
        int more = draw(c, 4);
        starts[d] = draw(c, more + 1);
        a.sizes[d] = a.local[d] + more;
        for (int i = 0; i < a.local[d]; i++) a.index[d][i] = starts[d] + i;
    }
    MPI_Type_create_subarray(a.n, a.sizes, a.local, starts, a.order, child->type, &m.type);
    map_array(&m.map, &a, child);
    say(&m, "subarray(%d, ", a.n);
    say_ints(&m, a.n, a.sizes), say_ints(&m, a.n, a.local), say_ints(&m, a.n, starts);
    say(&m, "%s", a.order == MPI_ORDER_C ? "C" : "Fortran");
    close_made(&m, child);
    for (int d = 0; d < a.n; d++) free(a.index[d]);
    return m;
}

/* Each process of a row has as many indices, so that the number of all is known. */
static struct made darray(struct chance *c, struct made *child, int n)
{
    static const int forms[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
    struct made m = {.type = MPI_DATATYPE_NULL};
    struct array a;
    int distribs[DIMENSIONS], dargs[DIMENSIONS], psizes[DIMENSIONS], size = 1, rank = 0;
    array_draw(c, &a, n);
    for (int d = 0; d < a.n; d++) {
        int form = draw(c, 3), p = form == 2 ? 1 : draw_in(c, 1, 3), x = draw(c, p), k = 1;
        distribs[d] = forms[form], psizes[d] = p, dargs[d] = MPI_DISTRIBUTE_DFLT_DARG;
        if (form == 0 && once_in(c, 2)) dargs[d] = a.local[d];
        if (form == 1 && once_in(c, 2)) dargs[d] = k = draw_divisor(c, a.local[d]);
        a.sizes[d] = a.local[d] * p;
        size *= p, rank = rank * p + x;
        for (int i = 0; i < a.local[d]; i++)
            a.index[d][i] = form == 1 ? (i / k * p + x) * k + i % k : x * a.local[d] + i;
    }
    MPI_Type_create_darray(size, rank, a.n, a.sizes, distribs, dargs, psizes, a.order, child->type, &m.type);
    map_array(&m.map, &a, child);
    say(&m, "darray(%d, %d, %d, ", size, rank, a.n);
    say_ints(&m, a.n, a.sizes);
    for (int d = 0; d < a.n; d++)
        say(&m, "%s%s", d ? "," : "{", distribs[d] == forms[0] ? "block" : distribs[d] == forms[1] ? "cyclic" : "none");
    say(&m, "}, ");
    say_ints(&m, a.n, dargs), say_ints(&m, a.n, psizes);
    say(&m, "%s", a.order == MPI_ORDER_C ? "C" : "Fortran");
    close_made(&m, child);
    for (int d = 0; d < a.n; d++) free(a.index[d]);
    return m;
}

/* Now and then shorter than what it holds, so that elements interleave. */
static struct made resized(struct chance *c, struct made *child)
{
    struct made m = {.type = MPI_DATATYPE_NULL};
    int64_t lb = once_in(c, 2) ? 0 : draw_in(c, -32, 32), extent = pitch(child) + gap(c);
    if (once_in(c, 6)) extent = draw_in(c, 1, 16);
    EITHER(m.wide = large(c), MPI_Type_create_resized(child->type, lb, extent, &m.type),
           MPI_Type_create_resized_c(child->type, lb, extent, &m.type));
    map_repeat(&m.map, &child->map, 0, 1, 0);
    say(&m, "resized(%lld, %lld", (long long)lb, (long long)extent);
    close_made(&m, child);
    return m;
}

static struct made dup(struct made *child)
{
    struct made m = {.type = MPI_DATATYPE_NULL};
    MPI_Type_dup(child->type, &m.type);
    map_repeat(&m.map, &child->map, 0, 1, 0);
    m.extent = extent_of(m.type);
    m.wide = child->wide;
    say(&m, "dup(%s)", child->text);
    drop(child);
    return m;
}

static struct made plain(struct chance *c, const struct unit *u, int reps)
{
    struct made child[3], m;
    int lengths[3];
    for (int i = 0; i < u->n; i++) child[i] = named(u->part[i].kind), lengths[i] = u->part[i].n;
    m = u->n == 1 && u->part[0].n == 1 ? child[0] : join(c, u->n, child, lengths);
    return reps == 1 ? m : contiguous(c, &m, reps);
}

static struct made grow(struct chance *c, const struct unit *u, int reps, int depth)
{
    struct made child;
    if (depth <= 0 || (reps <= 1 && once_in(c, 2))) return plain(c, u, reps);
    int form = draw(c, 12), inner = reps > 0 ? draw_divisor(c, reps) : 1;
    if (form == 11) return structure(c, u, reps, depth);
    if (form >= 9) {
        child = grow(c, u, reps, depth - 1);
        return form == 9 ? resized(c, &child) : dup(&child);
    }
    child = grow(c, u, inner, depth - 1);
    reps /= inner;
    if (reps == 0 && form < 9) return KNOWN_EMPTY || once_in(c, 2) ? contiguous(c, &child, 0) : list(c, &child, 0);
    switch (form) {
    case 0: return contiguous(c, &child, reps);
    case 1: case 2: case 3: return vector(c, &child, reps);
    case 4: case 5: case 6: return list(c, &child, reps);
    case 7: return subarray(c, &child, reps);
    default: return darray(c, &child, reps);
    }
}

/* ---- what is fit for use ---- */

struct marks {
    unsigned char *seen;
    int64_t low, at;
    bool twice;
};

static void mark(void *arg, int region, int64_t at, int64_t packed, int64_t n)
{
    struct marks *k = arg;
    (void)region, (void)packed;
    for (int64_t i = 0; i < n; i++) k->twice |= k->seen[k->at + at + i - k->low]++ != 0;
}

static bool overlaps(const struct map *m, int64_t extent, int count, int64_t low, int64_t high)
{
    struct marks k = {.low = low};
    k.seen = calloc(1, (size_t)(high - low) + 1);
    for (int i = 0; i < count && !k.twice; i++) k.at = i * extent, map_walk(m, m->bytes, mark, &k);
    free(k.seen);
    return k.twice;
}

static bool fits(const struct made *m, int count, bool overlap)
{
    int64_t low, high, reach = (count > 0 ? count - 1 : 0) * m->extent;
    map_range(&m->map, &low, &high);
    if (m->type == MPI_DATATYPE_NULL || (int64_t)m->map.n * count > RUNS) return false;
    if (reach < 0) low += reach;
    else high += reach;
    if (high - low > SPAN + 2 * m->map.bytes * count) return false;
    return overlap || !overlaps(&m->map, m->extent, count, low, high);
}

static void adopt(struct layout *l, struct made *m, int reps)
{
    if (!m->named) MPI_Type_commit(&m->type);
    *l = (struct layout){m->type, m->named, m->wide, reps, m->extent, m->map.bytes, m->map, ""};
    if (setup.tell) memcpy(l->text, m->text, sizeof l->text);
}

void layout_draw(struct layout *l, uint64_t seed, const struct unit *u, int reps, int count, int overlap)
{
    for (int attempt = 0;; attempt++) {
        struct chance c = chance_of(seed, (uint64_t)attempt);
        int depth = draw_in(&c, 0, 3);
        if (depth > setup.depth) depth = setup.depth;
        if (attempt >= ATTEMPTS) depth = 0;
        struct made m = grow(&c, u, reps, depth);
        if (attempt > ATTEMPTS || fits(&m, count, overlap == OVERLAP_MAY)) {
            adopt(l, &m, reps);
            return;
        }
        drop(&m);
    }
}

void layout_split(struct chance *c, int reps, int n, int each[])
{
    split(c, reps, n, each);
}

void layout_absolute(struct layout *l, int n, struct layout part[], const MPI_Aint origin[])
{
    struct made m = {.type = MPI_DATATYPE_NULL};
    int ones[REGIONS], reps = 0;
    MPI_Datatype types[REGIONS];
    say(&m, "struct(%d, at absolute addresses, {", n);
    for (int i = 0; i < n; i++) {
        types[i] = part[i].type, ones[i] = 1, reps += part[i].reps, m.wide |= part[i].wide;
        for (int k = 0; k < part[i].map.n; k++) {
            const struct run *r = &part[i].map.run[k];
            map_add(&m.map, r->at, r->n, r->kind, i);
        }
        say(&m, "%s%s", i ? ", " : "", part[i].text);
    }
    say(&m, "})");
    MPI_Type_create_struct(n, ones, origin, types, &m.type);
    for (int i = 0; i < n; i++) layout_free(&part[i]);
    m.extent = extent_of(m.type);
    adopt(l, &m, reps);
}

void layout_free(struct layout *l)
{
    if (!l->named && l->type != MPI_DATATYPE_NULL) MPI_Type_free(&l->type);
    map_free(&l->map);
}
