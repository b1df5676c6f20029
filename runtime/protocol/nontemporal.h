/* nontemporal.h: chooses if messages packed into shared segment blocks (shm_pool.h) are stored past the caches.
 *
 * A cache line that one process writes and another reads moves between caches twice a message. That is fastest if the
 * cores share a cache; else memory may be faster: 64 KiB of 12 B blocks take 43 us by caches and 13 us past them (two
 * vCPUs of an AMD EPYC, family 25; on one core 11 and 13). The distance of cores is unknown, and threads move. So
 * messages try both ways at times, for each layout, peer and power of two of bytes. The way with the smaller sum of
 * packing and unpacking time stays. */
#ifndef STRIDEC_NONTEMPORAL_H
#define STRIDEC_NONTEMPORAL_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Measurements of one kind of message. Threads that send at once may lose one. */
struct nontemporal {
    _Atomic uint64_t key;            /* layout, peer and size class; 0: unused */
    _Atomic uint32_t messages;
    _Atomic uint32_t trial, pause;   /* number of the message that starts the next trial; messages between trials */
    _Atomic uint32_t cost[2],
        last;   /* by way; last: latest of the way that stays; 0: unknown */
    _Atomic bool past;               /* the way that stays is past the caches */
};

/* The way of one message. */
struct nontemporal_turn {
    struct nontemporal *of;
    bool past, timed;   /* timed: the caller passes the time to nontemporal_learn */
};

/* Returns the row of a key that is not 0; a new one, which begins with `past`, if another key had it. */
struct nontemporal *nontemporal_row(uint64_t key, bool past);
/* Returns true if the way that stays is past the caches. */
static inline bool nontemporal_stays(const struct nontemporal *b)
{
    return atomic_load_explicit(&b->past, memory_order_relaxed);
}
/* Returns the next message's way. */
struct nontemporal_turn nontemporal_next(struct nontemporal *b);
/* Notes the time in ns that both ends together needed for `bytes`. */
void nontemporal_learn(struct nontemporal_turn t, int64_t ns, int64_t bytes);

/* True on x86-64, which stores 16 bytes past its caches. Else nothing is tried, and nontemporal_copy is memcpy. */
#ifdef __SSE2__
#define NONTEMPORAL_STORES true
#else
#define NONTEMPORAL_STORES false
#endif
/* Copies past the caches; `to` is a multiple of 16. Others see the bytes after nontemporal_end. */
void nontemporal_copy(void *to, const void *from, size_t bytes);
void nontemporal_end(void);

#endif
