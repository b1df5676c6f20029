/* nontemporal.c: stores past the caches, and the trials that choose them. */
#include "nontemporal.h"
#include "../../gen/hash.h"
#include "base/activity.h"
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define ROW_BITS 8
#define FIRST 4             /* messages before the first trial */
#define TRIAL 3             /* messages of a trial; only the last is timed: the first meet lines of the other way */
#define PAUSE 8             /* messages before the next trial; doubled each time, reset if costs change */
#define PAUSE_MOST 256      /* longest pause */
#define TIMED 8             /* one of so many messages of the chosen way is timed */

static struct nontemporal rows[1 << ROW_BITS];

static atomic_int forced = -1;   /* for tests: the way; -1: as measured */
static atomic_long count;   /* messages past the caches; may miss one */

EXPORT long stridec_host_past(int way)
{
    if (way >= -1) atomic_store(&forced, way);
    return atomic_load(&count);
}

static uint32_t get(const _Atomic uint32_t *of)
{
    return atomic_load_explicit(of, memory_order_relaxed);
}

static void set(_Atomic uint32_t *of, uint32_t value)
{
    atomic_store_explicit(of, value, memory_order_relaxed);
}

struct nontemporal *nontemporal_row(uint64_t key, bool past)
{
    struct nontemporal *b = &rows[hash_place(key, ROW_BITS)];
    if (atomic_load_explicit(&b->key, memory_order_relaxed) == key) return b;
    atomic_store_explicit(&b->key, key, memory_order_relaxed);
    atomic_store_explicit(&b->past, past, memory_order_relaxed);
    set(&b->messages, 0), set(&b->trial, FIRST), set(&b->pause, PAUSE);
    set(&b->cost[0], 0), set(&b->cost[1], 0), set(&b->last, 0);
    return b;
}

static struct nontemporal_turn turn(struct nontemporal *b)
{
    uint32_t n = get(&b->messages), pause = get(&b->pause);
    int32_t at = (int32_t)(n - get(&b->trial));
    set(&b->messages, n + 1);
    if (at < 0) return (struct nontemporal_turn){b, nontemporal_stays(b), at >= -2 || n % TIMED == 0};
    if (at >= TRIAL - 1) {
        set(&b->trial, n + 1 + pause);
        set(&b->pause, 2 * pause < PAUSE_MOST ? 2 * pause : PAUSE_MOST);
    }
    return (struct nontemporal_turn){b, !nontemporal_stays(b), at == TRIAL - 1};
}

struct nontemporal_turn nontemporal_next(struct nontemporal *b)
{
    int way = NONTEMPORAL_STORES ? atomic_load_explicit(&forced, memory_order_relaxed) : 0;
    struct nontemporal_turn t = way < 0 ? turn(b) : (struct nontemporal_turn){b, way, false};
    if (t.past)
        atomic_store_explicit(&count, atomic_load_explicit(&count, memory_order_relaxed) + 1, memory_order_relaxed);
    return t;
}

/* Starts the next trial with the next message. */
static void try_again(struct nontemporal *b)
{
    set(&b->pause, PAUSE), set(&b->trial, get(&b->messages));
}

/* Notes the lesser of the last two costs: another process on the core may have slowed one of them. */
static void learn_own(struct nontemporal *b, bool past, uint32_t cost)
{
    uint32_t last = get(&b->last), before = get(&b->cost[past]), now = last && last < cost ? last : cost;
    set(&b->last, cost), set(&b->cost[past], now);
    if (before && (now > before + before / 2 || before > now + now / 2)) try_again(b);
}

void nontemporal_learn(struct nontemporal_turn t, int64_t ns, int64_t bytes)
{
    struct nontemporal *b = t.of;
    int64_t cost = ns > 0 && bytes > 0 ? (int64_t)((double)ns * 65536 / (double)bytes) : 0;   /* ns for 64 KiB */
    if (cost <= 0 || cost > INT32_MAX) return;
    if (t.past == nontemporal_stays(b)) {
        learn_own(b, t.past, (uint32_t)cost);
        return;
    }
    set(&b->cost[t.past], (uint32_t)cost);
    uint32_t own = get(&b->cost[!t.past]);
    if (!own || (uint32_t)cost >= own - own / 8) return;
    atomic_store_explicit(&b->past, t.past, memory_order_relaxed);
    set(&b->last, 0), try_again(b), set(&b->trial, get(&b->messages) + PAUSE);
}

void nontemporal_copy(void *to, const void *from, size_t bytes)
{
    size_t whole = 0;
#ifdef __SSE2__
    for (; whole + 64 <= bytes; whole += 64) {
        const __m128i *f = (const __m128i *)((const char *)from + whole);
        __m128i *t = (__m128i *)((char *)to + whole), a = _mm_loadu_si128(f), b = _mm_loadu_si128(f + 1),
                c = _mm_loadu_si128(f + 2), d = _mm_loadu_si128(f + 3);
        _mm_stream_si128(t, a), _mm_stream_si128(t + 1, b), _mm_stream_si128(t + 2, c), _mm_stream_si128(t + 3, d);
    }
#endif
    memcpy((char *)to + whole, (const char *)from + whole, bytes - whole);
}

void nontemporal_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}
