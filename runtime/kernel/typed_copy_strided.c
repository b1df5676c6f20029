/* typed_copy_strided.c: describes two chains of strides as one nest: common counts, and each side's steps.
 *
 * A side is a list of levels, innermost first. Within a level, `unit` packed bytes later lie `step` bytes later, up
 * to the next level's unit. The nest has a level where either side has one, and its units must divide each other.
 * That holds for sides with equal blocks, and for packed memory (one level) with any side. */
#include "../../gen/hash.h"
#include "base/spinlock.h"
#include "typed_copy_internal.h"

#define LEVELS_MAX 16
#define WORD_MAX 16
#define TAIL_WORTH 16   /* words; only a longer nest gets a second link for its tail */

struct level {
    int64_t unit, step;
};
struct side {
    uint64_t at;
    int n;
    struct level level[LEVELS_MAX];
};
struct nest {
    uint64_t at[2];
    int n;
    int64_t unit[LEVELS_MAX + 1], step[LEVELS_MAX + 1][2];
};

/* Returns true if the level continues the inner one. */
static bool is_continued(int64_t inner_unit, int64_t inner_step, int64_t unit, int64_t step)
{
    int64_t end;
    return !__builtin_mul_overflow(unit / inner_unit, inner_step, &end) && end == step;
}

/* Adds a level outside the existing ones. A level with count 1 is merged. */
static bool push(struct side *s, int64_t unit, int64_t step)
{
    if (s->n && s->level[s->n - 1].unit == unit) s->n--;
    if (s->n == LEVELS_MAX) return false;
    if (!s->n || !is_continued(s->level[s->n - 1].unit, s->level[s->n - 1].step, unit, step))
        s->level[s->n++] = (struct level){unit, step};
    return true;
}

/* Adds the strides of t, innermost first. Skips levels past the job's last byte. */
static bool push_tree(struct side *s, const struct tree *t, int64_t bytes)
{
    if (t->kind == TREE_DENSE) return push(s, 1, 1);
    if (t->kind != TREE_STRIDE || t->child->size == 0) return false;
    s->at += (uint64_t)t->child->off;
    if (!push_tree(s, t->child, bytes)) return false;
    return t->child->size >= bytes || push(s, t->child->size, t->step);
}

static bool read_side(struct side *s, const struct typed_copy_side *side, int64_t bytes)
{
    s->at = side->user;
    s->n = 0;
    if (!side->tree) return push(s, 1, 1);
    if (!push_tree(s, side->tree, bytes)) return false;
    return side->tree->size >= bytes || push(s, side->tree->size, side->extent);
}

/* Sets the step of `unit`, a multiple of the k-th level's unit. Returns false if it is no multiple. */
static bool step_of(const struct side *s, int k, int64_t unit, int64_t *step)
{
    return unit % s->level[k].unit == 0 && !__builtin_mul_overflow(unit / s->level[k].unit, s->level[k].step, step);
}

static bool add_level(struct nest *n, int64_t unit, const int64_t step[2])
{
    int last = n->n - 1;
    if (last >= 0 && unit % n->unit[last]) return false;
    if (last >= 0 && is_continued(n->unit[last], n->step[last][0], unit, step[0]) &&
        is_continued(n->unit[last], n->step[last][1], unit, step[1]))
        return true;
    n->unit[n->n] = unit;
    n->step[n->n][0] = step[0], n->step[n->n][1] = step[1];
    return ++n->n <= LEVELS_MAX;
}

/* Merges both sides' levels in the order of their units. */
static bool merge(struct nest *n, const struct side s[2])
{
    int next[2] = {0, 0};
    n->n = 0;
    while (next[0] < s[0].n || next[1] < s[1].n) {
        int64_t unit = INT64_MAX, step[2];
        for (int i = 0; i < 2; i++)
            if (next[i] < s[i].n && s[i].level[next[i]].unit < unit) unit = s[i].level[next[i]].unit;
        for (int i = 0; i < 2; i++) {
            if (next[i] < s[i].n && s[i].level[next[i]].unit == unit) next[i]++;
            /* Both sides begin with a unit of one byte. */
            if (!step_of(&s[i], next[i] - 1, unit, &step[i])) return false;
        }
        if (!add_level(n, unit, step)) return false;
    }
    return true;
}

/* Returns the widest word that addresses, units and steps allow. */
static int word_of(const struct nest *n)
{
    uint64_t bits = WORD_MAX | n->at[0] | n->at[1];
    if (n->step[0][0] != 1 || n->step[0][1] != 1) return 1;
    for (int l = 1; l < n->n; l++) bits |= (uint64_t)(n->unit[l] | n->step[l][0] | n->step[l][1]);
    return (int)(bits & -bits);
}

/* Sets a divisor: x / count for x < 2^31. With l = ceil(log2 count) it is floor(x * m / 2^(31 + l)), m = floor(2^(31
 * + l) / count) + 1, because x * (m * count - 2^(31 + l)) < 2^(31 + l) (Granlund and Montgomery, 1994). */
static int set_count(struct stridec_link *k, int l, uint32_t count)
{
    int log = 32 - __builtin_clz(count - 1);
    k->count[l] = count;
    k->magic[l] = (uint32_t)((UINT64_C(1) << (31 + log)) / count + 1);
    return log - 1;
}

/* Sets a level's steps in words. `digits` is its largest count; *span is the reach of all levels. */
static bool set_steps(struct stridec_link *k, int l, const int64_t step[2], int word, int64_t digits, int64_t span[2])
{
    for (int i = 0; i < 2; i++) {
        int64_t words = step[i] / word, most;
        if (words > INT32_MAX || words < -INT32_MAX) return false;
        if (__builtin_mul_overflow(words < 0 ? -words : words, digits, &most) || most > INT32_MAX) return false;
        if ((span[i] += most) > INT32_MAX) return false;
        k->step[l][i] = (int32_t)words;
    }
    return true;
}

static bool fill(struct stridec_link *k, const struct nest *n, int word, int64_t begin, int64_t end)
{
    /* A word replaces the innermost level if it covers that level. */
    int skip = n->n > 1 && n->unit[1] == word, levels = n->n - skip;
    int64_t span[2] = {0, 0};
    if (levels > GEN_LINK_LEVELS || end / word > INT32_MAX) return false;
    *k = (struct stridec_link){.from = n->at[0], .to = n->at[1]};
    k->start = (uint32_t)(begin / word);
    k->words = (uint32_t)((end - begin) / word);
    k->code = (uint32_t)levels << 20 | (uint32_t)__builtin_ctz((unsigned)word) << 23;
    for (int l = 0; l < levels; l++) {
        int at = l + skip;
        int64_t unit = at ? n->unit[at] : word, digits = end / unit;
        const int64_t one[2] = {n->step[0][0] * word, n->step[0][1] * word};
        if (l + 1 < levels) {
            digits = n->unit[at + 1] / unit;
            k->code |= (uint32_t)set_count(k, l, (uint32_t)digits) << (5 * l);
        }
        if (!set_steps(k, l, at ? n->step[at] : one, word, digits, span)) return false;
    }
    return true;
}

/* Returns the widest word that also divides the rest. */
static int tail_word(int word, int64_t rest)
{
    int64_t bits = rest | word;
    return (int)(bits & -bits);
}

static int make(const struct typed_copy_job *job, int64_t begin, struct stridec_link out[NEST_LINKS])
{
    struct side s[2];
    struct nest n;
    if (!read_side(&s[0], &job->from, job->bytes) || !read_side(&s[1], &job->to, job->bytes) || !merge(&n, s)) return 0;
    n.at[0] = s[0].at, n.at[1] = s[1].at;
    int word = tail_word(word_of(&n), begin), tail = tail_word(word, job->bytes);
    int64_t whole = job->bytes - job->bytes % word;
    if (tail == word || job->bytes - begin < TAIL_WORTH * word) return fill(out, &n, tail, begin, job->bytes);
    return fill(out, &n, word, begin, whole) && fill(out + 1, &n, tail, whole, job->bytes) ? 2 : 0;
}

/*
 * Cache of recent nests: exchanges repeat with equal layouts, possibly at other addresses.
 */

#define NEST_CACHE_BITS 8

struct nest_key {
    const struct tree *tree[2];   /* in the cache with a reference, so that no other tree gets its address */
    int64_t extent[2], begin, bytes;
    uint64_t aligned;             /* both sides' addresses modulo WORD_MAX */
};
static struct nest_cache_entry {
    struct spinlock spin_lock;
    int n;                        /* number of links, with addresses relative to the sides'; 0: empty entry */
    struct nest_key key;
    struct stridec_link links[NEST_LINKS];
} nest_cache[1 << NEST_CACHE_BITS];

static struct nest_key nest_key_of(const struct typed_copy_job *job, int64_t begin)
{
    const struct typed_copy_side *from = &job->from, *to = &job->to;
    return (struct nest_key){.tree = {from->tree, to->tree},
                             .extent = {from->tree ? from->extent : 0, to->tree ? to->extent : 0},
                             .begin = begin,
                             .bytes = job->bytes,
                             .aligned = from->user % WORD_MAX * WORD_MAX + to->user % WORD_MAX};
}

static struct nest_cache_entry *nest_cache_slot(const struct nest_key *k)
{
    uint64_t mixed = ((uint64_t)(uintptr_t)k->tree[0] * 31 + (uint64_t)(uintptr_t)k->tree[1]) * 31;
    mixed += (uint64_t)(k->bytes + k->begin * 31);
    return &nest_cache[hash_place(mixed, NEST_CACHE_BITS)];
}

static bool same(const struct nest_key *a, const struct nest_key *b)
{
    return a->tree[0] == b->tree[0] && a->tree[1] == b->tree[1] && a->extent[0] == b->extent[0] &&
           a->extent[1] == b->extent[1] && a->begin == b->begin && a->bytes == b->bytes && a->aligned == b->aligned;
}

static int nest_cache_get(struct nest_cache_entry *r, const struct nest_key *key, struct stridec_link out[NEST_LINKS])
{
    spinlock_lock(&r->spin_lock);
    int n = same(&r->key, key) ? r->n : 0;
    for (int i = 0; i < n; i++) out[i] = r->links[i];
    spinlock_unlock(&r->spin_lock);
    return n;
}

/* Stores an entry and releases the references of the previous one. */
static void nest_cache_put(struct nest_cache_entry *r, const struct nest_key *key, int n,
                           const struct stridec_link links[NEST_LINKS])
{
    struct tree *before[2];
    for (int i = 0; i < 2; i++)
        if (key->tree[i]) tree_ref((struct tree *)(uintptr_t)key->tree[i]);
    spinlock_lock(&r->spin_lock);
    for (int i = 0; i < 2; i++) before[i] = (struct tree *)(uintptr_t)r->key.tree[i];
    for (int i = 0; i < n; i++) r->links[i] = links[i];
    r->key = *key, r->n = n;
    spinlock_unlock(&r->spin_lock);
    for (int i = 0; i < 2; i++) tree_unref(before[i]);
}

void typed_copy_nest_forget(void)
{
    const struct nest_key none = {.bytes = 0};
    for (int i = 0; i < 1 << NEST_CACHE_BITS; i++) nest_cache_put(&nest_cache[i], &none, 0, NULL);
}

int typed_copy_nest(const struct typed_copy_job *job, int64_t begin, struct stridec_link out[NEST_LINKS])
{
    struct nest_key key = nest_key_of(job, begin);
    struct nest_cache_entry *r = nest_cache_slot(&key);
    int n = nest_cache_get(r, &key, out);
    for (int i = 0; i < n; i++) out[i].from += job->from.user, out[i].to += job->to.user;
    if (n || !(n = make(job, begin, out))) return n;
    struct stridec_link links[NEST_LINKS];
    for (int i = 0; i < n; i++) {
        links[i] = out[i];
        links[i].from -= job->from.user, links[i].to -= job->to.user;
    }
    nest_cache_put(r, &key, n, links);
    return n;
}
