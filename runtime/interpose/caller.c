/* caller.c: who calls while a call is being served: what lies below the program in the chain, or the program, from
 * what the MPI calls back. Told by the segment of code that the call came from. */
#include "interpose.h"
#include "next.h"
#include <link.h>
#include <pthread.h>
#include <string.h>

extern struct next next_mpi, next_pmpi;

/* Segments that calls have come from. What the program unloads may be taken for what is loaded in its place. */
#define SEGMENTS 32
static struct segment {
    uintptr_t start, end;
    bool below;
} met[SEGMENTS];
static atomic_int met_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool has(const struct segment *s, uintptr_t at)
{
    return at - s->start < s->end - s->start;
}

static bool has_next(const struct segment *s, const struct next *next)
{
    uintptr_t at[sizeof *next / sizeof(uintptr_t)];
    bool any = false;
    memcpy(at, next, sizeof at);
    for (size_t i = 0; i < sizeof at / sizeof *at && !any; i++) any = at[i] && has(s, at[i]);
    return any;
}

/* This library; those that have a function of the chain's; Open MPI's other ones, which it may load later. */
static bool lies_below(const struct segment *s, const char *path)
{
    static const char *const parts[] = {"mca_", "libmca_", "libopen-"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    bool any = has(s, (uintptr_t)&interpose_below) || has_next(s, &next_mpi) || has_next(s, &next_pmpi);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) any |= !strncmp(name, parts[i], strlen(parts[i]));
    return any;
}

struct search {
    uintptr_t at;
    struct segment found;
};

static int look_in(struct dl_phdr_info *in, size_t bytes, void *search)
{
    struct search *s = search;
    (void)bytes;
    for (int i = 0; i < in->dlpi_phnum && !s->found.end; i++) {
        const ElfW(Phdr) *h = &in->dlpi_phdr[i];
        struct segment found = {.start = in->dlpi_addr + h->p_vaddr, .end = in->dlpi_addr + h->p_vaddr + h->p_memsz};
        if (h->p_type != PT_LOAD || !has(&found, s->at)) continue;
        s->found = found;
        s->found.below = lies_below(&found, in->dlpi_name);
    }
    return s->found.end != 0;
}

static void keep(struct segment s)
{
    pthread_mutex_lock(&lock);
    int n = atomic_load(&met_count);
    if (n < SEGMENTS) met[n] = s, atomic_store_explicit(&met_count, n + 1, memory_order_release);
    pthread_mutex_unlock(&lock);
}

bool interpose_below(const void *caller)
{
    struct search s = {.at = (uintptr_t)caller};
    int n = atomic_load_explicit(&met_count, memory_order_acquire);
    for (int i = 0; i < n; i++)
        if (has(&met[i], s.at)) return met[i].below;
    /* What is found nowhere was made at run time: the program's. */
    if (dl_iterate_phdr(look_in, &s)) keep(s.found);
    return s.found.below;
}
