/* host_pack_internal.h: what host_pack.c, host_pack_trial.c, host_code.c and kernel.c share. */
#ifndef STRIDEC_NATIVE_INNER_H
#define STRIDEC_NATIVE_INNER_H
#include "datatype/host_pack_fast.h"
#include "datatype/layout.h"
#include "kernel/kernel_internal.h"

/* Of one direction and power of two of bytes (host_pack_trial.c). */
struct host_pack_race {
    atomic_int verdict;
    atomic_bool compiled;    /* it is run with compiled code */
    int turns[2];            /* of the MPI, of ours; these two under a lock */
    int64_t best[2];         /* nanoseconds */
};
/* Hangs on a kernel; host_pack.c. */
struct host_pack {
    _Atomic(struct stridec_host_list *) lists;
    struct host_pack_race race[2][PACK_FILTER_CLASSES];
};
struct host_pack *host_pack_of(struct kernel *k);   /* NULL without memory */
/* The lists that k's code reads; NULL without memory. */
const struct stridec_host_list *host_pack_lists(struct kernel *k);
/* k's code, if that is ready; asks for it once that has been wanted often enough. And whether it may still come. */
struct module *host_pack_code(struct kernel *k);
bool host_pack_hopeful(struct kernel *k);
/* Runs l's code, if that is ready: a->user is element 0's origin, a->wrap and a->list are found here. `way`: by
 * kernel_direction, or GEN_HOST_COPY. */
bool host_pack_by_code(struct layout *l, int way, struct stridec_host *a);

extern const struct code_target host_target;   /* host_code.c */

#endif
