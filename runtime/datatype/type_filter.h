/* type_filter.h: what is known of a datatype by its handle: stubs leave calls in host memory to the MPI in a few ns.
 *
 * An entry holds counts: fewer elements are the MPI's. They follow from the type's size, and from its layout once that
 * has been read (`known` for messages, `layout` for MPI_Pack). A read takes a microsecond and more, so types made for
 * one short message are not read. Messages and MPI_Pack count uses apart: they pay for a read after different numbers.
 * Who asks for what:
 *   stubs of messages                  filter_send_ignores, filter_receive_ignores
 *   stubs of collectives               filter_collective_ignores, filter_list_ignores
 *   stubs of MPI_Pack and MPI_Unpack   filter_pack_judge; with a driver filter_pack_on_host first
 *   stub of MPI_Type_free              filter_holds; then call_Type_free, and layout.c: filter_forget
 *   messages (host_select.c)           filter_sends, filter_packs_short, filter_packed, which count uses
 *   collectives (args_host.c, args.c)  filter_gains, filter_collects, filter_whole
 *   MPI_Pack (pack_call.c)             filter_pack_layout; with a driver filter_pack_admits
 *
 * A handle's set has two entries; a new type evicts the older. What is lost is rebuilt.
 * Entries are read without a lock. Readers compare the type before and after the counts: a writer stores 0 first, and
 * the type last. filter_pack_judge compares the version too, since a layout must never be another type's.
 *
 * Apart stay plain types (device/host_range.h: one load, and nothing evicts them), and layouts that return under new
 * handles (known_layouts.h: there is no handle to look for). */
#ifndef STRIDEC_TYPE_FILTER_H
#define STRIDEC_TYPE_FILTER_H
#include "../../gen/hash.h"
#include "base/activity.h"
#include "byte_types.h"
#include "device/host_range.h"
#include "known_layouts.h"
#include "layout.h"

/* Bytes. Device payloads below RNDV_MIN have at most a short RTS header (rts_short.h) of RTS_SHORT_MIN. Shorter
 * receives need no other check. They can't hold a full RTS header either, which has RNDV_MIN bytes. */
#define RNDV_MIN 512
#define RTS_SHORT_MIN 32
/* Bytes of the RTS header of a payload in host memory. Few other messages have this length, and MPIs still send it
 * eagerly. Most of it is the start of the payload if that is packed (shm_pool.h). */
#define SHM_SEND_MIN 3968
/* Least bytes of a host rendezvous: eager is faster below (4080 bytes of 40 B runs 0.6 us, not 0.8). */
#define SHM_SEND_LEAST 4097

/* The counts of an entry: fewer elements gain or bring nothing. */
enum filter_ask {
    FILTER_SEND,      /* messages sent and received, */
    FILTER_RECEIVE,
    FILTER_SHORT,     /* except short messages, which have at least FILTER_SHORT and fewer than FILTER_PAST elements */
    FILTER_PAST,
    /* One count of a collective (args_host.c): data sent; received in one message; received in one or more. No part of
     * received data may end within an element (byte_types.h). */
    FILTER_OUT,
    FILTER_ONE = FILTER_OUT + PARTS_ARE_WHOLE,
    FILTER_MANY = FILTER_ONE + PARTS_ARE_WHOLE,
    FILTER_PACK,      /* MPI_Pack and MPI_Unpack: FILTER_PACK + kernel_direction */
    FILTER_UNPACK,
    FILTER_ASKS
};
struct filter_entry {
    _Alignas(64) _Atomic(MPI_Datatype) type;   /* 0: free */
    atomic_ushort uses;         /* long-enough messages before the type is read; short ones count less */
    atomic_bool known;          /* messages have read the type */
    atomic_bool packed;         /* receives go through a packed buffer (host_select.h) */
    _Atomic int64_t least[FILTER_ASKS];   /* those of messages and collectives in the first cache line */
    atomic_uint version;        /* odd while an update runs; the older entry has the lower one */
    _Atomic uint32_t worth;     /* worth of MPI_Pack calls with enough elements until the type is read */
    _Atomic(struct layout *) layout;   /* NULL: not read for MPI_Pack yet */
    _Atomic int64_t size;       /* packed bytes of an element */
    _Atomic int64_t low, span;  /* an element's lowest byte; bytes from there to its end */
    _Atomic int64_t extent;     /* bytes between elements */
};
_Static_assert(sizeof(struct filter_entry) == 128, "two lines");
#define FILTER_BITS 8
#pragma GCC visibility push(hidden)
extern struct filter_entry filter_types[1 << FILTER_BITS][2];
extern _Atomic(MPI_Datatype) filter_recent[1 << FILTER_BITS][2];   /* handles that MPI_Pack has seen once */
extern atomic_bool filter_on;          /* between filter_start and filter_finish */
extern _Atomic int64_t filter_least;   /* packed bytes of the least message that stridec may send; INT64_MAX: none */
extern _Atomic int64_t filter_coll_least;   /* such bytes of one count of a collective */
extern _Atomic int64_t filter_pack_least;   /* such bytes of a call of MPI_Pack or MPI_Unpack */
extern _Atomic uint64_t filter_pack_needed;   /* worth of calls after which MPI_Pack reads a type */
#pragma GCC visibility pop

HOST_INLINE size_t filter_place(MPI_Datatype t)
{
    return hash_place(host_type_bits(t), FILTER_BITS);
}
HOST_INLINE int64_t filter_number(const _Atomic int64_t *number)
{
    return atomic_load_explicit(number, memory_order_acquire);
}
/* Returns true if the entry is t's. Check before and after filter_number: another thread may change the entry. */
HOST_INLINE bool filter_is(const struct filter_entry *e, MPI_Datatype t)
{
    return atomic_load_explicit(&e->type, memory_order_acquire) == t;
}
/* Returns t's entry; NULL without. */
HOST_INLINE struct filter_entry *filter_lookup(MPI_Datatype t)
{
    struct filter_entry *e = filter_types[filter_place(t)];
    if (filter_is(e, t)) return e;
    return filter_is(e + 1, t) ? e + 1 : NULL;
}
HOST_INLINE bool filter_ignores(enum filter_ask way, MPI_Datatype t, int64_t count)
{
    const struct filter_entry *e = filter_lookup(t);
    return e && count < filter_number(&e->least[way]) &&
           (count < filter_number(&e->least[FILTER_SHORT]) || count >= filter_number(&e->least[FILTER_PAST])) &&
           filter_is(e, t);
}
/* Returns true if a send of a process without a driver passes to the MPI. */
HOST_INLINE bool filter_send_ignores(MPI_Datatype t, MPI_Count count)
{
    if (host_type_plain(t) || atomic_load_explicit(&filter_least, memory_order_relaxed) == INT64_MAX) return true;
    return filter_ignores(FILTER_SEND, t, (int64_t)count);
}
HOST_INLINE bool filter_receive_is_below(int64_t least, MPI_Datatype t, MPI_Count count)
{
    int64_t size = host_type_size(t);
    if (size) return (int64_t)count * size < least;
    return least == INT64_MAX || (least && filter_ignores(FILTER_RECEIVE, t, (int64_t)count));
}
HOST_INLINE bool filter_receive_ignores(MPI_Datatype t, MPI_Count count)
{
    return filter_receive_is_below(atomic_load_explicit(&rts_check_least, memory_order_relaxed), t, count);
}
/* Returns true if a message is too short for rendezvous and the table holds its type. */
HOST_INLINE bool filter_short(MPI_Datatype t, int64_t count)
{
    const struct filter_entry *e = filter_lookup(t);
    return e && count < filter_number(&e->least[FILTER_PAST]);
}
/* Returns true if the message may be sent as a short one. */
HOST_INLINE bool filter_may_be_short(MPI_Datatype t, int64_t count)
{
    const struct filter_entry *e = filter_lookup(t);
    return e && count >= filter_number(&e->least[FILTER_SHORT]) && count < filter_number(&e->least[FILTER_PAST]);
}
/* Returns true if no buffers of collectives are packed. */
HOST_INLINE bool filter_collectives_are_ignored(void)
{
    return atomic_load_explicit(&filter_coll_least, memory_order_relaxed) == INT64_MAX;
}
/* Returns true if the types of received data need no check either. */
HOST_INLINE bool filter_all_is_ignored(void)
{
    return PARTS_ARE_WHOLE ? !rts_armed() : filter_collectives_are_ignored();
}
/* Returns true if a buffer of a collective is the MPI's. `part`: FILTER_OUT, FILTER_ONE or FILTER_MANY. */
HOST_INLINE bool filter_collective_ignores(enum filter_ask part, MPI_Datatype t, MPI_Count count)
{
    const bool sure = part != FILTER_OUT;
    if (host_type_plain(t) || (sure ? filter_all_is_ignored() : filter_collectives_are_ignored())) return true;
    if (t == MPI_DATATYPE_NULL) return true;   /* not significant here, or the MPI refuses it */
    const struct filter_entry *e = filter_lookup(t);
    return e && (int64_t)count < filter_number(&e->least[part]) && (!sure || filter_is(e, t));
}
/* Stands for the counts of a call with a count or type for each rank: see filter_list_ignores. */
#define FILTER_COUNTS (INT64_MAX - 1)
/* Return, in a process without a driver: the number of ranks that such a call has counts for (-1 if unknown); whether
 * this rank is the root; whether all `ranks` counts, of one type or of `types`, are the MPI's. */
int filter_ranks(MPI_Comm comm);
bool filter_at_root(int root, MPI_Comm comm);
bool filter_list_ignores(enum filter_ask part, int ranks, const int counts[], MPI_Datatype type,
                         const MPI_Datatype types[]);

/* Returns what a call of MPI_Pack adds to `worth`. Calls of FILTER_WORTH bytes and more add the same. Smaller calls add
 * a sixteenth of their bytes: each gains little, and reading and compiling cost the same. */
#define FILTER_WORTH 4096
HOST_INLINE uint64_t filter_worth(uint64_t bytes)
{
    return bytes >= FILTER_WORTH ? FILTER_WORTH : bytes / 16 + 1;
}
/* Adds a call's worth to the entry; concurrent calls may get lost. Returns true once the sum suffices. */
HOST_INLINE bool filter_pack_due(struct filter_entry *e, uint64_t bytes)
{
    uint64_t worth = atomic_load_explicit(&e->worth, memory_order_relaxed) + filter_worth(bytes);
    atomic_store_explicit(&e->worth, (uint32_t)worth, memory_order_relaxed);
    return worth >= atomic_load_explicit(&filter_pack_needed, memory_order_relaxed);
}
/* Returns true if the typed buffer of count > 0 elements and the packed buffer surely lie in host memory. Needed only
 * in a process with a driver. Checks the first byte, and the last one of a long buffer, as locate does. Returns false
 * for types that are not in the table. */
#define FILTER_NEAR 4096   /* bytes assumed to lie in one memory */
HOST_INLINE bool filter_pack_on_host(MPI_Datatype t, const void *user, int64_t count, const void *packed)
{
    const struct filter_entry *e = filter_lookup(t);
    if (!e) return false;
    unsigned version = atomic_load_explicit(&e->version, memory_order_acquire);
    uint64_t low = (uint64_t)atomic_load_explicit(&e->low, memory_order_relaxed);
    uint64_t span = (uint64_t)atomic_load_explicit(&e->span, memory_order_relaxed);
    const char *first = (const char *)((uintptr_t)user + low);
    if (count != 1) span += (uint64_t)(count - 1) * (uint64_t)atomic_load_explicit(&e->extent, memory_order_relaxed);
    bool same = filter_is(e, t);
    atomic_thread_fence(memory_order_acquire);
    if (!same || version & 1 || version != atomic_load_explicit(&e->version, memory_order_relaxed)) return false;
    return user != MPI_BOTTOM && count > 0 && host_range_has(packed) && host_range_has(first) &&
           (span < FILTER_NEAR || host_range_has(first + span - 1));
}
/* Returns true for a new handle, unless every call is stridec's: types made for one call take no entry. The call moves
 * packed_size at most; from KNOWN_LAYOUTS_LEAST on returns false, since known_layouts.h may know the layout. */
HOST_INLINE bool filter_pack_is_new(MPI_Datatype t, int64_t packed_size)
{
    _Atomic(MPI_Datatype) *recent = filter_recent[filter_place(t)];
    MPI_Datatype last = atomic_load_explicit(recent, memory_order_relaxed);
    if (last == t || atomic_load_explicit(recent + 1, memory_order_relaxed) == t ||
        !atomic_load_explicit(&filter_pack_needed, memory_order_relaxed))
        return false;
    atomic_store_explicit(recent + 1, last, memory_order_relaxed);
    atomic_store_explicit(recent, t, memory_order_relaxed);
    return packed_size < KNOWN_LAYOUTS_LEAST;
}
/* The verdict on a call whose buffers lie in host memory: pass to the MPI, serve by known code, or check further. */
enum filter_verdict { FILTER_PASS, FILTER_SERVE, FILTER_CHECK };
/* Judges a call. packed_size is the size of the packed buffer. Sets *known to the layout for FILTER_SERVE. An entry
 * that changes its type meanwhile can only pass the call to the MPI. */
HOST_INLINE enum filter_verdict filter_pack_judge(enum kernel_direction d, MPI_Datatype t, int64_t count,
                                                  int64_t packed_size, struct layout **known)
{
    if (packed_size < atomic_load_explicit(&filter_pack_least, memory_order_relaxed)) return FILTER_PASS;
    struct filter_entry *e = filter_lookup(t);
    if (!e) return filter_pack_is_new(t, packed_size) ? FILTER_PASS : FILTER_CHECK;
    unsigned version = atomic_load_explicit(&e->version, memory_order_acquire);
    if (count < atomic_load_explicit(&e->least[FILTER_PACK + d], memory_order_relaxed)) return FILTER_PASS;
    struct layout *l = *known = atomic_load_explicit(&e->layout, memory_order_acquire);
    if (!l) {
        uint64_t bytes = (uint64_t)count * (uint64_t)atomic_load_explicit(&e->size, memory_order_relaxed);
        bool first = bytes >= KNOWN_LAYOUTS_LEAST && !atomic_load_explicit(&e->worth, memory_order_relaxed);
        return filter_pack_due(e, bytes) || first ? FILTER_CHECK : FILTER_PASS;
    }
    if (version & 1 || !filter_is(e, t) || version != atomic_load_explicit(&e->version, memory_order_relaxed))
        return FILTER_CHECK;
    uint64_t wins = atomic_load_explicit(&l->quick.wins[d], memory_order_acquire);
    if (!wins || count <= 0 || count >= l->quick.most) return FILTER_CHECK;
    return wins >> host_pack_size_log(count * l->size) & 1 ? FILTER_SERVE : FILTER_CHECK;
}

HOST_INLINE void filter_recent_forget(MPI_Datatype t)
{
    _Atomic(MPI_Datatype) *recent = filter_recent[filter_place(t)];
    for (int i = 0; i < 2; i++)
        if (atomic_load_explicit(recent + i, memory_order_relaxed) == t)
            atomic_store_explicit(recent + i, (MPI_Datatype)0, memory_order_relaxed);
}
/* Returns true if the table holds a handle that is about to be freed; else nothing more is known of it. Reads no handle
 * under another MPI than the library's own. */
HOST_INLINE bool filter_holds(const MPI_Datatype *handle)
{
    if (!handle || !atomic_load_explicit(&filter_on, memory_order_relaxed)) return false;
    const MPI_Datatype t = *handle;
    filter_recent_forget(t);
    return filter_lookup(t) != NULL;
}
/* Forgets a handle that is about to be freed. */
void filter_forget(MPI_Datatype t);
/* Passes calls of t with fewer than `least` elements to the MPI from now on. */
void filter_raise(MPI_Datatype t, enum filter_ask ask, int64_t least);
/* Treats the type, whose layout has been read, as used often: it will be. */
void filter_learn(MPI_Datatype t);

/* Returns the layout if stridec may send the message: readable, not contiguous, enough bytes; else NULL. */
struct layout *filter_sends(MPI_Datatype t, int64_t count);
/* Returns the layout if the message is so short that only packing could gain; else NULL. */
struct layout *filter_packs_short(MPI_Datatype t, int64_t count);
/* Returns the layout if these elements are received through a packed buffer (host_select.h); else NULL. */
struct layout *filter_packed(MPI_Datatype t, int64_t count);
/* Returns true if the type has been used often enough for stridec to send its next message. */
bool filter_used(MPI_Datatype t);
/* Returns true if the type has been read and its receives are the MPI's. */
bool filter_direct(MPI_Datatype t);
/* Returns true if a receive is long enough for an RTS header; does not read the type. */
bool filter_receives(MPI_Datatype t, int64_t count);
/* Returns true if a collective's buffer is long enough to be packed; does not read the type. */
bool filter_gains(MPI_Datatype t, int64_t count);
/* Returns true if the type is plain or has been used before; counts this use of `count` elements. */
bool filter_collects(MPI_Datatype t, int64_t count);
/* Returns true if a collective delivers the elements in one part, or no part ends within an element. Reads the type for
 * that: at once if the elements are many, else after several uses. */
bool filter_whole(MPI_Datatype t, int64_t count);

/* Returns the type's layout if the calls of MPI_Pack so far justify reading it; else NULL. For a process without a
 * driver. */
struct layout *filter_pack_layout(enum kernel_direction d, MPI_Datatype t, int64_t count);
/* Returns true if stridec serves a call of `bytes` packed bytes between buffers found in host memory; false: the MPI
 * serves. Adds t to the table for filter_pack_on_host. For a process with a driver. */
bool filter_pack_admits(MPI_Datatype t, struct layout *l, int64_t bytes);
/* Notes the end of a layout that filter_pack_layout read. */
void filter_pack_layout_ends(const struct layout *l);

/* Rules for data of a layout in host memory. */
struct filter_rules {
    int64_t sends;   /* stridec sends messages of at least these packed bytes; INT64_MAX: none */
    bool short_msgs;     /* short messages may be packed */
    bool collects;   /* buffers of collectives may be packed */
    bool packed;     /* receives go through a packed buffer */
};
/* Sets filter_least, filter_coll_least and the rules, and filter_pack_least after table_start. At MPI_Init. */
void filter_start(int64_t least, int64_t collected, struct filter_rules (*rules)(const struct layout *));
/* Forgets all types and passes every call to the MPI. At MPI_Finalize. */
void filter_finish(void);
/* Returns about how many types were used too seldom to be read, after filter_finish; 0 without statistics. */
long filter_unread(void);

#endif
