/* form.c: takes the long lists out of a tree. See form.h. */
#include "form.h"
#include "reason.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>

/* Offsets that stay constants of the source; parts that do. */
#define INDEX_MAX 16
#define PARTS_MAX 32
/* Longer source compiles too slowly to be worth it. */
#define NODES_MAX 160
/* A long seq of other things than blocks is written out as the blocks that it comes to, up to this many a part. */
#define BLOCKS_A_PART 8
#define BLOCKS_MIN 65536
#define WORD_MAX 16
/* A table that finds blocks: so many entries cost no one anything. Longer ones have one for two blocks, or fewer where
 * the list would come to more than 7.5 bytes a block in all. */
#define CHUNKS_MIN 1024
#define BYTES_A_TWO_BLOCKS 15
/* But no fewer than one for so many blocks, to keep searches short. */
#define BLOCKS_A_CHUNK 12
#define CLASS_MIN ((int64_t)1 << 20)

struct maker {
    struct form *form;
    int nodes;
    bool lists, parts, unfit;   /* unfit: no family serves this tree */
    bool flat;                  /* what lies below the outer strides becomes one list of blocks */
    struct reason *why;
};

static int64_t lowest_bit(int64_t n)
{
    return (int64_t)((uint64_t)n & -(uint64_t)n);
}

/* ---- numbers ---- */

/* The first of n new numbers, -1 when there are not so many left. */
static int numbers_take(struct form *f, int n)
{
    if (f->numbers + n > GEN_NUMBERS_MAX) return -1;
    f->numbers += n;
    return f->numbers - n;
}

static void number_set(struct form *f, int i, enum form_unit unit, int64_t value)
{
    f->number[i].unit = unit;
    f->number[i].value = value;
}

/* A size that follows from a list's length. Past the last number it is a constant after all: correct, less shared. */
static void size_is_number(struct form *f, struct form_node *n)
{
    n->varies = true;
    n->size_number = numbers_take(f, 2);
    if (n->size_number < 0) return;
    number_set(f, n->size_number, FORM_WORDS, n->size);
    number_set(f, n->size_number + 1, FORM_INVERSE, n->size);
}

/* Room in device memory, whose place is number i; `before` bytes lie before that. */
static void list_place(struct form *f, int i, int64_t before, int64_t bytes)
{
    f->list_bytes += ((size_t)before + 15) & ~(size_t)15;
    number_set(f, i, FORM_RAW, (int64_t)f->list_bytes);
    f->list_bytes += ((size_t)bytes + 15) & ~(size_t)15;
}

static void list_place_offsets(struct form *f, int i, const struct form_code *c, int64_t count)
{
    list_place(f, i, form_code_bases(c, count), count * c->entry);
}

/* ---- nodes ---- */

static struct form_node *make_node(struct maker *m, const struct tree *t);

static struct form_node *node_new(struct maker *m, enum form_kind kind, const struct tree *t)
{
    struct form_node *n = calloc(1, sizeof *n);
    if (!n) {
        reason_memory(m->why);
        return NULL;
    }
    if (++m->nodes > NODES_MAX) m->unfit = true;
    *n = (struct form_node){.kind = kind, .tree = t, .off = t->off, .size = t->size, .size_number = -1, .number = -1};
    return n;
}

static void node_free(struct form_node *n)
{
    if (!n) return;
    for (int i = 0; i < n->count; i++) node_free(n->child[i]);
    free(n);
}

/* False without memory. */
static bool add_child(struct maker *m, struct form_node *n, const struct tree *t)
{
    struct form_node *c = make_node(m, t);
    if (c) n->child[n->count++] = c;
    return c;
}

static void make_table(struct maker *m, struct form_node *n)
{
    const struct tree *t = n->tree;
    struct form_offsets offsets = {0};
    int64_t bits = WORD_MAX;
    for (int64_t i = 0; i < t->count; i++) {
        bits |= t->at[i];
        form_offsets_add(&offsets, t->at[i]);
    }
    n->unit = (int)lowest_bit(bits);
    n->code = form_code_of(&offsets, n->unit);
    n->number = numbers_take(m->form, 1);
    if (n->number < 0)
        m->unfit = true;
    else
        list_place_offsets(m->form, n->number, n->code, t->count);
    m->lists = true;
}

/* What a list of blocks needs to know of its blocks. */
struct survey {
    int64_t off, most, bits;
    struct form_offsets where;
};

/* `at` is an offset within the node. */
static inline int survey_block(struct survey *s, int64_t at, int64_t packed, int64_t len)
{
    int64_t where;
    if (__builtin_sub_overflow(at, packed, &where)) return 1;
    s->bits |= at | packed | len;
    form_offsets_add(&s->where, where);
    return s->where.count > s->most;
}

static int survey_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct survey *s = arg;
    return survey_block(s, user - s->off, packed, len);
}

/* Blocks that are runs as they are need no walk. */
static int survey_list(struct survey *s, const struct tree *t)
{
    struct survey own = *s;   /* not read and written each time */
    int64_t packed = 0;
    int unfit = 0;
    for (const struct tree_block *b = t->block, *end = b + t->count; b < end && !unfit; packed += (b++)->len)
        unfit = survey_block(&own, b->off, packed, b->len);
    *s = own;
    return unfit;
}

/* Returns 0, or not 0 if the blocks are too many, or too far apart. */
static int survey(struct survey *s, const struct tree *t)
{
    if (t->kind == TREE_BLOCKS && !t->touching) return survey_list(s, t);
    return tree_walk(t, 1, 0, 0, t->size, survey_run, s);
}

/* How the low bits of a block's start are written, in the order in which they are tried: `within` 7.5 bytes a block in
 * all, the quickest to read first; then the shortest. */
static const struct {
    struct form_code code;
    bool within;
} starts[] = {
    {{.entry = 2}, true},
    {{.entry = 4}, true},
    {{.base = 1, .entry = 2, .scale = 16}, true},
    {{.entry = 2}, false},
    {{.base = 1, .entry = 2, .scale = 16}, false},
    {{.entry = 4}, false},
};
#define STARTS (int)(sizeof starts / sizeof *starts)

/* The most entries that the table of chunks may have with starts[i]; 0 where it would be too short. */
static int64_t chunks_most(const struct form_node *n, int i)
{
    if (!starts[i].within) return CHUNKS_MIN;
    int64_t taken = form_code_bytes(&starts[i].code, n->blocks) + form_code_bytes(n->code, n->blocks);
    int64_t left = (BYTES_A_TWO_BLOCKS * n->blocks / 2 + CHUNKS_MIN * 4 - taken) / 4;
    if (left < n->blocks / BLOCKS_A_CHUNK) return 0;
    int64_t wanted = n->blocks / 2 > CHUNKS_MIN ? n->blocks / 2 : CHUNKS_MIN;
    return left < wanted ? left : wanted;
}

/* Sets start and chunks. Returns the least shift for which the table of chunks is not too long, or -1. */
static int64_t choose_starts(struct form_node *n, int64_t units)
{
    for (int i = 0; i < STARTS; i++) {
        int64_t most = chunks_most(n, i), shift = 0;
        n->start = &starts[i].code;
        while (most > 2 && (units >> shift) + 2 > most) shift++;
        n->chunks = (units >> shift) + 2;
        /* The bits must tell a chunk's first unit from the next one's. */
        if (most > 2 && shift < 8 * form_start_bytes(n)) return shift;
    }
    return -1;
}

static void place_blocks(struct form *f, const struct form_node *n, int64_t shift)
{
    list_place(f, n->number + FORM_AT, 0, n->chunks * 4);
    list_place_offsets(f, n->number + FORM_AT_ENTRIES, n->code, n->blocks);
    list_place_offsets(f, n->number + FORM_AT_STARTS, n->start, n->blocks);
    number_set(f, n->number + FORM_SHIFT, FORM_RAW, shift);
}

/* The node's own offset stays out of its list. */
static struct form_node *make_blocks(struct maker *m, const struct tree *t)
{
    struct form_node *n = node_new(m, FORM_BLOCKS, t);
    struct survey s = {.off = t->off, .most = t->count * BLOCKS_A_PART, .bits = WORD_MAX};
    if (!n) return NULL;
    if (s.most < BLOCKS_MIN) s.most = BLOCKS_MIN;
    m->unfit |= survey(&s, t) != 0;
    n->unit = (int)lowest_bit(s.bits);
    n->code = form_code_of(&s.where, n->unit);
    n->blocks = s.where.count;
    int64_t shift = choose_starts(n, t->size / n->unit);
    n->number = numbers_take(m->form, FORM_LIST_NUMBERS);
    m->lists = true;
    if (n->number < 0 || shift < 0 || n->blocks > INT32_MAX)
        m->unfit = true;
    else
        place_blocks(m->form, n, shift);
    return n;
}

static enum form_kind kind_of(const struct tree *t)
{
    if (t->size == 0 || t->kind == TREE_DENSE) return FORM_DENSE;
    if (t->kind == TREE_STRIDE) return FORM_STRIDE;
    if (t->kind == TREE_INDEX) return t->count > INDEX_MAX ? FORM_TABLE : FORM_INDEX;
    if (t->kind == TREE_BLOCKS) return FORM_BLOCKS;
    return t->count > PARTS_MAX ? FORM_BLOCKS : FORM_SEQ;
}

static bool make_children(struct maker *m, struct form_node *n)
{
    const struct tree *t = n->tree;
    bool good = true;
    if (n->kind == FORM_SEQ) {
        m->parts = true;
        for (int64_t i = 0; i < t->count && good && !m->unfit; i++)
            if (t->part[i]->size > 0) good = add_child(m, n, t->part[i]);
    } else if (n->kind != FORM_DENSE) {
        good = add_child(m, n, t->child);
    }
    return good;
}

/* NULL without memory. */
static struct form_node *make_node(struct maker *m, const struct tree *t)
{
    enum form_kind kind = kind_of(t);
    if (m->flat && kind != FORM_DENSE && kind != FORM_STRIDE) kind = FORM_BLOCKS;
    bool varies = kind == FORM_TABLE || kind == FORM_BLOCKS;
    struct form_node *n = kind == FORM_BLOCKS ? make_blocks(m, t) : node_new(m, kind, t);
    if (!n || kind == FORM_BLOCKS) {
        if (n) size_is_number(m->form, n);
        return n;
    }
    if (!make_children(m, n)) {
        node_free(n);
        return NULL;
    }
    if (kind == FORM_INDEX) m->parts = true;
    if (kind == FORM_TABLE) make_table(m, n);
    for (int i = 0; i < n->count; i++) varies |= n->child[i]->varies;
    if (varies) size_is_number(m->form, n);
    return n;
}

/* ---- forms ---- */

static void unfit(struct form *f)
{
    node_free(f->root);
    f->root = NULL;
    f->numbers = 0;
    f->list_bytes = 0;
}

static enum gen_family family_of(const struct maker *m, const struct tree *t)
{
    if (!m->form->root) return GEN_GENERIC;
    if (m->lists) return m->parts ? GEN_MIXED : GEN_INDEXED;
    if (m->parts) return GEN_STRUCT;
    return t->kind == TREE_DENSE ? GEN_CONTIGUOUS : GEN_STRIDED;
}

static int64_t class_of(int64_t bytes)
{
    int64_t class = CLASS_MIN;
    while (class <= bytes / 4) class *= 4;
    return bytes > INT32_MAX && class < (int64_t)1 << 32 ? (int64_t)1 << 32 : class;
}

struct form *form_of(const struct tree *t, struct reason *why)
{
    struct form *f = calloc(1, sizeof *f);
    struct maker m = {.form = f, .why = why};
    if (!f) return reason_memory(why);
    f->word = tree_word(t, WORD_MAX);
    f->root = make_node(&m, t);
    if (!f->root) {
        free(f);
        return NULL;
    }
    /* A tree of too many nodes may still be a moderate number of blocks. Strides stay outside: a root's may go on. */
    if (m.unfit) {
        unfit(f);
        m = (struct maker){.form = f, .flat = true, .why = why};
        f->root = make_node(&m, t);
    }
    if (m.unfit) unfit(f);
    f->family = family_of(&m, t);
    f->plan_bytes = f->list_bytes ? class_of(t->size) : t->size;
    f->signature = form_text(f, t, why);
    if (f->signature) return f;
    form_free(f);
    return NULL;
}

void form_free(struct form *f)
{
    if (!f) return;
    node_free(f->root);
    free(f->signature);
    free(f);
}

const char *form_signature(const struct form *f)
{
    return f->signature;
}

enum gen_family form_family(const struct form *f)
{
    return f->family;
}

bool form_has_lists(const struct form *f)
{
    return f->list_bytes > 0;
}

int form_link_numbers(const struct form *from, const struct form *to)
{
    return from->numbers > to->numbers ? from->numbers : to->numbers;
}

/* The inverse d' = floor((2^64 - 1) / d) + 1 of d >= 2 has floor(n / d) = floor(n * d' / 2^64) for all n, d below 2^32
 * (Lemire, Kaser, Kurz, "Faster remainder by direct computation", 2019). Kernels that count in 64 bits divide. */
void form_numbers(const struct form *f, int word, uint64_t number[GEN_NUMBERS_MAX])
{
    for (int i = 0; i < f->numbers; i++) {
        uint64_t value = (uint64_t)f->number[i].value;
        if (f->number[i].unit != FORM_RAW) value /= (uint64_t)word;
        number[i] = f->number[i].unit == FORM_INVERSE ? (value > 1 ? UINT64_MAX / value + 1 : 0) : value;
    }
}
