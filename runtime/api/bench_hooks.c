/* bench_hooks.c: see bench_hooks.h. */
#include "bench_hooks.h"
#include "base/activity.h"
#include "base/log.h"
#include "datatype/layout.h"
#include "hostpack/host_pack.h"
#include <stdlib.h>
#include <string.h>

EXPORT stridec_variants_function stridec_variants;
EXPORT stridec_variant_name_function stridec_variant_name;
EXPORT stridec_variant_use_function stridec_variant_use;
EXPORT stridec_kernel_ready_function stridec_kernel_ready;
EXPORT stridec_host_ready_function stridec_host_ready;
EXPORT stridec_host_served_function stridec_host_served;
EXPORT stridec_kernel_state_function stridec_kernel_state;

/* of the last stridec_variants, by direction */
static char **listed[2];
static int counts[2];

static void forget(void)
{
    for (int i = 0; i < 2; i++) {
        if (listed[i]) gen_knob_list_free(listed[i]);
        listed[i] = NULL;
        counts[i] = 0;
    }
}

/* Returns NULL for types without a kernel of their own. */
static struct kernel *kernel_for(MPI_Datatype type)
{
    interpose_depth++;
    struct layout *l = layout_of(type);
    interpose_depth--;
    struct kernel *k = l ? l->kernel : NULL;
    return k && kernel_family(k) != GEN_CONTIGUOUS && kernel_family(k) != GEN_GENERIC ? k : NULL;
}

static void pair(int i, const char *knobs[2])
{
    for (int d = 0; d < 2; d++) knobs[d] = i < counts[d] ? listed[d][i] : NULL;
}

static void prepare(const struct kernel *k, const struct device *d, int n, int threads)
{
    struct kernel_trial *trials = calloc((size_t)n, sizeof *trials);
    if (!trials) return;   /* the worker then compiles each one when it is used */
    for (int i = 0; i < n; i++) {
        trials[i].kernel = k;
        pair(i, trials[i].knobs);
    }
    kernel_prepare(trials, n, d, threads);
    free(trials);
}

int stridec_variants(MPI_Datatype type, const void *user, int most, int threads)
{
    struct kernel *k = kernel_for(type);
    struct device *d = device_of(user);
    forget();
    if (!k || !d) return 0;
    for (int i = 0; i < 2; i++) {
        struct reason why;
        int n = kernel_candidates(k, d, (enum kernel_direction)i, &listed[i], &why);
        if (n < 0) log_write(LOG_WARN, "no variants of %s: %s", kernel_signature(k), why.text);
        counts[i] = n < 0 ? 0 : n < most ? n : most;
    }
    int n = counts[0] > counts[1] ? counts[0] : counts[1];
    if (n) prepare(k, d, n, threads);
    return n;
}

const char *stridec_variant_name(int i, int direction)
{
    return i >= 0 && i < counts[direction] ? listed[direction][i] : NULL;
}

int stridec_variant_use(MPI_Datatype type, const void *user, int i)
{
    struct kernel *k = kernel_for(type);
    struct device *d = device_of(user);
    const char *knobs[2];
    if (!k || !d || device_enter(d)) return -1;
    pair(i < 0 ? counts[0] + counts[1] : i, knobs);
    int rc = kernel_try(k, d, i < 0 ? NULL : knobs);
    device_leave(d);
    return rc;
}

int stridec_kernel_ready(MPI_Datatype type, const void *user)
{
    struct kernel *k = kernel_for(type);
    struct device *d = device_of(user);
    if (!k || !d || !strcmp(kernel_state(k), "failed")) return -1;
    return kernel_ready_at_first(k, d);
}

const char *stridec_kernel_state(MPI_Datatype type)
{
    struct kernel *k = kernel_for(type);
    return k ? kernel_state(k) : "none";
}

int stridec_host_ready(MPI_Datatype type, int wait)
{
    struct layout *l = layout_of(type);
    return l ? host_pack_ready(l, wait) : -1;
}

long stridec_host_served(MPI_Datatype type)
{
    struct layout *l = layout_of(type);
    return l ? (long)atomic_load(&l->host_served) : 0;
}
