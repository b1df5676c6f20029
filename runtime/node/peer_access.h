/* peer_access.h: access to the host memory of another process on the node: finds out once a peer what can be read, and
 * reads it (process_vm_readv).
 *
 * A rank that wants to send from host memory asks the peer to try (node_access_asked). The peer tries at its next
 * receive, and publishes the result: map the rank's shared blocks, read its memory. Until then, or without access,
 * messages go by another protocol. */
#ifndef STRIDEC_PEER_ACCESS_H
#define STRIDEC_PEER_ACCESS_H
#include "kernel/kernel.h"
#include "segment.h"

/* Bits of node_access_found. */
enum { REACH_TRIED = 1, REACH_POOL = 2, REACH_MEMORY = 4 };

/* Returns the bits of own memory that p can reach; asks p to try at the first call. For the sender. */
unsigned peer_access_reached(struct peer *p);
/* Returns these bits without asking. */
unsigned peer_access_known(const struct peer *p);
/* Removes REACH_MEMORY: the peer refused to read a message. */
void peer_access_refused(struct peer *p);
/* Tries what senders have asked for; cheap without requests. For the receiver. */
extern _Atomic uint32_t peer_access_answered;
void peer_access_answer(void);
static inline void peer_access_poll(void)
{
    struct node_file *f = node_own();
    if (!f) return;
    uint32_t answered =
        atomic_load_explicit(&peer_access_answered, memory_order_relaxed);   /* a stale value costs one more call */
    if (atomic_load_explicit(&f->asked, memory_order_relaxed) != answered) peer_access_answer();
}

/* One side of a copy: `count` elements, `extent` bytes apart; without a tree packed bytes from `user` on. */
struct peer_access_side {
    uint64_t user;         /* address of element 0's origin */
    struct tree *tree;
    int64_t extent, count;
};
/* cma.c. Copies packed bytes [0, bytes) from memory of p to own memory. Returns false if it can't be read; some bytes
 * may have been copied. */
bool peer_access_copy(const struct peer *p, const struct peer_access_side *from, const struct peer_access_side *to,
                      int64_t bytes);
/* Counter: runs read from other processes. Mean run length, bytes, below which gaps are read too. */
extern atomic_long peer_access_runs_read;
extern int64_t peer_access_gap_run;

#endif
