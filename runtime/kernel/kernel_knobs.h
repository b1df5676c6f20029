/* kernel_knobs.h: which settings (gen/knobs.lua) a form's kernels are generated with, where not by gen/model.lua
 * alone. This is the one place that decides; in order:
 *   1. STRIDEC_KNOBS, "pack:word=8 each=4;unpack:store=exch", either part optional: for all kernels, for debugging
 *   2. a row of the tuned table (table.h), if the table was measured on a GPU of this name
 *   3. what few multiprocessors need (STRIDEC_SM_LIMIT): large blocks that keep loads in flight
 *   4. the model */
#ifndef STRIDEC_KNOBS_H
#define STRIDEC_KNOBS_H
#include "../../gen/gen.h"
#include "device/device.h"

struct knobs {
    const char *text;   /* as gen_kernel_form takes it; NULL: the model's choice. Lives until table_finish */
    const char *file;   /* where it stands: the table's file, or the variable's name */
    int line;           /* of the file; 0 for a variable */
};

struct knobs kernel_knobs_for(const struct form *f, const struct device *d, enum gen_direction direction);

/* What a tuned table goes by: the length of the innermost contiguous run, of several parts their mean, of lists of
 * blocks, whose lengths are no part of the form, 0; and the bytes of one element, of forms with lists the class
 * (gen/form.h). Forms of one signature have the same. */
void kernel_knobs_measure(const struct form *f, int64_t *block, int64_t *bytes);

/* Both directions as one text that cache keys and dumps tell modules apart by: "pack:...;unpack:...", "" where all is
 * the model's. malloc'd. */
char *kernel_knobs_text(const char *const knobs[2]);

#endif
