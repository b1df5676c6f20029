/* neighbor_stream.h: a persistent collective that goes edge by edge (neighbor_topology.h) as persistent messages, which
 * stridec_start_on puts into the order of a stream: one for each edge with bytes, on the topology's communicator. */
#ifndef STRIDEC_NEIGHBOR_STREAM_H
#define STRIDEC_NEIGHBOR_STREAM_H
#include "neighbor_topology.h"
#include "protocol/channel.h"

struct neighbor_messages {
    int n, made;                 /* messages; their requests so far: the caller of neighbor_stream_of makes them */
    bool started;                /* by stridec_start_on: MPI_Start is refused */
    struct channel_call *call;   /* in an order that suits both partners */
    MPI_Request *request;
};

/* Describes the edges of an operation that has `tags` tags from `tag` on. Returns NULL without memory. */
struct neighbor_messages *neighbor_messages_new(const struct neighbor_topology *e, int tag, int tags);
void neighbor_messages_free(struct neighbor_messages *m);   /* not the requests; NULL is allowed */

/* neighbor_nonblocking.c. Sets *m to the messages of a request, described at the first call; NULL if it is no such
 * collective, alike on all its ranks. The request owns them. Returns false without memory, or
 * if the call's arguments were wrong. */
bool neighbor_stream_of(MPI_Request request, struct neighbor_messages **m);
/* Returns the messages if they have been started, else NULL. Quick where no request has any. */
struct neighbor_messages *neighbor_stream_started(MPI_Request request);
/* Takes them from their request, which is being freed; NULL if there are none. The caller frees the requests. */
struct neighbor_messages *neighbor_stream_take(MPI_Request request);

#endif
