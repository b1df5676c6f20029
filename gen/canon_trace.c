/* canon_trace.c: the steps to a canonical form in words, for `stridec inspect`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "canon.h"
#include "text.h"

/* ORDER CANON_STEP. Each takes the three numbers of its canon_note, in their order, or the first ones. */
static const char *const sentences[] = {
    "what packs no bytes is left out",
    "a stride of one copy became that copy",
    "the offset of a stride's copies moved to the stride: %" PRId64 " B",
    "a stride of touching blocks became one block: %" PRId64 " copies of %" PRId64 " B, %" PRId64 " B together",
    "nested strides where the outer goes on as the inner became one: %" PRId64 " x %" PRId64 " copies, step %" PRId64
    " B",
    "a list of one offset became that one copy",
    "the first offset of an index moved to its root: %" PRId64 " B",
    "an index with even spacing became a stride: %" PRId64 " offsets, step %" PRId64 " B",
    "an index that repeats itself became a stride of its beginning: %" PRId64 " copies, step %" PRId64 " B, of %" PRId64
    " offsets",
    "groups of offsets that lie alike were written once: a list of %" PRId64 " groups of %" PRId64 " offsets",
    "evenly spaced neighbours in an index became strides: %" PRId64 " offsets in %" PRId64 " parts",
    "the list was read run by run, blocks that touch as one: %" PRId64 " entries, %" PRId64 " runs, %" PRId64 " B",
    "it is one run: a block of %" PRId64 " B",
    "runs of one length became an index: %" PRId64 " runs of %" PRId64 " B",
    "runs that repeat at even spacing became a stride: %" PRId64 " copies of %" PRId64 " B, step %" PRId64 " B",
    "runs in groups that lie alike became an index of one group: %" PRId64 " groups of %" PRId64 " B",
    "evenly spaced runs of one length became strides: %" PRId64 " runs in %" PRId64 " parts",
    "neighbouring runs of one length became lists: %" PRId64 " runs in %" PRId64 " parts",
    "runs without order stay a seq of blocks: %" PRId64 " runs",
    "empty parts of a seq are left out: %" PRId64,
    "the parts of parts became parts of the seq: %" PRId64 " parts, then %" PRId64,
    "blocks that touch became one: %" PRId64 " parts, then %" PRId64,
    "strides that go on in the next part became one: %" PRId64 " parts, then %" PRId64,
    "a seq of one part became that part",
    "the offset of a seq's first part moved to the seq: %" PRId64 " B",
    "equal parts of a seq became an index: %" PRId64 " parts of %" PRId64 " B",
    "parts that repeat at even spacing became a stride: %" PRId64 " copies of %" PRId64 " parts, step %" PRId64 " B",
};
_Static_assert(sizeof sentences / sizeof *sentences == CANON_STEPS, "a sentence for each step");

/* Equal firings share an entry; of one kind, those with further numbers count in the last one's `others`. */
enum { OF_A_KIND = 3 };
struct canon_trace {
    int count, of_kind[CANON_STEPS];
    struct entry {
        enum canon_step step;
        int64_t number[3], times, others;
    } entry[CANON_STEPS * OF_A_KIND];
};

void canon_trace_add(struct canon_trace *trace, enum canon_step step, const int64_t number[3])
{
    struct entry *last = NULL;
    for (struct entry *e = trace->entry; e < trace->entry + trace->count; e++) {
        if (e->step != step)
            continue;
        last = e;
        if (memcmp(e->number, number, sizeof e->number) == 0) {
            e->times++;
            return;
        }
    }
    if (trace->of_kind[step] == OF_A_KIND) {
        last->others++;
        return;
    }
    trace->of_kind[step]++;
    trace->entry[trace->count++] = (struct entry){step, {number[0], number[1], number[2]}, 1, 0};
}

static void add_times(struct text *x, const char *before, int64_t n, const char *after)
{
    text_add(x, before);
    text_add_int(x, n);
    text_add(x, after);
}

static void add_entry(struct text *x, const struct entry *e)
{
    char line[256];
    snprintf(line, sizeof line, sentences[e->step], e->number[0], e->number[1], e->number[2]);
    text_add(x, line);
    if (e->times > 1)
        add_times(x, " (", e->times, " times)");
    if (e->others > 0)
        add_times(x, "; and ", e->others, " more with other numbers");
    text_add(x, "\n");
}

struct tree *tree_canonical_explained(const struct tree *t, char **steps, struct reason *why)
{
    struct canon_trace trace = {0};
    struct tree *c = canon_tree(t, &(struct canon_work){why, &trace});
    struct text x = {0};
    if (!c)
        return NULL;
    for (int i = 0; i < trace.count; i++)
        add_entry(&x, &trace.entry[i]);
    if (trace.count == 0)
        text_add(&x, "none: it is canonical as built\n");
    *steps = text_take(&x, why);
    if (*steps)
        return c;
    tree_unref(c);
    return NULL;
}
