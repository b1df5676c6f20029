/* host_range.c: finds the host's memory ranges. */
#include "host_range.h"
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Most looks at a growing stack; each reads /proc/self/maps. */
#define LOOKS_MAX 32

struct host_range host_data;
_Atomic uintptr_t host_heap = UINTPTR_MAX;
_Thread_local struct host_stack host_stack __attribute__((tls_model("initial-exec")));
_Atomic uint64_t host_types[1 << HOST_TYPES_BITS];
atomic_bool host_contig_passes;

/* Finds a named mapping, with all parts up to a hole: the kernel lists parts with other settings (madvise) apart. */
static bool find_mapping(const char *name, uintptr_t *start, uintptr_t *past)
{
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    uintptr_t from, to;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && getline(&line, &room, f) > 0) {
        if (!strstr(line, name) || sscanf(line, "%zx-%zx", &from, &to) != 2) continue;
        if (found && from != *past) break;
        if (!found) *start = from;
        *past = to;
        found = true;
    }
    free(line);
    if (f) fclose(f);
    return found;
}

/* Finds the program's variables: the executable comes first, and its writable segment holds them. */
static int find_data(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD || !(h->p_flags & PF_W)) continue;
        host_data.start = info->dlpi_addr + h->p_vaddr;
        atomic_store_explicit(&host_data.bytes, h->p_memsz, memory_order_release);
        break;
    }
    return 1;
}

static void find_ranges(void)
{
    uintptr_t start, past, brk = &__curbrk ? (uintptr_t)__curbrk : 0;
    dl_iterate_phdr(find_data, NULL);
    if (find_mapping("[heap]\n", &start, &past) && start < brk && brk <= past) atomic_store(&host_heap, start);
}

static bool first_thread(void)
{
    return syscall(SYS_gettid) == getpid();
}

static void find_stack(struct host_stack *s)
{
    uintptr_t start = 0, past = 0;
    if (!s->looks++ && !first_thread()) {
        pthread_attr_t a;
        void *low;
        size_t bytes;
        s->looks = LOOKS_MAX;
        if (pthread_getattr_np(pthread_self(), &a)) return;
        if (!pthread_attr_getstack(&a, &low, &bytes)) s->low = (uintptr_t)low, s->bytes = bytes;
        pthread_attr_destroy(&a);
    } else if (find_mapping("[stack]\n", &start, &past)) {
        s->low = start, s->bytes = past - start;
    }
}

bool host_range_learn(const void *p)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct host_stack *s = &host_stack;
    uintptr_t a = (uintptr_t)p, here = (uintptr_t)__builtin_frame_address(0);
    pthread_once(&once, find_ranges);
    bool grown = s->looks < LOOKS_MAX && a < s->low && a >= here;
    if (!s->looks || grown) find_stack(s);
    return host_range_has(p);
}

/* Returns true if p is readable: the kernel reads the mask before it refuses the invalid first argument. */
bool host_readable(const void *p)
{
    const uintptr_t mask_bytes = 8;
    uintptr_t mask = (uintptr_t)p / mask_bytes * mask_bytes;
    return syscall(SYS_rt_sigprocmask, -1, mask, NULL, mask_bytes) == 0 || errno != EFAULT;
}
