/* end.c: the buffers of calls: blocks of layouts in memory, and what each block ought to hold. */
#include "programs.h"
#include <stdlib.h>
#include <string.h>

static void place_absolute(struct end *e, struct chance *c, const struct unit *u, uint64_t seed, int reps)
{
    struct layout part[REGIONS];
    MPI_Aint origin[REGIONS];
    int each[REGIONS];
    int64_t low, high;
    e->regions = draw_in(c, 2, REGIONS);
    layout_split(c, reps, e->regions, each);
    for (int i = 0; i < e->regions; i++) {
        layout_draw(&part[i], seed + 100 + (uint64_t)i, u, each[i], 1, OVERLAP_NEVER);
        map_range(&part[i].map, &low, &high);
        region_open(&e->region[i], e->strand, c, memory_draw(c), low, high);
        origin[i] = (MPI_Aint)(uintptr_t)region_origin(&e->region[i]);
    }
    layout_absolute(&e->layout[0], e->regions, part, origin);
    e->buf = MPI_BOTTOM;
}

void end_open(struct end *e, int strand, uint64_t seed, const struct unit *u, int each, int count, int overlap, bool absolute)
{
    struct chance c = chance_of(seed, 7);
    enum memory memory = memory_draw(&c);
    *e = (struct end){.strand = strand, .n = 1, .layouts = 1, .open = true};
    if (absolute && count == 1) place_absolute(e, &c, u, seed, each);
    else layout_draw(&e->layout[0], seed, u, each, count, overlap);
    e->block[0] = (struct block){&e->layout[0], count, 0};
    if (!e->regions) end_place(e, strand, &c, memory);
}

void end_place(struct end *e, int strand, struct chance *c, enum memory memory)
{
    int64_t low = 0, high = 0, from, to;
    for (int i = 0; i < e->n; i++) {
        const struct block *b = &e->block[i];
        int64_t reach = (b->count > 0 ? b->count - 1 : 0) * b->layout->extent;
        if (b->count <= 0) continue;
        map_range(&b->layout->map, &from, &to);
        from += b->at + (reach < 0 ? reach : 0), to += b->at + (reach > 0 ? reach : 0);
        if (from < low) low = from;
        if (to > high) high = to;
    }
    e->open = true;
    e->regions = 1;
    region_open(&e->region[0], strand, c, memory, low, high);
    e->buf = region_origin(&e->region[0]);
}

void end_clear(struct end *e, uint64_t salt)
{
    for (int i = 0; i < e->regions; e->region[i++].any = false)
        for (size_t k = 0; k < e->region[i].bytes; k++)
            e->region[i].shadow[k] = (unsigned char)(salt + 31 * k + (k >> 8));
}

struct carry {
    const struct end *e;
    int64_t at, packed;      /* of the element at hand */
    unsigned char *bytes;
    bool gather;
};

static void carry(void *arg, int region, int64_t at, int64_t packed, int64_t n)
{
    struct carry *k = arg;
    const struct region *r = &k->e->region[region];
    unsigned char *shadow = r->shadow + (r->lead + k->at + at), *bytes = k->bytes + k->packed + packed;
    memcpy(k->gather ? bytes : shadow, k->gather ? shadow : bytes, (size_t)n);
}

static void carry_all(const struct end *e, int block, unsigned char *bytes, int64_t n, bool gather)
{
    const struct block *b = &e->block[block];
    struct carry k = {e, b->at, 0, bytes, gather};
    int64_t each = b->layout->map.bytes;
    for (int i = 0; i < b->count && k.packed < n; i++) {
        map_walk(&b->layout->map, n - k.packed < each ? n - k.packed : each, carry, &k);
        k.at += b->layout->extent, k.packed += each;
    }
}

int64_t end_bytes(const struct end *e, int block)
{
    return e->block[block].count * e->block[block].layout->map.bytes;
}

void end_put_bytes(struct end *e, int block, const unsigned char *packed, int64_t bytes)
{
    carry_all(e, block, (unsigned char *)(uintptr_t)packed, bytes, false);
}

void end_expect(struct end *e, int block, uint64_t salt, int64_t bytes)
{
    unsigned char *packed = malloc((size_t)bytes + 1);
    for (int64_t i = 0; i < bytes; i++) packed[i] = stream_at(salt, i);
    end_put_bytes(e, block, packed, bytes);
    free(packed);
}

void end_put(struct end *e, int block, uint64_t salt)
{
    end_expect(e, block, salt, end_bytes(e, block));
}

unsigned char *end_packed(const struct end *e, int block)
{
    unsigned char *packed = malloc((size_t)end_bytes(e, block) + 1);
    carry_all(e, block, packed, end_bytes(e, block), true);
    return packed;
}

void end_store(struct end *e)
{
    for (int i = 0; i < e->regions; i++) region_store(&e->region[i]);
}

void end_accept(struct end *e, int block)
{
    unsigned char *shadow[REGIONS], *packed;
    for (int i = 0; i < e->regions; i++) {
        shadow[i] = e->region[i].shadow;
        e->region[i].shadow = malloc(e->region[i].bytes);
        region_load(&e->region[i], e->region[i].shadow);
        e->region[i].any = true;
    }
    packed = end_packed(e, block);
    for (int i = 0; i < e->regions; i++) {
        free(e->region[i].shadow);
        e->region[i].shadow = shadow[i];
    }
    end_put_bytes(e, block, packed, end_bytes(e, block));
    free(packed);
}

bool end_check(const struct end *e, const char *what)
{
    bool good = true;
    for (int i = 0; i < e->regions; i++) good = region_check(&e->region[i], what) && good;
    return good;
}

void end_close(struct end *e)
{
    if (!e->open) return;
    for (int i = 0; i < e->regions; i++) region_close(&e->region[i]);
    for (int i = 0; i < e->layouts; i++) layout_free(&e->layout[i]);
    *e = (struct end){0};
}

void end_tell(const struct end *e, const char *what)
{
    for (int i = 0; i < e->layouts; i++)
        tell("    %s: %d x %s", what, e->n == 1 ? e->block[0].count : -1, e->layout[i].text);
    for (int i = 0; i < e->regions; i++)
        tell("    %s: in %s memory of device %d, origin %p", what, memory_name[e->region[i].memory], e->region[i].device,
             (void *)region_origin(&e->region[i]));
}
