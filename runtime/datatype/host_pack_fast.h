/* host_pack_fast.h: the part of a layout that tells whether compiled code packs it faster than the MPI in host memory.
 * host_pack_trial.c fills it, filter_pack_judge (type_filter.h) reads it. */
#ifndef STRIDEC_HOST_PACK_FAST_H
#define STRIDEC_HOST_PACK_FAST_H
#include "../../gen/gen.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Size classes: powers of two of packed bytes. The first and the last class are open. Each has its own result. */
#define PACK_FILTER_CLASSES 32
#define PACK_FILTER_CLASS_LEAST 6

struct host_pack_quick {
    _Atomic uint64_t wins[2];   /* by kernel_direction: a bit for each host_pack_size_log that wins; set last */
    _Atomic uint64_t messages;   /* such bits for messages (host_pack_set_fast) */
    stridec_host_function *code[2];         /* by kernel_direction; lives as long as the layout's kernel */
    const struct stridec_host_list *lists;
    uint64_t origin;
    int64_t most;                           /* most elements */
    bool continues;
};

/* Returns log2 of bytes > 0. */
static inline int host_pack_size_log(int64_t bytes)
{
    return 63 - __builtin_clzll((uint64_t)bytes);
}
static inline int host_pack_class(int64_t bytes)
{
    int class = host_pack_size_log(bytes | 1) - PACK_FILTER_CLASS_LEAST;
    return class < 0 ? 0 : class < PACK_FILTER_CLASSES ? class : PACK_FILTER_CLASSES - 1;
}

/* Returns a bit for each host_pack_size_log of the class, so that a call tests a single bit. */
static inline uint64_t host_pack_class_bits(int class)
{
    uint64_t bits = (uint64_t)1 << (class + PACK_FILTER_CLASS_LEAST);
    if (class == 0) bits |= bits - 1;
    return class == PACK_FILTER_CLASSES - 1 ? -bits : bits;
}

#endif
