/* nontemporal.h: whether messages that are packed into rooms (shm_pool.h) are stored past the caches.
 *
 * A line that one process writes and another reads moves from cache to cache twice for each message. Between the two
 * threads of a core, or cores that share a cache, nothing is quicker; between others memory may be: 64 KiB in 12 B
 * blocks take 43 us from cache to cache, and 13 by stores past the caches (two vCPUs of an AMD EPYC, family 25; 11
 * and 13 on one core). Nobody says how far cores are from each other, and threads may be moved. So messages try both
 * ways now and then, for each layout, peer and power of two of bytes; what the sender needs to pack and the receiver
 * to unpack is added up, and the less stays. */
#ifndef STRIDEC_BYPASS_H
#define STRIDEC_BYPASS_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was found out for one kind of messages. All may miss a message where threads send at the same time. */
struct nontemporal {
    _Atomic uint64_t key;            /* of whose messages it is; 0: of nobody's */
    _Atomic uint32_t messages;
    _Atomic uint32_t trial, pause;   /* at which of them the other way is tried next, and messages between two trials */
    _Atomic uint32_t cost[2],
        last;   /* by way, and the last one of the way that stays (nontemporal_learn); 0: not known */
    _Atomic bool past;               /* the way that stays: past the caches */
};

/* How one message goes. */
struct nontemporal_turn {
    struct nontemporal *of;
    bool past, timed;   /* timed: nontemporal_learn is to be told what it took */
};

/* The row of a key that is not 0; where another had it, one that knows nothing but that messages begin past the
 * caches, or don't. */
struct nontemporal *nontemporal_row(uint64_t key, bool past);
/* The way that stays: past the caches. */
static inline bool nontemporal_stays(const struct nontemporal *b)
{
    return atomic_load_explicit(&b->past, memory_order_relaxed);
}
/* The next message's way. */
struct nontemporal_turn nontemporal_next(struct nontemporal *b);
/* Both ends needed so many nanoseconds for so many bytes. */
void nontemporal_learn(struct nontemporal_turn t, int64_t ns, int64_t bytes);

/* True where the processor has stores past its caches, of 16 bytes: x86-64. Elsewhere nothing is tried, and
 * nontemporal_copy is memcpy. */
#ifdef __SSE2__
#define BYPASS_THERE true
#else
#define BYPASS_THERE false
#endif
/* As memcpy, past the caches; `to` is a multiple of 16. Seen by others after nontemporal_end. */
void nontemporal_copy(void *to, const void *from, size_t bytes);
void nontemporal_end(void);

#endif
