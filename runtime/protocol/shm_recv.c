/* shm_recv.c: rendezvous receives of host memory. */
#include "shm_recv.h"
#include "base/bounce.h"
#include "hostpack/host_pack.h"
#include "node/ipc_cache.h"
#include "node/peer_access.h"
#include "node/shm_pool.h"
#include "rndv_recv.h"
#include "rts.h"
#include <string.h>

#define PIECE ((int64_t)64 << 10)   /* read before bytes_read tells the sender */
#define COPIED ((int64_t)16 << 10)
#define SHORT 1024   /* shorter runs of the receiver's layout are unpacked from a bounce buffer */

/* Writes packed bytes [at, end); `from` points to byte `at`. */
static bool write_out(const struct host_side *to, const char *from, int64_t at, int64_t end)
{
    struct typed_buffer *p = to->tbuf;
    if (to->packed) return memcpy(to->packed + at, from, (size_t)(end - at)) != NULL;
    return host_pack_unpack(p->layout, p->count, p->user, from, at, end);
}

/* Writes the payload's head, which the RTS header carries. */
static bool write_head(const struct host_side *to, int64_t bytes)
{
    char room[SHM_SEND_MIN];
    const char *came = rndv_recv_head(to->tbuf, to->came, room, HEAD_AT + bytes);
    return came && write_out(to, came + HEAD_AT, 0, bytes);
}

/* Reads bytes [at, end) of a shared segment block that can't be mapped. */
static bool write_copied(const struct peer *peer, const struct host_side *to, uint64_t place, int64_t at, int64_t end)
{
    char piece[COPIED];
    for (int64_t n; at < end; at += n, place += (uint64_t)n) {
        n = end - at < COPIED ? end - at : COPIED;
        if (!shm_pool_read(peer, place, piece, n) || !write_out(to, piece, at, at + n)) return false;
    }
    return true;
}

/* Unpacks while the sender packs. Returns false if the sender has died, or its shared segment was truncated. */
static bool follow(const struct peer *peer, struct slot *s, const struct host_side *to, int64_t bytes)
{
    const char *room = shm_pool_map(peer, s->user, bytes);
    int64_t ready, run, start = 0, spent = 0;
    if (s->head > HEAD_BYTES || !write_head(to, s->head)) return false;
    for (int64_t at = s->head; at < bytes; at += run) {
        if ((ready = node_await_ready(peer, s, at)) < 0) return false;
        int64_t turn = atomic_load_explicit(&s->turn, memory_order_relaxed),
                end = at + PIECE < ready ? at + PIECE : ready;
        int64_t place = shm_pool_offset(at, turn, end, &run);
        if (s->timed) start = stats_now();
        if (!(room ? write_out(to, room + place, at, at + run)
                   : write_copied(peer, to, s->user + (uint64_t)place, at, at + run)))
            return false;
        if (s->timed) spent += stats_now() - start;
        atomic_store_explicit(&s->bytes_read, at + run, memory_order_release);
    }
    if (s->timed) atomic_store_explicit(&s->spent, spent, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);   /* what was read was there */
    return !atomic_load_explicit(&peer->lost, memory_order_relaxed) || !node_gone(peer);
}

static bool read_in_place(const struct peer *peer, const struct slot *s, const struct ipc_cache_layout *l,
                          struct typed_buffer *p, char *packed, int64_t bytes)
{
    struct peer_access_side from = {.user = s->user}, to = {.user = (uint64_t)(uintptr_t)packed};
    struct layout *own = p->layout;
    if (l->tree) from.tree = l->tree, from.extent = s->extent, from.count = s->count;
    if (packed) return peer_access_copy(peer, &from, &to, bytes);
    if (own->run >= SHORT || layout_contiguous(own, p->count)) {
        to.user = (uint64_t)(uintptr_t)p->user;
        to.tree = own->tree, to.extent = own->extent, to.count = p->count;
        return peer_access_copy(peer, &from, &to, bytes);
    }
    struct bounce *b = bounce_get(bytes);
    to.user = b ? (uint64_t)(uintptr_t)b->memory : 0;
    bool ok =
        b && peer_access_copy(peer, &from, &to, bytes) && host_pack_unpack(own, p->count, p->user, b->memory, 0, bytes);
    bounce_put(b);
    return ok;
}

/* Copies a message of this process to itself, from layout to layout. */
static bool copy_own(const struct slot *s, const struct host_side *to, int64_t bytes)
{
    const struct typed_buffer *p = to->tbuf;
    struct layout *from = (struct layout *)(uintptr_t)s->layout;
    const char *user = (const char *)(uintptr_t)s->user;
    if (!from) return write_out(to, user, 0, bytes);
    if (to->packed) return host_pack_pack(from, s->count, user, to->packed, 0, bytes);
    return host_pack_copy(from, s->count, user, p->layout, p->count, p->user, bytes);
}

bool shm_recv(const struct peer *peer, struct slot *s, const struct host_side *to, int64_t bytes)
{
    if (peer->self) return copy_own(s, to, bytes);
    if (s->memory == SLOT_POOL) return follow(peer, s, to, bytes);
    struct ipc_cache_layout l = {0};
    if (s->layout && !ipc_cache_layout(peer, s->layout, &l)) return false;
    bool ok = read_in_place(peer, s, &l, to->tbuf, to->packed, bytes);
    ipc_cache_layout_put(&l);
    return ok;
}
