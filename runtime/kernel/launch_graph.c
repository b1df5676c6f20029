/* launch_graph.c: launches kernels as graphs of one node.
 *
 * On an H200 such a launch ends 2 us sooner than cuLaunchKernel (bench/search, "wait"), and one whose arguments are
 * those of an earlier launch, which are not set again, another 0.6 us, or 2 with arguments of 4000 bytes. So each entry
 * of a module has a few graphs. A launch takes one that has its arguments, else changes those of one that no other
 * stream has launched, else of the next in turn.
 *
 * Launches of one graph wait for each other, even on different streams. A launch keeps its own arguments, so a graph is
 * free as soon as it is launched. Graphs are built by nodes, because capturing a stream disturbs the application's
 * default stream. */
#include "kernel_internal.h"
#include "base/log.h"
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct graph {
    CUgraph graph;   /* kept, because the node is needed to set the arguments */
    CUgraphNode node;
    CUgraphExec exec;
    unsigned blocks, threads;   /* of the last launch, and its arguments; held 0: not known */
    size_t held, room;
    void *arguments;
};

static struct graph in_use;   /* in place of a graph that a thread is using */

static void graph_free(struct graph *g, bool there)
{
    const struct driver *driver = driver_get();
    if (!g) return;
    if (there && g->exec) driver->cuGraphExecDestroy(g->exec);
    if (there && g->graph) driver->cuGraphDestroy(g->graph);
    free(g->arguments);
    free(g);
}

static CUresult build(const struct driver *driver, struct graph *g, const CUDA_KERNEL_NODE_PARAMS *kernel, int priority)
{
    CUkernelNodeAttrValue value = {.priority = priority};
    CUresult r = driver->cuGraphCreate(&g->graph, 0);
    if (r == CUDA_SUCCESS) r = driver->cuGraphAddKernelNode(&g->node, g->graph, NULL, 0, kernel);
    if (r == CUDA_SUCCESS)
        r = driver->cuGraphKernelNodeSetAttribute(g->node, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value);
    if (r == CUDA_SUCCESS) r = driver->cuGraphInstantiateWithFlags(&g->exec, g->graph, 0);
    return r;
}

/* Creates *g if it is NULL, and sets its arguments. */
static CUresult prepare(const struct driver *driver, struct graph **g, const CUDA_KERNEL_NODE_PARAMS *kernel,
                        int priority)
{
    if (*g) return driver->cuGraphExecKernelNodeSetParams((*g)->exec, (*g)->node, kernel);
    *g = calloc(1, sizeof **g);
    return *g ? build(driver, *g, kernel, priority) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Returns the number of the graph to launch: one with this key, if there is one; else one that no other stream has
 * launched, if there is one. */
static int choose(struct launch_graphs *all, uint64_t key, const struct stream *s)
{
    for (int i = 0; i < MODULE_GRAPHS && key; i++)
        if (atomic_load_explicit(&all->key[i], memory_order_relaxed) == key) return i;
    unsigned turn = atomic_fetch_add_explicit(&all->turn, 1, memory_order_relaxed);
    for (unsigned i = 0; i < MODULE_GRAPHS; i++) {
        int at = (int)((turn + i) % MODULE_GRAPHS);
        int last = atomic_load_explicit(&all->stream[at], memory_order_relaxed);
        if (!last || last == s->number + 1) return at;
    }
    return (int)(turn % MODULE_GRAPHS);
}

/* Returns true if g has these arguments. */
static bool has(const struct graph *g, const struct launch *l, const CUDA_KERNEL_NODE_PARAMS *kernel)
{
    return l->bytes && g->held == l->bytes && g->blocks == kernel->gridDimX && g->threads == kernel->blockDimX &&
           !memcmp(g->arguments, l->argument, l->bytes);
}

static void hold(struct graph *g, const struct launch *l, const CUDA_KERNEL_NODE_PARAMS *kernel)
{
    g->held = 0, g->blocks = kernel->gridDimX, g->threads = kernel->blockDimX;
    if (g->room < l->bytes) {
        free(g->arguments);
        g->arguments = malloc(l->bytes), g->room = g->arguments ? l->bytes : 0;
    }
    if (g->room < l->bytes || !l->bytes) return;
    memcpy(g->arguments, l->argument, l->bytes);
    g->held = l->bytes;
}

bool launch_graph(struct module *m, const struct launch *l, const CUDA_KERNEL_NODE_PARAMS *kernel, struct stream *s)
{
    const struct driver *driver = driver_get();
    struct launch_graphs *all = &m->graphs[l->direction][l->entry];
    if (!driver->graphs || s->foreign || atomic_load_explicit(&all->refused, memory_order_relaxed)) return false;
    uint64_t key = l->bytes ? XXH3_64bits(l->argument, l->bytes) | 1 : 0;
    int at = choose(all, key, s);
    struct graph *g = atomic_exchange_explicit(&all->graph[at], &in_use, memory_order_acquire);
    if (g == &in_use) return false;
    CUresult r = CUDA_SUCCESS;
    if (!g || !has(g, l, kernel)) {
        r = prepare(driver, &g, kernel, s->priority);
        if (r == CUDA_SUCCESS) hold(g, l, kernel);
        atomic_store_explicit(&all->key[at], key, memory_order_relaxed);
    }
    if (r == CUDA_SUCCESS) r = driver->cuGraphLaunch(g->exec, stream_use(s));
    atomic_store_explicit(&all->stream[at], s->number + 1, memory_order_relaxed);
    if (r != CUDA_SUCCESS) {
        log_write(LOG_DEBUG, "%s is launched without graphs: %s", m->kernel->signature, driver_error(r));
        graph_free(g, true);
        g = NULL;
        atomic_store(&all->refused, true);
    }
    atomic_store_explicit(&all->graph[at], g, memory_order_release);
    return r == CUDA_SUCCESS;
}

void launch_graphs_free(struct module *m, bool there)
{
    struct launch_graphs *all = &m->graphs[0][0];
    for (size_t i = 0; i < sizeof m->graphs / sizeof *all; i++)
        for (int k = 0; k < MODULE_GRAPHS; k++) graph_free(atomic_exchange(&all[i].graph[k], NULL), there);
}
