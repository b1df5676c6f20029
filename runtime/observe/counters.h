/* counters.h: sums over a process's messages, which the MPI's performance variables show (interpose/mpi_t.c). */
#ifndef STRIDEC_COUNTERS_H
#define STRIDEC_COUNTERS_H
#include <stdint.h>

/* Messages by protocol, two counters each, and then fallback copies. */
#define COUNTERS 16

struct counter {
    const char *name;          /* "stridec_calls_get" */
    const char *description;
};
extern const struct counter counters[COUNTERS];

/* Returns a counter's value since the start of the process. */
uint64_t counters_value(int counter);
/* Counts a message sent by a protocol (protocol/protocol.h), or "short". Bytes below 0 count as none. */
void counters_add_sent(const char *protocol, int64_t bytes);
/* Counts a fallback copy: a payload that this process read from a file, since it does not reach the sender's memory. */
void counters_add_fallback(int64_t bytes);

#endif
