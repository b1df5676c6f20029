/* offer_feed.c: messages that the sender packs while the receiver reads. */
#include "host_offer.h"
#include "offer_inner.h"

#define SECTOR 32
#define SECTORS_MOST ((int64_t)2 << 20)   /* bytes */
#define LONG ((int64_t)16 << 20)          /* bytes from which blocks of one sector are, too: 64 MiB of 32 B read in place
                                             take 1.4 times what contiguous bytes take */
#define PIECE_LEAST ((int64_t)1 << 20)    /* bytes of the first piece of a message that is packed while it is read, so that
                                             its receiver begins soon; each other one has as many as have gone before, */
#define PIECE_MOST ((int64_t)16 << 20)    /* but no more than these */

/* Over a link between GPUs a read of 8 bytes moves 32: where blocks are shorter than that, and many, they are packed on
 * the sender's side (two H200s, read in place and packed first: 1 MiB of 4 B blocks 44 and 39 us, of 8 B 27 and 23; 64 KiB
 * of 4 B blocks 13 and 19). */
bool offer_packs_first(const struct parcel *p)
{
    int64_t block = p->layout->block > 0 ? p->layout->block : 1;
    if (layout_contiguous(p->layout, p->count)) return false;
    return block < SECTOR ? p->bytes > SECTORS_MOST / SECTOR * block : block < 2 * SECTOR && p->bytes >= LONG;
}

/* A wire to be filled while the receiver reads. */
void offer_hunger(struct offer *o)
{
    struct parcel *p = o->parcel;
    struct export e;
    if (device_enter(p->device)) return;
    p->wire = buffer_get(p->device, BUFFER_DEVICE, (size_t)p->bytes);
    o->hungry = p->wire && export_of(p->device, p->wire->address, p->bytes, &e);
    if (o->hungry) offer_describe(o, &e, p->wire->address, 0);
    else buffer_put(p->wire), p->wire = NULL;
    device_leave(p->device);
}

/* Piece by piece, the next one under way while the host waits for the last. */
static int feed(struct offer *o, struct stream *s[2])
{
    struct parcel *p = o->parcel;
    int64_t end = 0, last = 0;
    for (int i = 0; end < p->bytes; i++, last = end) {
        int64_t piece = end < PIECE_LEAST ? PIECE_LEAST : end < PIECE_MOST ? end : PIECE_MOST;
        end = p->bytes - end < piece + piece / 2 ? p->bytes : end + piece;
        if (parcel_move_range(p, p->device, s[i % 2], KERNEL_PACK, p->wire->address + (uint64_t)last, last, end)) return -1;
        if (i && stream_wait(p->device, s[(i - 1) % 2])) return -1;
        atomic_store_explicit(&o->slot->ready, last, memory_order_release);
    }
    if (stream_wait(p->device, s[0]) || stream_wait(p->device, s[1])) return -1;
    atomic_store_explicit(&o->slot->ready, end, memory_order_release);
    return 0;
}

int offer_feed(struct offer *o)
{
    struct device *d = o->parcel->device;
    int rc = -1;
    if (!o->hungry) return 0;
    if (o->host) return host_offer_feed(o);
    if (!device_enter(d)) {
        struct stream *s[2] = {stream_get(d), stream_get(d)};
        if (s[0] && s[1]) rc = feed(o, s);
        for (int i = 0; i < 2; i++)
            if (s[i]) stream_put(d, s[i]);
        device_leave(d);
    }
    o->hungry = false;
    if (rc) atomic_store_explicit(&o->slot->ready, -1, memory_order_release);
    return rc;
}
