/* code_target.h: what code is made for: a CUDA device, or host memory. A module has one of these; the kernel room
 * calls it and knows no more of it. */
#ifndef STRIDEC_CODE_TARGET_H
#define STRIDEC_CODE_TARGET_H
struct gen;
struct module;

/* Of a module. STAGE_NONE: nobody asked for it yet. A READY module never changes again. */
enum stage { STAGE_NONE, STAGE_PENDING, STAGE_READY, STAGE_FAILED };

struct code_target {
    /* Finds or makes the code of m, loads it, and sets the fields of m, but not its stage. Opens *gen at need.
     * Returns STAGE_READY or STAGE_FAILED. Called by the worker. */
    enum stage (*load)(struct gen **gen, struct module *m);
    /* Gives back what load has set, in any stage of m. */
    void (*unload)(struct module *m);
};
extern const struct code_target cuda_target;   /* module_load.c */

#endif
