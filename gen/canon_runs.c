/* canon_runs.c: the canonical form of a list of contiguous runs. It depends on the runs alone, so that all
 * trees of one byte sequence end alike. */
#include <stdlib.h>
#include <string.h>

#include "canon.h"
#include "reason.h"
#include "tree_inner.h"

/* Maximal runs: none begins where the one before it ends. `bytes` is the sum of their lengths. */
struct runs {
    const struct tree_block *run;
    int64_t count, bytes;
    const struct tree *list;   /* blocks whose list `run` is; NULL: none */
};

/* Runs under construction. */
struct growing {
    struct tree_block *run;
    int64_t count, room;
};

int64_t canon_leaves(const struct tree *t, int64_t most)
{
    int64_t sum = t->kind == TREE_DENSE ? 1 : t->kind == TREE_BLOCKS ? t->count : 0;
    if (t->child) {
        int64_t each = canon_leaves(t->child, most / t->count);
        return each > most / t->count ? most + 1 : each * t->count;
    }
    for (int64_t i = 0; t->part && i < t->count && sum <= most; i++)
        sum += canon_leaves(t->part[i], most - sum);
    return sum <= most ? sum : most + 1;
}

static int add_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct growing *r = arg;
    (void)packed;
    if (r->count == r->room) {
        int64_t room = r->room + r->room / 2 + 64;
        struct tree_block *wider = realloc(r->run, (size_t)room * sizeof *wider);
        if (!wider)
            return 1;
        r->run = wider, r->room = room;
    }
    r->run[r->count++] = (struct tree_block){user, len};
    return 0;
}

static bool all_alike(const struct runs *r)
{
    for (int64_t i = 1; i < r->count; i++) {
        if (r->run[i].len != r->run[0].len)
            return false;
    }
    return true;
}

/* ---- periods ---- */

/* Runs [i, i + n) lie as [j, j + n) do, `by` apart; their lengths are equal but for the last one's. */
static bool same_runs(const struct tree_block *i, const struct tree_block *j, int64_t n, int64_t by)
{
    for (int64_t k = 0; k < n; k++) {
        if (wrap_sub(j[k].off, i[k].off) != by || (k < n - 1 && i[k].len != j[k].len))
            return false;
    }
    return true;
}

/* Copies of the first p runs, 0 if there are none. */
static int64_t plain_period(const struct runs *r)
{
    int64_t n = r->count;
    for (int64_t p = 1; p <= n / 2; p = canon_next_divisor(n, p)) {
        if (r->run[n - 1].len == r->run[n - 1 - p].len &&
            same_runs(r->run, r->run + p, n - p, wrap_sub(r->run[p].off, r->run[0].off)))
            return p;
    }
    return 0;
}

/* Copies each of which begins where the one before it ended, so that one run spans each junction: the last run
 * of a copy with the first of the next. k runs begin in a copy; 0 if there are none. */
static int64_t joined_period(const struct runs *r)
{
    int64_t n = r->count - 1, head = r->run[0].len, tail = r->run[n].len;
    for (int64_t k = 1; k <= n / 2; k = canon_next_divisor(n, k)) {
        if (r->run[k].len == head + tail && r->run[n - k].len == head + tail &&
            same_runs(r->run + 1, r->run + 1 + k, n - k,
                      wrap_add(wrap_sub(r->run[k].off, r->run[0].off), tail)))
            return k;
    }
    return 0;
}

static struct tree *runs_tree(const struct runs *r, struct canon_work *w);

/* The first `bytes` bytes alone. */
static struct tree *prefix_tree(const struct runs *r, int64_t bytes, struct canon_work *w)
{
    int64_t left = bytes, count = 0;
    while (left > r->run[count].len)
        left -= r->run[count++].len;
    struct tree_block *first = malloc((size_t)++count * sizeof *first);
    if (!first)
        return reason_memory(w->why);
    memcpy(first, r->run, (size_t)count * sizeof *first);
    first[count - 1].len = left;
    struct tree *t = runs_tree(&(struct runs){first, count, bytes, NULL}, w);
    free(first);
    return t;
}

static int64_t bytes_of(const struct runs *r, int64_t count)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < count; i++)
        bytes += r->run[i].len;
    return bytes;
}

/* The copies that the runs are, if they are: the least in bytes. False if there are none. */
static bool as_copies(const struct runs *r, struct tree **t, struct canon_work *w)
{
    int64_t p = plain_period(r), k = joined_period(r), tail = r->run[r->count - 1].len;
    int64_t plain = p ? bytes_of(r, p) : INT64_MAX, joined = k ? bytes_of(r, k) + tail : INT64_MAX;
    int64_t bytes = plain < joined ? plain : joined, step;
    if (p == 0 && k == 0)
        return false;
    step = plain < joined ? wrap_sub(r->run[p].off, r->run[0].off)
                          : wrap_add(wrap_sub(r->run[k].off, r->run[0].off), tail);
    canon_note(w, CANON_RUNS_COPIES, r->bytes / bytes, bytes, step);
    *t = canon_settle(tree_stride(0, r->bytes / bytes, step, prefix_tree(r, bytes, w), w->why), w);
    return true;
}

/* ---- groups ---- */

/* A place in the packed bytes. */
struct cursor {
    const struct tree_block *run;
    int64_t done;   /* bytes of that run */
};

static int64_t cursor_off(const struct cursor *c)
{
    return wrap_add(c->run->off, c->done);
}

static int64_t cursor_left(const struct cursor *c)
{
    return c->run->len - c->done;
}

static void cursor_move(struct cursor *c, int64_t bytes)
{
    c->done += bytes;
    if (c->done == c->run->len)
        c->run++, c->done = 0;
}

/* True if the next `bytes` bytes lie as the first ones do; c moves past them. */
static bool same_block(const struct runs *r, struct cursor *c, int64_t bytes)
{
    struct cursor first = {r->run, 0};
    int64_t by = wrap_sub(cursor_off(c), r->run->off);
    while (bytes > 0) {
        int64_t len = cursor_left(c) < cursor_left(&first) ? cursor_left(c) : cursor_left(&first);
        len = len < bytes ? len : bytes;
        if (wrap_sub(cursor_off(c), cursor_off(&first)) != by)
            return false;
        cursor_move(c, len), cursor_move(&first, len);
        bytes -= len;
    }
    return true;
}

/* Where the blocks of `bytes` bytes begin, from the first one on, if all are alike; else NULL. */
static int64_t *block_offsets(const struct runs *r, int64_t bytes, struct canon_work *w)
{
    struct cursor c = {r->run, 0};
    int64_t count = r->bytes / bytes, i = 0;
    while (i < count && same_block(r, &c, bytes))
        i++;
    if (i < count)
        return NULL;
    int64_t *at = malloc((size_t)count * sizeof *at);
    if (!at)
        return reason_memory(w->why);
    c = (struct cursor){r->run, 0};
    for (i = 0; i < count; i++) {
        at[i] = wrap_sub(cursor_off(&c), r->run->off);
        same_block(r, &c, bytes);
    }
    return at;
}

/* The greatest block of two runs or more that all of the sequence is made of. A block ends with a run, or within
 * one where the next block begins, whose first run is as long as the first of all. False if there is none. What no
 * block has is seen without branches: the processor would guess them wrong. */
static bool as_blocks(const struct runs *r, struct tree **t, struct canon_work *w)
{
    int64_t k = 0, end = 0, head = r->run[0].len;   /* runs [0, k) have `end` bytes */
    int64_t gap = wrap_sub(r->run[1].off, r->run[0].off);
    while (end <= r->bytes / 2)
        end += r->run[k++].len;
    for (; k > 1; end -= r->run[--k].len) {
        /* The second block's second run has to lie behind its first as that of the first block does. */
        const struct tree_block *last = &r->run[k - 1];
        bool within = last->len > head, behind = k < r->count;
        if (k < r->count) {
            within &= wrap_sub(last[1].off, wrap_add(last->off, last->len - head)) == gap;
            behind &= last[1].len == head;
        }
        if (k + 1 < r->count)
            behind &= wrap_sub(last[2].off, last[1].off) == gap;
        if (!(within | behind))
            continue;
        for (int j = 0; j < 2; j++) {
            int64_t bytes = j ? end - head : end;
            if (!(j ? within : behind) || bytes > r->bytes / 2 || r->bytes % bytes != 0)
                continue;
            int64_t *at = block_offsets(r, bytes, w);
            if (!at)
                continue;
            canon_note(w, CANON_RUNS_BLOCKS, r->bytes / bytes, bytes, 0);
            struct tree *block = prefix_tree(r, bytes, w), *x = NULL;
            if (block)
                x = tree_shift(block, -block->off, w->why);
            tree_unref(block);
            struct tree *list = x ? canon_list(x, r->bytes / bytes, at, false, w) : NULL;
            *t = list ? tree_shift(list, r->run->off, w->why) : NULL;
            tree_unref(list);
            free(at);
            return true;
        }
    }
    return false;
}

/* ---- seq ---- */

/* Nothing is regular: the runs one by one. Returns r->list where that is just this. */
static struct tree *flat_seq(const struct runs *r, struct canon_work *w)
{
    canon_note(w, CANON_RUNS_SEQ, r->count, 0, 0);
    if (r->list)
        return tree_ref((struct tree *)r->list);
    struct tree_block *block = tree_blocks_room(r->count, w->why);
    for (int64_t i = 0; block && i < r->count; i++)
        block[i] = (struct tree_block){wrap_sub(r->run[i].off, r->run->off), r->run[i].len};
    return block ? tree_blocks(r->run->off, r->count, block, w->why) : NULL;
}

static struct item *run_items(const struct runs *r, struct canon_work *w)
{
    struct item *item = malloc((size_t)r->count * sizeof *item);
    if (!item)
        return reason_memory(w->why);
    for (int64_t i = 0; i < r->count; i++)
        item[i] = (struct item){NULL, r->run[i].off, r->run[i].len};
    return item;
}

/* True if the length changes seldom. */
static bool few_lengths(const struct runs *r)
{
    int64_t count = 1;
    for (int64_t i = 1; i < r->count && count <= r->count / 4; i++)
        count += r->run[i].len != r->run[i - 1].len;
    return count <= r->count / 4;
}

static struct tree *as_seq(const struct runs *r, struct canon_work *w)
{
    bool even = canon_progresses(r->count, &r->run->off, &r->run->len, 2), lists = few_lengths(r);
    struct item *item = even || lists ? run_items(r, w) : NULL, *found = NULL;
    struct tree *t = NULL;
    if (!even && !lists)
        return flat_seq(r, w);
    if (!item)
        return NULL;
    int64_t n = even ? canon_items(r->count, item, 2, &found, w) : 0, held = r->count;
    if (n > 0)
        free(item), item = found, held = n;
    else if (n == 0 && lists)
        n = canon_items_gather(r->count, item, true, w);
    if (n > 0)
        canon_note(w, item == found ? CANON_RUNS_STRIDES : CANON_RUNS_LISTS, r->count, n, 0);
    t = n > 0 ? canon_items_seq(n, item, w) : n == 0 ? flat_seq(r, w) : NULL;
    canon_items_free(held, item);
    return t;
}

/* ---- all together ---- */

/* All runs are of one length: only their offsets matter. */
static struct tree *as_offsets(const struct runs *r, struct canon_work *w)
{
    int64_t *at = malloc((size_t)r->count * sizeof *at), off = r->run->off;
    if (!at)
        return reason_memory(w->why);
    for (int64_t i = 0; i < r->count; i++)
        at[i] = wrap_sub(r->run[i].off, off);
    canon_note(w, CANON_RUNS_ALIKE, r->count, r->run->len, 0);
    struct tree *x = tree_dense(0, r->run->len, w->why);
    struct tree *t = x ? canon_offsets(x, r->count, at, false, w) : NULL;
    struct tree *moved = t ? tree_shift(t, off, w->why) : NULL;
    free(at);
    tree_unref(t);
    return moved;
}

static struct tree *runs_tree(const struct runs *r, struct canon_work *w)
{
    struct tree *t = NULL;
    if (r->count == 1) {
        canon_note(w, CANON_RUNS_ONE, r->run->len, 0, 0);
        return tree_dense(r->run->off, r->run->len, w->why);
    }
    if (all_alike(r))
        return as_offsets(r, w);
    if (as_copies(r, &t, w) || as_blocks(r, &t, w))
        return t;
    return as_seq(r, w);
}

/* True if the blocks are maximal runs, and the first lies at 0: then they need not be copied. */
static bool are_runs(const struct tree *t)
{
    return t->kind == TREE_BLOCKS && t->block->off == 0 && !t->touching;
}

/* The form of blocks that are runs as they are: t itself where nothing is regular. */
static struct tree *listed_runs(const struct tree *t, struct canon_work *w)
{
    canon_note(w, CANON_RUNS, t->count, t->count, t->size);
    struct tree *made = runs_tree(&(struct runs){t->block, t->count, t->size, t}, w), *moved;
    if (!made || made == t)
        return made;
    moved = tree_shift(made, t->off, w->why);
    tree_unref(made);
    return moved;
}

struct tree *canon_runs(const struct tree *t, struct canon_work *w)
{
    struct growing g = {0};
    struct tree *made = NULL;
    int64_t span;
    if (__builtin_sub_overflow(t->high, t->low, &span))
        return reason_overflow(w->why, "a distance between offsets");
    if (are_runs(t))
        return listed_runs(t, w);
    if (tree_walk(t, 1, 0, 0, t->size, add_run, &g) == 0) {
        canon_note(w, CANON_RUNS, t->count, g.count, t->size);
        made = runs_tree(&(struct runs){g.run, g.count, t->size, NULL}, w);
    } else {
        reason_memory(w->why);
    }
    free(g.run);
    return made;
}
