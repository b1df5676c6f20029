/* channel_internal.h: shared by channel.c, channel_bind.c (what partners tell each other) and channel_move.c (flags,
 * and what is enqueued). */
#ifndef STRIDEC_CHANNEL_INTERNAL_H
#define STRIDEC_CHANNEL_INTERNAL_H
#include "base/hash_table.h"
#include "channel.h"
#include "kernel/typed_copy.h"
#include "node/ipc_cache.h"
#include "node/ipc_export.h"
#include "rndv_send.h"
#include "stream_posts.h"
#include <pthread.h>

/* A sender's first message: where its slots are. */
struct greeting {
    struct cookie cookie;   /* of its file */
    uint32_t slot;   /* the first of the data's, a slot for each allocation; the last one is the flag's. SLOTS: none */
};

/* Holds what a receive uses of one of the partner's allocations. */
struct channel_part {
    struct kernel *pair;   /* moves it, or NULL */
    struct import *data;
    struct ipc_cache_layout theirs;
};

struct channel {
    MPI_Request request;
    struct channel_call call;
    struct layout *layout;
    _Atomic(enum channel_state) state;       /* read without the lock, as is */
    _Atomic(enum channel_message) message;
    CUstream stream;             /* of the start, of a bound channel */
    pthread_t thread;            /* which started it: each thread has its own CU_STREAM_PER_THREAD */
    bool captured;               /* was that stream then */
    bool moved;                  /* a receive: its bytes have been moved, or enqueued */
    bool together;               /* its wait follows its start at once: no other wait moves it */
    bool early;                  /* a receive: the wait for others was to move it */
    CUevent arrived;             /* then its own wait, on another stream maybe, is behind this; NULL: none */
    bool failed;                 /* a receive: it has not been moved, and won't be */
    bool untold;                 /* a send whose start the wait tells the partner */
    bool nothing;                /* the partner is MPI_PROC_NULL */
    const char *why;             /* it is plain; static */

    struct peer *peer;           /* this part is set by greet */
    struct device *device;
    int64_t bytes;               /* of a message; of a receive that is not bound, the most */
    int world;                   /* the partner in MPI_COMM_WORLD, for the statistics */
    struct greeting greeting;
    MPI_Request greeting_request;
    uint64_t number;             /* of the greeting */
    bool answered;               /* a receive: by this process */
    struct rndv_send *slots;     /* a send's: holds them */
    struct slot *flag_slot;      /* the last of the sender's; NULL: none */

    CUdeviceptr own;             /* the flag that this process waits for; 0: none */
    uint64_t other;              /* the partner's, as this process reaches it */
    struct import *flag;         /* the memory of that */
    int parts;                   /* of a receive, and what it reads of each: */
    struct channel_part *part;
    struct typed_copy_job *job;
    struct pool_buffer *wire;    /* packed bytes: of a send, which the partner reads in place of the data; of a receive,
                                  * which come from several allocations. NULL: none */
    struct typed_copy_job repack;   /* between the data and those */
    struct typed_copy_batch kept;   /* buffers of its moves */

    struct post *post;           /* of CHANNEL_POSTED */
    UT_hash_handle hh;
};

/* The state of a handshake, in the last of a sender's slots (struct slot, turn); the two write it by turns:
 *
 *    NONE -- receiver: answer --> NO
 *                             --> YES -- sender: progress_send --> BOUND     -- receiver: progress_receive --> SEEN
 *                                                              --> UNREACHED -- receiver: progress_receive --> SEEN
 *
 * The sender gives the slots back at NO and SEEN. */
enum handshake {
    HANDSHAKE_NONE,
    HANDSHAKE_NO,          /* the receiver can't read the data */
    HANDSHAKE_YES,         /* it can; the slot now tells of its flag */
    HANDSHAKE_BOUND,       /* the sender reaches that flag */
    HANDSHAKE_UNREACHED,
    HANDSHAKE_SEEN         /* the receiver needs the slots no longer */
};

/* Returns the last of a sender's slots: those before it tell of the data, it of the flag. Sets *parts to the number of
 * those. NULL if there are none. */
struct slot *channel_last_slot(struct node_file *f, uint32_t first, int *parts);
/* Describes data and flag of a send in slots. Returns NULL, or why it can't. Static storage. */
const char *channel_describe(struct channel *c);
/* Opens what the sender describes and tells of the own flag; the device is entered. Returns NULL, or why it can't. */
const char *channel_accept(struct channel *c);
/* Frees the packed bytes of a channel, and ends the uses of what was opened. */
void channel_parts_end(struct channel *c);

/* Returns true if streams of d wait for memory and write it. */
bool channel_device_able(struct device *d);
/* Returns a flag in device memory, 0 at first; 0 without memory. */
CUdeviceptr channel_flag_get(struct device *d);
void channel_flag_put(struct device *d, CUdeviceptr flag);   /* 0 is allowed */
void channel_flags_finish(void);
/* Packs the first message of a send, on a stream of stridec's own. Waits. Returns 0 or -1 (logged). */
int channel_pack_first(struct channel *c);
/* Moves the first message of a receive, on a stream of stridec's own, and tells the sender. Waits. Where it can't, the
 * wait for the message fails, and the sender goes on all the same. */
void channel_move_first(struct channel *c);
/* Notes that messages have been started: other threads look for receives to move (channels_started). */
void channels_note_start(struct channel *const channels[], int n, CUstream stream, bool captured, bool together);
/* Frees the buffers of a channel's moves. */
void channel_moves_end(struct channel *c);

#endif
