/* segment.h: how the ranks of a node find each other and communicate through shared memory.
 *
 * Each process that runs stridec keeps one file in /dev/shm, made before its MPI_Init returns. It holds a random
 * cookie, slots for rendezvous sends, signatures of layouts, and which peers' memory the process can read. Nothing is
 * agreed by messages: a rank without stridec, on another node or in another container has no file, and receives plain
 * bytes.
 *
 * File names are public and the folder is writable by all, so only files of this user count (base/file.h). A file
 * truncated while mapped reads as zeros (sigbus_guard.h): its owner posts nothing more, and peers take nothing more.
 * Each process keeps its own rank and cookie outside of the file, too (node_self): its messages name it by these. */
#ifndef STRIDEC_SEGMENT_H
#define STRIDEC_SEGMENT_H
#include <cuda.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* No payload begins with a cookie by chance. The mark excludes most other messages at once; random bytes follow. */
#define COOKIE_MARK "stridec"   /* and a zero */
struct cookie {
    unsigned char half[2][16];
};

/* The owner may write a slot while it is FREE, POSTED or HELD; the receiver from TAKEN to DONE or NACK. */
enum slot_state {
    SLOT_FREE,
    SLOT_POSTED,    /* the receiver may take it */
    SLOT_HELD,      /* its owner is moving the payload */
    SLOT_TAKEN,
    SLOT_NACK,      /* the receiver can't read it: the owner copies it into a file */
    SLOT_FALLBACK,
    SLOT_LOST,      /* refused, and no space for a file */
    SLOT_DONE       /* read: the memory is the owner's again */
};
/* Kinds of memory that `user` refers to. */
enum slot_memory {
    SLOT_DEVICE,    /* an address in device memory */
    SLOT_PROCESS,   /* an address in the owner's host memory (peer_access.h) */
    SLOT_POOL,      /* an offset in the owner's shared blocks (shm_pool.h) */
    SLOT_FILE       /* none: the payload is in the slot's file (rndv_file.h) */
};
#define SLOT_MAPPED ((uint64_t)1 << 63)
struct slot {
    _Alignas(64) _Atomic uint32_t state;   /* first of the cache line that receivers poll */
    uint16_t memory;            /* enum slot_memory */
    uint16_t next;              /* number of the slot of the next part of a payload in several allocations, plus 1;
                                 * parts have no state, and are read from this line alone. 0: none */
    _Atomic int64_t ready;      /* packed bytes ready to be read; -1: no more will come */
    uint64_t user;              /* address of element 0's origin, or of the first packed byte */
    uint64_t layout;            /* offset of its signature in the file; 0: packed bytes; to the owner itself,
                                 * from host memory, the address of the struct layout */
    int64_t bytes;              /* packed */
    int64_t count, extent;
    uint64_t id;                /* the driver's number of the allocation, unique in the process; or with SLOT_MAPPED
                                 * the number of a range of mapped memory (mapping_export.h) */
    CUipcMemHandle handle;      /* of the allocation, for peers that don't know it yet; unused with SLOT_MAPPED */
    uint64_t start, span;       /* of the allocation, in the owner's address space, bytes */
    int64_t chunk;              /* bytes a chunk flag, BUFFER_FLAG_BYTES before packed byte 0 (kernel.h); 0: no flags */
    uint64_t mark;              /* value of a set chunk flag */
    uint64_t gpu;               /* of the allocation (device_gpu_id) */
    _Atomic uint32_t probed;    /* a probe has taken the RTS, and no receive yet */
    _Atomic uint32_t flags_unread;   /* the receiver could not wait for chunk flags, and read in pieces */
    _Atomic int64_t bytes_read,
        turn;                   /* packed bytes in a block (shm_pool_offset): read so far; end of the reused part */
    int64_t head;               /* of these, bytes that came with the RTS */
    bool timed;                 /* the receiver reports its time for the rest (nontemporal.h) */
    _Atomic int64_t spent;      /* that time without waits, ns; 0: not reported */
    uint64_t description;       /* of a payload in several allocations, or 0: the number of what its slots say, which no
                                 * other of the process had, times LAYOUT_PARTS, plus the number of the part. Slots that
                                 * host memory never used have it in a line that is not written for each message */
};

/* Stores a value that is new: lines that nobody writes stay in both processes' caches, and most messages are like the
 * one before. */
#define SLOT_SET(field, value) \
    do { \
        if ((field) != (value)) (field) = (value); \
    } while (0)

#define NODE_FOLDER "/dev/shm/"
#define NODE_DISK "/tmp/"   /* for fallback copies that find no room there */
#define SLOTS 4096   /* the most; node_slots_grow allocates them, in steps */
#define SLOTS_STEP 512
#define PROBES 8
#define GONE_MAX 512
#define ARENA_BYTES ((uint64_t)8 << 20)   /* of signatures; pages are allocated at use */

struct node_file {
    char magic[8];
    _Atomic uint32_t ready;
    int32_t rank, size;
    struct cookie cookie;
    struct {                    /* a few bytes on each device that the owner sends from, for peers to read */
        CUipcMemHandle handle;
        unsigned char content[32];
    } probe[PROBES];
    _Atomic uint32_t probes;
    _Atomic uint32_t refusals;   /* slots refused so far (progress_thread.h) */
    _Atomic uint32_t leaving;   /* the owner receives no more */
    _Atomic uint32_t probing;   /* probes of the owner that are about to take an RTS (rndv_recv_probing) */
    _Atomic uint32_t gone_count;   /* freed allocations so far that peers may have open; */
    _Atomic uint64_t gone[GONE_MAX];   /* the driver's numbers of the last ones */
    _Atomic uint32_t takes_fds;   /* the owner has a socket for descriptors (fd_socket.h) */
    _Atomic uint32_t takes_short, short_msgs;   /* rts_short.h: the owner accepts them; under way to it */
    _Atomic uint64_t gpu;       /* GPU where the owner last read messages (device_gpu_id); 0: none */
    int32_t pid;
    uint64_t disk[2];           /* device and inode of the owner's NODE_DISK; 0, 0: none */
    uint64_t proof;             /* address of a copy of the cookie in the owner's memory */
    _Atomic uint32_t asked;     /* requests so far (node_access_asked) */
    struct slot slot[SLOTS];    /* memory is allocated for the first node_slots() */
    _Atomic uint64_t arena;     /* bytes used */
    _Atomic uint8_t accepts[];   /* a byte for each rank: bits of its probes that the owner can read;
                                 * then node_access_asked, node_access_found, the arena */
};

struct peer {   /* "it": the peer */
    int rank;                   /* in MPI_COMM_WORLD */
    bool self;
    struct node_file *file;
    int fd;
    dev_t device;               /* of the file, and its inode: the application may close our */
    ino_t number;               /* descriptor and reuse its number */
    _Atomic uint32_t tried;     /* its probes that this process has tried */
    atomic_bool waited;         /* a persistent send has waited for it to try the own probes (persistent_send.c) */
    atomic_bool offers;         /* its last long message came by an RTS */
    atomic_bool asked;          /* asked to try the own host memory (peer_access.h) */
    atomic_int unprobed;        /* messages that did not wait for it to try the own device memory (placement_packs) */
    _Atomic uint32_t gone;      /* its gone_count at the last check (ipc_cache_drop_gone) */
    _Atomic uint32_t refused;   /* own memory it could reach once, and now can't: bits of node_access_found */
    _Atomic int late;           /* messages not to wait for, since it was late once (rndv_send.c) */
    _Atomic int behind;         /* messages whose chunk flags are not waited for, since they were late once */
    _Atomic int flags_unread;   /* messages to send without chunk flags, since it could not wait for them once */
    _Atomic uint32_t past;      /* bits: powers of two of bytes for which non-temporal stores were faster */
    _Atomic(_Atomic uintptr_t *) windows;   /* mapped blocks by block number (shm_pool.c); NULL: none */
    struct cookie cookie;       /* copy of the file's */
    atomic_bool lost;           /* a file of it was truncated: reads may return zeros (sigbus_guard.h) */
    atomic_bool told;           /* that has been logged */
};

/* Returns true, and counts down, while messages are left to be skipped. */
static inline bool node_skip_next(_Atomic int *messages)
{
    return atomic_load_explicit(messages, memory_order_relaxed) > 0 && (atomic_fetch_sub(messages, 1), true);
}

extern atomic_bool node_is_armed;
/* Returns true between node_start and node_finish if device memory may be sent by rendezvous. */
static inline bool node_armed(void)
{
    return atomic_load_explicit(&node_is_armed, memory_order_relaxed);
}
extern atomic_bool node_reads_device;
/* Returns true if device memory may go to ranks of the node by zero-copy, and STRIDEC_TRANSPORT allows it. */
static inline bool node_zerocopy(void)
{
    return atomic_load_explicit(&node_reads_device, memory_order_relaxed);
}
/* Returns true if the machine has GPUs, or the process has loaded a driver. */
bool node_has_gpus(void);
/* Creates the own file at MPI_Init; returns the memory that rendezvous sends may use. DEVICE means both. */
enum node_domains { NODE_NOTHING, NODE_HOST, NODE_DEVICE };
enum node_domains node_start(void);
void node_finish(void);

/* Return a rank as a peer, the own rank included; NULL without a file here, and for groups of other worlds. */
struct peer *node_peer(MPI_Comm comm, int rank);
struct peer *node_world_peer(int rank);
/* Returns true while a rank of this machine may still be in MPI_Init, so that node_peer may find it later. Stays true
 * if the launcher does not tell how many ranks there are, or if one runs without stridec. */
bool node_starting(void);
/* Returns true if every rank of comm has its file here with device memory enabled. All ranks get the same result
 * between their MPI_Init and the first MPI_Finalize. Files are checked, not opened. */
bool node_all_armed(MPI_Comm comm);
/* Returns a rank as a peer; looks for its file even if earlier checks failed. */
struct peer *node_peer_now(MPI_Comm comm, int rank);
/* Returns true if the process has ended or its file was truncated, the own one too: nothing more comes from it. */
bool node_gone(const struct peer *p);
/* Returns true if the own file was truncated: peers may not see what this process writes. */
bool node_lost(void);
/* Waits (blocking) until more than `at` packed bytes of p's taken slot are ready. Returns how many; -1 if never. */
int64_t node_await_ready(const struct peer *p, const struct slot *s, int64_t at);
/* Returns the own file; NULL without one. */
struct node_file *node_own(void);
/* Returns the own rank and cookie, which a truncated file no longer has; NULL without a file. */
const struct peer *node_self(void);
/* Returns how many ranks MPI_COMM_WORLD has, or had. */
int node_size(void);
/* Returns true if the peer's NODE_DISK is this process's. */
bool node_shares_disk(const struct peer *p);
/* Publishes the number of a freed allocation. One thread at a time. */
static inline void node_tell_gone(uint64_t id)
{
    struct node_file *f = node_own();
    uint32_t at = atomic_load_explicit(&f->gone_count, memory_order_relaxed);
    atomic_store_explicit(&f->gone[at % GONE_MAX], id, memory_order_relaxed);
    atomic_store_explicit(&f->gone_count, at + 1, memory_order_release);
}
/* Returns how many slots of the own file are allocated. */
int node_slots(void);
/* Allocates more. Returns false at SLOTS, or if the folder is full. One thread at a time. */
bool node_slots_grow(void);
/* Publishes the GPU on which this process reads messages. */
void node_set_gpu(uint64_t gpu);
/* Returns the address of a range of the own arena; `at` is not 0. NULL for a range outside it. */
char *node_arena(uint64_t at, uint64_t bytes);
/* Copies bytes of a peer's arena, which is not mapped. Returns false for a bad range or if it can't be read. */
bool node_arena_read(const struct peer *p, uint64_t at, void *to, uint64_t bytes);
/* Allocates bytes of the own arena for good. Returns their offset; 0 if the arena or the folder is full. */
uint64_t node_arena_alloc(uint64_t bytes);
/* Return arrays by rank in a rank's file: requests to its owner to try access, and their results (peer_access.h). */
_Atomic uint8_t *node_access_asked(struct node_file *f);
_Atomic uint8_t *node_access_found(struct node_file *f);
/* Writes the name of a rank's file of shared blocks. */
void node_pool_name(char name[128], int rank);
/* Writes the name of the file that a window's ranks share, by the number that its first rank gives it. */
void node_window_name(char name[128], int rank, uint32_t number);
/* Writes the name of the file into which the owner of a slot copies a refused payload. `on_disk`: the name in NODE_DISK
 * (sweep_disk), for copies that find no room in NODE_FOLDER. */
void node_fallback_name(char name[128], int rank, uint32_t slot, bool on_disk);

#endif
