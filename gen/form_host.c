/* form_host.c: a form's long lists for code in host memory (host.lua): plain arrays, of 4 or 8 bytes an entry as the
 * form's signature tells, in the form's units. An index is its offsets; a list of blocks is for each block where it
 * lies less its place in the packed stream, and that place, and at its end the place where the next block would be;
 * or its pieces' offsets, in sections (form_sections.h). */
#include "form.h"
#include "form_sections.h"
#include "reason.h"
#include <stdlib.h>
#include <string.h>

#define PADDING 32   /* entries: host.lua fetches so many ahead */

/* By the rules of host_list.lua's at_type and start_type. */
static int at_bytes(const struct form_node *n)
{
    bool narrow = (n->code->base == 4 && n->code->entry == 2) || (!n->code->base && n->code->entry == 4);
    return narrow ? 4 : 8;
}

static int start_bytes(const struct form *f, const struct form_node *n)
{
    return f->plan_bytes / n->unit < (int64_t)1 << 29 ? 4 : 8;
}

static bool is_list(const struct form_node *n)
{
    return n->kind == FORM_TABLE || n->kind == FORM_BLOCKS;
}

/*
 * Filling.
 */

struct plan {
    const struct form_node *node;
    struct stridec_host_section *section;
    int64_t sections, count;
    int at, start;             /* bytes of an entry; start 0: no such array */
};

static struct plan plan_of(const struct form *f, const struct form_node *n)
{
    struct plan p = {.node = n, .at = at_bytes(n)};
    struct form_cut c;
    if (n->kind == FORM_TABLE)
        p.count = n->tree->count;
    else if (form_sections(n, p.at == 4, &c))
        p.section = c.section, p.sections = c.sections, p.count = c.entries;
    else
        p.count = n->blocks, p.start = start_bytes(f, n);
    return p;
}

static size_t aligned(size_t bytes)
{
    return (bytes + FORM_LINE - 1) & ~(size_t)(FORM_LINE - 1);
}

static size_t array_bytes(const struct plan *p, int entry)
{
    return entry ? aligned((size_t)(p->count + PADDING) * (size_t)entry) : 0;
}

static void put(const void *array, int entry, int64_t i, int64_t value)
{
    form_put((unsigned char *)(uintptr_t)array + i * entry, entry, value);
}

struct run_fill {
    const struct plan *plan;
    const struct stridec_host_list *list;
    const struct stridec_host_section *section;   /* that piece i belongs to */
    int64_t i;                                    /* of the section; or a block */
};

static int fill_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct run_fill *r = arg;
    const struct plan *p = r->plan;
    int64_t unit = p->node->unit, at = user - p->node->tree->off;
    if (p->section && r->i == r->section->count) r->section++, r->i = 0;
    for (int64_t done = 0; p->section && done < len; done += r->section->piece)
        put(r->list->at, p->at, r->section->first + r->i++, (at + done - r->section->origin) / r->section->step);
    if (p->section) return 0;
    put(r->list->at, p->at, r->i, (at - packed) / unit);
    put(r->list->start, p->start, r->i++, packed / unit);
    return 0;
}

static void fill_list(const struct plan *p, const struct stridec_host_list *list)
{
    const struct tree *t = p->node->tree;
    struct run_fill r = {p, list, p->section, 0};
    if (p->node->kind == FORM_BLOCKS) tree_walk(t, 1, 0, 0, t->size, fill_run, &r);
    if (p->start) put(list->start, p->start, r.i, t->size / p->node->unit);
    for (int64_t i = 0; p->node->kind == FORM_TABLE && i < t->count; i++)
        put(list->at, p->at, i, t->at[i] / p->node->unit);
}

/* All lists of a form, each planned once: what is counted is what is filled. A list has a number at least. */
struct fill {
    const struct form *form;
    struct plan plan[GEN_NUMBERS_MAX];
    size_t lists, bytes;
};

static size_t cuts_bytes(const struct plan *p)
{
    return aligned((size_t)p->sections * sizeof *p->section);
}

/* Parents before children, children in order: host.lua counts lists alike. */
static void visit(struct fill *l, const struct form_node *n)
{
    if (is_list(n)) {
        struct plan p = l->plan[l->lists++] = plan_of(l->form, n);
        l->bytes += array_bytes(&p, p.at) + array_bytes(&p, p.start) + cuts_bytes(&p);
    }
    for (int i = 0; i < n->count; i++) visit(l, n->child[i]);
}

/* One array for all properties of the same scattered atoms: what was read is near when it is read again. */
static void share(const struct stridec_host_list *first, struct stridec_host_list *list, size_t bytes)
{
    for (const struct stridec_host_list *o = first; o < list; o++)
        if (o->count == list->count && o->entry == list->entry && !memcmp(o->at, list->at, bytes)) {
            list->at = o->at;
            return;
        }
}

/* Fills a list from `room` on; what follows it. */
static char *fill_one(const struct plan *p, const struct stridec_host_list *first, struct stridec_host_list *list, char *room)
{
    size_t at = array_bytes(p, p->at), start = array_bytes(p, p->start);
    char *cuts = room + at + start;
    *list = (struct stridec_host_list){room, start ? room + at : NULL, p->count, p->section ? (void *)cuts : NULL, p->sections, p->at};
    if (p->section) memcpy(cuts, p->section, (size_t)p->sections * sizeof *p->section);
    fill_list(p, list);
    share(first, list, at);
    return cuts + cuts_bytes(p);
}

struct stridec_host_list *form_host_lists(const struct form *f, struct reason *why)
{
    struct fill l = {.form = f};
    why->text[0] = '\0';
    if (!f->root || !form_has_lists(f)) return NULL;
    visit(&l, f->root);
    size_t head = aligned(l.lists * sizeof(struct stridec_host_list));
    struct stridec_host_list *lists = aligned_alloc(FORM_LINE, head + l.bytes);
    char *room = lists ? (char *)memset(lists, 0, head + l.bytes) + head : reason_memory(why);
    for (size_t i = 0; i < l.lists; i++) {
        if (lists) room = fill_one(&l.plan[i], lists, lists + i, room);
        free(l.plan[i].section);
    }
    return lists;
}
