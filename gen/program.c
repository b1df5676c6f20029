/* program.c: the tree as an array of 64-bit words, for the generic kernel (templates/generic.cu).
 *
 * A node is a record; it begins at a word index, by which other records name it. The root's is 0. Record:
 *   dense : 0, off, size
 *   stride: 1, off, size, child_size, step, child_node
 *   seq   : 2, off, size, count, then count pairs: start, node
 *   index : 3, off, size, child_size, child_node, count, then count offsets
 *   blocks: 4, off, size, count, then count pairs: start, place
 * `off` is added on arrival at a node; the root's is written as 0, since the launch adds it to the
 * address. Packed position r within a stride or an index is in copy i = r / child_size, at r - i *
 * child_size; the copy lies i * step, or the i'th offset, further on. In a seq it is in the last part whose
 * `start` (the packed size of the parts before it) is <= r, at r - start; parts of size 0 are left out. In blocks
 * it is in the last block whose `start` is <= r, and lies r + place further on. An
 * empty tree is dense of size 0. Subtrees with several owners are written once.
 */
#include <stdlib.h>
#include <string.h>

#include "map.h"
#include "reason.h"
#include "tree_inner.h"

struct program {
    int64_t *word;
    size_t used, room;
    struct map written;   /* shared node -> word index of its record */
    struct reason *why;
};

/* Reserves n words, of which the first `zeroed` are 0; returns the index of the first, -1 when out of memory. */
static int64_t reserve(struct program *p, size_t n, size_t zeroed)
{
    if (n > p->room - p->used) {
        size_t room = 2 * p->room > p->used + n ? 2 * p->room : p->used + n;
        int64_t *wider = realloc(p->word, room * sizeof *wider);
        if (!wider) {
            reason_memory(p->why);
            return -1;
        }
        p->word = wider;
        p->room = room;
    }
    memset(p->word + p->used, 0, zeroed * sizeof *p->word);
    p->used += n;
    return (int64_t)(p->used - n);
}

static int64_t write_node(struct program *p, const struct tree *t);

/* Each writes the words after `size` of the record at n, which is reserved; false on failure. */
static bool write_dense(struct program *p, const struct tree *t, int64_t n)
{
    (void)p, (void)t, (void)n;
    return true;
}

static bool write_stride(struct program *p, const struct tree *t, int64_t n)
{
    int64_t child = write_node(p, t->child);
    if (child < 0)
        return false;
    p->word[n + 3] = t->child->size;
    p->word[n + 4] = t->step;
    p->word[n + 5] = child;
    return true;
}

static bool write_seq(struct program *p, const struct tree *t, int64_t n)
{
    int64_t start = 0, w = n + 4;
    for (int64_t i = 0; i < t->count; i++) {
        if (t->part[i]->size == 0)
            continue;
        int64_t part = write_node(p, t->part[i]);
        if (part < 0)
            return false;
        p->word[w++] = start;
        p->word[w++] = part;
        p->word[n + 3]++;
        start += t->part[i]->size;
    }
    return true;
}

static bool write_index(struct program *p, const struct tree *t, int64_t n)
{
    int64_t child = write_node(p, t->child);
    if (child < 0)
        return false;
    p->word[n + 3] = t->child->size;
    p->word[n + 4] = child;
    p->word[n + 5] = t->count;
    memcpy(&p->word[n + 6], t->at, (size_t)t->count * sizeof *t->at);
    return true;
}

static bool write_blocks(struct program *p, const struct tree *t, int64_t n)
{
    int64_t start = 0, *pair = &p->word[n + 4];
    p->word[n + 3] = t->count;
    for (int64_t i = 0; i < t->count; i++) {
        pair[2 * i] = start;
        pair[2 * i + 1] = wrap_sub(t->block[i].off, start);
        start += t->block[i].len;
    }
    return true;
}

static const struct {
    size_t words, words_per_entry;   /* of a record; entries are `count` of the node */
    bool (*write)(struct program *p, const struct tree *t, int64_t n);
} records[] = {   /* ORDER TREE_KIND */
    {3, 0, write_dense}, {6, 0, write_stride}, {4, 2, write_seq}, {6, 1, write_index}, {4, 2, write_blocks},
};

/* Returns the record's word index, -1 on failure. */
static int64_t write_node(struct program *p, const struct tree *t)
{
    uintptr_t known;
    enum tree_kind kind = t->size > 0 ? t->kind : TREE_DENSE;
    bool shared = __atomic_load_n(&t->refs, __ATOMIC_RELAXED) > 1;
    if (shared && map_get(&p->written, t, &known))
        return (int64_t)known;
    size_t head = records[kind].words, all = head + records[kind].words_per_entry * (size_t)t->count;
    int64_t n = reserve(p, all, kind == TREE_SEQ ? all : head);
    if (n < 0)
        return -1;
    p->word[n] = kind;
    p->word[n + 1] = t->off;
    p->word[n + 2] = t->size;
    if (!records[kind].write(p, t, n))
        return -1;
    if (shared)
        map_put(&p->written, t, (uintptr_t)n);   /* without memory for this it is only written again */
    return n;
}

int64_t *tree_program(const struct tree *t, size_t *words, struct reason *why)
{
    struct program p = {.why = why};
    bool good = write_node(&p, t) >= 0;
    map_free(&p.written);
    if (!good) {
        free(p.word);
        return NULL;
    }
    p.word[1] = 0;
    *words = p.used;
    return p.word;
}
