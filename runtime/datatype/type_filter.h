/* type_filter.h: a small table of datatypes in host memory by which stubs pass calls to the MPI in a few nanoseconds. A
 * type is read only after several messages, so types made for one short message cost nothing. For long messages
 * known_layouts.h recognizes the layout. Entries may be lost: they are rebuilt. */
#ifndef STRIDEC_TYPE_FILTER_H
#define STRIDEC_TYPE_FILTER_H
#include "../../gen/hash.h"
#include "base/activity.h"
#include "byte_types.h"
#include "device/host_range.h"
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

enum filter_way { FILTER_SEND, FILTER_RECEIVE, FILTER_WAYS };
/* Parts of a collective: data sent; data received in one message; data received in one or more. */
enum filter_part { FILTER_OUT, FILTER_ONE, FILTER_MANY, FILTER_PARTS = PARTS_ARE_WHOLE ? 3 : 1 };
struct filter_entry {   /* one cache line */
    _Alignas(64) _Atomic(MPI_Datatype) type;
    atomic_ushort uses;         /* long-enough messages before the type is read; short ones count less */
    atomic_bool known;          /* the type has been read; `least` holds its rules */
    atomic_bool packed;         /* receives go through a packed buffer (host_select.h) */
    _Atomic int64_t least[FILTER_WAYS];   /* fewer elements gain or bring nothing, except short messages: */
    _Atomic int64_t brief, past;        /* short messages have at least `brief` and fewer than `past` elements */
    _Atomic int64_t collects[FILTER_PARTS]; /* least elements as one count of a collective (args_host.c); */
    /* no part of received data may end within an element (byte_types.h) */
};
_Static_assert(sizeof(struct filter_entry) == 64, "one line");
#define FILTER_BITS 8
#pragma GCC visibility push(hidden)
extern struct filter_entry filter_types[1 << FILTER_BITS];
extern _Atomic int64_t filter_least;   /* packed bytes of the least message that stridec may send; INT64_MAX: none */
extern _Atomic int64_t filter_coll_least; /* such bytes of one count of a collective */
#pragma GCC visibility pop

HOST_INLINE struct filter_entry *filter_of(MPI_Datatype t)
{
    return &filter_types[hash_place(host_type_bits(t), FILTER_BITS)];
}
/* Returns true if the slot is t's. Check before and after filter_number: another thread may change the slot. */
HOST_INLINE bool filter_is(const struct filter_entry *s, MPI_Datatype t)
{
    return atomic_load_explicit(&s->type, memory_order_acquire) == t;
}
HOST_INLINE int64_t filter_number(const _Atomic int64_t *number)
{
    return atomic_load_explicit(number, memory_order_acquire);
}
HOST_INLINE bool filter_ignores(enum filter_way way, MPI_Datatype t, int64_t count)
{
    const struct filter_entry *s = filter_of(t);
    return filter_is(s, t) && count < filter_number(&s->least[way]) &&
           (count < filter_number(&s->brief) || count >= filter_number(&s->past)) && filter_is(s, t);
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
/* Returns true if the message may be sent as a short one. */
HOST_INLINE bool filter_may_be_short(MPI_Datatype t, int64_t count)
{
    const struct filter_entry *s = filter_of(t);
    return filter_is(s, t) && t != MPI_DATATYPE_NULL && count >= filter_number(&s->brief) &&
           count < filter_number(&s->past);
}
/* Returns true if a message is too short for rendezvous and the table holds its type. */
HOST_INLINE bool filter_short(MPI_Datatype t, int64_t count)
{
    const struct filter_entry *s = filter_of(t);
    return atomic_load_explicit(&s->type, memory_order_relaxed) == t && t != MPI_DATATYPE_NULL
           && count < atomic_load_explicit(&s->past, memory_order_relaxed);
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
/* Returns true if a buffer of a collective is the MPI's. */
HOST_INLINE bool filter_collective_ignores(enum filter_part part, MPI_Datatype t, MPI_Count count)
{
    bool sure = PARTS_ARE_WHOLE && part != FILTER_OUT;
    if (host_type_plain(t) || (sure ? filter_all_is_ignored() : filter_collectives_are_ignored())) return true;
    if (t == MPI_DATATYPE_NULL) return true;   /* not significant here, or the MPI refuses it */
    const struct filter_entry *s = filter_of(t);
    if (sure) return filter_is(s, t) && (int64_t)count < filter_number(&s->collects[part]) && filter_is(s, t);
    return atomic_load_explicit(&s->type, memory_order_relaxed) == t &&
           (int64_t)count < atomic_load_explicit(&s->collects[FILTER_OUT], memory_order_relaxed);
}
/* Stands for the counts of a call with a count or type for each rank: see filter_list_ignores. */
#define FILTER_COUNTS (INT64_MAX - 1)
/* Return, in a process without a driver: the number of ranks that such a call has counts for (-1 if unknown); whether
 * this rank is the root; whether all `ranks` counts, of one type or of `types`, are the MPI's. */
int filter_ranks(MPI_Comm comm);
bool filter_at_root(int root, MPI_Comm comm);
bool filter_list_ignores(enum filter_part part, int ranks, const int counts[], MPI_Datatype type,
                         const MPI_Datatype types[]);
/* Returns true if the table holds the handle. */
HOST_INLINE bool filter_holds(const MPI_Datatype *handle)
{
    bool armed = rts_armed() || !filter_collectives_are_ignored();
    return handle && armed && atomic_load_explicit(&filter_of(*handle)->type, memory_order_relaxed) == *handle;
}
/* Forgets a handle that is about to be freed. */
void filter_forget(MPI_Datatype t);
/* Returns the layout if stridec may send the message: readable, not contiguous, enough bytes; else NULL. */
struct layout *filter_sends(MPI_Datatype t, int64_t count);
/* Returns true if the type has been used often enough for stridec to send its next message. */
bool filter_used(MPI_Datatype t);
/* Treats the type as used often from now on. */
void filter_learn(MPI_Datatype t);
/* Returns the layout if the message is so short that only packing could gain; else NULL. */
struct layout *filter_packs_short(MPI_Datatype t, int64_t count);
/* Notes that packing gains nothing for fewer elements. */
void filter_raise_short(MPI_Datatype t, int64_t elements);
/* Returns the layout if these elements are received through a packed buffer (host_select.h); else NULL. */
struct layout *filter_packed(MPI_Datatype t, int64_t count);
/* Returns true if a collective's buffer is long enough to be packed; does not read the type. */
bool filter_gains(MPI_Datatype t, int64_t count);
/* Returns true if the type is plain or has been used before; counts this use of `count` elements. */
bool filter_collects(MPI_Datatype t, int64_t count);
/* Returns true if a collective delivers the elements in one part, or no part ends within an element. Reads the type for
 * that: at once if the elements are many, else after several uses. */
bool filter_whole(MPI_Datatype t, int64_t count);
/* Returns true if the type has been read and its receives are the MPI's. */
bool filter_direct(MPI_Datatype t);
/* Returns true if a receive is long enough for an RTS header; does not read the type. */
bool filter_receives(MPI_Datatype t, int64_t count);
/* Returns about how many types were used too seldom to be read; 0 without statistics. */
long filter_unread(void);
/* Rules for data of a layout in host memory. */
struct filter_rules {
    int64_t sends;   /* stridec sends messages of at least these packed bytes; INT64_MAX: none */
    bool short_msgs;     /* short messages may be packed */
    bool collects;   /* buffers of collectives may be packed */
    bool packed;     /* receives go through a packed buffer */
};
/* Sets filter_least, filter_coll_least and the rules. At MPI_Init, and at MPI_Finalize with INT64_MAX. */
void filter_start(int64_t least, int64_t collected, struct filter_rules (*rules)(const struct layout *));

#endif
