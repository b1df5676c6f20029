/* attach.c: a process_vm_readv, as a library to be preloaded, that counts stridec's calls and lets them fail: ATTACH_FAIL is
 * "all" (not permitted from the first on), or after how many calls each one fails, having read a half. */
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

int attach_calls, attach_failures;

/* By way of the address sanitizer, which has a process_vm_readv too, the caller is not seen: Open MPI reads nothing itself
 * as the tests set it up. */
static int is_stridec(const void *caller)
{
    Dl_info in;
    if (!dladdr(caller, &in) || !in.dli_fname) return 0;
#ifdef OPEN_MPI
    if (strstr(in.dli_fname, "libasan")) return 1;
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
