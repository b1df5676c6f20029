/* xpmem.h: host memory of other processes of the node, mapped into this one by XPMEM, where its kernel module and
 * its library (libxpmem.so.0, loaded on demand) are there: a message is then read without a call of the system, and
 * in one pass from layout to layout.
 *
 * A process makes all of its memory a segment when it first wants a peer to read there, and tells of it in its file
 * (segment.h). A peer maps windows of that, and keeps them for the messages that follow. Pages come into a window as
 * they are read; the kernel takes out what their owner unmaps. So a read of what is not there, of a process that has
 * ended, or of what can't be shared (memory of devices, what is mapped by XPMEM itself) is a signal, SIGBUS:
 * sigbus_guard.h. */
#ifndef STRIDEC_XPMEM_H
#define STRIDEC_XPMEM_H
#include "segment.h"

/* The own memory as a segment, made at the first call; 0 where there is no XPMEM. Any thread. */
int64_t xpmem_segment(void);
/* The receiver's: tries whether p's memory can be mapped. */
bool xpmem_reaches(struct peer *p);

/* Addresses [first, past) of p's memory, here so many bytes further on (`shift`, which may wrap), until they are
 * closed. NULL where they can't be mapped. */
struct xpmem_window;
struct xpmem_window *xpmem_open(const struct peer *p, uint64_t first, uint64_t past, uint64_t *shift);
void xpmem_close(struct xpmem_window *w);
/* How often so far (for tests). */
long stridec_host_mapped(void);

/* At MPI_Finalize. The segment goes with the process. */
void xpmem_finish(void);

#endif
