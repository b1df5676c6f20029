/* offer.c: the sender's side of messages that go from memory to memory. */
#include "offer.h"
#include "attach.h"
#include "attend.h"
#include "brief.h"
#include "env.h"
#include "export.h"
#include "host_offer.h"
#include "interpose.h"
#include "log.h"
#include "offer_inner.h"
#include "place.h"
#include "room.h"
#include "spill.h"
#include "spin.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* How long a send waits for its receiver to begin, and how often the clock and the peer's process are looked at. */
#define PATIENCE_NS 200000
#define SECTOR 32
#define SECTORS_MOST ((int64_t)2 << 20)   /* bytes */
#define LONG ((int64_t)16 << 20)          /* bytes from which blocks of one sector are, too: 64 MiB of 32 B read in place
                                             take 1.4 times what contiguous bytes take */
#define PIECE_LEAST ((int64_t)1 << 20)    /* bytes of the first piece of a message that is packed while it is read, so that
                                             its receiver begins soon; each other one has as many as have gone before, */
#define PIECE_MOST ((int64_t)16 << 20)    /* but no more than these */
#define SLAB 16   /* offers in one piece of pinned memory: 64 KiB */
#define SPINS_A_LOOK 64
#define LOOKS_A_PULSE 4096
#define SPINS_A_PROGRESS 256

static struct offer *left, *spare[2];   /* whose sends have ended before their receivers; for the next message, in memory of
                                          the process's own and in pinned memory */
static struct buffer *slabs;   /* of the latter */
static struct offer *of_slot[SLOTS];   /* NULL: free */
static int hint, taken, promised;      /* slots; those promised and not taken are among the free ones */
static atomic_int left_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool offer_slot(struct offer *o)
{
    pthread_mutex_lock(&lock);
    bool may = o->promised || taken + promised < SLOTS;
    for (int i = 0; i < SLOTS && may && !o->slot; i++) {
        int at = (hint + i) % SLOTS;
        if (of_slot[at]) continue;
        of_slot[at] = o, hint = at + 1;
        o->slot = &node_own()->slot[at];
        taken++, promised -= o->promised;
    }
    pthread_mutex_unlock(&lock);
    return o->slot != NULL;
}

bool offer_promise(void)
{
    pthread_mutex_lock(&lock);
    bool free = taken + promised < SLOTS;
    promised += free;
    pthread_mutex_unlock(&lock);
    return free;
}

void offer_break_promise(void)
{
    pthread_mutex_lock(&lock);
    promised--;
    pthread_mutex_unlock(&lock);
}

/* An offer that stays behind its send keeps its slot, and the sender is promised another. */
static bool may_stay(struct offer *o, bool stays)
{
    pthread_mutex_lock(&lock);
    bool may = !o->promised || taken + promised < SLOTS;
    if (may && stays) promised += o->promised, o->promised = false;
    pthread_mutex_unlock(&lock);
    return may;
}

static struct offer *take_spare(bool pinned)
{
    pthread_mutex_lock(&lock);
    struct offer *o = spare[pinned];
    if (o) spare[pinned] = o->next;
    pthread_mutex_unlock(&lock);
    if (!o) return NULL;
    memset(o, 0, offsetof(struct offer, pinned));
    memset(&o->descriptor, 0, DESCRIPTOR_TOLD);
    return o;
}

struct offer *offer_new(void)
{
    struct offer *o = take_spare(false);
    return o ? o : calloc(1, sizeof *o);
}

/* All but one become spare ones. */
static struct offer *cut_slab(struct buffer *slab)
{
    struct offer *o = slab->host;
    memset(o, 0, SLAB * sizeof *o);
    pthread_mutex_lock(&lock);
    slab->next = slabs, slabs = slab;
    for (int i = 0; i < SLAB; i++) {
        o[i].pinned = true;
        if (i) o[i].next = spare[true], spare[true] = &o[i];
    }
    pthread_mutex_unlock(&lock);
    return o;
}

/* A CUDA-aware MPI asks the driver where a message lies, which is quickly told of pinned memory alone: so descriptors lie
 * there. */
static struct offer *new_on(struct device *d)
{
    struct offer *o = mpi_cuda_aware() ? take_spare(true) : offer_new();
    if (o || !mpi_cuda_aware() || device_enter(d)) return o ? o : offer_new();
    struct buffer *slab = buffer_get(d, BUFFER_PINNED, SLAB * sizeof *o);
    device_leave(d);
    return slab ? cut_slab(slab) : offer_new();
}

void offer_withdraw(struct offer *o)
{
    if (o->brief) brief_take_back(o->peer);
    parcel_close(o->parcel);
    if (o->room) room_put(o->room, o->descriptor.bytes);
    pthread_mutex_lock(&lock);
    if (o->slot) {
        atomic_store_explicit(&o->slot->state, SLOT_FREE, memory_order_relaxed);
        of_slot[o->slot - node_own()->slot] = NULL;
        taken--, promised += o->promised;
    }
    o->next = spare[o->pinned];
    spare[o->pinned] = o;
    pthread_mutex_unlock(&lock);
}

/* What the slot says of packed bytes, or of the typed buffer. */
static void describe(struct offer *o, const struct export *e, uint64_t user, uint64_t layout)
{
    struct slot *s = o->slot;
    const struct parcel *p = o->parcel;
    s->memory = SLOT_DEVICE;
    /* The rest of the line that the receiver reads tells the allocation by its number: it mostly knows it already. */
    if (s->id != e->id || s->start != e->start) s->handle = e->handle, s->start = e->start, s->span = e->span, s->id = e->id;
    s->user = user, s->layout = layout, s->bytes = p->bytes;
    s->count = p->count, s->extent = p->layout->extent;
    atomic_store_explicit(&s->ready, o->hungry ? 0 : p->bytes, memory_order_relaxed);
}

static bool fill(struct offer *o, struct offer_site *site)
{
    struct parcel *p = o->parcel;
    struct export *e = &site->allocation;
    int64_t first, past;
    uint64_t layout = 0, user = (uint64_t)(uintptr_t)p->user;
    bool packed = layout_contiguous(p->layout, p->count);
    layout_span(p->layout, p->count, &first, &past);
    if (!export_holds(e, user + (uint64_t)first, past - first) &&
        !export_of(p->device, user + (uint64_t)first, past - first, e)) {
        e->span = 0;
        return false;
    }
    if (!export_accepted(e, o->peer)) return false;
    if (!packed && !(layout = export_layout(p->layout))) return false;
    if (!e->synchronous && site->drained != p->device && export_drain(p->device)) return false;
    site->drained = p->device;
    describe(o, e, user + (uint64_t)p->layout->tree->off, layout);
    return true;
}

void offer_publish(struct offer *o)
{
    struct descriptor *d = &o->descriptor;
    descriptor_mark(d, &node_own()->cookie);
    d->rank = (uint32_t)node_own()->rank, d->slot = (uint32_t)(o->slot - node_own()->slot), d->bytes = o->parcel->bytes;
    o->begun = stats_now();
    atomic_store_explicit(&o->slot->state, SLOT_OFFERED, memory_order_release);
}

const struct descriptor *offer_descriptor(const struct offer *o)
{
    return &o->descriptor;
}

int offer_descriptor_bytes(const struct offer *o)
{
    return o->host ? HOST_OFFER_MIN : o->brief ? (int)BRIEF_BYTES : (int)DESCRIPTOR_BYTES;
}

static uint32_t state_of(const struct offer *o)
{
    return atomic_load_explicit(&o->slot->state, memory_order_acquire);
}

/* The payload moves to device memory of stridec's own. False where the receiver was quicker, or there is no memory. */
static bool move_away(struct offer *o)
{
    uint32_t offered = SLOT_OFFERED;
    struct export e;
    struct parcel *p = o->parcel;
    if (offer_moved(o) || !atomic_compare_exchange_strong(&o->slot->state, &offered, SLOT_HELD)) return false;
    bool moved = o->host ? host_offer_move(o) : !device_enter(p->device);
    if (moved && !o->host) {
        struct stream *s = stream_get(p->device);
        p->wire = buffer_get(p->device, BUFFER_DEVICE, (size_t)p->bytes);
        moved = s && p->wire && export_of(p->device, p->wire->address, p->bytes, &e) &&
                !parcel_move(p, s, KERNEL_PACK, p->wire->address, p->bytes);
        if (s && stream_wait(p->device, s)) moved = false;
        if (s) stream_put(p->device, s);
        if (!moved) buffer_put(p->wire), p->wire = NULL;
        device_leave(p->device);
    }
    if (moved && !o->host) describe(o, &e, p->wire->address, 0);
    atomic_store_explicit(&o->slot->state, SLOT_OFFERED, memory_order_release);
    return moved;
}

bool offer_allowed(void)
{
    return node_armed() && (env_get()->transport == ENV_AUTO || env_get()->transport == ENV_ZEROCOPY);
}

/* Over a link between GPUs a read of 8 bytes moves 32: where blocks are shorter than that, and many, they are packed on
 * the sender's side (two H200s, read in place and packed first: 1 MiB of 4 B blocks 44 and 39 us, of 8 B 27 and 23; 64 KiB
 * of 4 B blocks 13 and 19). */
static bool packed_first(const struct parcel *p)
{
    int64_t block = p->layout->block > 0 ? p->layout->block : 1;
    if (layout_contiguous(p->layout, p->count)) return false;
    return block < SECTOR ? p->bytes > SECTORS_MOST / SECTOR * block : block < 2 * SECTOR && p->bytes >= LONG;
}

/* A wire to be filled while the receiver reads. */
static void become_hungry(struct offer *o)
{
    struct parcel *p = o->parcel;
    struct export e;
    if (device_enter(p->device)) return;
    p->wire = buffer_get(p->device, BUFFER_DEVICE, (size_t)p->bytes);
    o->hungry = p->wire && export_of(p->device, p->wire->address, p->bytes, &e);
    if (o->hungry) describe(o, &e, p->wire->address, 0);
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

struct offer *offer_to(struct peer *peer, struct layout *l, struct device *d, const void *buf, int64_t count,
                       struct offer_site *site)
{
    /* One device of a process does not read another's memory. */
    bool reads = peer->self ? !device_first()->next : export_tried(d, peer);
    struct offer *o = reads ? new_on(d) : NULL;
    if (!o) return NULL;
    o->peer = peer, o->promised = site->promised;
    bool begun = (o->parcel = parcel_bare(l, d, buf, count)) && offer_slot(o) && attend_start(offer_serve);
    bool there = begun && fill(o, site), packs = begun && packed_first(o->parcel);
    if (there && packs && site->feeds) become_hungry(o);
    if (there || (begun && o->promised)) {
        offer_publish(o);
        if (((packs || !there) && move_away(o)) || there) return o;
    }
    offer_withdraw(o);
    return NULL;
}

struct peer *offer_peer(struct layout *l, struct where w, int64_t count, MPI_Datatype datatype, int dest, MPI_Comm comm)
{
    int64_t bytes = l->tree && !w.parts ? layout_bytes(l, count) : 0;
    struct peer *peer = bytes >= BRIEF_MIN && offer_allowed() ? node_peer(comm, dest) : NULL;
    if (!peer || (bytes < OFFER_MIN && !atomic_load_explicit(&peer->file->takes_briefs, memory_order_relaxed))) return NULL;
    return transport_offers(l, count, bytes) && parcel_check(l, w, datatype, comm) == MPI_SUCCESS ? peer : NULL;
}

struct offer *offer_open(struct layout *l, struct where w, const void *buf, int64_t count, MPI_Datatype datatype, int dest,
                         MPI_Comm comm)
{
    struct offer_site site = {.feeds = true};
    struct peer *peer = offer_peer(l, w, count, datatype, dest, comm);
    bool brief = layout_bytes(l, count) < OFFER_MIN;
    if (!peer || (brief && !brief_begin(peer))) return NULL;
    if (w.around.span && !export_around(w.device, &w.around, &site.allocation)) site.allocation.span = 0;
    struct offer *o = offer_to(peer, l, w.device, buf, count, &site);
    if (o) o->brief = brief;
    else if (brief) brief_take_back(peer);
    return o;
}

static bool impatient(const struct offer *o)
{
    return stats_now() - o->begun > PATIENCE_NS;
}

static bool refused(struct offer *o)
{
    uint32_t state = SLOT_REFUSED;
    return state_of(o) == state && atomic_compare_exchange_strong(&o->slot->state, &state, SLOT_HELD);
}

static void spill(struct offer *o)
{
    /* What is still being packed is waited for: the thread that packs waits for nobody. */
    int64_t ready = 0;
    for (unsigned spins = 0; ready >= 0 && ready < o->parcel->bytes; spins++) {
        ready = atomic_load_explicit(&o->slot->ready, memory_order_acquire);
        spin(spins);
    }
    if (o->host) attach_refused(o->peer);
    else export_refuse(o->slot->id, o->peer);
    atomic_store(&o->slot->state, spill_out(o->parcel, o->descriptor.slot) ? SLOT_LOST : SLOT_SPILLED);
}

/* The receiver is through, or has asked for the payload by another way. */
static bool answered(struct offer *o)
{
    if (refused(o)) spill(o);
    return state_of(o) == SLOT_DONE;
}

/* What is held is not given back by its owner. */
void offer_serve(void)
{
    for (int i = 0; i < SLOTS; i++) {
        pthread_mutex_lock(&lock);
        struct offer *o = of_slot[i] && refused(of_slot[i]) ? of_slot[i] : NULL;
        pthread_mutex_unlock(&lock);
        if (o) spill(o);
    }
}

void offer_near(const struct offer *o)
{
    __builtin_prefetch(o->slot, 1);
}

bool offer_ended(struct offer *o)
{
    return answered(o) || ((offer_moved(o) || impatient(o)) && may_stay(o, false));
}

static void leave(struct offer *o)
{
    pthread_mutex_lock(&lock);
    o->next = left;
    left = o;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&left_count, 1);
    atomic_fetch_add(&request_orphans, 1);
}

/* False where the peer's process has ended. */
static bool pulse(const struct offer *o)
{
    if (!node_gone(o->peer)) return true;
    log_write(LOG_ERROR, "rank %d ended before it received a message", o->peer->rank);
    return false;
}

static void finished(struct offer *o)
{
    parcel_count(o->parcel, "zerocopy", o->parcel->bytes, o->begun);
    o->brief = false;
    offer_withdraw(o);
}

int offer_end(struct offer *o)
{
    if (o->hungry && offer_feed(o)) return leave(o), -1;
    for (unsigned spins = 0; !answered(o); spins++) {
        if (spins % SPINS_A_LOOK == 0 && impatient(o)) move_away(o);
        if (offer_moved(o) && may_stay(o, true)) return o->room ? host_offer_leave(o) : leave(o), 0;
        if (spins % LOOKS_A_PULSE == LOOKS_A_PULSE - 1 && !pulse(o)) return leave(o), -1;
        spin(spins);
    }
    finished(o);
    return 0;
}

int offer_await(struct offer *o, MPI_Comm comm)
{
    for (unsigned spins = 1; !answered(o); spins++) {
        int flag;
        if (spins % SPINS_A_PROGRESS == 0) PMPI_Iprobe(MPI_ANY_SOURCE, 0, comm, &flag, MPI_STATUS_IGNORE);
        if (spins % LOOKS_A_PULSE == 0 && !pulse(o)) return leave(o), -1;
        spin(spins);
    }
    finished(o);
    return 0;
}

/* Out of the list: those that are answered, or all whose peers are gone. */
static struct offer *harvest(void)
{
    struct offer *done = NULL, **at = &left;
    pthread_mutex_lock(&lock);
    while (*at) {
        struct offer *o = *at;
        if (!answered(o)) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        o->next = done;
        done = o;
    }
    pthread_mutex_unlock(&lock);
    return done;
}

void offer_poll(void)
{
    if (!atomic_load(&left_count)) return;
    for (struct offer *o = harvest(), *next; o; o = next) {
        next = o->next;
        atomic_fetch_sub(&left_count, 1);
        atomic_fetch_sub(&request_orphans, 1);
        finished(o);
    }
}

/* Its receiver will not come any more. */
static bool in_vain(const struct offer *o)
{
    return atomic_load(&o->peer->file->leaving) || node_gone(o->peer);
}

void offer_finish(void)
{
    if (node_own()) atomic_store(&node_own()->leaving, 1);
    for (unsigned spins = 0; atomic_load(&left_count); spins++) {
        offer_poll();
        struct offer *o = left;
        if (o && spins % LOOKS_A_PULSE == LOOKS_A_PULSE - 1 && in_vain(o)) atomic_store(&o->slot->state, SLOT_DONE);
        spin(spins);
    }
    attend_finish();
    host_offer_finish();
    for (struct offer *o; (o = spare[false]);) {
        spare[false] = o->next;
        free(o);
    }
    spare[true] = NULL;
    for (struct buffer *b; (b = slabs);) {
        slabs = b->next;
        b->next = NULL;
        buffer_put(b);
    }
}
