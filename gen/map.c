/* map.c: open addressing, linear probing, at most half full. */
#include "map.h"
#include "hash.h"

#include <stdlib.h>

static size_t map_home(const struct map *m, const void *key)
{
    return (size_t)hash_place((uintptr_t)key, 44) & (m->room - 1);
}

bool map_get(const struct map *m, const void *key, uintptr_t *value)
{
    if (m->room == 0)
        return false;
    for (size_t i = map_home(m, key); m->slot[i].key; i = (i + 1) & (m->room - 1)) {
        if (m->slot[i].key == key) {
            *value = m->slot[i].value;
            return true;
        }
    }
    return false;
}

static void map_place(struct map *m, struct map_slot s)
{
    size_t i = map_home(m, s.key);
    while (m->slot[i].key)
        i = (i + 1) & (m->room - 1);
    m->slot[i] = s;
}

static bool map_grow(struct map *m)
{
    struct map wider = {.room = m->room ? m->room * 2 : 16, .used = m->used};
    wider.slot = calloc(wider.room, sizeof *wider.slot);
    if (!wider.slot)
        return false;
    for (size_t i = 0; i < m->room; i++) {
        if (m->slot[i].key)
            map_place(&wider, m->slot[i]);
    }
    free(m->slot);
    *m = wider;
    return true;
}

bool map_put(struct map *m, const void *key, uintptr_t value)
{
    if (m->used * 2 >= m->room && !map_grow(m))
        return false;
    map_place(m, (struct map_slot){key, value});
    m->used++;
    return true;
}

void map_free(struct map *m)
{
    free(m->slot);
    *m = (struct map){0};
}
