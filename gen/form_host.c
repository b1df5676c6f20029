/* form_host.c: a form's long lists for code in host memory (host.lua): plain arrays, of 4 or 8 bytes an entry as the form's
 * signature tells, in the form's units. An index is its offsets; a list of blocks is for each block where it lies less its
 * place in the packed stream, and that place, and at its end the place where the next block would be. */
#include "form.h"
#include "reason.h"
#include <stdlib.h>
#include <string.h>

#define PADDING 32   /* entries: host.lua fetches so many ahead */

/* By the rules of host.lua's at_type and start_type. */
static int at_bytes(const struct form_node *n)
{
    bool narrow = (n->code->base == 4 && n->code->entry == 2) || (!n->code->base && n->code->entry == 4);
    return narrow ? 4 : 8;
}

static int start_bytes(const struct form *f, const struct form_node *n)
{
    return f->plan_bytes / n->unit < (int64_t)1 << 29 ? 4 : 8;
}

static int64_t entries(const struct form_node *n)
{
    return n->kind == FORM_TABLE ? n->tree->count : n->blocks;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static size_t array_bytes(const struct form_node *n, int entry)
{
    return aligned((size_t)(entries(n) + PADDING) * (size_t)entry);
}

static bool is_list(const struct form_node *n)
{
    return n->kind == FORM_TABLE || n->kind == FORM_BLOCKS;
}

struct fill {
    const struct form *form;
    struct stridec_host_list *list;   /* the next one; NULL: only counted */
    char *room;
    size_t lists, bytes;
};

static void put(const void *array, int entry, int64_t i, int64_t value)
{
    form_put((unsigned char *)(uintptr_t)array + i * entry, entry, value);
}

struct run_fill {
    const struct form_node *node;
    const struct stridec_host_list *list;
    int at, start;
    int64_t i;
};

static int fill_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct run_fill *r = arg;
    (void)len;
    put(r->list->at, r->at, r->i, (user - r->node->tree->off - packed) / r->node->unit);
    put(r->list->start, r->start, r->i++, packed / r->node->unit);
    return 0;
}

static void fill_list(const struct form *f, const struct form_node *n, struct stridec_host_list *list)
{
    const struct tree *t = n->tree;
    struct run_fill r = {.node = n, .list = list, .at = at_bytes(n), .start = list->start ? start_bytes(f, n) : 0};
    if (n->kind == FORM_BLOCKS) {
        tree_walk(t, 1, 0, 0, t->size, fill_run, &r);
        put(list->start, r.start, r.i, t->size / n->unit);
        return;
    }
    for (int64_t i = 0; i < t->count; i++) put(list->at, r.at, i, t->at[i] / n->unit);
}

/* Parents before children, children in order: host.lua counts lists alike. */
static void visit(struct fill *l, const struct form_node *n)
{
    if (is_list(n)) {
        size_t at = array_bytes(n, at_bytes(n));
        size_t start = n->kind == FORM_BLOCKS ? array_bytes(n, start_bytes(l->form, n)) : 0;
        l->lists++;
        l->bytes += at + start;
        if (l->list) {
            *l->list = (struct stridec_host_list){l->room, start ? l->room + at : NULL, entries(n)};
            fill_list(l->form, n, l->list++);
            l->room += at + start;
        }
    }
    for (int i = 0; i < n->count; i++) visit(l, n->child[i]);
}

struct stridec_host_list *form_host_lists(const struct form *f, struct reason *why)
{
    struct fill l = {.form = f};
    why->text[0] = '\0';
    if (!f->root || !form_has_lists(f)) return NULL;
    visit(&l, f->root);
    size_t head = aligned(l.lists * sizeof *l.list);
    struct stridec_host_list *lists = calloc(1, head + l.bytes);
    if (!lists) return reason_memory(why);
    l.list = lists;
    l.room = (char *)lists + head;
    visit(&l, f->root);
    return lists;
}
