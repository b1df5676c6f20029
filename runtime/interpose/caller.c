/* caller.c: tells who made a call during another call: the program, or the MPI and stridec. The code segment of the
 * return address decides. */
#include "interpose.h"
#include "next.h"
#include <link.h>
#include <pthread.h>
#include <string.h>

extern struct next next_mpi, next_pmpi;

/* Code segments that calls came from. After dlclose, new code at an old address may be mistaken for old code. */
#define SEGMENTS 32
static struct segment {
    uintptr_t start, end;
    bool below;
} segments[SEGMENTS];
static atomic_int segment_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool contains(const struct segment *s, uintptr_t at)
{
    return at - s->start < s->end - s->start;
}

static bool contains_next(const struct segment *s, const struct next *next)
{
    uintptr_t at[sizeof *next / sizeof(uintptr_t)];
    bool any = false;
    memcpy(at, next, sizeof at);
    for (size_t i = 0; i < sizeof at / sizeof *at && !any; i++) any = at[i] && contains(s, at[i]);
    return any;
}

/* Returns true for this library, libraries with functions of the chain, and those that Open MPI may load later. */
static bool is_mpi_segment(const struct segment *s, const char *path)
{
    static const char *const parts[] = {"mca_", "libmca_", "libopen-"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    bool any = contains(s, (uintptr_t)&caller_is_mpi) || contains_next(s, &next_mpi) || contains_next(s, &next_pmpi);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) any |= !strncmp(name, parts[i], strlen(parts[i]));
    return any;
}

struct search {
    uintptr_t at;
    struct segment found;
};

static int find_segment(struct dl_phdr_info *in, size_t bytes, void *search)
{
    struct search *s = search;
    (void)bytes;
    for (int i = 0; i < in->dlpi_phnum && !s->found.end; i++) {
        const ElfW(Phdr) *h = &in->dlpi_phdr[i];
        struct segment found = {.start = in->dlpi_addr + h->p_vaddr, .end = in->dlpi_addr + h->p_vaddr + h->p_memsz};
        if (h->p_type != PT_LOAD || !contains(&found, s->at)) continue;
        s->found = found;
        s->found.below = is_mpi_segment(&found, in->dlpi_name);
    }
    return s->found.end != 0;
}

static void add_segment(struct segment s)
{
    pthread_mutex_lock(&lock);
    int n = atomic_load(&segment_count);
    if (n < SEGMENTS) segments[n] = s, atomic_store_explicit(&segment_count, n + 1, memory_order_release);
    pthread_mutex_unlock(&lock);
}

bool caller_is_mpi(const void *caller)
{
    struct search s = {.at = (uintptr_t)caller};
    int n = atomic_load_explicit(&segment_count, memory_order_acquire);
    for (int i = 0; i < n; i++)
        if (contains(&segments[i], s.at)) return segments[i].below;
    /* Code outside all segments was generated at run time, by the program. */
    if (dl_iterate_phdr(find_segment, &s)) add_segment(s.found);
    return s.found.below;
}
