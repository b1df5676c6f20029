/* form_share.c: lists that go through the same scattered places several times, in an array of its own each time: the
 * properties of atoms, say. Block k of every time lies and is long as block k of the first time, times a factor: the length of
 * an atom in that array by its length in the first. One list of atoms serves all of them. See form_sections.h. */
#include "form_sections.h"
#include <stdlib.h>

/* ORDER host_list.lua's SHARED: the lengths of atoms that there is code for; the longest first. */
static const int lengths[] = {24, 16, 12, 8, 4};
#define BLOCKS_MIN 32               /* fewer are not worth a section */
#define BLOCKS_MAX (1 << 22)        /* more are not looked at: 64 MiB to look at them in */
#define TIMES_MAX 64                /* more are short ones of something regular */
#define LOOKS 8                     /* at each block, at most, for where the first time ends */
#define LONGEST ((int64_t)1 << 20)  /* of blocks, */
#define FARTHEST ((int64_t)1 << 41) /* and their places: products of a length and a distance have 63 bits */

struct block {
    int64_t at, length;
};
struct blocks {
    const struct form_node *node;
    struct block *block;
    int64_t count;
};

static int note_block(void *arg, int64_t user, int64_t packed, int64_t length)
{
    struct blocks *b = arg;
    int64_t at = user - b->node->tree->off;
    (void)packed;
    if (b->count == b->node->blocks || length > LONGEST || at > FARTHEST || at < -FARTHEST) return 1;
    b->block[b->count++] = (struct block){at, length};
    return 0;
}

/* Block k of those at `a`, as against the first of them, is what block k of the list is, as against its first. */
static bool alike(const struct block *list, const struct block *a, int64_t k)
{
    return a[k].length * list->length == list[k].length * a->length
           && (a[k].at - a->at) * list->length == (list[k].at - list->at) * a->length;
}

/* How many times the list goes through its first `each` blocks. */
static int64_t times_of(const struct blocks *b, int64_t each, int64_t *looks)
{
    int64_t times = 1;
    for (; (times + 1) * each <= b->count; times++)
        for (int64_t k = 0; k < each; k++)
            if (++*looks, !alike(b->block, b->block + times * each, k)) return times;
    return times;
}

static bool divides(int64_t length, const struct blocks *b, int64_t each)
{
    for (int64_t k = 0; k < each; k++)
        if (b->block[k].length % length || (b->block[k].at - b->block->at) % length) return false;
    return true;
}

/* The length of an atom at that time, where it is `length` at the first; 0: there is no code for it. */
static int64_t length_at(const struct blocks *b, const struct block *a, int64_t length)
{
    int64_t product = a->length * length;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (lengths[i] * b->block->length == product && lengths[i] % b->node->unit == 0) return lengths[i];
    return 0;
}

/* Without memory nothing is shared. */
static void cut(const struct blocks *b, int64_t each, int64_t times, int64_t length, int64_t atoms, struct form_cut *c)
{
    for (int64_t t = 0; t < times; t++) {
        const struct block *a = b->block + t * each;
        struct stridec_host_section *s = form_section_new(c);
        if (!s) {
            free(c->section);
            *c = (struct form_cut){0};
            return;
        }
        int64_t piece = length_at(b, a, length);
        *s = (struct stridec_host_section){piece, 0, atoms, c->bytes, a->at, piece};
        c->bytes += atoms * piece, c->pieces += atoms;
    }
    c->entries = atoms;
}

/* Into entries of 4 bytes. */
static bool fit(const struct blocks *b, int64_t each, int64_t length)
{
    for (int64_t k = 0; k < each; k++) {
        int64_t first = (b->block[k].at - b->block->at) / length, past = first + b->block[k].length / length;
        if (first < INT32_MIN || past > INT32_MAX) return false;
    }
    return true;
}

/* Cuts as many repetitions as there is code for. Returns false if they are less than half of the list, or if the
 * pieces are much shorter than without sharing. */
static bool share(const struct blocks *b, int64_t each, int64_t times, bool narrow, struct form_cut *c)
{
    int64_t bytes = 0, common = 0;
    for (int64_t k = 0; k < each; k++)
        bytes += b->block[k].length, common = form_divisor(common, b->block[k].length);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int64_t length = lengths[i], coded = 0;
        if (!divides(length, b, each)) continue;
        while (coded < times && length_at(b, b->block + coded * each, length)) coded++;
        if (coded < 2 || 2 * coded * each < b->count) continue;
        if (2 * length < form_piece(common, b->node->unit) || bytes / length > FORM_PIECES_A_BLOCK * each) return false;
        if (narrow && !fit(b, each, length)) return false;
        cut(b, each, coded, length, bytes / length, c);
        return true;
    }
    return false;
}

static void find(const struct blocks *b, bool narrow, struct form_cut *c)
{
    int64_t looks = 0;
    for (int64_t each = BLOCKS_MIN; each <= b->count / 2 && looks < LOOKS * b->count; each++) {
        int64_t times = times_of(b, each, &looks);
        if (times > 1 && times <= TIMES_MAX && 2 * times * each >= b->count && share(b, each, times, narrow, c)) return;
    }
}

void form_share(const struct form_node *n, bool narrow, struct form_cut *c)
{
    struct blocks b = {.node = n};
    if (n->blocks < 2 * BLOCKS_MIN || n->blocks > BLOCKS_MAX) return;
    b.block = malloc((size_t)n->blocks * sizeof *b.block);
    if (b.block && !tree_walk(n->tree, 1, 0, 0, n->tree->size, note_block, &b)) find(&b, narrow, c);
    free(b.block);
}
