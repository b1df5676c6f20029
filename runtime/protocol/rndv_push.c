/* rndv_push.c: messages that the sender packs into a bounce buffer while the receiver reads. */
#include "rndv_internal.h"
#include <string.h>

/* Sizes in bytes. Times: two H200s, in us. */
#define SECTOR 32   /* the least that a read between GPUs moves */
#define SECTORS_MOST ((int64_t)2 << 20)   /* most that short blocks read in place may move */
/* Limits the same, with chunk flags, for blocks that on average begin LINE or more apart: the owner's GPU reads a line
 * for each. 512 KiB of 8 B blocks 2 KiB apart: in place 17.3, packed 16.2; 16 B apart: 12.5, 14.8. */
#define SECTORS_FAR ((int64_t)1664 << 10)
#define LINE 64
/* Least message of 32 B blocks that is packed first: 64 MiB read in place take 1.4 times what contiguous bytes take. */
#define LONG ((int64_t)16 << 20)
/* Long messages with chunk flags, packed and in place: 12 MiB of 32 B blocks 53, 58; of 48 B 57, 63. */
#define LONG_IN_STEP ((int64_t)8 << 20)
/* First piece, small so that the receiver begins soon: PIECE_LEAST, or a part of the message (64 MiB of 16 B blocks:
 * 231, always 1 MiB 239). Each next piece is as long as all before it, at most PIECE_MOST (64 MiB with at most 4, 16,
 * 2 MiB: 8 B blocks 300, 329, 334; 4 B 490, 510, 509; 16 B 234, 240, 271), or TURN_MOST on one GPU, where processes
 * take turns. */
#define PIECE_LEAST ((int64_t)1 << 20)
#define PIECES_MOST 16
#define PIECE_MOST ((int64_t)4 << 20)
#define TURN_MOST ((int64_t)16 << 20)
/* Longest message with chunk flags, for blocks under SECTOR / 4; twice as long up to SECTOR. Longer ones are faster in
 * pieces (pieces, flags: 64 MiB of 8 B blocks 300, 590, of 16 B 240, 526, of 32 B 223, 207; 16 MiB of 4 B 256, 298, of
 * 8 B 166, 136, of 16 B 100, 82). */
#define MARKED_MOST ((int64_t)8 << 20)
#define UNFOLLOWED 16   /* messages without flags after a receiver did not read them: it may still load kernels */

/* Returns a value for the chunk flags of one message: no other has it, and memory does not hold it by chance. */
static uint64_t next_mark(void)
{
    static _Atomic uint64_t last;
    uint64_t seed, none = 0;
    memcpy(&seed, node_self()->cookie.half[1], sizeof seed);
    atomic_compare_exchange_strong(&last, &none, seed);
    return atomic_fetch_add(&last, 1) + 1;
}

static int64_t marked_most(int64_t block)
{
    return block >= SECTOR ? INT64_MAX : block >= SECTOR / 4 ? 2 * MARKED_MOST : MARKED_MOST;
}

/* Returns true if both ends use one GPU: kernels of different processes take turns there. */
static bool takes_turns(const struct rndv_send *o)
{
    return o->peer->self ||
           atomic_load_explicit(&o->peer->file->gpu, memory_order_relaxed) == device_gpu_id(o->tbuf->device);
}

static bool goes_in_step(const struct rndv_send *o)
{
    const struct typed_buffer *p = o->tbuf;
    if (takes_turns(o)) return false;
    if (p->bytes > marked_most(p->layout->block)) return false;
    return !node_skip_next(&o->peer->flags_unread);
}

void rndv_push_read(const struct rndv_send *o)
{
    if (atomic_load_explicit(&o->slot->flags_unread, memory_order_relaxed))
        atomic_store(&o->peer->flags_unread, UNFOLLOWED);
}

void rndv_push_prepare(struct rndv_send *o, bool in_step)
{
    struct typed_buffer *p = o->tbuf;
    struct ipc_export e;
    if (device_enter(p->device)) return;
    int64_t chunk = goes_in_step(o) ? typed_buffer_chunk(p) : 0;
    if (chunk || !in_step) p->wire = mempool_get(p->device, chunk ? BUFFER_FLAGGED : BUFFER_DEVICE, (size_t)p->bytes);
    o->pushes = p->wire && ipc_export_of(p->device, p->wire->address, p->bytes, &e);
    if (o->pushes) {
        rndv_send_describe(o, &e, p->wire->address, 0);
        o->slot->chunk = chunk, o->slot->mark = next_mark();
    } else {
        mempool_put(p->wire), p->wire = NULL;
    }
    device_leave(p->device);
}

static bool lies_far(const struct typed_buffer *p, int64_t block)
{
    int64_t first, past;
    if (!p->user) return false;   /* there may be gaps between allocations */
    layout_span(p->layout, p->count, &first, &past);
    return (past - first) / LINE >= p->bytes / block;
}

/* Returns true if the sender packs first: many blocks shorter than a SECTOR waste the link (two H200s, read in place
 * and packed first: 1 MiB of 4 B blocks 44 and 39 us, of 8 B 27 and 23; 64 KiB of 4 B blocks 13 and 19). */
bool rndv_send_packs_first(struct rndv_send *o, bool feeds)
{
    const struct typed_buffer *p = o->tbuf;
    int64_t block = p->layout->block > 0 ? p->layout->block : 1;
    if (layout_contiguous(p->layout, p->count) || block >= 2 * SECTOR) return false;
    bool first = block < SECTOR ? p->bytes > SECTORS_MOST / SECTOR * block : p->bytes >= LONG;
    bool in_step = block >= SECTOR ? p->bytes >= LONG_IN_STEP
                                   : p->bytes > SECTORS_FAR / SECTOR * block && lies_far(p, block);
    if (feeds && (first || in_step)) rndv_push_prepare(o, !first);
    return first || o->pushes;
}

/* Packs all in one launch that sets chunk flags, and waits. Returns 0, -1, or 1 if flags can't be used. */
static int feed_marked(struct rndv_send *o, struct stream *s)
{
    struct typed_buffer *p = o->tbuf;
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

/* Packs piece by piece: the next piece is launched before the host waits for the last. Returns 0 or -1. */
static int feed_pieces(struct rndv_send *o, struct stream *s[2])
{
    struct typed_buffer *p = o->tbuf;
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
    if (!rc) atomic_store_explicit(&o->slot->ready, o->tbuf->bytes, memory_order_release);
    return rc;
}

int rndv_push_feed(struct rndv_send *o)
{
    struct device *d = o->tbuf->device;
    int rc = -1;
    if (!device_enter(d)) {
        struct stream *s[2] = {stream_get(d), stream_get(d)};
        if (s[0] && s[1]) rc = feed(o, s);
        for (int i = 0; i < 2; i++) {
            if (s[i] && rc) stream_wait(d, s[i]);   /* kernels may still write the bounce buffer */
            if (s[i]) stream_put(d, s[i]);
        }
        device_leave(d);
    }
    o->pushes = false;
    if (rc) atomic_store_explicit(&o->slot->ready, -1, memory_order_release);
    return rc;
}
