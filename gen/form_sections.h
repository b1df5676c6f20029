/* form_sections.h: blocks that are short, and multiples of one length, are cut into pieces of that for code in host memory: then
 * every copy is of a constant length. What that length is may change on the way, where a list goes on with other blocks:
 * a section is of pieces of one length. Where it goes on with another property of the same atoms, say, the sections share
 * their entries, which count pieces: what was read is near when it is read again (form_share.c). */
#ifndef STRIDEC_GEN_FORM_SECTIONS_H
#define STRIDEC_GEN_FORM_SECTIONS_H
#include "form.h"

#define FORM_LINE 64            /* bytes: arrays and sections of them begin at lines. Vectors of entries that lie across two cost 7 %
                                 * (Xeon, 16 KiB of words) */
#define FORM_PIECES_A_BLOCK 6   /* on average, at most */

/* What was cut so far. */
struct form_cut {
    struct stridec_host_section *section;   /* malloc'd */
    int64_t sections, entries;
    int64_t pieces, bytes;                  /* bytes: packed */
};
/* A list of blocks; false: they stay whole, and there is nothing to be freed. narrow: entries have 4 bytes. */
bool form_sections(const struct form_node *n, bool narrow, struct form_cut *c);

int64_t form_divisor(int64_t a, int64_t b);
/* The longest piece for lengths of this divisor, or 0. */
int64_t form_piece(int64_t common, int unit);

/* Another section, for the caller to fill in; NULL without memory. */
struct stridec_host_section *form_section_new(struct form_cut *c);
/* Those of the list's first blocks that repeat the very first ones at other places, each in a length of its own; none where
 * less than half of the list is such. *c is empty before. */
void form_share(const struct form_node *n, bool narrow, struct form_cut *c);

#endif
