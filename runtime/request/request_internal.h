/* request_internal.h: what record.c, persistent.c, complete.c and freed.c share. */
#ifndef STRIDEC_REQUEST_INNER_H
#define STRIDEC_REQUEST_INNER_H
#include "../../gen/hash.h"
#include "error_comm.h"
#include "request_ops.h"
#include <stdatomic.h>
#include <string.h>
/* Keys are handles: one product mixes their bits well enough. */
#define HASH_FUNCTION(key, bytes, hash) \
    do { \
        uint64_t handle_ = 0; \
        memcpy(&handle_, key, bytes); \
        (hash) = (unsigned)hash_place(handle_, 32); \
    } while (0)
#include "base/hash_table.h"

struct record {
    MPI_Request request;
    struct typed_buffer *parcel;   /* either this ... */
    bool receive;
    bool led, seen;               /* status.MPI_SOURCE and MPI_TAG are these; seen to be complete, not completed yet */
    int source, tag;
    bool quiet;                   /* its errors are not raised by the MPI */
    struct error_comm home;   /* the communicator of its operation */
    int64_t pulled;               /* bytes of a payload that a descriptor stood for */
    int refused;                  /* the error class of one that could not be received */
    struct rndv_send *offer;   /* or this, of a send */
    struct pipeline_send *outflow;   /* or this */
    const struct request_ops *ops;   /* ... or this: what its operation does; */
    void *of;                     /* whose object this is */
    bool persistent, active;      /* a persistent one lives until the request is freed, and acts while it is active */
    bool dormant;                 /* a persistent receive of the MPI's own, unless its message lies aside when it is started */
    bool freed;                   /* by the application, while it was active */
    bool holds;                   /* active, and its message is here, with this status and error, by no doing of the request */
    MPI_Status found;
    struct record *next;          /* in a completion, or among the orphans */
    UT_hash_handle hh;
};

struct record *record_new(struct record what);
void record_free(struct record *r);

extern atomic_int request_offers, request_holding;   /* records with an offer; records that hold their messages */
/* Takes an offer back; forgets a message that was here. */
void record_drop_offer(struct record *r);
void record_drop_held(struct record *r);

/* Returns true if the MPI may say that a record is complete before its operation is. */
static inline bool record_steps(const struct record *r)
{
    return r->ops && r->ops->step;
}
/* True of what receives a message, or a part of one. */
bool record_brings(const struct record *r);
/* At MPI_Finalize. */
void orphans_finish(void);

#endif
