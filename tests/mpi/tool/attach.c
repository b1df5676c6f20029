/* attach.c: what the system may refuse, as a library to be preloaded. A process_vm_readv that counts stridec's calls and lets
 * them fail: ATTACH_FAIL is "all" (not permitted from the first on), or after how many calls each one fails, having read a
 * half. A posix_fallocate of stridec's that a signal interrupts, the first of each two times, where FILES_INTERRUPTED is set; that
 * finds no space for FILES_FULL bytes, from the second time on. */
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

int attach_calls, attach_failures;

/* By way of a sanitizer, which has a process_vm_readv too, the caller is not seen: Open MPI reads nothing itself as the tests set
 * it up. */
static int is_stridec(const void *caller)
{
    Dl_info in;
    if (!dladdr(caller, &in) || !in.dli_fname) return 0;
#ifdef OPEN_MPI
    if (strstr(in.dli_fname, "libasan") || strstr(in.dli_fname, "libtsan")) return 1;
#endif
    return strstr(in.dli_fname, "libstridec") != NULL;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *own, unsigned long n_own, const struct iovec *theirs,
                         unsigned long n_theirs, unsigned long flags)
{
    static ssize_t (*real)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);
    const char *when = getenv("ATTACH_FAIL");
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "process_vm_readv");
    if (!is_stridec(__builtin_return_address(0))) return real(pid, own, n_own, theirs, n_theirs, flags);
    int call = __atomic_fetch_add(&attach_calls, 1, __ATOMIC_RELAXED);
    if (!when || (strcmp(when, "all") && call < atoi(when))) return real(pid, own, n_own, theirs, n_theirs, flags);
    /* The first half of the bytes, then nothing. */
    if (!strcmp(when, "all") || call % 2 || n_own < 2) {
        __atomic_fetch_add(&attach_failures, 1, __ATOMIC_RELAXED);
        errno = EPERM;
        return -1;
    }
    return real(pid, own, n_own / 2, theirs, n_theirs, flags);
}

int posix_fallocate(int fd, off_t at, off_t bytes)
{
    static int (*real)(int, off_t, off_t);
    static int calls, asked;
    const char *full = getenv("FILES_FULL");
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "posix_fallocate");
    if (full && bytes == atoi(full) && is_stridec(__builtin_return_address(0)) && asked++) return ENOSPC;
    bool interrupted = getenv("FILES_INTERRUPTED") && is_stridec(__builtin_return_address(0)) && calls++ % 2 == 0;
    return interrupted ? EINTR : real(fd, at, bytes);
}
