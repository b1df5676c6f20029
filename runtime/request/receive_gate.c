/* receive_gate.c: receives on their way into the MPI. */
#include "receive_gate.h"
#include "base/log.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The gate of one thread, in its own cache line. Never freed: another thread takes it over after the end of its own.
 * Other threads may read a mix of two receives' arguments. Then the first has passed, and the second sees the probe. */
struct gate {
    _Alignas(64) atomic_bool open;
    atomic_bool owned;
    atomic_int source, tag;
    _Atomic(MPI_Comm) comm;
    struct gate *next;
};

static _Atomic(struct gate *) first;
static _Thread_local struct gate *mine __attribute__((tls_model("initial-exec")));
static pthread_key_t key;
static bool keyed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Gives a gate back at the end of its thread. A destructor of the program may still receive later. */
static void give_up(void *gate)
{
    struct gate *g = gate;
    mine = NULL;
    atomic_store(&g->open, false);
    atomic_store(&g->owned, false);
}

static void make_key(void)
{
    keyed = !pthread_key_create(&key, give_up);
}

static struct gate *used(void)
{
    for (struct gate *g = atomic_load(&first); g; g = g->next) {
        bool owned = false;
        if (atomic_compare_exchange_strong(&g->owned, &owned, true)) return g;
    }
    return NULL;
}

static struct gate *make(void)
{
    struct gate *g = aligned_alloc(_Alignof(struct gate), sizeof *g);
    if (!g) log_fatal("no memory for the record of a thread that receives");
    memset(g, 0, sizeof *g);
    atomic_store(&g->owned, true);
    g->next = atomic_load(&first);
    while (!atomic_compare_exchange_weak(&first, &g->next, g)) {}
    return g;
}

static struct gate *get(void)
{
    pthread_once(&once, make_key);
    mine = used();
    if (!mine) mine = make();
    if (keyed) pthread_setspecific(key, mine);
    return mine;
}

void receive_gate_show(int source, int tag, MPI_Comm comm)
{
    struct gate *g = mine ? mine : get();
    atomic_store_explicit(&g->source, source, memory_order_relaxed);
    atomic_store_explicit(&g->tag, tag, memory_order_relaxed);
    atomic_store_explicit(&g->comm, comm, memory_order_relaxed);
    atomic_store(&g->open, true);   /* before what probed_any reads */
}

void receive_gate_hide(void)
{
    if (mine) atomic_store_explicit(&mine->open, false, memory_order_release);
}

static bool awaits(const struct gate *g, int source, int tag, MPI_Comm comm)
{
    if (!atomic_load(&g->open)) return false;
    MPI_Comm of = atomic_load_explicit(&g->comm, memory_order_relaxed);
    int from = atomic_load_explicit(&g->source, memory_order_relaxed),
        by = atomic_load_explicit(&g->tag, memory_order_relaxed);
    if (of == MPI_COMM_NULL) return true;
    return of == comm && (from == MPI_ANY_SOURCE || from == source) && (by == MPI_ANY_TAG || by == tag);
}

bool receive_gate_awaits(int source, int tag, MPI_Comm comm)
{
    if (!receive_gate_on()) return false;
    for (const struct gate *g = atomic_load(&first); g; g = g->next)
        if (awaits(g, source, tag, comm)) return true;
    return false;
}
