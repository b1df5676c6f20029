/* counters.c: see counters.h. */
#include "counters.h"
#include <stdatomic.h>
#include <string.h>

/* Each protocol has a counter of messages at an even index and one of bytes behind it. */
enum { FALLBACKS = COUNTERS - 2 };

#define PROTOCOL(name, text) \
    {"stridec_calls_" name, "Messages sent " text}, {"stridec_bytes_" name, "Packed bytes of messages sent " text}

const struct counter counters[COUNTERS] = {
    PROTOCOL("get", "by the protocol get: the receiver reads the sender's device memory"),
    PROTOCOL("shared", "by the protocol shared: the receiver reads the sender's host memory"),
    PROTOCOL("pipelined", "by the protocol pipelined: in packed chunks"),
    PROTOCOL("eager", "by the protocol eager: device memory, packed by a kernel"),
    PROTOCOL("packed", "by the protocol packed: host memory, packed by compiled code"),
    PROTOCOL("short", "by the protocol short: packed within the call"),
    PROTOCOL("pass", "by the MPI alone, after stridec has looked at them"),
    [FALLBACKS] = {"stridec_fallbacks", "Messages received from a file: the sender's memory can't be read here"},
    {"stridec_fallback_bytes", "Packed bytes of those messages"},
};

static atomic_uint_least64_t values[COUNTERS];

uint64_t counters_value(int counter)
{
    return atomic_load_explicit(&values[counter], memory_order_relaxed);
}

static void add(int first, int64_t bytes)
{
    atomic_fetch_add_explicit(&values[first], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&values[first + 1], bytes > 0 ? (uint64_t)bytes : 0, memory_order_relaxed);
}

void counters_add_sent(const char *protocol, int64_t bytes)
{
    static const size_t prefix = sizeof "stridec_calls_" - 1;
    for (int i = 0; i < FALLBACKS; i += 2)
        if (!strcmp(counters[i].name + prefix, protocol)) add(i, bytes);
}

void counters_add_fallback(int64_t bytes)
{
    add(FALLBACKS, bytes);
}
