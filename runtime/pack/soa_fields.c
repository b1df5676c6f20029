/* soa_fields.c: finds the fields of a type. The nodes from the root down that repeat one child form a chain. Below it a
 * node of few parts is a record. Each of its parts, under the same chain, is a field. */
#include "soa_fields.h"

/* A launch takes as long as copying another 40 KiB on the host (4 us, 10 GB/s). */
#define RECORDS_FEW 4
#define RECORD_LONG (32 << 10)
#define CHAIN_MAX 16

struct chain {
    int length;
    const struct tree *node[CHAIN_MAX];
};

/* Returns part i of a node, shifted by the node's offset. */
static struct tree *part_of(const struct tree *node, int64_t i, struct reason *why)
{
    int64_t by = node->off;
    if (node->kind == TREE_SEQ) return tree_shift(node->part[i], by, why);
    by += node->kind == TREE_STRIDE ? i * node->step : node->at[i];
    return tree_shift(node->child, by, why);
}

/* Puts a part under the chain and returns its canonical tree; consumes t. */
static struct tree *field_tree(const struct chain *chain, struct tree *t, struct reason *why)
{
    for (int i = chain->length; i-- > 0;) {
        const struct tree *n = chain->node[i];
        t = n->kind == TREE_STRIDE ? tree_stride(n->off, n->count, n->step, t, why)
                                   : tree_index(n->off, n->count, n->at, t, why);
    }
    struct tree *canonical = t ? tree_canonical(t, why) : NULL;
    tree_unref(t);
    return canonical;
}

/* Splits a node into fields. Returns true if each field lies in one memory in all records. */
static bool split(struct fields *f, const struct tree *node, const struct chain *chain, const void *buf, int64_t count,
                  int64_t extent)
{
    int64_t at = 0;
    struct reason why;
    for (int64_t i = 0; i < node->count; i++) {
        struct tree *part = part_of(node, i, &why);
        struct field *field = &f->field[f->count];
        int64_t size = part ? part->size : 0;
        *field = (struct field){field_tree(chain, part, &why), NULL, at, size};
        if (!field->tree) return false;
        f->count++;
        struct location w = locate_tree(field->tree, buf, count, extent);
        if (w.parts) return false;
        field->device = w.device;
        at += size;
    }
    return true;
}

bool soa_fields_find(struct fields *f, const struct layout *l, const void *buf, int64_t count)
{
    struct chain chain = {0};
    for (const struct tree *node = l->tree; node->kind != TREE_DENSE && node->kind != TREE_BLOCKS; node = node->child) {
        *f = (struct fields){.record = node->size, .records = layout_bytes(l, count) / node->size};
        bool worth = f->records >= RECORDS_FEW && f->record <= RECORD_LONG;
        if (worth && node->count <= FIELDS_MAX && split(f, node, &chain, buf, count, l->extent)) return true;
        soa_fields_free(f);
        if (node->kind == TREE_SEQ || chain.length == CHAIN_MAX) return false;
        chain.node[chain.length++] = node;
    }
    return false;
}

void soa_fields_free(struct fields *f)
{
    for (int i = 0; i < f->count; i++) tree_unref(f->field[i].tree);
    f->count = 0;
}

int64_t soa_fields_bytes(const struct fields *f, const struct field *field, int64_t bytes)
{
    int64_t rest = bytes % f->record - field->at;
    if (rest < 0) rest = 0;
    return bytes / f->record * field->size + (rest < field->size ? rest : field->size);
}
