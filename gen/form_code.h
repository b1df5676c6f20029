/* form_code.h: how a list's offsets lie in device memory.
 *
 * A code without bases writes each offset, in units, as it is. A code with them takes
 *   offset i = (base[i >> group] << scale) + entry[i]
 * with signed bases and unsigned entries: either one base for every 2^group offsets, the lowest of them, or
 * (scale > 0) the high and the low bits of each one. Bases lie before the entries, the first nearest to them, so that
 * one address finds both, and neither load waits for the other.
 */
#ifndef STRIDEC_GEN_FORM_CODE_H
#define STRIDEC_GEN_FORM_CODE_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FORM_GROUP 6

struct form_code {
    int base, entry;    /* bytes; base is 0 where there is none */
    int group, scale;   /* powers of two */
};

/* What of the offsets decides on their code. All zeros is no offset yet. */
struct form_offsets {
    int64_t count, low, high;   /* 0 lies between low and high */
    int64_t group_low, group_high;
    uint64_t spread;    /* the most that offsets of one group of 2^FORM_GROUP lie apart */
};
static inline void form_offsets_add(struct form_offsets *o, int64_t offset)
{
    if (o->count++ % (1 << FORM_GROUP) == 0) o->group_low = o->group_high = offset;
    o->low = offset < o->low ? offset : o->low;
    o->high = offset > o->high ? offset : o->high;
    o->group_low = offset < o->group_low ? offset : o->group_low;
    o->group_high = offset > o->group_high ? offset : o->group_high;
    uint64_t spread = (uint64_t)o->group_high - (uint64_t)o->group_low;
    o->spread = spread > o->spread ? spread : o->spread;
}

/* The code of least size for offsets that `unit` divides. */
const struct form_code *form_code_of(const struct form_offsets *o, int64_t unit);
/* Bytes of the bases of `count` offsets, and of all. */
int64_t form_code_bases(const struct form_code *c, int64_t count);
int64_t form_code_bytes(const struct form_code *c, int64_t count);

/* Writes offsets in units, first to last. */
struct form_writer {
    const struct form_code *code;
    unsigned char *entries;   /* the bases lie before */
    int64_t written;
    int held, most;           /* values; most: so many are written at once, a group of the code */
    int64_t value[1 << FORM_GROUP];
};
/* The low bytes of a number, 1, 2, 4 or 8 of them, in a GPU's order. */
static inline void form_put(unsigned char *to, int bytes, int64_t value)
{
    if (bytes == 2)
        memcpy(to, &(uint16_t){(uint16_t)value}, 2);
    else if (bytes == 4)
        memcpy(to, &(uint32_t){(uint32_t)value}, 4);
    else if (bytes == 8)
        memcpy(to, &value, 8);
    else
        *to = (unsigned char)value;
}
static inline void form_writer_begin(struct form_writer *w, const struct form_code *code, unsigned char *entries)
{
    w->code = code, w->entries = entries, w->written = w->held = 0;
    w->most = 1 << (code->base ? code->group : FORM_GROUP);
}
/* Writes the values that are held; once more at the end. */
void form_writer_group(struct form_writer *w);
static inline void form_writer_add(struct form_writer *w, int64_t value)
{
    w->value[w->held++] = value;
    if (w->held == w->most) form_writer_group(w);
}

#endif
