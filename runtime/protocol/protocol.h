/* protocol.h: the protocols of a send, a row each, and the one selection among the rows.
 *
 * send_select looks where the buffer lies and asks the rows of that memory domain in order; the first that starts
 * carries the message. Sends of every kind, exchanges, stridec_query and the statistics use this selection: what is
 * reported is what is done. Persistent sends ask the same rows once for all starts. A new protocol is a file with one
 * row, and its place in a list of protocol.c.
 *
 *   domain   row         file             what the receiver gets
 *   cuda     get         get.c            an RTS; it reads the sender's memory (rndv_send.h, rndv_cuda.c)
 *            pass        pass.c           the MPI's own message, from device memory
 *            pipelined   pipeline_send.c  an RTS, then packed chunks
 *            eager       eager.c          packed bytes, by a transport (pack/transport.h)
 *   host     shared      shared.c         an RTS; it reads shared memory, or the sender's (rndv_send.h, shm_send.c)
 *            packed      shared.c         packed bytes, by compiled code
 *            pass        pass.c           the MPI's own message
 *
 * The states of a slot. S: the sender's process (rndv_send.c), R: the receiver's (rndv_recv.c).
 *
 *        +--------> FREE <-----------+
 *        |            |              | rndv_send_withdraw (S): the RTS was not sent, or was cancelled
 *        |            | rndv_send_slot, rndv_send_publish (S)
 *        |            v              |
 *        |         POSTED -----------+
 *        |            |   <=======> HELD  move_away (S): the payload moves to stridec's memory or a file
 *        |            | take (R)
 *        |            v
 *        |          TAKEN --------------------------+
 *        |            |                             | rndv_recv_fallback (R): it can't read the payload;
 *        |            |                             | progress_thread_call wakes S
 *        |            |                             v
 *        |            |                           NACK
 *        |            |                             | refused (S; from answered or rndv_send_serve, in any of
 *        |            |                             | its threads)
 *        |            |                             v
 *        |            |                           HELD
 *        |            |                             | spill (S): writes the payload to a file
 *        |            |                             v
 *        |            |                       FALLBACK or LOST (no room for the file)
 *        |            |                             |
 *        |            | rndv_recvs_run (R): read,   | rndv_recvs_run (R): read from the file, or an error
 *        |            | too long for the receive    |
 *        |            | (rndv_recv_add_told)        |
 *        |            v                             |
 *        |          DONE <--------------------------+
 *        |            |
 *        +------------+ rndv_send_withdraw (S; finished, from rndv_send_end, rndv_send_await, rndv_send_poll)
 *
 * A process that waits for the other's next state asks whether that lives (node_gone). Where S has died, R
 * sets DONE from NACK and HELD; where R has died or receives no more, S sets DONE (linger).
 * tests/model/rndv.pml has these steps, and what holds of them (`make model`).
 */
#ifndef STRIDEC_PROTOCOL_H
#define STRIDEC_PROTOCOL_H
#include "message.h"
#include "tune/verdict.h"

/* A started send. The caller passes `address` with the type and count `as` to the MPI in the buffer's place. Then it
 * calls the row's complete or abort, or keeps the member that is set and ends it itself. */
struct send_op {
    const struct protocol *protocol;
    struct rndv_send *rndv;            /* get, shared */
    struct pipeline_send *pipelined;   /* pipelined */
    struct typed_buffer *packed;       /* eager, packed */
    const void *address;
    struct wire as;
};

struct persistent_send;
struct protocol {
    const char *name;   /* as in the table above */
    /* Returns true if start would carry m, as far as can be told without starting anything. NULL in the last row of a
     * domain, which carries all messages. */
    bool (*probe)(const struct message *m);
    /* Returns true if op carries m now. Else *rc is MPI_SUCCESS, and the next row is asked, or an error raised on
     * m->comm. */
    bool (*start)(struct send_op *op, const struct message *m, int *rc);
    /* Ends op after the MPI has sent what stands for the buffer. Waits until the buffer is the application's again.
     * Returns MPI_SUCCESS, or an error raised on comm. */
    int (*complete)(struct send_op *op, MPI_Comm comm);
    /* Ends op: nothing was sent. */
    void (*abort)(struct send_op *op);
    /* Plans the starts of a persistent send. Returns false if this row can't carry them: the next row is asked. NULL:
     * each start of such a message selects anew. */
    bool (*plan)(struct persistent_send *s, const struct message *m);
    /* Writes why m goes this way, and returns the path's name (stridec_path_name). */
    const char *(*explain)(const struct message *m, char why[TUNE_WHY_MAX]);
};

extern const struct protocol protocol_get, protocol_pipelined, protocol_eager, protocol_shared, protocol_packed,
    protocol_pass_device, protocol_pass_host;

/* Starts m by the first row that carries it. Returns true if op is to be sent. Else the call ends with *rc, or passes
 * to the MPI if that is MPI_SUCCESS. */
bool send_select(struct send_op *op, struct message *m, int *rc);
/* Sets the second part of m, with a layout only if stridec may send m. Returns true if the buffer lies at least partly
 * on a device. */
bool send_locate(struct message *m);
/* Returns the plan of a persistent send, by the first row that carries it; NULL if each start selects anew. Waits up to
 * 2 ms for a peer that has not yet read such memory: mostly this peer is about to call the matching receive. */
struct persistent_send *send_plan(struct message *m);
/* Returns the row that send_select would use; sends and starts nothing. m->peer is no MPI_PROC_NULL. */
const struct protocol *send_probe(struct message *m);

/* Shared by get.c, shared.c, and what continues their sends: fills op for o, waits for the receiver, or gives o up. */
void send_op_rndv(struct send_op *op, struct rndv_send *o);
int send_op_end_rndv(struct send_op *op, MPI_Comm comm);
void send_op_abort_rndv(struct send_op *op);
/* Shared by eager.c and packed: fills op for packed bytes, or closes p and sets *rc. Ends op. */
bool send_op_packed(struct send_op *op, struct typed_buffer *p, int *rc);
int send_op_end_packed(struct send_op *op, MPI_Comm comm);
void send_op_abort_packed(struct send_op *op);
/* Returns true if m is to be read from device memory by its receiver, if an RTS may announce it; asks no driver. */
bool get_pays(const struct message *m);
/* Return the rank of the node that m may go to by `get`, or by `shared` (m->layout is set); NULL if none. They do not
 * look at the buffer. */
struct peer *get_peer(const struct message *m);
struct peer *shared_peer(const struct message *m);

#endif
