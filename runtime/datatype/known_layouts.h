/* known_layouts.h: layouts in host memory that come again under other handles, as those of types that are made for
 * one message.
 *
 * A kernel is known by its layout's signature, and stays while no type has it (kernel.c): how often the layout was
 * used, by whichever handles, is counted there. To find the kernel of a handle that is met first, the type must be
 * read: about a microsecond for a few strides, more for lists. So this is done beside calls of many bytes alone, and
 * what it takes where nothing came of it is made up for by the bytes of other such calls before the next try. */
#ifndef STRIDEC_AGAIN_H
#define STRIDEC_AGAIN_H
#include "layout.h"

#define AGAIN_LEAST ((int64_t)32 << 10)   /* packed bytes of such calls */

/* The layout of a type that is met first, in a call of so many packed bytes, if that layout has been used before, often
 * enough to be served from now on, and `gains` (NULL: any does). Else NULL; the use is counted. */
struct layout *known_layouts_layout(MPI_Datatype t, int64_t bytes,
                                    bool (*gains)(const struct layout *l, int64_t bytes));
/* True if the layout has been used so often. */
bool known_layouts_returns(const struct layout *l);
/* A handle has been used so often by itself. */
void known_layouts_learn(const struct layout *l);

#endif
