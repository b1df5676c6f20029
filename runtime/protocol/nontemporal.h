/* nontemporal.h: whether messages that are packed into shared blocks (shm_pool.h) are stored past the caches.
 *
 * A line that one process writes and another reads moves from cache to cache twice for each message. Between the two
 * threads of a core, or cores that share a cache, nothing is quicker; between others memory may be: 64 KiB in 12 B
 * blocks take 43 us from cache to cache, and 13 by stores past the caches (two vCPUs of an AMD EPYC, family 25; 11
 * and 13 on one core). Nobody says how far cores are from each other, and threads may be moved. So messages try both
 * ways now and then, for each layout, peer and power of two of bytes; what the sender needs to pack and the receiver
 * to unpack is added up, and the less stays. */
#ifndef STRIDEC_NONTEMPORAL_H
#define STRIDEC_NONTEMPORAL_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Measurements of one kind of message. Threads that send at once may lose one. */
struct nontemporal {
    _Atomic uint64_t key;            /* of whose messages it is; 0: of nobody's */
    _Atomic uint32_t messages;
    _Atomic uint32_t trial, pause;   /* at which of them the other way is tried next, and messages between two trials */
    _Atomic uint32_t cost[2],
        last;   /* by way, and the last one of the way that stays (nontemporal_learn); 0: not known */
    _Atomic bool past;               /* the way that stays: past the caches */
};

/* The way of one message. */
struct nontemporal_turn {
    struct nontemporal *of;
    bool past, timed;   /* timed: nontemporal_learn is to be told what it took */
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
/* Notes that both ends together needed `ns` for so many bytes. */
void nontemporal_learn(struct nontemporal_turn t, int64_t ns, int64_t bytes);

/* The processor stores 16 bytes past its caches: x86-64. Elsewhere nothing is tried, and nontemporal_copy is memcpy. */
#ifdef __SSE2__
#define BYPASS_THERE true
#else
#define BYPASS_THERE false
#endif
/* Copies past the caches; `to` is a multiple of 16. Others see the bytes after nontemporal_end. */
void nontemporal_copy(void *to, const void *from, size_t bytes);
void nontemporal_end(void);

#endif
