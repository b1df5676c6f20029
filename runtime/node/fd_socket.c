/* fd_socket.c: a listening socket for each process, without a name in the file system. */
#include "fd_socket.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define WAITING 1024   /* records, at most, that wait for the receiver */
#define TRIES 64       /* connections looked at in one call: other users may make them */

static int own_fd = -1;

/* Writes a process's address; returns its length. The first byte of the path is 0: it needs no file. */
static socklen_t address_of(struct sockaddr_un *a, const struct cookie *cookie)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    unsigned long long hash = XXH64(cookie, sizeof *cookie, 0);   /* all users see the name */
    int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "stridec.%016llx", hash);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool is_own_user(int fd)
{
    struct ucred c;
    socklen_t n = sizeof c;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) && c.uid == geteuid();
}

void fd_socket_open(void)
{
    struct sockaddr_un a;
    if (own_fd >= 0) return;
    socklen_t n = address_of(&a, &node_self()->cookie);
    own_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (own_fd < 0) return;
    if (!bind(own_fd, (const struct sockaddr *)&a, n) && !listen(own_fd, WAITING)) {
        atomic_store_explicit(&node_own()->takes_fds, 1, memory_order_release);
        return;
    }
    log_write(LOG_INFO, "no socket for descriptors of mapped memory: %s", strerror(errno));
    close(own_fd);
    own_fd = -1;
}

/* Returns true if the descriptor is still the own socket: the application may have closed it and reused its number. */
static bool is_own(int fd)
{
    struct sockaddr_un a, there = {0};
    socklen_t m = sizeof there;
    if (fd < 0) return false;
    socklen_t n = address_of(&a, &node_self()->cookie);
    return !getsockname(fd, (struct sockaddr *)&there, &m) && n == m && !memcmp(&a, &there, n);
}

union control {
    struct cmsghdr head;   /* aligns */
    char bytes[CMSG_SPACE(FD_SOCKET_MOST * sizeof(int))];
};

bool fd_socket_send(const struct peer *p, const void *record, size_t bytes, const int fds[], int n)
{
    struct sockaddr_un a;
    struct iovec v = {(void *)(uintptr_t)record, bytes};
    union control c = {0};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (!atomic_load_explicit(&p->file->takes_fds, memory_order_acquire)) return false;
    socklen_t length = address_of(&a, &p->cookie);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    if (n) {
        size_t fd_bytes = (size_t)n * sizeof *fds;
        m.msg_control = c.bytes, m.msg_controllen = CMSG_SPACE(fd_bytes);
        c.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(fd_bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&c.head), fds, fd_bytes);
    }
    bool sent = !connect(fd, (const struct sockaddr *)&a, length) && is_own_user(fd) &&
                sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)bytes;
    if (!sent) log_write(LOG_INFO, "rank %d takes no descriptors: %s", p->rank, strerror(errno));
    close(fd);
    return sent;
}

/* Copies out the descriptors of a message; returns their number. */
static int fds_of(struct msghdr *m, int fds[FD_SOCKET_MOST])
{
    int n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        int more = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof *fds);
        if (more > FD_SOCKET_MOST - n) more = FD_SOCKET_MOST - n;
        memcpy(&fds[n], CMSG_DATA(c), (size_t)more * sizeof *fds);
        n += more;
    }
    return n;
}

/* Receives the record of one connection. Waits for a sender that has connected and not sent yet, a second at most. */
static bool receive(int fd, void *record, size_t bytes, int fds[FD_SOCKET_MOST], int *n)
{
    struct timeval second = {.tv_sec = 1};
    struct iovec v = {record, bytes};
    union control c = {0};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c.bytes, .msg_controllen = sizeof c.bytes};
    ssize_t got;
    if (!is_own_user(fd) || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second)) return false;
    while ((got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    *n = fds_of(&m, fds);
    if (got == (ssize_t)bytes && !(m.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) return true;
    while (*n) close(fds[--*n]);
    return false;
}

bool fd_socket_take(void *record, size_t bytes, int fds[FD_SOCKET_MOST], int *n)
{
    bool taken = false;
    for (int i = 0; i < TRIES && !taken && is_own(own_fd); i++) {
        int fd = accept4(own_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) break;
        taken = receive(fd, record, bytes, fds, n);
        close(fd);
    }
    return taken;
}

void fd_socket_close(void)
{
    if (is_own(own_fd)) close(own_fd);
    own_fd = -1;
}
