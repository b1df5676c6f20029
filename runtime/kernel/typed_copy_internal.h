/* typed_copy_internal.h: shared by typed_copy*.c. A link (struct stridec_link) is one typed copy of a launch. */
#ifndef STRIDEC_TYPED_COPY_INTERNAL_H
#define STRIDEC_TYPED_COPY_INTERNAL_H
#include "kernel_internal.h"
#include "typed_copy.h"

/* Returns true if the job's bytes are contiguous on this side. */
bool typed_copy_is_plain(const struct typed_copy_side *side, int64_t bytes);

/* typed_copy.c. Requests the module for lists. Returns NULL while it is not ready, and where copies are asked for. */
struct module *typed_copy_module(struct device *d);

/* typed_copy_strided.c. Describes the job, from packed byte `begin` on, as at most two links. Returns their number, or
 * 0 if a side is not a nest of strides or the counts do not fit together. Does not set out[].first. */
#define NEST_LINKS 2
int typed_copy_nest(const struct typed_copy_job *job, int64_t begin, struct stridec_link out[NEST_LINKS]);

/* typed_copy_program.c. Describes any layouts whose trees fit on the device. Returns 1, or 0 if not possible. */
int typed_copy_interpret(const struct typed_copy_job *job, struct device *d, struct stridec_link *out);

/* typed_copy_batch.c */
#define LIST_LINKS 256
struct typed_copy_list {
    struct module *module;   /* NULL: no list is possible now */
    int n, room;
    uint32_t blocks;
    bool programs;           /* a link is interpreted */
    struct stridec_link *job;   /* the caller's, `room` links */
};
/* Returns true if the kernel walks the link's programs. */
static inline bool copy_link_interprets(const struct stridec_link *l)
{
    return (l->code >> 20 & 7) == 0;
}
void copy_list_begin(struct typed_copy_list *l, struct module *m, struct stridec_link *job, int room);
/* Returns false if the list is full. Needs the module. */
bool copy_list_add(struct typed_copy_list *l, const struct stridec_link *links, int n);
/* b keeps a list of more than GEN_LINK_MOST links. */
int copy_list_launch(struct typed_copy_list *l, struct typed_copy_batch *b, struct device *d, struct stream *s,
                     int *launches);

/* typed_copy_pair.c. Returns the pair's kernel with a reference; NULL if a side has no form, or without memory. */
struct kernel *typed_copy_pair_get(const struct typed_copy_job *job);
/* Returns 1 if the pair's module is not ready (it is requested), else 0 or -1. */
int typed_copy_pair_move(struct device *d, struct stream *s, const struct typed_copy_job *job, int *launches);

/* Release the references in the caches of typed_copy_pair.c and typed_copy_strided.c. */
void typed_copy_pair_forget(void);
void typed_copy_nest_forget(void);

#endif
