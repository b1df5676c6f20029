/* observed.h: calls that stridec serves, followed from begin to end: for the timeline of STRIDEC_TRACE, as ranges of a
 * profiler (observe/nvtx.h), and for the MPI's performance variables (mpi_t.c). Stubs lead there only while
 * interpose_active is INTERPOSE_OBSERVED. */
#ifndef STRIDEC_OBSERVED_H
#define STRIDEC_OBSERVED_H
#include "observe/trace.h"
#include "interpose.h"
#include <mpi.h>

/* A call, told by its stub. */
struct observed_call {
    const char *name;    /* "MPI_Send" */
    MPI_Datatype type;   /* of the call's own buffer; MPI_DATATYPE_NULL if it has none, or several, or does not count */
    MPI_Count count;     /* of `type`; -1 if there are several */
    int peer;            /* TRACE_NO_PEER if there is none */
    int requests;        /* 0 if the call takes no list of them */
    bool sends;          /* it sends one message, to `peer` */
};

/* A call that is observed, on the stack of its thread. */
struct observed {
    struct observed_call call;
    struct trace_span span;
    const char *outer;   /* trace_way of the call around this one */
};

void observed_begin(struct observed *o, const struct observed_call *call);
/* Ends it; rc is what the call returns. */
void observed_end(struct observed *o, int rc);

/* Makes stridec active, at MPI_Init. */
void observed_activate(void);
/* Adds to the number of those who want calls observed (a negative number: they want it no more), at any time. */
void observed_want(int more);

#endif
