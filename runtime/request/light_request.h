/* light_request.h: light requests, for a process without a driver: receives into host memory that the MPI serves and
 * that may, though rarely, bring an RTS; and short packed messages (host_sends_short). One costs some nanoseconds. A
 * request is light or has a record; record_take makes a record of a light one. */
#ifndef STRIDEC_LIGHT_REQUEST_H
#define STRIDEC_LIGHT_REQUEST_H
#include "base/bounce.h"
#include "base/mpi_abi.h"
#include "error_comm.h"
#include "pack/typed_buffer.h"
#include "protocol/rts.h"
#include <mpi.h>

struct light_request {
    void *buf;
    int64_t count;
    MPI_Datatype type;
    bool plain;              /* the buffer begins with the message's first bytes */
    bool sends;              /* sends the bounce buffer */
    struct layout *layout;   /* referenced; of a request unless plain: its type may be freed before it completes */
    struct bounce *bounce;   /* packed bytes of a short message; else NULL */
    struct error_comm error_comm;
    int error;               /* for the caller's use */
};
/* Returns true if a receive is light. The caller passes it to the MPI first. */
bool light_request_wants(int64_t count, MPI_Datatype type, int source);
/* Returns the values of a receive. They hold no reference to the type. */
struct light_request light_request_of(void *buf, int64_t count, MPI_Datatype type, MPI_Comm comm);
/* Returns true if a receive without error may have brought an RTS. */
static inline bool light_request_hit(const struct light_request *w, const MPI_Status *status)
{
    if (!rts_fits(mpi_abi_status_bytes(status))) return false;
    return !w->plain || rts_begins(w->buf);
}
/* Moves what a receive brought to its buffer. Returns MPI_SUCCESS, or an error raised on its communicator. */
int light_request_arrived(struct light_request *w, MPI_Status *status);
/* Continues a request that completed without error. Returns like light_request_arrived. */
static inline int light_request_done(struct light_request *w, MPI_Status *status)
{
    bool more = w->bounce ? !w->sends : light_request_hit(w, status);
    return more ? light_request_arrived(w, status) : MPI_SUCCESS;
}

/* Adds a receive. Returns false if its places are taken or its type can't be read: the caller adds a record. */
bool light_request_add(MPI_Request request, struct light_request w);
/* Adds a receive of a short message into b, which it takes; as a record if its places are taken. */
void light_request_comes(MPI_Request request, struct layout *l, void *buf, int64_t count, struct bounce *b,
                         MPI_Comm comm);
/* Adds a send of a short message from b, which it takes. MPIs give one handle to all sends that are complete at once:
 * only if the handle is there already it asks the MPI, which costs progress, whether the send is complete. */
void light_request_leaves(MPI_Request request, struct layout *l, int64_t count, struct bounce *b);
/* Takes a light request out. Returns false if it is none. */
bool light_request_take(MPI_Request request, struct light_request *w);
/* Puts a taken one back that has not completed; as a record if its places are taken. */
void light_request_return(MPI_Request request, struct light_request *w);
/* Returns a record of a taken one, which ends. */
struct record *light_request_record(MPI_Request request, struct light_request *w);
/* Frees what a taken one holds. */
void light_request_end(struct light_request *w);
/* Returns true if no request has a record. */
bool light_request_alone(void);

#endif
