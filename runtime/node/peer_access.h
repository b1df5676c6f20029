/* peer_access.h: reading the host memory of another process of the node: what may be read, found out once a peer,
 * and the reading itself (process_vm_readv; by XPMEM: xpmem.h).
 *
 * A rank that wants to offer host memory asks the peer to try (node_asks). The peer does so at its next receive, and
 * says what it could: map the rank's rooms, read its memory. Until then, and where it could nothing, messages go
 * their ordinary way. */
#ifndef STRIDEC_ATTACH_H
#define STRIDEC_ATTACH_H
#include "kernel/kernel.h"
#include "segment.h"

/* Bits of node_reaches. */
enum { REACH_TRIED = 1, REACH_ROOMS = 2, REACH_MEMORY = 4, REACH_MAPPED = 8 };   /* mapped: by XPMEM */

/* The sender's: what p has shown that it can reach of the own memory; asks it to try, the first time. */
unsigned peer_access_reached(struct peer *p);
/* The same without asking. */
unsigned peer_access_known(const struct peer *p);
/* The peer refused after all what it had reached: that is not offered to it any more. */
void peer_access_refused(struct peer *p, unsigned reached);
/* Whether XPMEM is tried: where a setting or the table have something read by it, or it is to be measured, which the
 * first asks for. Before any rank is asked. */
void peer_access_measure(void);
/* The receiver's: tries what has been asked for. Cheap when that is nothing. */
extern _Atomic uint32_t peer_access_answered;
void peer_access_answer(void);
static inline void peer_access_poll(void)
{
    struct node_file *f = node_own();
    if (!f) return;
    uint32_t answered =
        atomic_load_explicit(&peer_access_answered, memory_order_relaxed);   /* at worst it is looked at once more */
    if (atomic_load_explicit(&f->asked, memory_order_relaxed) != answered) peer_access_answer();
}

/* Typed bytes: of `count` elements `extent` apart; without a tree, packed bytes from `user` on. */
struct peer_access_side {
    uint64_t user;         /* the address of element 0's origin */
    struct tree *tree;
    int64_t extent, count;
};
/* cma.c. Copies packed bytes [0, bytes) from memory of p to the own. False where that can't be read: some may have
 * been. The lists of runs that this takes are kept by request, with references to its trees: 64 requests and 16 MiB
 * at most, least used out, so that a program that sends the same again translates nothing. */
bool peer_access_copy(const struct peer *p, const struct peer_access_side *from, const struct peer_access_side *to,
                      int64_t bytes);
/* Lists made, and runs read of other processes, so far; and the mean length of runs, in bytes, below which what
 * lies between them is read too. */
extern atomic_long peer_access_lists_made, peer_access_runs_read;
extern int64_t peer_access_short;
/* At MPI_Finalize: none is kept any more. */
void peer_access_lists_drop(void);

#endif
