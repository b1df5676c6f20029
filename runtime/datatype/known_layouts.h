/* known_layouts.h: layouts in host memory that return under new handles, such as types made for one message.
 *
 * A kernel is found by its layout's signature, stays without types (kernel.c), and counts the uses by all handles. To
 * find it for a new handle the type must be read: 1 us for a few strides, more for lists. So only calls of many bytes
 * read types. After a read in vain, other such calls must first bring enough bytes. */
#ifndef STRIDEC_KNOWN_LAYOUTS_H
#define STRIDEC_KNOWN_LAYOUTS_H
#include "layout.h"

#define KNOWN_LAYOUTS_LEAST ((int64_t)32 << 10)   /* packed bytes of such calls */

/* Returns the layout of a new type in a call of `bytes` packed bytes if that layout was used often enough before.
 * `gains` (NULL: always true) must accept it too. Else counts the use and returns NULL. */
struct layout *known_layouts_layout(MPI_Datatype t, int64_t bytes,
                                    bool (*gains)(const struct layout *l, int64_t bytes));
/* Returns true if the layout was used often enough. */
bool known_layouts_returns(const struct layout *l);
/* Notes that a single handle has used the layout often enough. */
void known_layouts_learn(const struct layout *l);

#endif
