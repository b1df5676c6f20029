/* channel_move.c: flags in device memory, and what a message of bound partners enqueues. */
#include "base/log.h"
#include "channel_internal.h"
#include "device/device_internal.h"
#include "../../gen/gen.h"
#include <stdlib.h>
#include <string.h>

/* Memory of its own, so that it shares no block of 2 MiB with allocations that others open and close. */
#define FLAGS_BYTES ((size_t)2 << 20)
#define FLAG_APART 64   /* the flag, and the word of a launch that counts its blocks (typed_copy_exchange) */
#define FLAGS_MOST (FLAGS_BYTES / FLAG_APART)
#define JOBS_MOST 16          /* a launch: their list fits into its argument */

/* ---- flags ---- */

static struct flag_page {
    struct device *device;
    struct pool_buffer *memory;
    uint64_t used[FLAGS_MOST / 64];
    struct flag_page *next;
} *pages;

bool channel_device_able(struct device *d)
{
    int able = 0;
    const struct driver *driver = driver_get();
    return driver->memory_operations &&
           driver->cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, d->ordinal) ==
               CUDA_SUCCESS &&
           able;
}

static bool clear(struct device *d, CUdeviceptr at, size_t bytes)
{
    if (device_enter(d)) return false;
    bool ok = stream_zero(d, at, bytes) == CUDA_SUCCESS;
    device_leave(d);
    return ok;
}

static struct flag_page *page_of(struct device *d)
{
    struct flag_page *p = pages;
    while (p && p->device != d) p = p->next;
    if (p || !(p = calloc(1, sizeof *p))) return p;
    p->device = d, p->memory = mempool_get(d, BUFFER_LASTING, FLAGS_BYTES);
    if (!p->memory || !clear(d, p->memory->address, FLAGS_BYTES)) {
        mempool_put(p->memory);
        free(p);
        return NULL;
    }
    p->next = pages;
    return pages = p;
}

CUdeviceptr channel_flag_get(struct device *d)
{
    struct flag_page *p = page_of(d);
    size_t word = 0;
    while (p && word < FLAGS_MOST / 64 && !~p->used[word]) word++;
    if (!p || word == FLAGS_MOST / 64) return 0;
    int bit = __builtin_ctzll(~p->used[word]);
    CUdeviceptr flag = p->memory->address + (word * 64 + (size_t)bit) * FLAG_APART;
    if (!clear(d, flag, 2 * sizeof(uint32_t))) return 0;
    p->used[word] |= UINT64_C(1) << bit;
    return flag;
}

void channel_flag_put(struct device *d, CUdeviceptr flag)
{
    if (!flag) return;
    struct flag_page *p = page_of(d);
    size_t at = (flag - p->memory->address) / FLAG_APART;
    p->used[at / 64] &= ~(UINT64_C(1) << at % 64);
}

void channel_flags_finish(void)
{
    for (struct flag_page *p; (p = pages);) {
        pages = p->next;
        mempool_put(p->memory);
        free(p);
    }
}

/* ---- what is enqueued ---- */

/* Flags to be set, then flags to be waited for and cleared, of one place in a stream. Where the kernel that moves the
 * bytes can, it does that itself (typed_copy_exchange): a kernel less behind it, and for short messages one before.
 *
 * Else a kernel of one block does it, in 2 us, which the driver's operations need for three words (two H200s, 64 KiB
 * to and fro in a graph: 5.6 us a message, by the driver's operations 9.7). But a kernel that waits for another
 * process's kernel on the same GPU keeps that from running: there the driver waits. */
struct flags {
    struct device *device;
    CUstream stream;
    struct scratch *scratch;   /* of the call */
    bool by_driver;       /* no kernel may wait: a partner is another process on this GPU */
    int sets, waits;
    uint64_t *set, *wait, *begin;   /* begin: of `exchange` */
};

static int operate(const struct flags *f)
{
    struct stream_word *words = scratch_get(f->scratch, (size_t)(f->sets + 2 * f->waits) * sizeof *words);
    int n = 0;
    if (!words) return log_write(LOG_ERROR, "out of memory"), -1;
    for (int i = 0; i < f->sets; i++) words[n++] = (struct stream_word){f->set[i], 1, false};
    for (int i = 0; i < f->waits; i++) {
        words[n++] = (struct stream_word){f->wait[i], 1, true};
        words[n++] = (struct stream_word){f->wait[i], 0, false};
    }
    return stream_words(f->stream, words, n);
}

static int launch_flags(const struct flags *f)
{
    uint64_t at[GEN_FLAGS_MOST];
    struct stream s = stream_foreign(f->stream);
    if (f->by_driver || f->sets + f->waits > GEN_FLAGS_MOST) return 1;
    memcpy(at, f->set, (size_t)f->sets * sizeof *at);
    memcpy(at + f->sets, f->wait, (size_t)f->waits * sizeof *at);
    return typed_copy_flags(f->device, &s, at, f->sets, f->waits);
}

/* Enqueues the flags, and forgets them. The driver does what no kernel can. Returns 0, or -1 (logged). */
static int flags_flush(struct flags *f)
{
    int result = f->sets + f->waits ? launch_flags(f) : 0;
    if (result) result = operate(f);
    f->sets = f->waits = 0;
    return result;
}

void channel_moves_end(struct channel *c)
{
    typed_copy_end(&c->kept);
}

/* Moves the bytes of some jobs, the first of which is c's. Buffers between layouts, which only long irregular pairs
 * take, stay with that: its messages, captured or not, come one after the other, so that the next may use them again.
 * The host waits for none: what the stream waits for may be enqueued after this call. */
static int move(struct channel *c, const struct typed_copy_job jobs[], int n, CUstream stream)
{
    struct stream s = stream_foreign(stream);
    int launches = 0;
    struct typed_copy_batch *kept = &c->kept, batch = {.spare = kept->kept};
    int result = typed_copy_move(&batch, c->device, &s, jobs, n, &launches);
    struct pool_buffer **last = &batch.kept;
    while (*last) last = &(*last)->next;
    *last = batch.spare;
    kept->kept = batch.kept;
    return result;
}

/* Moves n jobs of a channel, and then `after` unless it is NULL, on a stream of stridec's own; then sets a flag, if
 * `flag`. The device is entered. Waits. Returns 0 or -1 (logged). */
static int move_now(struct channel *c, const struct typed_copy_job jobs[], int n, const struct typed_copy_job *after,
                    uint64_t flag)
{
    struct typed_copy_batch batch = {0};
    struct scratch scratch;
    int launches = 0;
    struct stream *s = stream_get(c->device);
    struct flags told = {.device = c->device, .scratch = &scratch, .by_driver = true, .sets = flag != 0, .set = &flag};
    if (!s) return -1;
    int result = typed_copy_move(&batch, c->device, s, jobs, n, &launches);
    if (!result && after) result = typed_copy_move(&batch, c->device, s, after, 1, &launches);
    told.stream = stream_use(s);
    scratch_begin(&scratch);
    if (flags_flush(&told)) result = -1;
    scratch_end(&scratch);
    if (stream_wait(c->device, s)) result = -1;
    typed_copy_end(&batch);
    stream_put(c->device, s);
    return result;
}

int channel_pack_first(struct channel *c)
{
    return move_now(c, &c->repack, 1, NULL, 0);
}

void channel_move_first(struct channel *c)
{
    c->moved = c->failed = true;
    if (device_enter(c->device)) return;
    c->failed = move_now(c, c->job, c->parts, c->wire ? &c->repack : NULL, c->other) != 0;
    device_leave(c->device);
}

/* Begins the flags of channels. Returns false without memory. */
static bool flags_begin(struct flags *f, struct scratch *scratch, struct channel *const channels[], int n,
                        CUstream stream)
{
    size_t bytes = (size_t)n * sizeof *f->set;
    *f = (struct flags){.stream = stream, .scratch = scratch};
    for (int i = 0; i < n; i++) {
        const struct channel *c = channels[i];
        if (c->nothing) continue;
        f->device = c->device;
        f->by_driver |= !c->peer->self && !ipc_cache_other_gpu(c->flag);
    }
    f->set = scratch_get(scratch, bytes), f->wait = scratch_get(scratch, bytes);
    f->begin = scratch_get(scratch, bytes);
    return f->set && f->wait && f->begin;
}

/* Returns true for a send whose partner reads packed bytes. */
static bool packs(const struct channel *c)
{
    return c->wire && c->call.sends;
}

static int pack_entered(struct flags *f, struct channel *const channels[], int n)
{
    int result = 0;
    for (int i = 0; i < n && !result; i++)
        if (packs(channels[i])) result = move(channels[i], &channels[i]->repack, 1, f->stream);
    return result;
}

static int start_entered(struct flags *f, struct channel *const channels[], int n)
{
    if (pack_entered(f, channels, n)) return -1;
    for (int i = 0; i < n; i++)
        if (!channels[i]->nothing && channels[i]->call.sends) f->set[f->sets++] = channels[i]->other;
    return flags_flush(f);
}

/* Returns true for a receive whose bytes are still to be moved. */
static bool moves(const struct channel *c)
{
    return !c->nothing && !c->call.sends && !c->moved;
}

/* Moves and sets flags in one kernel, which waits for the receives' flags, too, if `waits`. Returns 0; -1 (logged); or
 * 1: it can't, and has done nothing. */
static int exchange(struct flags *f, struct channel *const channels[], int n, bool waits)
{
    struct typed_copy_job jobs[GEN_EXCHANGE_LINKS];
    uint64_t ready[GEN_EXCHANGE_LINKS];
    struct typed_copy_words w = {
        .ready = waits ? ready : NULL, .begin = f->begin, .set = f->set, .end = f->wait};
    struct stream s = stream_foreign(f->stream);
    int many = 0;
    for (int i = 0; i < n; i++) {
        const struct channel *c = channels[i];
        if (moves(c) && (c->wire || many + c->parts > GEN_EXCHANGE_LINKS)) return 1;
        for (int k = 0; moves(c) && k < c->parts; k++) jobs[many] = c->job[k], ready[many++] = c->own;
        if (moves(c)) f->set[w.sets++] = c->other;
        else if (!c->nothing && c->call.sends) f->wait[w.ends++] = c->own;
        if (c->untold) f->begin[w.begins++] = c->other;
    }
    if (!many || f->by_driver) return 1;
    w.ended = ready[0] + sizeof(uint32_t);
    return typed_copy_exchange(f->device, &s, jobs, many, &w);
}

static void all_told(struct channel *const channels[], int n)
{
    for (int i = 0; i < n; i++) channels[i]->untold = false;
}

static int await_receives(struct flags *f, struct channel *const channels[], int n)
{
    for (int i = 0; i < n; i++) {
        if (channels[i]->untold) f->set[f->sets++] = channels[i]->other;
        if (moves(channels[i])) f->wait[f->waits++] = channels[i]->own;
    }
    int result = flags_flush(f);
    if (!result) all_told(channels, n);
    return result;
}

/* Moves by the kernels that suit the receives; then those unpack that came from several allocations as packed bytes. */
static int move_all(const struct flags *f, struct channel *const channels[], int n)
{
    struct typed_copy_job jobs[JOBS_MOST];
    struct channel *first = NULL;   /* the owner of the first job */
    int many = 0, result = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; moves(channels[i]) && k < channels[i]->parts && !result; k++) {
            if (!many) first = channels[i];
            jobs[many++] = channels[i]->job[k];
            if (many == JOBS_MOST) result = move(first, jobs, many, f->stream), many = 0;
        }
    }
    if (many && !result) result = move(first, jobs, many, f->stream);
    for (int i = 0; i < n && !result; i++)
        if (moves(channels[i]) && channels[i]->wire) result = move(channels[i], &channels[i]->repack, 1, f->stream);
    return result;
}

/* Moves, then sets and waits for flags. What can't be moved is lost, but the senders go on all the same. */
static int move_then_answer(struct flags *f, struct channel *const channels[], int n)
{
    int result = move_all(f, channels, n);
    for (int i = 0; i < n; i++) {
        struct channel *c = channels[i];
        if (moves(c)) f->set[f->sets++] = c->other;
        else if (!c->nothing && c->call.sends) f->wait[f->waits++] = c->own;
    }
    return flags_flush(f) ? -1 : result;
}

/* Has the stream wait for receives that an earlier wait, for others, has moved, maybe on another stream. */
static int await_moved(const struct flags *f, struct channel *const channels[], int n)
{
    for (int i = 0; i < n; i++)
        if (channels[i]->arrived && event_await(channels[i]->arrived, f->stream)) return -1;
    return 0;
}

/* Notes receives as moved, or as lost: the wait for them will say so. Returns false if one was lost before. */
static bool note_moved(const struct flags *f, struct channel *const channels[], int n, bool lost)
{
    bool good = true;
    for (int i = 0; i < n; i++) {
        struct channel *c = channels[i];
        if (!moves(c)) {
            good &= !c->failed;
            continue;
        }
        c->moved = true, c->failed = lost;
        if (c->early && !c->captured && !event_record(&c->arrived, f->stream)) c->arrived = NULL, c->failed = true;
    }
    return good;
}

/* Enqueues by the fewest kernels that can: one that waits, moves and answers, for short messages; one that waits, then
 * one that moves and answers; or one that waits, those that move, and one that answers. Where a kernel is refused the
 * others are tried, and in the end the driver answers: partners must not wait for ever. */
static int wait_entered(struct flags *f, struct channel *const channels[], int n)
{
    if (await_moved(f, channels, n)) return -1;
    int result = exchange(f, channels, n, true);
    if (result) {
        if (await_receives(f, channels, n)) return -1;
        result = exchange(f, channels, n, false);
        if (result) result = move_then_answer(f, channels, n);
    }
    if (!note_moved(f, channels, n, result != 0)) result = -1;
    if (!result) all_told(channels, n);
    return result;
}

static int enter_and(int (*enqueue)(struct flags *f, struct channel *const channels[], int n),
                     struct scratch *scratch, struct channel *const channels[], int n, CUstream stream)
{
    struct flags f;
    int result = -1;
    if (!flags_begin(&f, scratch, channels, n, stream)) log_write(LOG_ERROR, "out of memory");
    else if (!f.device) result = 0;
    else if (!device_enter(f.device)) result = enqueue(&f, channels, n), device_leave(f.device);
    return result;
}

/* Enqueues for bound channels, then for posted ones: no other rank waits for what this stream does behind its wait for
 * the thread. */
static int enqueue(int (*bound)(struct flags *f, struct channel *const channels[], int n),
                   int (*posted)(struct post *const posts[], int n, CUstream stream),
                   struct channel *const channels[], int n, CUstream stream)
{
    struct scratch scratch;
    struct device *d = NULL;
    int bounds = 0, posts = 0, result = -1;
    scratch_begin(&scratch);
    struct channel **b = scratch_get(&scratch, (size_t)n * sizeof *b);
    struct post **p = scratch_get(&scratch, (size_t)n * sizeof *p);
    for (int i = 0; b && p && i < n; i++) {
        if (channels[i]->post) p[posts++] = channels[i]->post, d = channels[i]->device;
        else b[bounds++] = channels[i];
    }
    if (b && p) result = enter_and(bound, &scratch, b, bounds, stream);
    else log_write(LOG_ERROR, "out of memory");
    if (!result && posts) result = device_enter(d);
    if (!result && posts) result = posted(p, posts, stream), device_leave(d);
    scratch_end(&scratch);
    return result;
}

int channels_start(struct channel *const channels[], int n, CUstream stream, bool captured, bool together)
{
    bool some = !together;
    for (int i = 0; i < n; i++) some |= packs(channels[i]);
    int result = some ? enqueue(together ? pack_entered : start_entered, posts_start, channels, n, stream) : 0;
    if (!result) channels_note_start(channels, n, stream, captured, together);
    return result;
}

int channels_wait(struct channel *const channels[], int n, int others, CUstream stream)
{
    for (int i = 0; i < others; i++) channels[i]->early = true;
    return enqueue(wait_entered, posts_wait, channels, n, stream);
}
