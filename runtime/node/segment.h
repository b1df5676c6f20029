/* segment.h: how the ranks of a node find each other, and what they tell each other through shared memory.
 *
 * Each process of a job that runs stridec on a machine with a GPU keeps one file in /dev/shm, there from before its
 * MPI_Init returns: a random cookie, slots for the messages that it offers, the layouts of these, and which peers'
 * memory it can read. Nothing is agreed by messages: a rank without stridec, on another node or in another container
 * has no file that its peers find, and gets its messages as they are.
 *
 * The names are known to all, and the folder is open to all: only files of this user count (file.h). One that is cut
 * while it is mapped holds zeros from then on (sigbus_guard.h): its owner offers nothing more, and its peers take
 * nothing more from it. */
#ifndef STRIDEC_NODE_H
#define STRIDEC_NODE_H
#include <cuda.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes that no payload begins with by chance: what all cookies begin with, which tells most other messages in one
 * look, then random ones. */
#define COOKIE_MARK "stridec"   /* and a zero */
struct cookie {
    unsigned char half[2][16];
};

/* Who may write a slot: its owner while it is free, offered or held; the receiver from taken to done or refused. */
enum slot_state {
    SLOT_FREE,
    SLOT_OFFERED,   /* to be taken by the receiver */
    SLOT_HELD,      /* for a moment by its owner, who is moving the payload */
    SLOT_TAKEN,     /* the receiver reads */
    SLOT_REFUSED,   /* the receiver can't read it: the owner spills it into a file */
    SLOT_SPILLED,
    SLOT_LOST,      /* refused, and no room for a file */
    SLOT_DONE       /* read: the memory is the owner's again */
};
/* What `user` is. */
enum slot_memory {
    SLOT_DEVICE,    /* an address in device memory */
    SLOT_PROCESS,   /* in the owner's own host memory (peer_access.h) */
    SLOT_MAPPED,    /* the same, which may be mapped (xpmem.h) */
    SLOT_ROOM       /* a place among the owner's rooms (shm_pool.h) */
};
struct slot {
    _Alignas(64) _Atomic uint32_t state;   /* with all that receivers look at again and again, in one line of the cache */
    uint32_t memory;            /* enum slot_memory */
    _Atomic int64_t ready;      /* of the packed bytes, already there to be read; -1: there will be no more */
    uint64_t user;              /* address of element 0's origin; of packed bytes their first */
    uint64_t layout;            /* where in the file its signature is, or, of host memory for the owner itself, the struct
                                 * layout; 0: packed bytes */
    int64_t bytes;              /* packed */
    int64_t count, extent;
    uint64_t id;                /* the driver's number for the allocation: no other of the process has it */
    CUipcMemHandle handle;      /* of the allocation, for who does not know it yet */
    uint64_t start, span;       /* of the allocation, in the owner's address space, bytes */
    int64_t chunk;              /* of packed bytes that are marked as they come, BUFFER_MARKS before the first (kernel.h);
                                 * 0: they are not; */
    uint64_t mark;              /* with this value */
    uint64_t gpu;               /* the allocation's (device_gpu) */
    _Atomic uint32_t unfollowed;   /* where they are: the receiver could not wait for marks, and read piece by piece */
    _Atomic int64_t eaten,
        turn;   /* of packed bytes in a room (shm_pool_place): read so far; from where on none is overwritten */
    int64_t head;               /* of those: the first so many came with the descriptor */
    bool timed;                 /* the receiver tells what it needs for the rest (nontemporal.h), */
    _Atomic int64_t spent;      /* in nanoseconds, without those that it waits; 0: not told */
};

#define SLOTS 512
#define PROBES 8
#define GONE 64
#define ARENA_BYTES ((uint64_t)8 << 20)   /* of signatures; taken from the system as they come */

struct node_file {
    char magic[8];
    _Atomic uint32_t ready;
    int32_t rank, size;
    struct cookie cookie;
    struct {                    /* a few bytes of each device that the owner offers from, for peers to try */
        CUipcMemHandle handle;
        unsigned char content[32];
    } probe[PROBES];
    _Atomic uint32_t probes;
    _Atomic uint32_t refusals;  /* one more for each slot that became refused (progress_thread.h) */
    _Atomic uint32_t leaving;   /* the owner receives nothing any more */
    _Atomic uint32_t goes;      /* allocations of the owner's that others may have open, and that are gone: so many so far, */
    _Atomic uint64_t gone[GONE];   /* the driver's numbers of the last ones */
    _Atomic uint32_t takes_briefs, briefs;   /* rts_short.h: the owner looks for them; under way to it */
    _Atomic uint64_t gpu;       /* on which the owner last read messages (device_gpu); 0: on none */
    int32_t pid;
    uint64_t proof;             /* address of a copy of the cookie in the owner's own memory */
    _Atomic int64_t segment;    /* all of that, to be mapped (xpmem.h); 0: not told, or it can't be */
    _Atomic uint32_t asked;     /* how often a rank has begun to ask (node_asks) */
    struct slot slot[SLOTS];
    _Atomic uint64_t arena;     /* bytes used of it */
    _Atomic uint8_t accepts[];  /* of each rank: a bit for each of its probes that the owner could read; then node_asks,
                                 * node_reaches and the arena */
};

struct peer {
    int rank;                   /* in MPI_COMM_WORLD */
    bool self;
    struct node_file *file;
    int fd;
    dev_t device;               /* of the file, and its number: a program may close what it did not open, and then have another */
    ino_t number;               /* file under fd */
    _Atomic uint32_t tried;     /* its probes that this process has looked at */
    atomic_bool waited;         /* a persistent send has given it time to try the own ones (persistent_send.c) */
    atomic_bool offers;         /* its last long message was a descriptor */
    atomic_bool asked;          /* to try the own host memory (peer_access.h) */
    atomic_int untried;         /* messages so far that did not wait for it to try the own device memory (parcel_sent_apart) */
    _Atomic uint32_t gone;   /* its `goes` that were looked at (ipc_cache_yield) */
    _Atomic uint32_t refused;   /* what it could reach of that once, and can't any more: bits as node_reaches */
    _Atomic int late;           /* messages that are not waited for again, for it came late for one (rndv_send.c) */
    _Atomic int behind;         /* messages whose marks are not waited for, for those of one came late */
    _Atomic int unfollowed;     /* messages that are not marked, for it could not follow the marks of one */
    _Atomic int moved;          /* messages that do not stay in place for XPMEM, for it came late for one */
    _Atomic uint32_t past;      /* powers of two of bytes of which messages to it were last found to go better past the caches */
    _Atomic(_Atomic uintptr_t *) windows;   /* on its rooms, by their places (shm_pool.c); NULL: not yet, or never */
    struct cookie cookie;       /* the file's */
    atomic_bool lost;           /* a file of its was cut: what is read there may be zeros (sigbus_guard.h) */
    atomic_bool told;           /* that was said */
    _Atomic int64_t access;     /* to its segment; 0: none */
};

/* True of so many messages as are left out, one less each time. */
static inline bool node_leaves_out(_Atomic int *messages)
{
    return atomic_load_explicit(messages, memory_order_relaxed) > 0 && (atomic_fetch_sub(messages, 1), true);
}

extern atomic_bool node_is_armed;
/* True between node_start and node_finish, where device memory may be offered. */
static inline bool node_armed(void)
{
    return atomic_load_explicit(&node_is_armed, memory_order_relaxed);
}
/* Returns true where device memory may go to ranks of the node without being packed: there may be some, and
 * STRIDEC_TRANSPORT does not forbid it. */
bool node_zerocopy(void);
/* The machine has GPUs, or the process has loaded a driver already. */
bool node_has_gpus(void);
/* At MPI_Init, which messages may now be offered; and at MPI_Finalize. */
enum node_offers { NODE_NOTHING, NODE_HOST, NODE_DEVICE };   /* device: both */
enum node_offers node_start(void);
void node_finish(void);

/* The rank of comm as a peer, itself included; NULL where it has no file here, and for groups of other worlds. */
struct peer *node_peer(MPI_Comm comm, int rank);
struct peer *node_world_peer(int rank);
/* True while ranks of this machine may still be on their way through MPI_Init, without a file: what node_peer has
 * not found may yet come. For good where the launcher doesn't tell how many there are, or one runs without stridec. */
bool node_awaits(void);
/* True if every rank of comm has its file here and is armed: the same answer on all of them once they have passed
 * MPI_Init, and until one passes MPI_Finalize. Files are looked for, not opened. */
bool node_holds(MPI_Comm comm);
/* As node_peer, but looked for whatever came of earlier looks. */
struct peer *node_member(MPI_Comm comm, int rank);
/* Its process is gone, or its file was cut: nothing more comes from it. */
bool node_gone(const struct peer *p);
/* The own file was cut: peers may see nothing of what this process writes there. */
bool node_lost(void);
/* Waits until more packed bytes of a taken slot of its are ready than the `at` that were: how many; -1 where no more
 * will come. */
int64_t node_await_ready(const struct peer *p, const struct slot *s, int64_t at);
/* The own file. */
struct node_file *node_own(void);
/* Tells peers of the GPU that messages are read on. */
void node_reads_on(uint64_t gpu);
/* Bytes of the own file's arena, at an offset of it that is not 0. NULL where the range is none. */
char *node_arena(uint64_t at, uint64_t bytes);
/* Copies bytes of a peer's arena, which is not mapped. False where the range is none, or can't be read. */
bool node_arena_read(const struct peer *p, uint64_t at, void *to, uint64_t bytes);
/* So many bytes of the own arena, for good; 0 where it is full, or the folder is. */
uint64_t node_arena_take(uint64_t bytes);
/* Of each rank, in a rank's file: that it has something for the owner to try; what came of it (peer_access.h). */
_Atomic uint8_t *node_asks(struct node_file *f);
_Atomic uint8_t *node_reaches(struct node_file *f);
/* False where the process may not make a file so long: it would end with SIGXFSZ (RLIMIT_FSIZE). */
bool node_may_write(int64_t bytes);
/* The name of a rank's file of rooms. */
void node_rooms_name(char name[128], int rank);
/* The name of a file that goes with a slot of the rank's: where its owner spills a payload. */
void node_spill_name(char name[128], int rank, uint32_t slot);

#endif
