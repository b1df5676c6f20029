/* kernel_knobs.h: chooses the settings (gen/knobs.lua) to generate a form's kernels with. The first that exists:
 * 1. STRIDEC_KNOBS, "pack:word=8 each=4;unpack:store=exch" (either part is optional): for debugging
 * 2. a row of the tuned table (table.h), if it was measured on a GPU of this name
 * 3. STRIDEC_SM_LIMIT: large blocks, because few multiprocessors need many loads in flight
 * 4. the model (gen/model.lua) */
#ifndef STRIDEC_KERNEL_KNOBS_H
#define STRIDEC_KERNEL_KNOBS_H
#include "../../gen/gen.h"
#include "device/device.h"

struct knobs {
    const char *text;   /* for gen_kernel_form; NULL: the model's choice. Valid until table_finish */
    const char *file;   /* source: the table's file, or the variable's name */
    int line;           /* in the file; 0 for a variable */
};

struct knobs kernel_knobs_for(const struct form *f, const struct device *d, enum gen_direction direction);

/* Sets the keys of the tuned table, equal for forms of one signature. block: length of the innermost run (mean of
 * parts; 0 for lists of blocks). bytes: size of an element, or class of a form with lists (gen/form.h). */
void kernel_knobs_measure(const struct form *f, int64_t *block, int64_t *bytes);

/* Returns both directions as malloc'd text for cache keys and dumps: "pack:...;unpack:..."; "": the model's. */
char *kernel_knobs_text(const char *const knobs[2]);

#endif
