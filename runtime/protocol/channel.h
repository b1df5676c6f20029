/* channel.h: messages of persistent requests in stream order, within a node. Once two partners are bound, a message is
 * enqueued work alone, and no host takes part: the sender's stream sets a flag in the receiver's device memory; the
 * receiver's waits for it, moves the bytes from layout to layout, and sets a flag in the sender's device memory, for
 * which the sender's stream waits. Each stream clears the flag that it waited for. So the values are always the same,
 * and a captured graph can be launched again and again.
 *
 *    sender:   start_on  set READY of the receiver          wait_on  wait for DONE, clear it
 *    receiver:           (nothing)                          wait_on  wait for READY, clear it; move; set DONE
 *
 * Partners bind at their first message, by a greeting of the sender's on the message's communicator and tag, and an
 * answer in a slot of its file. Partners that can't be bound stay with the MPI: CHANNEL_PLAIN. */
#ifndef STRIDEC_CHANNEL_H
#define STRIDEC_CHANNEL_H
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

/* Returns true if only stridec_start_on may start the request. */
bool channel_is_bound(MPI_Request request);

struct channel;
/* Returns the channel of a noted request, or NULL. */
struct channel *channel_of(MPI_Request request);
MPI_Request channel_request(const struct channel *c);
enum channel_state {
    CHANNEL_NEW,
    CHANNEL_GREETED,   /* the first message is under way */
    CHANNEL_BOUND,
    CHANNEL_PLAIN      /* the MPI's; the first message too */
};
enum channel_state channel_state(const struct channel *c);
/* The message of a channel: from stridec_start_on to stridec_wait_on it is under way. The first one binds. */
enum channel_message { MESSAGE_NONE, MESSAGE_FIRST, MESSAGE_LATER };
enum channel_message channel_message(const struct channel *c);
void channel_set_message(struct channel *c, enum channel_message message);
/* Returns true for a receive from any source or of any tag: it can't be bound, and its partner does not know. */
bool channel_wild(const struct channel *c);
/* Returns the device of a bound channel, NULL with MPI_PROC_NULL. */
struct device *channel_device(const struct channel *c);
/* Returns why a channel is CHANNEL_PLAIN. Static storage. */
const char *channel_why(const struct channel *c);

/* Begins to bind a new channel: the data of its first message are there. Returns MPI_SUCCESS or the MPI's error. */
int channel_greet(struct channel *c);
/* Lets all greeted channels make progress. Returns false if the partner of `c` (may be NULL) has ended. */
bool channels_progress(const struct channel *c);
/* Returns a channel that was found to be plain after its first message began: the caller starts the MPI's request. Its
 * message is a later one then. NULL if there is none. */
struct channel *channels_next_plain(void);

/* Enqueue on a stream of the program's the start, or the rest, of the messages of bound channels. Return 0 or -1
 * (logged). */
int channels_start(struct channel *const channels[], int n, CUstream stream);
int channels_wait(struct channel *const channels[], int n, CUstream stream);

#endif
