/* typed_copy_internal.h: what typed_copy.c, typed_copy_strided.c, typed_copy_batch.c and typed_copy_pair.c share. */
#ifndef STRIDEC_LINK_INNER_H
#define STRIDEC_LINK_INNER_H
#include "kernel_internal.h"
#include "typed_copy.h"

/* True if the job's bytes lie one after another on this side. */
bool typed_copy_plain(const struct typed_copy_side *side, int64_t bytes);

/* typed_copy_strided.c: the job as links told by numbers, which out has room for (two at most). Their number; 0
 * where that can't be: a side is no chain of strides, or their counts don't fit together. out[].first is left alone. */
#define NEST_LINKS 2
int nest_links(const struct typed_copy_job *job, struct stridec_link out[NEST_LINKS]);

/* typed_copy_program.c: the same for any layouts whose trees the device can hold; 0 or 1. */
int program_links(const struct typed_copy_job *job, struct device *d, struct stridec_link *out);

/* typed_copy_batch.c */
#define LIST_LINKS 256
struct typed_copy_list {
    struct module *module;   /* NULL: lists can't be had now */
    int n;
    uint32_t blocks;
    bool programs;           /* there is a link without levels */
    struct stridec_link job[LIST_LINKS];
};
/* The list begins empty. Asks for the module; `module` stays NULL where it is not ready. */
void list_begin(struct typed_copy_list *l, struct device *d);
/* False where the list is full. */
bool list_add(struct typed_copy_list *l, const struct stridec_link *links, int n);
int list_launch(struct typed_copy_list *l, struct typed_copy_batch *b, struct device *d, struct stream *s,
                int *launches);

/* typed_copy_pair.c. The kernel of the pair, with a reference for the caller (kernel_put); NULL where a side has no
 * form, or without memory. */
struct kernel *pair_get(const struct typed_copy_job *job);
/* 1 where the pair can't serve now (it has been asked for), else 0 or -1. */
int pair_move(struct device *d, struct stream *s, const struct typed_copy_job *job, int *launches);

/* A buffer that b keeps until its end; NULL without memory (logged). */
struct pool_buffer *typed_copy_keep(struct typed_copy_batch *b, struct device *d, enum buffer_kind kind, size_t bytes);

#endif
