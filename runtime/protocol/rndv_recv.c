/* rndv_recv.c: the receiver's side of zero-copy messages. */
#include "rndv_recv.h"
#include "base/backoff.h"
#include "base/bounce.h"
#include "observe/counters.h"
#include "base/freelist.h"
#include "base/log.h"
#include "base/self_comm.h"
#include "datatype/layout_parts.h"
#include "kernel/typed_copy.h"
#include "job_sides.h"
#include "kept_jobs.h"
#include "node/ipc_cache.h"
#include "pack/host_scatter.h"
#include "pipeline.h"
#include "pipeline_recv.h"
#include "progress_thread.h"
#include "rndv_file.h"
#include "rndv_send.h"
#include "rts_short.h"
#include "shm_recv.h"
#include <string.h>

#define SPINS_PER_CHECK 65536
#define SPINS_A_TURN 256
#define BEHIND 64        /* messages without chunk flags after a sender was late */
#define FEW 32           /* receives whose array lies on the stack */

struct rndv_get {
    const struct peer *peer;
    struct slot *slot;   /* NULL: the payload is in the file `number` (rndv_file_apart) */
    uint32_t number;
    int64_t bytes;
    struct typed_buffer *tbuf;   /* the caller's */
    const void *packed;   /* address of the RTS, as in rndv_recv_is_rts */
    struct device *device;   /* reads the payload */
    struct import *import;
    struct ipc_cache_layout layout;   /* the sender's */
    struct pool_buffer *bounce;   /* packed bytes on their way to host memory */
    uint64_t between;   /* packed bytes of parts on their way to the buffer, in device memory; 0: none */
    struct rndv_get *parts;   /* those after the first of a payload in several allocations, by `next` */
    struct kept_jobs *kept;   /* in their place; NULL: none */
    int64_t begun;
    bool taken, tried, done;
    struct rndv_get *next;
};

/* Takes the posted slot; waits while its owner holds it. Returns false if the owner ended meanwhile. */
static bool take(const struct peer *p, struct slot *s)
{
    uint32_t offered = SLOT_POSTED;
    for (unsigned spins = 1; !atomic_compare_exchange_weak_explicit(&s->state, &offered, SLOT_TAKEN,
                                                                    memory_order_acquire, memory_order_relaxed);
         spins++) {
        if (spins % SPINS_PER_CHECK == 0 && node_gone(p)) return false;
        offered = SLOT_POSTED;
        backoff(spins);
    }
    return true;
}

static void tell(struct slot *s, enum slot_state state)
{
    atomic_store_explicit(&s->state, state, memory_order_release);
}

int rndv_recv_add(struct rndv_recvs *ps, const struct rts *d, const void *packed, struct typed_buffer *p,
                  MPI_Status *status)
{
    if (d->bytes != RNDV_RECV_UNREAD && d->bytes < RNDV_MIN) rts_short_taken();
    return rndv_recv_add_told(ps, d, packed, p, status);
}

int rndv_recv_add_told(struct rndv_recvs *ps, const struct rts *d, const void *packed, struct typed_buffer *p,
                       MPI_Status *status)
{
    if (d->bytes == RNDV_RECV_UNREAD) return MPI_ERR_OTHER;
    if (d->bytes >= RNDV_MIN && pipeline_named(d)) return pipeline_recv_add(&ps->pipelined, d, p, status);
    const struct peer *peer = node_world_peer((int)d->rank);
    struct slot *s = d->slot < SLOTS ? &peer->file->slot[d->slot] : NULL;
    __builtin_prefetch(s, 1);   /* the cache misses of all messages overlap */
    struct rndv_get *get = d->bytes <= p->bytes ? freelist_get(FREELIST_RNDV_RECV, sizeof *get) : NULL;
    PMPI_Status_set_elements_x(status, MPI_BYTE, d->bytes <= p->bytes ? d->bytes : p->bytes);
    if (!get) {
        if (!s) rndv_file_recall(peer->rank, d->slot);
        else if (take(peer, s)) tell(s, SLOT_DONE);
        return d->bytes <= p->bytes ? MPI_ERR_NO_MEM : MPI_ERR_TRUNCATE;
    }
    *get = (struct rndv_get){
        .peer = peer, .slot = s, .number = d->slot, .bytes = d->bytes, .tbuf = p, .packed = packed};
    if (!ps->n++) ps->last = &ps->first;
    *ps->last = get;
    ps->last = &get->next;
    return MPI_SUCCESS;
}

/* Returns true if no kernel can write the buffer in place: the payload is unpacked from its bounce buffer. */
static bool via_bounce(const struct typed_buffer *p)
{
    return p->wire && (p->parts || !p->layout->tree);
}

/* The allocation last opened for a device; mostly the next message needs it too. */
struct opened {
    const struct peer *peer;   /* NULL: none */
    uint64_t id, ahead;        /* ahead: our address minus the owner's */
    bool across;               /* on another GPU */
};

/* Opens the sender's memory. The first receive of an allocation holds its IPC handle; all receives end together. */
static bool open_for(struct rndv_get *p, struct opened *last, uint64_t *address)
{
    const struct slot *s = p->slot;
    *address = s->user + last->ahead;
    if (last->peer == p->peer && last->id == s->id) return true;
    /* Own memory on another device can be neither opened nor read. */
    if (p->peer->self && device_of((const void *)(uintptr_t)s->start) != p->device) return false;
    p->import = ipc_cache_open(p->peer, s, p->device, address);
    if (p->import) *last = (struct opened){p->peer, s->id, *address - s->user, ipc_cache_other_gpu(p->import)};
    return p->import != NULL;
}

/* Describes the sender's memory; the caller has entered the device. Returns false if it can't be opened, or if the slot
 * may have been read as zeros. */
static bool side_from(struct rndv_get *p, struct opened *last, struct typed_copy_side *from)
{
    bool opened = job_side_from(p->peer, p->slot, &p->layout, from) && open_for(p, last, &from->user);
    return opened && !atomic_load(&p->peer->lost);
}

/* Describes the receiver's memory, a bounce buffer where needed. Returns false without memory. */
static bool side_to(struct rndv_get *p, struct typed_copy_side *to)
{
    struct typed_buffer *tbuf = p->tbuf;
    *to = (struct typed_copy_side){.user = via_bounce(tbuf) ? tbuf->wire->address : 0};
    if (to->user) return true;
    if (!tbuf->device) {
        p->bounce = mempool_get(p->device, BUFFER_PINNED, (size_t)p->bytes);
        if (p->bounce) to->user = p->bounce->address;
        return p->bounce != NULL;
    }
    *to = typed_buffer_side(tbuf->layout, (uint64_t)(uintptr_t)tbuf->user, tbuf->count);
    return true;
}

/* Returns true if the sender is still packing. */
static bool flows(const struct rndv_get *p)
{
    return !p->slot->layout && atomic_load_explicit(&p->slot->ready, memory_order_acquire) != p->bytes;
}

/* Unpacks in one launch that waits for the sender's chunk flags. Returns 0, -1, or 1: not possible or the sender was
 * late, and nothing has arrived. */
static int follow_marks(struct rndv_get *p, struct stream *s, const struct typed_copy_job *job)
{
    struct peer *peer = node_world_peer(p->peer->rank);
    struct marks marks = {job->from.user - BUFFER_FLAG_BYTES, p->slot->mark, p->slot->chunk};
    uint32_t late = 0;
    if (!marks.chunk || p->slot->gpu == device_gpu_id(p->device)) return 1;
    if (atomic_load_explicit(&p->slot->ready, memory_order_acquire) < 0) return 1;
    if (node_skip_next(&peer->behind)) return 1;
    int moved = typed_buffer_move_marked(p->tbuf, s, KERNEL_UNPACK, job->from.user, job->bytes, &marks, &late);
    if (moved > 0) atomic_store_explicit(&p->slot->flags_unread, 1, memory_order_relaxed);
    if (moved) return moved;
    rndv_send_poll();
    if (stream_wait(p->device, s)) return -1;
    if (!stream_was_late(p->device, s, late)) return 0;
    log_write(LOG_INFO, "rank %d packs too late for a kernel to wait for it", peer->rank);
    atomic_store(&peer->behind, BEHIND);
    return 1;
}

/* Unpacks pieces as they are packed, on two streams in turn. Copy engine: 5 to 25 % longer (two H200s, 4, 64 MiB). */
static bool follow_pieces(struct rndv_get *p, struct stream *s, const struct typed_copy_job *job)
{
    int marked = follow_marks(p, s, job);
    if (marked <= 0) return marked == 0;
    struct stream *two[2] = {s, stream_get(p->device)};
    int64_t at = 0, ready = 0;
    bool ok = true;
    for (int i = 0; ok && at < job->bytes; i = two[1] ? 1 - i : 0, at = ready)
        ok = (ready = node_await_ready(p->peer, p->slot, ready)) >= 0 &&
             !typed_buffer_move_range(p->tbuf, p->device, two[i], KERNEL_UNPACK, job->from.user + (uint64_t)at, at,
                                      ready);
    if (two[1] && stream_wait(p->device, two[1])) ok = false;
    if (two[1]) stream_put(p->device, two[1]);
    return ok;
}

/* Moves a payload that is still being packed. Waits for all of it where the buffer's own kernel does not write. */
static bool follow(struct rndv_get *p, struct typed_copy_batch *batch, struct stream *s,
                   const struct typed_copy_job *job, int *launches)
{
    int64_t ready = 0;
    if (p->tbuf->device && !via_bounce(p->tbuf)) return follow_pieces(p, s, job);
    while (ready >= 0 && ready < job->bytes) ready = node_await_ready(p->peer, p->slot, ready);
    return ready >= 0 && !typed_copy_move(batch, p->device, s, job, 1, launches);
}

static bool job_of(struct rndv_get *p, struct opened *last, struct typed_copy_job *job)
{
    job->bytes = p->bytes;
    bool sides = side_from(p, last, &job->from) && side_to(p, &job->to);
    job->across = sides && (last->across || !p->tbuf->device);
    return sides;
}

/* Adds the other parts of a taken payload. Returns false if their list is wrong, or without memory. */
static bool add_parts(struct rndv_get *p)
{
    struct rndv_get **at = &p->parts;
    int n = 1;
    for (uint32_t next = p->slot->next; next; next = (*at)->slot->next, at = &(*at)->next) {
        if (next > SLOTS || ++n > LAYOUT_PARTS || !(*at = freelist_get(FREELIST_RNDV_RECV, sizeof **at))) return false;
        **at = (struct rndv_get){.peer = p->peer, .slot = &p->peer->file->slot[next - 1], .device = p->device};
        __builtin_prefetch(&p->peer->file->slot[next]);   /* the sender took them in a row, mostly */
    }
    return true;
}

static void drop_parts(struct rndv_get *p)
{
    for (struct rndv_get *part; (part = p->parts);) {
        p->parts = part->next;
        ipc_cache_put(part->import), ipc_cache_layout_put(&part->layout);
        freelist_put(FREELIST_RNDV_RECV, part);
    }
}

/* Sets the sides of the jobs that the parts' packed bytes go to: parts of the receiver's layout, or packed bytes. */
static bool sides_to(struct rndv_get *p, struct typed_copy_batch *batch, struct typed_copy_job *jobs, int n)
{
    struct typed_copy_side to;
    if (!side_to(p, &to)) return false;
    if (job_sides_cut(&to, p->tbuf->layout, p->tbuf->user, jobs, n)) return true;
    struct pool_buffer *b = typed_copy_keep(batch, p->device, BUFFER_DEVICE, (size_t)p->bytes);
    if (!b) return false;
    p->between = b->address;
    to = (struct typed_copy_side){.user = p->between};
    return job_sides_cut(&to, NULL, NULL, jobs, n);
}

/* Returns true if jobs write the buffer itself. */
static bool ends_in_place(const struct rndv_get *p)
{
    return p->tbuf->device && !p->bounce && !p->between && !via_bounce(p->tbuf);
}

/* Keeps the n jobs of a payload whose parts hold all imports: none that an earlier payload of this run has opened. */
static void keep_jobs(const struct rndv_get *p, const struct typed_copy_job *jobs, int n, uint64_t drops)
{
    struct import *import[LAYOUT_PARTS];
    struct ipc_cache_layout layout[LAYOUT_PARTS];
    struct kept_uses u = {.import = import, .layout = layout, .drops = drops};
    struct kept_jobs_key key = kept_jobs_key_of(p->peer, p->slot, p->device, p->tbuf);
    for (const struct rndv_get *part = p; part; part = part == p ? p->parts : part->next) {
        if (part->import && !p->peer->self) import[u.imports++] = part->import;
        if (part->layout.known) layout[u.layouts++] = part->layout;
    }
    kept_jobs_add(&key, jobs, n, &u);
}

/* Describes the jobs of a payload, one for each part. Returns their number; 0 if it can't be read in place. */
static int jobs_of(struct rndv_get *p, struct opened *last, struct typed_copy_batch *batch, struct typed_copy_job *jobs)
{
    int64_t bytes = 0;
    int n = 0;
    if (p->kept) return kept_jobs_copy(p->kept, jobs);
    if (!p->slot->next) return job_of(p, last, jobs);
    bool sides = p->parts != NULL, alone = !last->peer;
    uint64_t drops = p->slot->description ? ipc_cache_drops() : 0;
    for (struct rndv_get *part = p; sides && part; part = part == p ? p->parts : part->next, n++) {
        jobs[n].bytes = part->slot->bytes, bytes += part->slot->bytes;
        sides = jobs[n].bytes > 0 && side_from(part, last, &jobs[n].from);
        jobs[n].across = last->across || !p->tbuf->device;
        if (!sides) p->slot->id = part->slot->id, p->slot->description = 0;   /* what is refused */
    }
    if (!sides || bytes != p->bytes || !sides_to(p, batch, jobs, n)) return 0;
    if (p->slot->description && alone && ends_in_place(p)) keep_jobs(p, jobs, n, drops);
    return n;
}

/* Enqueues the n jobs of all payloads. */
static int move_jobs(const struct rndv_recvs *ps, struct typed_copy_batch *batch, struct device *d, struct stream *s,
                     const struct typed_copy_job *jobs, int n, int *launches)
{
    const struct kept_jobs *kept = ps->n == 1 ? ps->first->kept : NULL;
    int result = kept && n ? kept_jobs_move(kept, s, launches) : 1;
    return result > 0 ? typed_copy_move(batch, d, s, jobs, n, launches) : result;
}

/* Unpacks parts that went through a packed buffer. */
static bool move_between(struct rndv_recvs *ps, struct device *d, struct stream *s)
{
    bool moved = true;
    for (struct rndv_get *p = ps->first; p && moved; p = p->next)
        if (p->device == d && p->done && p->between)
            moved = !typed_buffer_move(p->tbuf, s, KERNEL_UNPACK, p->between, p->bytes);
    return moved;
}

/* Does other work that is due, while bytes move. */
static void meanwhile(struct rndv_recvs *ps)
{
    rndv_send_poll();
    if (ps->meanwhile) ps->meanwhile(ps->arg);
    ps->meanwhile = NULL;
}

/* Moves all payloads of one device, which is entered, in few launches. Leaves those it can't read in place. Waits. */
static void run_on(struct rndv_recvs *ps, struct device *d)
{
    int most = ps->n + ps->parts;
    struct typed_copy_job few[FEW],
        *jobs = most <= FEW ? few : freelist_get(FREELIST_ARRAY, (size_t)most * sizeof *jobs);
    struct stream *s = jobs ? stream_get(d) : NULL;
    struct typed_copy_batch batch = {0};
    struct opened last = {0};
    int n = 0, launches = 0;
    for (struct rndv_get *p = ps->first; s && p; p = p->next)
        if (!p->tried && p->device == d && !flows(p) && (p->tried = true)) {
            int more = jobs_of(p, &last, &batch, &jobs[n]);
            p->done = more > 0, n += more;
        }
    bool moved = s && !move_jobs(ps, &batch, d, s, jobs, n, &launches) && move_between(ps, d, s);
    for (struct rndv_get *p = ps->first; moved && p; p = p->next) {
        struct typed_copy_job job;
        if (p->tried || p->device != d || !(p->tried = true) || !(p->done = job_of(p, &last, &job))) continue;
        moved = follow(p, &batch, s, &job, &launches);
    }
    if (s) meanwhile(ps);
    if (s && stream_wait(d, s)) moved = false;
    typed_copy_end(&batch);
    if (s) stream_put(d, s);
    if (jobs != few) freelist_put(FREELIST_ARRAY, jobs);
    for (struct rndv_get *p = ps->first; p; p = p->next) {
        if (p->device != d || !p->done) continue;
        p->done = moved;
        p->tbuf->launches += launches, launches = 0;
    }
}

/* Serves NACKs and lets the MPI progress: the sender may be waiting for this process. */
static void take_turn(void)
{
    rndv_send_serve();
    comm_progress(MPI_COMM_WORLD);
}

/* Unpacks packed bytes in host memory into the application's buffer. Blocks. */
static bool deliver(struct typed_buffer *to, char *payload, int64_t bytes)
{
    if (!to->device) return host_scatter_move(to, payload, 0, bytes, false);
    if (via_bounce(to)) {
        memcpy(to->wire->host, payload, (size_t)bytes);
        return !typed_buffer_unpack(to, bytes, MPI_COMM_SELF);
    }
    if (device_enter(to->device)) return false;
    struct pool_buffer *b = mempool_get(to->device, BUFFER_PINNED, (size_t)bytes);
    struct stream *s = b ? stream_get(to->device) : NULL;
    if (b) memcpy(b->host, payload, (size_t)bytes);
    bool ok = s && !typed_buffer_move(to, s, KERNEL_UNPACK, b->address, bytes) && !stream_wait(to->device, s);
    if (s) stream_put(to->device, s);
    mempool_put(b);
    device_leave(to->device);
    return ok;
}

static bool from_host(struct rndv_get *p)
{
    int64_t bytes = p->bytes;
    struct host_side to = {.tbuf = p->tbuf, .came = p->packed};
    if (!p->tbuf->device && p->tbuf->layout->tree) return shm_recv(p->peer, p->slot, &to, bytes);
    struct bounce *b = bounce_get(bytes);
    if (b) to.packed = b->memory;
    bool ok = b && shm_recv(p->peer, p->slot, &to, bytes) && deliver(p->tbuf, b->memory, bytes);
    bounce_put(b);
    return ok;
}

/* Receives from the sender's file and removes it. Returns false too if pages of it were lost. */
static bool read_file(struct rndv_get *p)
{
    char *payload = (char *)(uintptr_t)rndv_file_in(p->peer->rank, p->number, p->bytes);
    bool ok = payload && deliver(p->tbuf, payload, p->bytes);
    if (payload) rndv_file_done(payload, p->peer->rank, p->number);
    return ok && !atomic_load(&p->peer->lost);
}

/* Asks the sender for a fallback copy in a file, waits for it, and receives it. */
static bool rndv_recv_fallback(struct rndv_get *p)
{
    uint32_t state;
    tell(p->slot, SLOT_NACK);
    progress_thread_call(p->peer);
    for (unsigned spins = 1; (state = atomic_load_explicit(&p->slot->state, memory_order_acquire)) != SLOT_FALLBACK;
         spins++) {
        if (state == SLOT_LOST) return false;
        if (spins % SPINS_PER_CHECK == 0 && node_gone(p->peer)) return false;
        if (spins % SPINS_A_TURN == 0) take_turn();
        backoff(spins);
    }
    return read_file(p);
}

static void begin_parts(struct rndv_recvs *ps, struct rndv_get *p)
{
    struct kept_jobs_key key = kept_jobs_key_of(p->peer, p->slot, p->device, p->tbuf);
    if (ends_in_place(p) && (p->kept = kept_jobs_get(&key))) ps->parts += kept_jobs_n(p->kept) - 1;
    else if (!add_parts(p)) drop_parts(p);
    for (const struct rndv_get *part = p->parts; part; part = part->next) ps->parts++;
}

/* Takes the slot and chooses the device. Leaves `taken` false if the sender has ended. */
static void begin(struct rndv_recvs *ps, struct rndv_get *p)
{
    if (!(p->taken = !p->slot || take(p->peer, p->slot))) return;
    p->begun = typed_buffer_clock();
    if (!p->slot || p->slot->memory != SLOT_DEVICE) return;
    p->device = p->tbuf->device ? p->tbuf->device : device_default();
    node_set_gpu(p->device ? device_gpu_id(p->device) : 0);
    if (p->slot->next) begin_parts(ps, p);
}

/* Returns true if the sender has kept its buffer until now: one whose file was truncated may have given it up. */
static bool was_kept(const struct rndv_get *p)
{
    atomic_load(&p->slot->state);   /* finds a truncated file */
    return !atomic_load(&p->peer->lost);
}

/* Ends a receive, or does all of it off the GPU. Closes the sender's memory before the slot is DONE: from then on the
 * sender may free that memory and reuse the address. */
static bool rndv_recv_rest(struct rndv_get *p)
{
    struct typed_buffer *to = p->tbuf;
    if (!p->taken) return log_write(LOG_ERROR, "rank %d ended before its message was read", p->peer->rank), false;
    bool file = !p->slot || p->slot->memory == SLOT_FILE, host = file || p->slot->memory != SLOT_DEVICE;
    bool ok = file ? read_file(p) : host ? from_host(p) : p->done;
    if (ok && !file) ok = was_kept(p);
    p->done = ok && !file;
    if (ok && p->bounce) ok = host_scatter_move(to, p->bounce->host, 0, p->bytes, false);
    if (ok && !host && via_bounce(to)) ok = typed_buffer_unpack(to, p->bytes, MPI_COMM_SELF) == MPI_SUCCESS;
    ipc_cache_put(p->import), ipc_cache_layout_put(&p->layout), drop_parts(p), kept_jobs_put(p->kept);
    mempool_put(p->bounce);
    /* A payload in the shared segment needs no fallback: if it is not there, the sender is gone. */
    if (!ok && !file && p->slot->memory != SLOT_POOL) ok = rndv_recv_fallback(p);
    if (ok && !p->done) counters_add_fallback(p->bytes);
    const char *way = !p->done ? "spilled" : p->slot->memory == SLOT_POOL ? "shared" : "zerocopy";
    typed_buffer_stats(to, way, p->bytes, p->begun);
    if (!ok) log_write(LOG_ERROR, "a message from rank %d can't be read", p->peer->rank);
    return ok;
}

int rndv_recvs_run(struct rndv_recvs *ps)
{
    pipeline_recvs_start(ps->pipelined);
    for (struct rndv_get *p = ps->first; p; p = p->next) begin(ps, p);
    for (const struct rndv_get *p = ps->first; p; p = p->next) {
        struct device *d = p->device;
        if (p->tried || !d || device_enter(d)) continue;
        run_on(ps, d);
        device_leave(d);
    }
    int rc = 0;
    for (struct rndv_get *p = ps->first; p; p = p->next)
        if (!rndv_recv_rest(p)) rc = -1;
    for (struct rndv_get *p = ps->first, *next; p; p = next) {
        next = p->next;
        if (p->taken && p->slot) tell(p->slot, SLOT_DONE);
        freelist_put(FREELIST_RNDV_RECV, p);
    }
    /* Comes last: a sender of chunks may be waiting until its rendezvous send is DONE. */
    if (pipeline_recvs_end(ps->pipelined)) rc = -1;
    *ps = (struct rndv_recvs){0};
    return rc;
}
