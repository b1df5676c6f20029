/* form_code.c: chooses a list's code and writes it. See form_code.h. */
#include "form_code.h"

/* Least size first; the last one serves anything. */
static const struct form_code codes[] = {
    {.base = 4, .entry = 2, .group = FORM_GROUP},
    {.base = 8, .entry = 2, .group = FORM_GROUP},
    {.entry = 4},
    {.base = 8, .entry = 4, .group = FORM_GROUP},
    {.base = 1, .entry = 4, .scale = 32},
    {.entry = 8},
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool fits(const struct form_code *c, const struct form_offsets *o, int64_t unit)
{
    int bits = 8 * (c->base ? c->base : c->entry) + c->scale;
    int64_t largest = INT64_MAX >> (64 - bits);
    if (o->low / unit < -largest - 1 || o->high / unit > largest) return false;
    return !c->group || o->spread / (uint64_t)unit >> 8 * c->entry == 0;
}

const struct form_code *form_code_of(const struct form_offsets *o, int64_t unit)
{
    const struct form_code *c = codes;
    while (!fits(c, o, unit)) c++;
    return c;
}

int64_t form_code_bases(const struct form_code *c, int64_t count)
{
    return ((count + ((int64_t)1 << c->group) - 1) >> c->group) * c->base;
}

int64_t form_code_bytes(const struct form_code *c, int64_t count)
{
    return form_code_bases(c, count) + count * c->entry;
}

static int64_t lowest(const struct form_writer *w)
{
    int64_t low = w->value[0];
    for (int i = 1; i < w->held; i++) low = least(low, w->value[i]);
    return low;
}

/* Entries of n values less `low`. The widths of most lists have loops of their own. */
static void write_entries(unsigned char *to, int bytes, const int64_t value[], int n, int64_t low)
{
    for (int i = 0; bytes == 2 && i < n; i++) form_put(to + i * 2, 2, value[i] - low);
    for (int i = 0; bytes == 4 && i < n; i++) form_put(to + i * 4, 4, value[i] - low);
    for (int i = 0; bytes != 2 && bytes != 4 && i < n; i++) form_put(to + i * bytes, bytes, value[i] - low);
}

/* One base and its entries. */
static void write_group(struct form_writer *w)
{
    const struct form_code *c = w->code;
    int64_t low = c->scale ? w->value[0] >> c->scale : lowest(w);
    form_put(w->entries - ((w->written >> c->group) + 1) * c->base, c->base, low);
    write_entries(w->entries + w->written * c->entry, c->entry, w->value, w->held, low * ((int64_t)1 << c->scale));
    w->written += w->held;
    w->held = 0;
}

void form_writer_group(struct form_writer *w)
{
    if (w->code->base) {
        if (w->held) write_group(w);
        return;
    }
    write_entries(w->entries + w->written * w->code->entry, w->code->entry, w->value, w->held, 0);
    w->written += w->held;
    w->held = 0;
}
