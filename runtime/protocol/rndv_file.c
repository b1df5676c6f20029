/* rndv_file.c: fallback copies of payloads, in files: in shared memory, or on the disk where that has no room. */
#include "rndv_file.h"
#include "base/bounce.h"
#include "base/file.h"
#include "base/log.h"
#include "hostpack/host_pack.h"
#include "node/sigbus_guard.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE ((int64_t)4 << 20)

/* Copies packed bytes [at, at + bytes) to pinned memory and waits; from the bounce buffer if they are packed there. */
static int piece(struct typed_buffer *p, struct stream *s, struct pool_buffer *to, int64_t at, int64_t bytes)
{
    int rc = p->wire ? (int)driver_get()->cuMemcpyDtoHAsync(to->host, p->wire->address + (uint64_t)at, (size_t)bytes,
                                                            stream_use(s))
                     : typed_buffer_move_range(p, p->device, s, KERNEL_PACK, to->address, at, at + bytes);
    return stream_wait(p->device, s) || rc ? -1 : 0;
}

/* Writes a payload in device memory to the file, a PIECE at a time. */
static int all(struct typed_buffer *p, int fd)
{
    struct stream *s = stream_get(p->device);
    struct pool_buffer *to = mempool_get(p->device, BUFFER_PINNED, (size_t)(p->bytes < PIECE ? p->bytes : PIECE));
    int rc = s && to ? 0 : -1;
    for (int64_t at = 0; !rc && at < p->bytes; at += PIECE) {
        int64_t n = p->bytes - at < PIECE ? p->bytes - at : PIECE;
        rc = piece(p, s, to, at, n) || pwrite(fd, to->host, (size_t)n, (off_t)at) != (ssize_t)n ? -1 : 0;
    }
    mempool_put(to);
    if (s) stream_put(p->device, s);
    return rc;
}

static int all_of_host(const struct typed_buffer *p, int fd)
{
    struct bounce *b = p->block ? NULL : bounce_get(p->bytes < PIECE ? p->bytes : PIECE);
    int rc = p->block || b ? 0 : -1;
    for (int64_t at = 0; !rc && at < p->bytes; at += PIECE) {
        int64_t n = p->bytes - at < PIECE ? p->bytes - at : PIECE;
        if (b) host_pack_pack(p->layout, p->count, p->user, b->memory, at, at + n);
        const char *from = b ? b->memory : (char *)p->block->memory + at;
        rc = pwrite(fd, from, (size_t)n, (off_t)at) == (ssize_t)n ? 0 : -1;
    }
    bounce_put(b);
    return rc;
}

static int out_to(struct typed_buffer *p, uint32_t slot, bool on_disk)
{
    char name[128];
    const char *why;
    node_fallback_name(name, node_self()->rank, slot, on_disk);
    int rc = -1, fd = !file_may_write(p->bytes) ? -1 : file_make(name, &why);
    if (fd >= 0 && !p->device) rc = all_of_host(p, fd);
    if (fd >= 0 && p->device && !device_enter(p->device)) {
        rc = all(p, fd);
        device_leave(p->device);
    }
    if (fd >= 0 && close(fd)) rc = -1;   /* a disk may be full by now */
    if (rc) unlink(name);
    return rc;
}

int rndv_file_out(struct typed_buffer *p, uint32_t slot, const struct peer *to)
{
    if (!out_to(p, slot, false)) return 0;
    if (node_shares_disk(to) && !out_to(p, slot, true)) return 0;
    log_once(LOG_ERROR, "spill", "a message that its receiver can't read in place finds no room in /dev/shm and /tmp");
    return -1;
}

/* Opens the file of a message, wherever it is. Returns -1 if it is in neither folder. */
static int open_either(int rank, uint32_t number)
{
    char name[128];
    const char *why;
    node_fallback_name(name, rank, number, false);
    int fd = file_open(name, O_RDONLY, FILE_OWN, &why);
    if (fd >= 0) return fd;
    node_fallback_name(name, rank, number, true);
    return file_open(name, O_RDONLY, FILE_OWN, &why);
}

/* ---- files without a slot ---- */

struct apart {
    const struct peer *peer;
    uint32_t number;
    struct apart *next;
};
static struct apart *first, **last = &first;   /* oldest first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Drops the oldest file from the list; the caller holds the lock. */
static void forget_first(void)
{
    struct apart *a = first;
    if (!(first = a->next)) last = &first;
    free(a);
}

static bool status_of(uint32_t number, struct stat *s)
{
    char name[128];
    bool is = false;
    for (int disk = 0; disk < 2 && !is; disk++) {
        node_fallback_name(name, node_self()->rank, number, disk);
        is = !lstat(name, s);
    }
    return is;
}

static bool there(uint32_t number)
{
    struct stat s;
    return status_of(number, &s);
}

uint32_t rndv_file_apart(struct typed_buffer *p, struct peer *peer)
{
    static uint32_t next;
    struct apart *a = malloc(sizeof *a);
    if (!a) return 0;
    pthread_mutex_lock(&lock);
    uint32_t number = SLOTS + next++ % (UINT32_MAX - SLOTS);
    pthread_mutex_unlock(&lock);
    if (rndv_file_out(p, number, peer)) return free(a), 0;
    *a = (struct apart){.peer = peer, .number = number};
    pthread_mutex_lock(&lock);
    while (first && !there(first->number)) forget_first();
    *last = a, last = &a->next;
    pthread_mutex_unlock(&lock);
    return number;
}

/* The note is in the file's mode. */
#define MODE_UNPROBED 0600   /* by file_make */
#define MODE_PROBED 0700

void rndv_file_note_probed(int rank, uint32_t number, bool probed)
{
    int fd = open_either(rank, number);
    if (fd < 0) return;
    if (fchmod(fd, probed ? MODE_PROBED : MODE_UNPROBED)) log_write(LOG_ERROR, "the mode of a file can't be set");
    close(fd);
}

bool rndv_file_probed(uint32_t number)
{
    struct stat s;
    return status_of(number, &s) && (s.st_mode & MODE_PROBED) == MODE_PROBED;
}

void rndv_file_recall(int rank, uint32_t number)
{
    char name[128];
    for (int disk = 0; disk < 2; disk++) {
        node_fallback_name(name, rank, number, disk);
        unlink(name);
    }
}

bool rndv_file_finish(bool (*in_vain)(const struct peer *p))
{
    for (; first && (in_vain(first->peer) || !there(first->number)); forget_first())
        rndv_file_recall(node_self()->rank, first->number);
    return !first;
}

/* ---- the receiver's side ---- */

const char *rndv_file_in(int rank, uint32_t slot, int64_t bytes)
{
    struct stat s;
    int fd = open_either(rank, slot);
    bool whole = fd >= 0 && !fstat(fd, &s) && s.st_size >= bytes;
    const char *at = whole ? sigbus_guard_map(fd, (size_t)bytes, PROT_READ, 0, &node_world_peer(rank)->lost) : NULL;
    if (fd >= 0) close(fd);
    return at;
}

void rndv_file_done(const char *payload, int rank, uint32_t slot)
{
    sigbus_guard_unmap((void *)(uintptr_t)payload);
    rndv_file_recall(rank, slot);
}
