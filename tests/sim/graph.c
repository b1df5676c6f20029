/* graph.c: graphs of one kernel: made, instantiated, changed and launched; of captured work: instantiated and launched.
 *
 * Handles that are none, and a node of another graph, are CUDA_ERROR_INVALID_VALUE here where the driver may crash. */
#include "sim.h"
#include <stdlib.h>

struct CUgraphNode_st {
    struct launch launch;
    int priority;
};

struct work {
    int refs;
    CUcontext context;
    struct op *head, **tail;
};

/* One launch of work. */
struct work_op {
    struct op op;
    struct work *work;
    struct op *at;                 /* the first that has not run */
};

struct CUgraph_st {
    struct CUgraphNode_st *node;   /* or */
    struct work *work;             /* or neither */
    struct CUgraph_st *next;
};

struct CUgraphExec_st {
    struct CUgraphNode_st *node;   /* of the graph that it was made from: compared, never read */
    struct launch launch;
    struct work *work;             /* in place of node and launch, or NULL */
    struct CUstream_st *stream;    /* of its last launch, or NULL */
    uint64_t last;
    struct CUgraphExec_st *next;
};
static struct CUgraph_st *graphs;
static struct CUgraphExec_st *execs;

static struct CUgraph_st **graph_link(CUgraph handle)
{
    struct CUgraph_st **link = &graphs;
    while (*link && *link != handle) link = &(*link)->next;
    return link;
}

static struct CUgraphExec_st **exec_link(CUgraphExec handle)
{
    struct CUgraphExec_st **link = &execs;
    while (*link && *link != handle) link = &(*link)->next;
    return link;
}

static bool node_live(CUgraphNode node)
{
    const struct CUgraph_st *g = graphs;
    while (g && g->node != node) g = g->next;
    return node && g;
}

/* A copy of what the parameters ask for. */
static CUresult launch_of(struct launch *out, const CUDA_KERNEL_NODE_PARAMS *p, CUcontext ctx)
{
    if (!p || p->extra || p->sharedMemBytes > SIM_SHARED_MAX) return CUDA_ERROR_INVALID_VALUE;
    const struct launch l = {p->func, {p->gridDimX, p->gridDimY, p->gridDimZ},
                             {p->blockDimX, p->blockDimY, p->blockDimZ}, p->kernelParams};
    return launch_make(out, &l, ctx);
}

/* --- captured work --- */

struct work *work_new(CUcontext ctx)
{
    struct work *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->refs = 1;
    w->context = ctx;
    w->tail = &w->head;
    return w;
}

void work_add(struct work *w, struct op *o)
{
    *w->tail = o;
    w->tail = &o->next;
}

void work_unref(struct work *w)
{
    if (!w || --w->refs) return;
    for (struct op *o; (o = w->head);) {
        w->head = o->next;
        if (o->drop) o->drop(o);
        free(o);
    }
    free(w);
}

static CUresult run_work(struct op *o)
{
    struct work_op *w = (struct work_op *)o;
    CUresult r = CUDA_SUCCESS;
    while (w->at && !(r = w->at->run(w->at))) w->at = w->at->next;
    return r;
}

static void drop_work(struct op *o)
{
    work_unref(((struct work_op *)o)->work);
}

/* Enqueues a launch of w, as launch_add does of a kernel. */
static CUresult work_launch(struct CUstream_st *s, struct work *w, uint64_t *seq)
{
    struct work_op *o = calloc(1, sizeof *o);
    if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = run_work;
    o->op.drop = drop_work;
    o->work = w;
    o->at = w->head;
    w->refs++;
    sim_counts.launches++;
    *seq = stream_add(s, &o->op);
    return CUDA_SUCCESS;
}

/* --- graphs --- */

CUresult graph_new(CUgraph *out, struct work *w)
{
    struct CUgraph_st *g = calloc(1, sizeof *g);
    if (!g) {
        work_unref(w);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    g->work = w;
    g->next = graphs;
    graphs = *out = g;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphCreate(CUgraph *out, unsigned int flags)
{
    ENTER_ANY();
    return !out || flags ? CUDA_ERROR_INVALID_VALUE : graph_new(out, NULL);
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph)
{
    ENTER_ANY();
    struct CUgraph_st **link = graph_link(graph), *g = *link;
    if (!g) return CUDA_ERROR_INVALID_VALUE;
    *link = g->next;
    if (g->node) launch_free(&g->node->launch);
    free(g->node);
    work_unref(g->work);
    free(g);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t n,
                                      const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    ENTER();
    struct CUgraph_st *g = *graph_link(graph);
    (void)before;
    if (!out || !g) return CUDA_ERROR_INVALID_VALUE;
    if (g->node || g->work || n) return CUDA_ERROR_NOT_SUPPORTED;
    struct CUgraphNode_st *node = calloc(1, sizeof *node);
    CUresult r = node ? launch_of(&node->launch, parameters, ctx) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r) {
        free(node);
        return r;
    }
    g->node = *out = node;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                               const CUkernelNodeAttrValue *value)
{
    ENTER_ANY();
    if (!node_live(node) || !value) return CUDA_ERROR_INVALID_VALUE;
    if (attribute != CU_KERNEL_NODE_ATTRIBUTE_PRIORITY) return CUDA_ERROR_NOT_SUPPORTED;
    node->priority = value->priority;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                               CUkernelNodeAttrValue *value)
{
    ENTER_ANY();
    if (!node_live(node) || !value) return CUDA_ERROR_INVALID_VALUE;
    if (attribute != CU_KERNEL_NODE_ATTRIBUTE_PRIORITY) return CUDA_ERROR_NOT_SUPPORTED;
    value->priority = node->priority;
    return CUDA_SUCCESS;
}

#undef cuGraphInstantiateWithFlags
CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags);
CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    ENTER();
    const struct CUgraph_st *g = *graph_link(graph);
    const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
#if CUDA_VERSION >= 11070
                                     | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
#endif
        ;
    if (!out || !g || flags & ~known) return CUDA_ERROR_INVALID_VALUE;
    if (!g->node && !g->work) return CUDA_ERROR_NOT_SUPPORTED;
    struct CUgraphExec_st *e = calloc(1, sizeof *e);
    CUresult r = e ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!r && g->node) r = launch_make(&e->launch, &g->node->launch, ctx);
    if (r) {
        free(e);
        return r;
    }
    e->node = g->node;
    if ((e->work = g->work)) e->work->refs++;
    e->next = execs;
    execs = *out = e;
    return CUDA_SUCCESS;
}

/* Launches that are queued keep what they were given. The kernel's context cannot change. */
CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    ENTER();
    struct CUgraphExec_st *e = *exec_link(exec);
    struct launch l;
    if (!e || !node_live(node) || e->node != node) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = launch_of(&l, parameters, ctx);
    if (r) return r;
    launch_free(&e->launch);
    e->launch = l;
    sim_counts.arguments_set++;
    return CUDA_SUCCESS;
}

/* One launch of an executable graph runs after the other, whatever their streams. */
CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    ENTER();
    struct CUgraphExec_st *e = *exec_link(exec);
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!e) return CUDA_ERROR_INVALID_VALUE;
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (s->context != ctx || (e->work && e->work->context != ctx)) return CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = capture_excludes(s);
    if (!r && e->stream && e->stream != s) r = stream_await(s, e->stream, e->last);
    if (!r) r = e->work ? work_launch(s, e->work, &e->last) : launch_add(s, &e->launch, &e->last);
    if (r) return r;
    sim_counts.graph_launches++;
    s->refs++;
    if (e->stream) stream_unref(e->stream);
    e->stream = s;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec)
{
    ENTER_ANY();
    struct CUgraphExec_st **link = exec_link(exec), *e = *link;
    if (!e) return CUDA_ERROR_INVALID_VALUE;
    *link = e->next;
    if (e->stream) stream_unref(e->stream);
    launch_free(&e->launch);
    work_unref(e->work);
    free(e);
    return CUDA_SUCCESS;
}
