/* rndv_push.c: messages that the sender packs while the receiver reads. */
#include "shm_fill.h"
#include <string.h>

#define SECTOR 32
#define SECTORS_MOST ((int64_t)2 << 20)   /* bytes */
#define LONG ((int64_t)16 << 20)          /* bytes from which blocks of one sector are, too: 64 MiB of 32 B read in place
                                             take 1.4 times what contiguous bytes take */
#define LONG_IN_STEP ((int64_t)8 << 20)   /* the same where the receiver's kernel goes in step: 12 MiB of 32 B 53 us, read in
                                             place 58; of 48 B 57 and 63 */
#define PIECE_LEAST ((int64_t)1 << 20)    /* bytes of the first piece of a message that is packed while it is read, so that
                                             its receiver begins soon, */
#define PIECES_MOST 16                    /* or such a part of the message: 64 MiB of 16 B blocks 231 us, with 1 MiB first 239;
                                             each other one has as many as have gone before, */
#define PIECE_MOST                                                                                                     \
    ((int64_t)4 << 20) /* but no more than these: 64 MiB of 8 B blocks 300 us, by 16 MiB 329, by 2 MiB 334; of
                                             4 B 490, 510, 509; of 16 B 234, 240, 271. On one GPU, where each piece is a turn, */
#define TURN_MOST ((int64_t)16 << 20)     /* these */
#define MARKED_MOST                                                                                                    \
    ((int64_t)8 << 20) /* bytes of a marked message with blocks shorter than a quarter of a sector, and twice as
                                             many from there on; longer ones go quicker by pieces (two H200s, 64 MiB of 8 B blocks:
                                             300 us, with marks 590, and 16 MiB of these 166, 136; of 16 B: 240, 526, and 100, 82; of
                                             4 B 16 MiB 256, 298; of 32 B 64 MiB 223, 207) */
#define UNFOLLOWED 16                     /* messages that are not marked for a receiver that could not follow: for its kernels may
                                             come yet */

/* Of no other message; and nothing that is found in memory by chance. */
static uint64_t next_mark(void)
{
    static _Atomic uint64_t last;
    uint64_t seed, none = 0;
    memcpy(&seed, node_own()->cookie.half[1], sizeof seed);
    atomic_compare_exchange_strong(&last, &none, seed);
    return atomic_fetch_add(&last, 1) + 1;
}

static int64_t marked_most(int64_t block)
{
    return block >= SECTOR ? INT64_MAX : block >= SECTOR / 4 ? 2 * MARKED_MOST : MARKED_MOST;
}

/* Kernels of different processes take turns on one GPU. */
static bool takes_turns(const struct rndv_send *o)
{
    return o->peer->self ||
           atomic_load_explicit(&o->peer->file->gpu, memory_order_relaxed) == device_gpu_id(o->parcel->device);
}

static bool goes_in_step(const struct rndv_send *o)
{
    const struct typed_buffer *p = o->parcel;
    if (takes_turns(o)) return false;
    if (p->bytes > marked_most(p->layout->block)) return false;
    return !node_skip_next(&o->peer->flags_unread);
}

void rndv_send_followed(const struct rndv_send *o)
{
    if (atomic_load_explicit(&o->slot->flags_unread, memory_order_relaxed))
        atomic_store(&o->peer->flags_unread, UNFOLLOWED);
}

/* Readies a wire to be filled while the receiver reads; with `in_step` only where marks can say how far it is. */
static void hunger(struct rndv_send *o, bool in_step)
{
    struct typed_buffer *p = o->parcel;
    struct ipc_export e;
    if (device_enter(p->device)) return;
    int64_t chunk = goes_in_step(o) ? typed_buffer_chunk(p) : 0;
    if (chunk || !in_step) p->wire = mempool_get(p->device, chunk ? BUFFER_FLAGGED : BUFFER_DEVICE, (size_t)p->bytes);
    o->hungry = p->wire && ipc_export_of(p->device, p->wire->address, p->bytes, &e);
    if (o->hungry) {
        rndv_send_describe(o, &e, p->wire->address, 0);
        o->slot->chunk = chunk, o->slot->mark = next_mark();
    } else {
        mempool_put(p->wire), p->wire = NULL;
    }
    device_leave(p->device);
}

/* Over a link between GPUs a read of 8 bytes moves 32: where blocks are shorter than that, and many, they are packed
 * on the sender's side (two H200s, read in place and packed first: 1 MiB of 4 B blocks 44 and 39 us, of 8 B 27 and
 * 23; 64 KiB of 4 B blocks 13 and 19). */
bool rndv_send_packs_first(struct rndv_send *o, bool feeds)
{
    const struct typed_buffer *p = o->parcel;
    int64_t block = p->layout->block > 0 ? p->layout->block : 1;
    if (layout_contiguous(p->layout, p->count) || block >= 2 * SECTOR) return false;
    bool first = block < SECTOR ? p->bytes > SECTORS_MOST / SECTOR * block : p->bytes >= LONG;
    if (feeds && (first || (block >= SECTOR && p->bytes >= LONG_IN_STEP))) hunger(o, !first);
    return first || o->hungry;
}

/* All of it in one launch, with marks; 1 where that can't be. */
static int feed_marked(struct rndv_send *o, struct stream *s)
{
    struct typed_buffer *p = o->parcel;
    uint64_t to = p->wire->address;
    struct marks marks = {to - BUFFER_FLAG_BYTES, o->slot->mark, o->slot->chunk};
    int rc = marks.chunk ? typed_buffer_move_marked(p, s, KERNEL_PACK, to, p->bytes, &marks, NULL) : 1;
    return rc == 0 && stream_wait(p->device, s) ? -1 : rc;
}

static int64_t piece_least(int64_t bytes)
{
    int64_t part = bytes / PIECES_MOST;
    return part < PIECE_LEAST ? PIECE_LEAST : part < PIECE_MOST ? part : PIECE_MOST;
}

/* Piece by piece, the next one under way while the host waits for the last. */
static int feed_pieces(struct rndv_send *o, struct stream *s[2])
{
    struct typed_buffer *p = o->parcel;
    uint64_t to = p->wire->address;
    int64_t end = 0, last = 0, least = piece_least(p->bytes), most = takes_turns(o) ? TURN_MOST : PIECE_MOST;
    for (int i = 0; end < p->bytes; i++, last = end) {
        int64_t piece = end < least ? least : end < most ? end : most;
        end = p->bytes - end < piece + piece / 2 ? p->bytes : end + piece;
        if (typed_buffer_move_range(p, p->device, s[i % 2], KERNEL_PACK, to + (uint64_t)last, last, end)) return -1;
        if (i && stream_wait(p->device, s[(i - 1) % 2])) return -1;
        atomic_store_explicit(&o->slot->ready, last, memory_order_release);
    }
    return stream_wait(p->device, s[0]) || stream_wait(p->device, s[1]) ? -1 : 0;
}

static int feed(struct rndv_send *o, struct stream *s[2])
{
    int rc = feed_marked(o, s[0]);
    if (rc > 0) rc = feed_pieces(o, s);
    if (!rc) atomic_store_explicit(&o->slot->ready, o->parcel->bytes, memory_order_release);
    return rc;
}

int rndv_send_feed(struct rndv_send *o)
{
    struct device *d = o->parcel->device;
    int rc = -1;
    if (!o->hungry) return 0;
    if (o->host) return shm_fill_rest(o), 0;
    if (!device_enter(d)) {
        struct stream *s[2] = {stream_get(d), stream_get(d)};
        if (s[0] && s[1]) rc = feed(o, s);
        for (int i = 0; i < 2; i++) {
            if (s[i] && rc) stream_wait(d, s[i]);   /* what is still written is given back later */
            if (s[i]) stream_put(d, s[i]);
        }
        device_leave(d);
    }
    o->hungry = false;
    if (rc) atomic_store_explicit(&o->slot->ready, -1, memory_order_release);
    return rc;
}
