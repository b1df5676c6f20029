/* request_ops.h: the operations behind a record of more than one message: a collective or a persistent request
 * (args_ops.c), or a neighbourhood collective (neighbor_nonblocking.c). Records know operations only by these hooks. */
#ifndef STRIDEC_REQUEST_OPS_H
#define STRIDEC_REQUEST_OPS_H
#include "record.h"

/* `of` is the operation's object, which the record owns. */
struct request_ops {
    /* Frees the object. Its operation is complete, or never began. */
    void (*free)(void *of);
    /* Begins the operation of a persistent request: adds what it reads to s->batch, or calls one of the functions for
     * start below. Returns false on failure. */
    bool (*start)(struct record *r, void *of, struct starts *s);

    /* The others may be NULL; without step, recv_buffer and unpack may not. */
    /* Ends the packing: s->batch was waited for, and the MPI has not started the request. Returns 0 or -1. */
    int (*packed)(void *of);
    /* Advances the operation without waiting. Returns true if it is complete: the MPI's next look finds the request
     * complete. Without this hook only the MPI knows. */
    bool (*step)(void *of);
    /* Ends an operation that step has completed. Returns MPI_SUCCESS or an error; sets *what if it is to be raised. */
    int (*end)(void *of, const char **what);
    /* Returns true for a receive: the status tells how many bytes came. */
    bool (*partial)(const void *of);
    /* Returns the typed buffer of a receive that may bring an RTS, or NULL. Sets *packed to where the packed bytes
     * arrive; NULL: in the application's buffer. */
    struct typed_buffer *(*recv_buffer)(const void *of, const void **packed);
    /* Adds the first `bytes` packed bytes to a batch; INT64_MAX: all. Returns 0 or -1. */
    int (*unpack)(void *of, struct batch *b, int64_t bytes);
    /* Notes that the batch was waited for. */
    void (*unpacked)(void *of);
    /* Raises an error where the operation belongs to no communicator. Returns false if it belongs to one. */
    bool (*raise)(const void *of, int code, const char *what);
};

/* Adds a record, which takes `of`. Errors are raised on comm; MPI_COMM_NULL: on MPI_COMM_WORLD. */
void record_add_of(MPI_Request request, const struct request_ops *ops, void *of, MPI_Comm comm, bool persistent);
/* Returns the object of a request's record with these operations; NULL if there is none. */
void *record_object(MPI_Request request, const struct request_ops *ops);
/* Adds a record of a persistent receive that the MPI serves. It is not counted, so that stubs leave such requests to
 * the MPI, until the receive takes a probed message. */
void record_add_dormant(MPI_Request request, const struct request_ops *ops, void *of, MPI_Comm comm);

/* For start: the message is here already, with this status and error. The MPI's request is not started. */
void record_hold(struct record *r, const MPI_Status *status, int error);
/* For start: the message is a rendezvous send, which the record takes, or a pipelined one. */
void record_send_rndv(struct record *r, struct rndv_send *o);
void record_send_pipelined(struct record *r, struct pipeline_send *o);

#endif
