/* launch_graph.c: launches kernels as graphs of one node, whose arguments are set each time.
 *
 * On an H200 such a launch ends 2 us sooner than cuLaunchKernel (bench/search, "wait"). Each entry of a module has
 * a few graphs, selected by stream. Launches of one graph wait for each other, even on different streams. A launch
 * keeps its own arguments, so a graph is free as soon as it is launched. Graphs are built by nodes, because
 * capturing a stream disturbs the application's default stream. */
#include "kernel_internal.h"
#include "base/log.h"
#include <stdlib.h>

struct graph {
    CUgraph graph;   /* kept, because the node is needed to set the arguments */
    CUgraphNode node;
    CUgraphExec exec;
};

/* Slot values. in_use: a thread is using the slot's graph. refused: the driver can't make a graph here. */
static struct graph in_use, refused;

static void graph_free(struct graph *g, bool there)
{
    const struct driver *driver = driver_get();
    if (!g) return;
    if (there && g->exec) driver->cuGraphExecDestroy(g->exec);
    if (there && g->graph) driver->cuGraphDestroy(g->graph);
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

bool launch_graph(struct module *m, enum kernel_direction direction, int entry, const CUDA_KERNEL_NODE_PARAMS *kernel,
                  struct stream *s)
{
    const struct driver *driver = driver_get();
    if (!driver->graphs || s->foreign) return false;
    _Atomic(struct graph *) *slot = &m->graphs[direction][entry][s->number % MODULE_GRAPHS];
    if (atomic_load_explicit(slot, memory_order_relaxed) == &refused) return false;
    struct graph *g = atomic_exchange_explicit(slot, &in_use, memory_order_acquire);
    if (g == &in_use) return false;
    CUresult r = g == &refused ? CUDA_ERROR_NOT_SUPPORTED : prepare(driver, &g, kernel, s->priority);
    if (r == CUDA_SUCCESS) r = driver->cuGraphLaunch(g->exec, stream_use(s));
    if (r != CUDA_SUCCESS && g != &refused) {
        log_write(LOG_DEBUG, "%s is launched without graphs: %s", m->kernel->signature, driver_error(r));
        graph_free(g, true);
        g = &refused;
    }
    atomic_store_explicit(slot, g, memory_order_release);
    return r == CUDA_SUCCESS;
}

void launch_graphs_free(struct module *m, bool there)
{
    _Atomic(struct graph *) *slot = &m->graphs[0][0][0];
    for (size_t i = 0; i < sizeof m->graphs / sizeof *slot; i++) {
        struct graph *g = atomic_exchange(&slot[i], NULL);
        if (g != &refused) graph_free(g, there);
    }
}
