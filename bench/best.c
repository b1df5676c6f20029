/* best.c: every kernel that the generator can make of a layout (runtime/api/bench_hooks.h), verified, and timed in turns with
 * the one that serves it. All take part in a few short rounds; the quickest ones and the serving one in many more.
 *
 * Variants are checked against the serving kernel, whose bytes were all compared with the host MPI's: they must pack
 * the same bytes, and unpack them over others so that packing gives the same again; and of the span, gaps included,
 * windows spread over it must be as they were. */
#include "pack.h"
#include "../runtime/api/bench_hooks.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW ((size_t)64 << 10)
#define WINDOWS 64
#define FINALISTS 7
#define ROUNDS 3           /* of all: so many times a call that is not timed, and CALLS that are */
#define CALLS 3
#define FINAL_ROUNDS 15
#define FINAL_CALLS 12
#define PASS_US 1.0e6      /* a pass of slow calls has fewer rounds */
#define SERVING (-1)       /* the number of the kernel that serves without any of this */

static stridec_variants_function *variants;
static stridec_variant_name_function *name_of;
static stridec_variant_use_function *use;

static bool find_library(void)
{
    *(void **)&variants = dlsym(RTLD_DEFAULT, "stridec_variants");
    *(void **)&name_of = dlsym(RTLD_DEFAULT, "stridec_variant_name");
    *(void **)&use = dlsym(RTLD_DEFAULT, "stridec_variant_use");
    return variants && name_of && use;
}

static bool serve(struct work *w, int variant)
{
    return use(w->l->type, w->user, variant) == 0;
}

/* --- bytes --- */

static bool windows_equal(const struct work *w)
{
    size_t span = w->l->span_bytes, step = (span - (span < WINDOW ? span : WINDOW)) / (WINDOWS - 1);

    if (span <= WINDOWS * WINDOW)
        return device_equals(w->user, w->host, span);
    for (size_t k = 0; k < WINDOWS; k++) {
        size_t at = k == WINDOWS - 1 ? span - WINDOW : k * step;

        if (!device_equals(w->user + at, w->host + at, WINDOW))
            return false;
    }
    return true;
}

static bool packs(struct work *w, int variant)
{
    device_set(w->packed, 0xa5, w->l->packed_bytes);
    if (!serve(w, variant))
        return false;
    pack(w);
    return device_equals(w->packed, w->host_packed, w->l->packed_bytes);
}

/* `second` holds the packed bytes with all bits turned. */
static bool unpacks(struct work *w, int variant)
{
    struct work turned = *w;

    turned.packed = w->second;
    if (!serve(w, SERVING))
        return false;
    unpack(&turned);
    device_write(w->packed, w->host_packed, w->l->packed_bytes);
    if (!serve(w, variant))
        return false;
    unpack(w);
    if (!windows_equal(w) || !packs(w, SERVING))
        return false;
    return true;
}

static void write_turned(struct work *w)
{
    char *bytes = host_new(w->l->packed_bytes);

    for (size_t i = 0; i < w->l->packed_bytes; i++)
        bytes[i] = (char)~w->host_packed[i];
    device_write(w->second, bytes, w->l->packed_bytes);
    free(bytes);
}

static const char *named(int variant, int direction)
{
    const char *name = variant == SERVING ? "" : name_of(variant, direction);
    return name ? name : "";
}

static bool verify(struct work *w, int variant)
{
    if (packs(w, variant) && unpacks(w, variant))
        return true;
    fprintf(stderr, "pack: %s: wrong bytes with pack %s; unpack %s\n", w->l->name, named(variant, 0),
            named(variant, 1));
    device_write(w->user, w->host, w->l->span_bytes);
    return false;
}

/* --- times --- */

struct entry {
    int variant;
    bool wrong;
    double us[2];
};

/* The medians of these entries in a direction, a few calls of each in turn, behind one that is not timed: it finds
 * the kernel's code out of the caches. */
static void time_some(struct work *w, struct entry *e, int n, int direction, int rounds, int calls)
{
    double *us = host_new((size_t)n * (size_t)rounds * (size_t)calls * sizeof(double));
    double begin = now_us();
    int done = 0;

    for (; done < rounds && (done == 0 || now_us() - begin < PASS_US); done++) {
        for (int i = 0; i < n; i++) {
            serve(w, e[i].variant);
            (direction ? unpack : pack)(w);
            for (int call = 0; call < calls; call++) {
                double t = now_us();

                (direction ? unpack : pack)(w);
                us[(i * rounds + done) * calls + call] = now_us() - t;
            }
        }
    }
    for (int i = 0; i < n; i++)
        e[i].us[direction] = median_of(us + i * rounds * calls, done * calls);
    free(us);
}

/* The entries that can win in a direction, to the front: the serving one, then all right ones that have settings. */
static int gather(struct entry *to, const struct entry *all, int n, int direction)
{
    int kept = 0;

    for (int i = 0; i < n; i++)
        if (all[i].variant == SERVING || (!all[i].wrong && name_of(all[i].variant, direction)))
            to[kept++] = all[i];
    return kept;
}

static void compete(struct best *b, struct work *w, const struct entry *all, int n, int direction)
{
    struct entry *e = host_new((size_t)n * sizeof(*e));
    int kept = gather(e, all, n, direction), winner = 0;

    time_some(w, e, kept, direction, ROUNDS, CALLS);
    for (int i = 1; i < kept && i <= FINALISTS; i++)
        for (int j = i + 1; j < kept; j++)
            if (e[j].us[direction] < e[i].us[direction]) {
                struct entry other = e[i];

                e[i] = e[j];
                e[j] = other;
            }
    kept = kept > FINALISTS + 1 ? FINALISTS + 1 : kept;
    time_some(w, e, kept, direction, FINAL_ROUNDS, FINAL_CALLS);
    for (int i = 1; i < kept; i++)
        if (e[i].us[direction] < e[winner].us[direction])
            winner = i;
    b->us[direction] = e[0].us[direction];
    b->best_us[direction] = e[winner].us[direction];
    snprintf(b->name[direction], sizeof(b->name[direction]), "%s", named(e[winner].variant, direction));
    free(e);
}

bool best_find(struct best *b, struct work *w, int most)
{
    int n = most > 0 && find_library() ? variants(w->l->type, w->user, most, (int)sysconf(_SC_NPROCESSORS_ONLN)) : 0;
    struct entry *all;
    bool right = true;

    if (n <= 0)
        return true;
    all = host_new((size_t)(n + 1) * sizeof(*all));
    write_turned(w);
    for (int i = 0; i <= n; i++) {
        all[i] = (struct entry){ .variant = i - 1 };
        all[i].wrong = i > 0 && !verify(w, i - 1);
        right = right && !all[i].wrong;
    }
    for (int direction = 0; direction < 2; direction++)
        compete(b, w, all, n + 1, direction);
    serve(w, SERVING);
    b->variants = n;
    free(all);
    return right;
}
