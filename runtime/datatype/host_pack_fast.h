/* host_pack_fast.h: what is asked of a type that is known to be packed quicker in host memory by its own code: all
 * of it lies in its layout. Filled by host_pack_trial.c, read by pack_filter_judge of host_pack.h. */
#ifndef STRIDEC_NATIVE_QUICK_H
#define STRIDEC_NATIVE_QUICK_H
#include "../../gen/gen.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Powers of two of packed bytes, the first and the last one open: what is quicker is found out for each. */
#define PACK_FILTER_CLASSES 32
#define PACK_FILTER_CLASS_LEAST 6   /* log2 of bytes */

struct host_pack_quick {
    _Atomic uint64_t wins[2];   /* by kernel_direction: bits of host_pack_size_log; the rest is set before */
    _Atomic uint64_t messages;   /* the same for messages (host_pack_trust) */
    stridec_host_function *code[2];         /* by kernel_direction; lives as long as the layout's kernel */
    const struct stridec_host_list *lists;
    uint64_t origin;                        /* offset of the tree's root */
    int64_t most;                           /* elements */
    bool continues;                         /* launch_continues */
};

/* log2 of bytes > 0. */
static inline int host_pack_size_log(int64_t bytes)
{
    return 63 - __builtin_clzll((uint64_t)bytes);
}
static inline int host_pack_class(int64_t bytes)
{
    int class = host_pack_size_log(bytes | 1) - PACK_FILTER_CLASS_LEAST;
    return class < 0 ? 0 : class < PACK_FILTER_CLASSES ? class : PACK_FILTER_CLASSES - 1;
}

/* A bit for each host_pack_size_log of the class: a call tests one without a look at the classes' ends. */
static inline uint64_t host_pack_class_bits(int class)
{
    uint64_t bits = (uint64_t)1 << (class + PACK_FILTER_CLASS_LEAST);
    if (class == 0) bits |= bits - 1;
    return class == PACK_FILTER_CLASSES - 1 ? -bits : bits;
}

#endif
