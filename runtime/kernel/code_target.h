/* code_target.h: the target of a module's code: a CUDA device or host memory. All that differs between them is here. */
#ifndef STRIDEC_CODE_TARGET_H
#define STRIDEC_CODE_TARGET_H
struct gen;
struct module;

/* Stage of a module. STAGE_NONE: nobody requested it. A STAGE_READY module never changes again. */
enum stage { STAGE_NONE, STAGE_PENDING, STAGE_READY, STAGE_FAILED };

struct code_target {
    /* Finds or makes the code of m, loads it, and sets m's fields except the stage. Opens *gen at need. Called by
     * the worker. Returns STAGE_READY or STAGE_FAILED. */
    enum stage (*load)(struct gen **gen, struct module *m);
    /* Frees what load has set, in any stage of m. */
    void (*unload)(struct module *m);
};
extern const struct code_target cuda_target;   /* module_load.c */

#endif
