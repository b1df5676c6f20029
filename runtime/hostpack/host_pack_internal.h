/* host_pack_internal.h: what the files of hostpack/ share. */
#ifndef STRIDEC_HOST_PACK_INTERNAL_H
#define STRIDEC_HOST_PACK_INTERNAL_H
#include "datatype/host_pack_fast.h"
#include "datatype/layout.h"
#include "kernel/kernel_internal.h"

/* Trials of one direction and power of two of bytes (host_pack_trial.c). */
struct host_pack_timing {
    atomic_int verdict;
    atomic_bool compiled;    /* the trials run compiled code */
    int trials[2];            /* of the MPI, of stridec; this and `best` under a lock */
    int64_t best[2];         /* nanoseconds */
};
/* Data of a kernel for host memory; host_pack.c. */
struct host_pack {
    _Atomic(struct stridec_host_list *) lists;
    struct host_pack_timing timing[2][PACK_FILTER_CLASSES];
};
struct host_pack *host_pack_of(struct kernel *k);   /* NULL without memory */
/* Returns the lists for k's code; NULL without memory. */
const struct stridec_host_list *host_pack_lists(struct kernel *k);
/* host_pack_code returns k's code if ready, and requests it after enough uses. _awaited: it may still come. */
struct module *host_pack_code(struct kernel *k);
bool host_pack_code_awaited(struct kernel *k);
/* Runs l's code, or returns false. a->user is element 0's origin. `way`: kernel_direction or GEN_HOST_COPY. */
bool host_pack_run_code(struct layout *l, int way, struct stridec_host *a);

extern const struct code_target host_target;   /* host_code.c */

#endif
