/* ring.h: a message to the next rank and one from the rank before, by persistent requests in stream order. */
#ifndef STRIDEC_TESTS_MPI_RING_H
#define STRIDEC_TESTS_MPI_RING_H
#include "check.h"
#include <cuda_runtime.h>

/* `source` is what a step sends. */
struct ring {
    struct layout sent, received;
    struct buf source, out, in;
    MPI_Request request[2];   /* the receive, the send */
    uint64_t salt;            /* of rank 0's data; the next rank's is one more */
};

int ring_after(void);
int ring_before(void);
/* Makes the requests in device memory, of layout_number's layouts. */
void ring_make(struct ring *r, int sent, int received, int count, int tag, MPI_Comm comm);
/* Makes them of so many contiguous bytes. */
void ring_bytes(struct ring *r, int bytes, int tag, MPI_Comm comm);
void ring_free(struct ring *r);
/* Writes the data of the next step, which the stream copies to what is sent. Earlier steps are done. */
void ring_fill(struct ring *r);
void ring_copy(struct ring *r, cudaStream_t stream);
/* Compares what the ranks `hops` before this one sent. The stream has been waited for. */
bool ring_check(struct ring *r, int hops, const char *what);

/* Captures what `enqueue` puts on the stream, and returns the graph, ready; NULL after a failure of the check. */
cudaGraphExec_t ring_graph(cudaStream_t stream, void enqueue(void *of), void *of);

#endif
