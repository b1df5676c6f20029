/* flip.c: a library to be preloaded through which process_vm_readv brings a wrong byte, the first of each
 * long read: for `stridec doctor --messages`. */
#include <dlfcn.h>
#include <sys/uio.h>

#define LONG 1024   /* bytes: shorter reads are stridec's own words */

ssize_t process_vm_readv(pid_t pid, const struct iovec *own, unsigned long n_own, const struct iovec *theirs,
                         unsigned long n_theirs, unsigned long flags)
{
    static ssize_t (*real)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
                           unsigned long);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "process_vm_readv");
    ssize_t got = real(pid, own, n_own, theirs, n_theirs, flags);
    if (got >= LONG && own[0].iov_len) *(unsigned char *)own[0].iov_base ^= 1;
    return got;
}
