/* type_filter.h: what stubs know of datatypes of messages in host memory: calls for which there is nothing to do are
 * told by a small table, in some nanoseconds. A type is read only when it has been sent from before, so that types
 * that are made for one short message cost nothing; those of long ones known_layouts.h knows. What the table has
 * lost is found again. */
#ifndef STRIDEC_SEEN_H
#define STRIDEC_SEEN_H
#include "../../gen/hash.h"
#include "base/activity.h"
#include "byte_types.h"
#include "device/host_range.h"
#include "layout.h"

/* Bytes. Device payloads below RNDV_MIN have at most a brief descriptor (rts_short.h), of RTS_SHORT_MIN: shorter
 * receives need no look else, and are too short for the descriptor of a longer message, which has RNDV_MIN bytes. */
#define RNDV_MIN 512
#define RTS_SHORT_MIN 32
/* Bytes of the descriptor of a payload in host memory: few other messages are as long, and MPIs still send so many
 * at once. Most of them are the payload's first, where that is packed (shm_pool.h). */
#define SHM_SEND_MIN 3968
/* Payloads that are offered have more: what MPIs send at once is sooner there packed (4080 bytes of 40 B runs 0.6
 * us, not 0.8). */
#define SHM_SEND_LEAST 4097   /* more than HEAD_BYTES */

enum filter_way { FILTER_SEND, FILTER_RECEIVE, FILTER_WAYS };
/* Of a collective's buffer: what is sent; what comes in one message, and in one or more. */
enum filter_part { FILTER_OUT, FILTER_ONE, FILTER_MANY, FILTER_PARTS = PARTS_ARE_WHOLE ? 3 : 1 };
struct filter_entry {   /* one line of the cache */
    _Alignas(64) _Atomic(MPI_Datatype) type;
    atomic_ushort uses;         /* messages of enough elements, before the type is read; brief ones count less */
    atomic_bool known;          /* it has been read, and `least` is of what is known of it */
    atomic_bool packed;         /* receives of it are packed ones (host_select.h) */
    _Atomic int64_t least[FILTER_WAYS];   /* fewer elements have nothing to gain, or to bring, but in brief messages: */
    _Atomic int64_t brief, past;        /* these have so many and more, but fewer than those */
    _Atomic int64_t collects[FILTER_PARTS]; /* fewer have nothing to gain as one count of a collective (args_host.c), */
    /* and of what comes no part may end within an element (byte_types.h) */
};
_Static_assert(sizeof(struct filter_entry) == 64, "one line");
#define FILTER_BITS 8
#pragma GCC visibility push(hidden)
extern struct filter_entry filter_types[1 << FILTER_BITS];
extern _Atomic int64_t filter_least;   /* packed bytes of a message that stridec may send; INT64_MAX: none */
extern _Atomic int64_t filter_collected; /* packed bytes of one count of a collective that stridec may pack; the same */
#pragma GCC visibility pop

HOST_INLINE struct filter_entry *filter_of(MPI_Datatype t)
{
    return &filter_types[hash_place(host_type_bits(t), FILTER_BITS)];
}
/* The slot is the type's. Who reads its numbers asks before, and after they were read by `filter_number`: another
 * thread may have given the slot to another type meanwhile. */
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
/* Of calls in a process without a driver: true where the call goes straight down. */
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
    return filter_receive_is_below(atomic_load_explicit(&rts_look, memory_order_relaxed), t, count);
}
/* False of messages of which no brief one comes. */
HOST_INLINE bool filter_may_be_brief(MPI_Datatype t, int64_t count)
{
    const struct filter_entry *s = filter_of(t);
    return filter_is(s, t) && t != MPI_DATATYPE_NULL && count >= filter_number(&s->brief) &&
           count < filter_number(&s->past);
}
/* True of messages that are too short to be offered, of types that the table holds. */
HOST_INLINE bool filter_short(MPI_Datatype t, int64_t count)
{
    const struct filter_entry *s = filter_of(t);
    return atomic_load_explicit(&s->type, memory_order_relaxed) == t && t != MPI_DATATYPE_NULL
           && count < atomic_load_explicit(&s->past, memory_order_relaxed);
}
/* No buffers of collectives are packed. */
HOST_INLINE bool filter_collectives_are_ignored(void)
{
    return atomic_load_explicit(&filter_collected, memory_order_relaxed) == INT64_MAX;
}
/* Nor are types of what comes looked at. */
HOST_INLINE bool filter_all_is_ignored(void)
{
    return PARTS_ARE_WHOLE ? !rts_armed() : filter_collectives_are_ignored();
}
/* Of a buffer of a collective. */
HOST_INLINE bool filter_collective_ignores(enum filter_part part, MPI_Datatype t, MPI_Count count)
{
    bool sure = PARTS_ARE_WHOLE && part != FILTER_OUT;
    if (host_type_plain(t) || (sure ? filter_all_is_ignored() : filter_collectives_are_ignored())) return true;
    if (t == MPI_DATATYPE_NULL) return true;   /* not significant here, or the MPI's to refuse */
    const struct filter_entry *s = filter_of(t);
    if (sure) return filter_is(s, t) && (int64_t)count < filter_number(&s->collects[part]) && filter_is(s, t);
    return atomic_load_explicit(&s->type, memory_order_relaxed) == t &&
           (int64_t)count < atomic_load_explicit(&s->collects[FILTER_OUT], memory_order_relaxed);
}
/* One with a count for each rank is looked at behind the stub: this stands for the counts. So is one with a type for
 * each. */
#define FILTER_COUNTS (INT64_MAX - 1)
/* What is behind it, in a process without a driver: the ranks that such a call has counts for, -1 where that is not
 * told here; whether this rank is the root; and the same for `ranks` counts, of one type or of `types`. */
int filter_ranks(MPI_Comm comm);
bool filter_at_root(int root, MPI_Comm comm);
bool filter_list_ignores(enum filter_part part, int ranks, const int counts[], MPI_Datatype type,
                         const MPI_Datatype types[]);
/* True of handles that the table holds. */
HOST_INLINE bool filter_knows(const MPI_Datatype *handle)
{
    bool armed = rts_armed() || !filter_collectives_are_ignored();
    return handle && armed && atomic_load_explicit(&filter_of(*handle)->type, memory_order_relaxed) == *handle;
}
/* The handle is about to be freed. */
void filter_forget(MPI_Datatype t);
/* The layout of a type from which such a message may be sent by stridec: not contiguous, of enough bytes, that can be
 * read; else NULL. */
struct layout *filter_sends(MPI_Datatype t, int64_t count);
/* False of types that have not been used often enough: the next message is the MPI's. */
bool filter_again(MPI_Datatype t);
/* From here on they have. */
void filter_learn(MPI_Datatype t);
/* That of a type of which so few elements are sent or received that only packing could save something; else NULL. */
struct layout *filter_brief(MPI_Datatype t, int64_t count);
/* It saves nothing for fewer elements than these. */
void filter_settle(MPI_Datatype t, int64_t elements);
/* The layout of a type of which so many elements are to be received packed (host_select.h); else NULL. */
struct layout *filter_packed(MPI_Datatype t, int64_t count);
/* False of collectives' buffers that hold too little to be packed; the type is not read. */
bool filter_gains(MPI_Datatype t, int64_t count);
/* True of plain types, and of those that have been used before; so many elements of it are moved. */
bool filter_collects(MPI_Datatype t, int64_t count);
/* True of so many elements that come by a collective in one part, or of a type of which no part ends within an
 * element: that is read for this, of few elements at its later uses. */
bool filter_whole(MPI_Datatype t, int64_t count);
/* True of types that have been read, receives of which are the MPI's. */
bool filter_direct(MPI_Datatype t);
/* False of receives that are too short to bring a descriptor; the type is not read. */
bool filter_receives(MPI_Datatype t, int64_t count);
/* Returns how many types were used, but not often enough to be read; 0 without statistics. May miss some. */
long filter_unread(void);
/* What stridec does with data of a layout in host memory. */
struct filter_rules {
    int64_t sends;   /* messages of so many packed bytes are sent by stridec; INT64_MAX: none */
    bool briefs;     /* brief messages may be packed */
    bool collects;   /* buffers of collectives may be packed */
    bool packed;     /* receives are packed ones */
};
/* Sets filter_least, filter_collected, and who tells the rules. At MPI_Init, and at MPI_Finalize with INT64_MAX. */
void filter_start(int64_t least, int64_t collected, struct filter_rules (*rules)(const struct layout *));

#endif
