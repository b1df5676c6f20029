/* host_pack.c: packs in host memory by compiled code, or by a walk over the layout's tree. See host_pack.h. */
#include "host_pack.h"
#include "../../gen/pack.h"
#include "base/env.h"
#include "host_compiler.h"
#include "host_pack_internal.h"
#include "kernel/cores.h"
#include <stdlib.h>

/* Uses before code is requested: a compile takes 0.1 s of a processor and more. */
#define USES 1
#define USES_SCARCE 16

static void host_pack_free(struct host_pack *n)
{
    if (n) free(atomic_load(&n->lists));
    free(n);
}

struct host_pack *host_pack_of(struct kernel *k)
{
    struct host_pack *n = atomic_load_explicit(&k->host_pack, memory_order_acquire), *none = NULL;
    if (n) return n;
    n = calloc(1, sizeof *n);
    atomic_store(&k->host_pack_free, host_pack_free);
    if (n && !atomic_compare_exchange_strong(&k->host_pack, &none, n)) {
        free(n);
        n = none;
    }
    return n;
}

const struct stridec_host_list *host_pack_lists(struct kernel *k)
{
    struct host_pack *n = host_pack_of(k);
    struct stridec_host_list *l = n ? atomic_load_explicit(&n->lists, memory_order_acquire) : NULL, *none = NULL;
    struct reason why;
    if (l || !n) return l;
    l = form_host_lists(k->form, &why);
    if (l && !atomic_compare_exchange_strong(&n->lists, &none, l)) {
        free(l);
        l = none;
    }
    return l;
}

/* Returns the module for host memory; NULL for a single block, which needs none. */
static struct module *module_in_host(struct kernel *k)
{
    return k->family == GEN_CONTIGUOUS || k->family == GEN_GENERIC ? NULL
                                                                   : module_for_target(kernel_code(k), &host_target);
}

/* Returns the module if it is ready. Requests it when the form's layouts have enough uses; `counts`: this is one. */
static struct module *code(struct kernel *k, bool counts)
{
    struct module *m = module_in_host(k);
    if (!m) return NULL;
    enum stage stage = module_stage(m);
    if (stage == STAGE_NONE && counts) {
        struct kernel *shared = kernel_code(k);
        unsigned uses = kernel_used(k) + (shared == k ? 0 : kernel_used(shared));
        kernel_use(shared, 1);
        if (uses >= (cores_are_scarce() ? USES_SCARCE : USES)) stage = module_request(m);
    }
    return stage == STAGE_READY ? m : NULL;
}

struct module *host_pack_code(struct kernel *k)
{
    return code(k, true);
}

bool host_pack_code_awaited(struct kernel *k)
{
    struct module *m = module_in_host(k);
    return m && (module_stage(m) == STAGE_PENDING || module_stage(m) == STAGE_NONE);
}

bool host_pack_run_code(struct layout *l, int way, struct stridec_host *a)
{
    struct kernel *k = l->kernel;
    struct module *m = code(k, a->begin == 0);
    if (!m || (form_has_lists(k->form) && !(a->list = host_pack_lists(k)))) return false;
    a->user += (uint64_t)l->tree->off;
    a->wrap = launch_wraps(k->tree, l->extent, a->end);
    m->host[way](a);
    return true;
}

static bool move(struct layout *l, enum kernel_direction direction, const void *user, void *packed, int64_t begin,
                 int64_t end)
{
    if (!l->tree || !env_get()->on_host.serves) return false;
    if (!l->kernel || begin >= end) return true;
    uintptr_t at = (uintptr_t)user;
    struct stridec_host a = {.packed = packed, .user = at, .extent = l->extent, .begin = begin, .end = end};
    if (host_pack_run_code(l, direction, &a)) return true;
    if (direction == KERNEL_PACK) tree_pack(l->tree, packed, at, l->extent, begin, end);
    else tree_unpack(l->tree, packed, at, l->extent, begin, end);
    return true;
}

bool host_pack_pack(struct layout *l, int64_t count, const void *user, void *packed, int64_t begin, int64_t end)
{
    (void)count;
    return move(l, KERNEL_PACK, user, packed, begin, end);
}

bool host_pack_unpack(struct layout *l, int64_t count, void *user, const void *packed, int64_t begin, int64_t end)
{
    (void)count;
    return move(l, KERNEL_UNPACK, user, (void *)(uintptr_t)packed, begin, end);
}

int host_pack_serve(struct layout *l, enum kernel_direction d, const void *user, int64_t count, const void *packed)
{
    host_pack_count(l);
    host_pack_run(l, d, user, count, packed, count * l->size);
    return MPI_SUCCESS;
}

int host_pack_code_state(struct layout *l)
{
    if (!l->kernel) return -1;
    return host_pack_code(l->kernel) ? 1 : host_pack_code_awaited(l->kernel) ? 0 : -1;
}

const char *host_pack_origin(const struct layout *l)
{
    struct module *m = l->kernel ? module_in_host(l->kernel) : NULL;
    return m && module_stage(m) == STAGE_READY ? m->origin : NULL;
}

int host_pack_ready(struct layout *l, bool wait)
{
    struct module *m = l->kernel ? module_in_host(l->kernel) : NULL;
    atomic_fetch_add(&host_compiler_waiters, wait);
    if (m) module_request(m);
    if (m && wait) kernel_await(l->kernel);
    atomic_fetch_sub(&host_compiler_waiters, wait);
    return l->kernel ? host_pack_code_state(l) : -1;
}
