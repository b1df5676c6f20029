/* request_ops.h: what stands behind a record of more than one message: the buffers of a collective or of a
 * persistent request (args.h), or a neighbourhood collective (neighbor_nonblocking.h). The table of requests calls
 * it through these and knows no more. */
#ifndef STRIDEC_REQUEST_OPS_H
#define STRIDEC_REQUEST_OPS_H
#include "record.h"

struct pipeline_send;

/* `of` is the record's object, which the record owns. */
struct request_ops {
    /* Frees it. Its operation is complete, or never began. */
    void (*free)(void *of);
    /* Begins the operation of a persistent r: puts what it reads into s->batch, or hands it to r by the calls below.
     * Returns false if that failed. */
    bool (*start)(struct record *r, void *of, struct starts *s);

    /* The rest is NULL where there is nothing to do. */
    /* After s->batch was waited for, and before the MPI starts the request. Returns 0 or -1. */
    int (*packed)(void *of);
    /* Takes a start back. The record has no offer. */
    void (*recall)(void *of);
    /* Goes on with the operation, without waiting. Returns true if it is complete: the MPI's next look finds the
     * request so. Without it the MPI alone knows. */
    bool (*step)(void *of);
    /* Ends an operation that step has found complete. Returns MPI_SUCCESS, or an error, to be raised if *what is
     * set. */
    int (*end)(void *of, const char **what);
    /* Returns true if the status tells how much came: a receive. */
    bool (*partial)(const void *of);
    /* Returns the parcel of a receive that may bring a descriptor, or NULL; sets *packed to where the packed bytes
     * arrive, NULL: in the buffer itself. */
    struct typed_buffer *(*awaited)(const void *of, const void **packed);
    /* Puts the unpacking of what came into a batch: the first `bytes` packed bytes, INT64_MAX: all. Returns 0 or -1. */
    int (*unpack)(void *of, struct batch *b, int64_t bytes);
};

/* Adds a record of a request, which takes `of`. Errors are raised on comm; MPI_COMM_NULL: on MPI_COMM_SELF. */
void record_add_of(MPI_Request request, const struct request_ops *ops, void *of, MPI_Comm comm, bool persistent);
/* Adds a record of a persistent receive that the MPI serves. It counts as none, so that the calls on such requests
 * stay the MPI's, while no message lies aside. */
void record_add_dormant(MPI_Request request, const struct request_ops *ops, void *of, MPI_Comm comm);

/* For start. The message of r is here already, with this status and error, by no doing of its request. */
void record_hold(struct record *r, const MPI_Status *status, int error);
/* For start. The message of r goes as this offer, or in chunks; r takes it. */
void record_offer(struct record *r, struct rndv_send *o);
void record_flow(struct record *r, struct pipeline_send *o);

/* What to do with the records of a kind whose object `is`, unless they are seen to be complete. */
struct records_walk {
    const struct request_ops *ops;
    bool (*is)(const void *of, const void *arg);
    void (*done)(void *of);   /* once ops->unpack has brought all to its place */
};
/* Unpacks them together and waits. The records stay in the table. Returns 0 or -1. */
int records_walk(const struct records_walk *w, const void *arg);

#endif
