/* trace.h: the timeline of STRIDEC_TRACE: spans of time, kept in memory of a fixed size and written to a file of this
 * rank (trace_write.c) in Chrome's trace event format, which Perfetto opens. Threads record without locks. */
#ifndef STRIDEC_TRACE_H
#define STRIDEC_TRACE_H
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Spans of a thread are nested, except moves: those of a batch overlap. */
enum trace_kind { TRACE_CALL, TRACE_WAIT, TRACE_COMPILE, TRACE_MOVE };

#define TRACE_NO_PEER INT_MIN

/* A span of time. Texts are static, or of trace_text. */
struct trace_span {
    _Atomic(const char *) name;   /* set last: an event without a name is not yet whole */
    const char *type;     /* a datatype's name or signature; NULL if there is none */
    const char *way;      /* protocol or transport; NULL if not known */
    int64_t begin, end;   /* of stats_now() */
    int64_t bytes;        /* packed; -1 if not known */
    int peer;             /* a rank of the call's communicator, or TRACE_NO_PEER */
    int number;           /* requests of a call, launches of a move; 0 is not shown */
    int thread;           /* set by trace_add */
    enum trace_kind kind;
};

#pragma GCC visibility push(hidden)
extern atomic_bool trace_on;   /* spans are kept */
/* The protocol that carries the thread's present call; static, NULL until known. The code that chooses sets it. */
extern _Thread_local const char *trace_way;
#pragma GCC visibility pop

/* Begins recording if STRIDEC_TRACE is set, the first time; `file` names the file in that folder, without ".json".
 * `ranks` is the size of the world, 0 without one. Called at MPI_Init. */
void trace_start(int rank, int ranks, const char *file);
/* Writes the file with all that has been recorded. A later call writes it anew. Called at MPI_Finalize, at MPI_Abort,
 * and when the process exits. Returns at once if nothing is new, while another call writes (a signal handler may have
 * interrupted it), and in a child of the process that recorded. */
void trace_finish(void);
/* Returns true if spans are kept. */
static inline bool trace_wanted(void)
{
    return atomic_load_explicit(&trace_on, memory_order_relaxed);
}
/* Keeps a copy of the span, unless the memory is full. Call it only if trace_wanted. */
void trace_add(const struct trace_span *span);
/* Keeps a span of this thread without data, from `begin` to now. */
void trace_add_plain(enum trace_kind kind, const char *name, int64_t begin);
/* Returns a copy of the text that lives as long as the process: equal texts have one. Long texts are cut. */
const char *trace_text(const char *text);

#endif
