/* channel.h: messages of persistent requests in stream order. Within a node: once two partners are bound, a message is
 * enqueued work alone, and no host takes part: the sender's stream sets a flag in the receiver's device memory; the
 * receiver's waits for it, moves the bytes from layout to layout, and sets a flag in the sender's device memory, for
 * which the sender's stream waits. Each stream clears the flag that it waited for. So the values are always the same,
 * and a captured graph can be launched again and again.
 *
 *    sender:   start_on  set READY of the receiver          wait_on  wait for DONE, clear it
 *    receiver:           (nothing)                          wait_on  wait for READY, clear it; move; set DONE
 *
 * Partners bind at their first message, by a greeting of the sender's on the message's communicator and tag, and an
 * answer in a slot of its file. Partners that can't be bound stay with the MPI: CHANNEL_PLAIN. To other nodes it
 * carries the packed bytes, from the second message on in stream order, too (stream_posts.h): CHANNEL_POSTED. */
#ifndef STRIDEC_CHANNEL_H
#define STRIDEC_CHANNEL_H
#include "base/scratch.h"
#include "device/device.h"
#include <mpi.h>
#include <stdbool.h>

/* The arguments of MPI_Send_init, its kin, and MPI_Recv_init. */
struct channel_call {
    const void *buf;
    MPI_Count count;
    MPI_Datatype type;
    int peer, tag;
    MPI_Comm comm;
    bool sends;
};
/* Notes a new persistent request. Returns rc, the MPI's result. */
int channel_note(int rc, const struct channel_call *call, const MPI_Request *request);
/* Forgets a request that is being freed. */
void channel_freed(MPI_Request request);
/* Forgets all, at MPI_Finalize. */
void channels_finish(void);

/* Returns true if the request is bound: then MPI_Start refuses it. */
bool channel_is_bound(MPI_Request request);

struct channel;
/* Returns the channel of a noted request, or NULL. */
struct channel *channel_of(MPI_Request request);
MPI_Request channel_request(const struct channel *c);
/*    NEW -- channel_begin --> QUEUED -- channels_progress --> GREETED
 *                         --> GREETED -- channels_progress --> BOUND, if both can; else PLAIN
 *                         --> BOUND (MPI_PROC_NULL), PLAIN (a partner of another node, or without stridec)
 *    PLAIN -- channel_post, after the first message to another node --> POSTED */
enum channel_state {
    CHANNEL_NEW,
    CHANNEL_QUEUED,    /* the partner will be greeted when earlier messages that the MPI may match are settled */
    CHANNEL_GREETED,
    CHANNEL_BOUND,
    CHANNEL_POSTED,    /* a thread passes its packed bytes to the MPI; or the host its message, where it must */
    CHANNEL_PLAIN      /* the MPI's; the first message too */
};
enum channel_state channel_state(const struct channel *c);
/* The message of a channel: from stridec_start_on to stridec_wait_on it is under way. */
enum channel_message {
    MESSAGE_NONE,
    MESSAGE_PENDING,   /* its channel binds; or the MPI has not started it yet */
    MESSAGE_STARTING,  /* some thread starts it by the MPI */
    MESSAGE_STARTED,
    MESSAGE_POSTED     /* in stream order, of CHANNEL_POSTED */
};
enum channel_message channel_message(const struct channel *c);
void channel_set_message(struct channel *c, enum channel_message message);
/* Ends the message in stridec_wait_on, and counts it if it is bound. */
void channel_end_message(struct channel *c);
/* Forgets a message: it has been waited for, or won't be. */
void channel_drop_message(struct channel *c);
/* Returns true for a message that is in stream order and was started while its stream was captured. */
bool channel_is_captured(const struct channel *c);
/* Returns true for a receive that the wait for others has moved, on another stream. */
bool channel_is_elsewhere(const struct channel *c, CUstream stream);
/* Returns true if the MPI carries the message that is under way, as the host's. */
bool channel_is_hosts(const struct channel *c);
/* Has later messages of a plain channel go in stream order, if they can. `bytes`: of the message that was received. */
void channel_post(struct channel *c, int64_t bytes);
/* Returns true for a receive from any source or of any tag: it can't be bound, and its partner does not know. */
bool channel_wild(const struct channel *c);
/* Finds the memory of a new channel. */
void channel_locate(struct channel *c);
/* Leaves a located channel to the MPI. */
void channel_leave(struct channel *c, const char *why);   /* why: static */
/* Returns the device of a located channel; NULL with MPI_PROC_NULL, or where it can't be bound. */
struct device *channel_device(const struct channel *c);
/* Returns why a channel is CHANNEL_PLAIN. Static storage. */
const char *channel_why(const struct channel *c);

/* Begins a message of a channel that is new (its data are there, and it is located), or plain: those of one partner and
 * tag in the order of these calls. */
void channel_begin(struct channel *c);
/* Returns true until a channel is bound, or its plain message has been started. */
bool channel_unsettled(const struct channel *c);
/* Lets all channels that bind make progress. Returns false if the partner of `c` (may be NULL) has ended. */
bool channels_progress(const struct channel *c);
/* Returns a plain channel whose message the caller starts by the MPI, and then sets to MESSAGE_STARTED; NULL if there
 * is none now. */
struct channel *channels_next_plain(void);
/* Returns bound receives of d that were started on the stream, while it was captured or not, and are not moved yet:
 * a list in s, with room for `more`; sets *n. NULL without memory. */
struct channel **channels_started(struct scratch *s, const struct device *d, CUstream stream, bool captured, int more,
                                  int *n);

/* Enqueue on a stream of the program's the start, or the rest, of the messages of bound and posted channels, and note a
 * start. `together`: all are bound; channels_wait follows at once, and enqueues the start, too. The first `others` of
 * channels_wait are receives that it moves early: their own wait comes later. One thread at a time calls
 * channels_started and then channels_wait. Return 0 or -1 (logged). */
int channels_start(struct channel *const channels[], int n, CUstream stream, bool captured, bool together);
int channels_wait(struct channel *const channels[], int n, int others, CUstream stream);

#endif
