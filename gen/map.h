/* map.h: a hash map from addresses to words, for work that must be done once per shared subtree. */
#ifndef STRIDEC_GEN_MAP_H
#define STRIDEC_GEN_MAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An empty map is all zeros. */
struct map {
    size_t room, used;   /* room is 0 or a power of two */
    struct map_slot {
        const void *key; /* NULL: free */
        uintptr_t value;
    } *slot;
};

bool map_get(const struct map *m, const void *key, uintptr_t *value);
/* The key must not be there yet. False when out of memory; the map is then as it was. */
bool map_put(struct map *m, const void *key, uintptr_t value);
void map_free(struct map *m);

#endif
