/* request_internal.h: records and their kinds, shared by record.c, kinds.c, complete.c, persistent.c and freed.c. */
#ifndef STRIDEC_REQUEST_INTERNAL_H
#define STRIDEC_REQUEST_INTERNAL_H
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

/* A kind of record. Every hook may be NULL. */
struct record_kind {
    bool receives;   /* the status tells how many bytes came; an operation may receive too (record_receives) */
    /* Continues a completed request with its status and error; again for a record in RECORD_SEEN. */
    void (*complete)(struct completion *c, struct record *r, MPI_Status *status, int error);
    /* Notes that all unpacking was waited for. */
    void (*unpacked)(struct record *r);
    /* Ends what is left after all unpacking. May wait for the receiver. Returns 0, or -1 if it received nothing. */
    int (*end)(struct record *r);
    /* Returns true if `end` would not wait. */
    bool (*ready)(struct record *r);
    /* Advances an operation without waiting. Returns true if the MPI's next look finds its request complete. */
    bool (*step)(struct record *r);
    /* Takes back the start of a persistent operation. */
    void (*recall)(struct record *r);
};
/* kinds.c defines each with one literal. */
extern const struct record_kind kind_send;      /* packed bytes; or a send with nothing left to do */
extern const struct record_kind kind_receive;   /* packed bytes, or an RTS */
extern const struct record_kind kind_matched;   /* a receive of a message that a probe has matched (probed.h) */
extern const struct record_kind kind_resent;    /* a receive of a message that a probe has sent to this process */
extern const struct record_kind kind_rndv;      /* a rendezvous send */
extern const struct record_kind kind_pipelined; /* a pipelined send */
extern const struct record_kind kind_operation; /* request_ops: a collective, or a persistent request */
extern const struct record_kind kind_stepped;   /* request_ops with step: a neighbourhood collective */

enum record_state { RECORD_INACTIVE, RECORD_ACTIVE, RECORD_COMPLETE, RECORD_SEEN };   /* drawn in record.h */

struct record {
    MPI_Request request;
    const struct record_kind *kind;   /* of a persistent request, while it is active, maybe rndv or pipelined */
    enum record_state state;
    bool persistent;              /* lives until the application frees the request */
    bool dormant;                 /* a persistent receive that the MPI serves; counted only while it is held */
    bool freed;                   /* by the application, while it was active: in a queue of freed.c */
    bool held;                    /* its message is here, with status `found`; the MPI's request was not started */
    struct typed_buffer *tbuf;    /* of a send or a receive; closed with the record */
    union {
        struct rndv_send *rndv;
        struct pipeline_send *pipelined;
    };
    const struct request_ops *ops;   /* of an operation, else NULL */
    void *of;                     /* its object, freed with the record */
    struct error_comm error_comm;
    int source, tag;              /* the status of a matched or resent message tells these */
    int refused;                  /* error class of a payload that can't be received */
    int64_t rndv_bytes;           /* bytes of a payload that an RTS announced */
    /* The rest of a new record is not set. */
    MPI_Status found;             /* of a held record */
    struct record *next;          /* in a completion, among starts, or in a queue of freed.c */
    UT_hash_handle hh;
};

extern atomic_int record_rndvs, record_helds;   /* records of the kind rndv; records that are held */

/* Returns a new active record, zeroed up to `found`; ends the process without memory. The caller sets the rest and
 * keeps it in the table. Nothing copies a record just written: a load of bytes that several stores wrote waits for all
 * earlier stores, also for those of the MPI to memory shared with the receiver. */
struct record *record_new(MPI_Request request, const struct record_kind *kind);
void record_free(struct record *r);

/* Returns true if the status tells how many bytes came. */
bool record_receives(const struct record *r);
/* Forgets a message that was here. */
void record_unhold(struct record *r);
/* Completes all freed requests, at MPI_Finalize. */
void record_freed_finish(void);

#endif
