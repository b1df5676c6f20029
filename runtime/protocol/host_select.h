/* host_select.h: messages between buffers in host memory, of derived types: offered (shm_send.h), or packed by
 * stridec's own code where that beats the MPI's engine. */
#ifndef STRIDEC_HOST_MESSAGE_H
#define STRIDEC_HOST_MESSAGE_H
#include "datatype/type_filter.h"
#include "hostpack/host_pack.h"
#include "pack/typed_buffer.h"
#include "rndv_send.h"

/* Of a buffer that typed_buffer_claim has left: its layout where stridec may send it; else NULL. */
struct layout *host_sends(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm);
/* Counts, for the statistics, a message with a layout that the MPI sends all the same. */
struct message;
void host_left(const struct message *m);
/* Returns what stridec does with data of l in host memory, for filter_start. */
struct filter_rules host_rules(const struct layout *l);
/* True of layouts whose packed bytes may meet any other rank's typed ones, and of those that collectives pack. */
bool host_meets(const struct layout *l);
bool host_collects(const struct layout *l);
/* The packed bytes from which on collectives pack them, of one count; INT64_MAX: never. */
int64_t host_collects_least(void);
/* True of operands of so many. */
bool host_collects_bytes(int64_t bytes);
/* True of layouts that are sent packed where they are not offered. */
bool host_packs_short(const struct layout *l);
/* A parcel with memory for its packed bytes, not filled; NULL without. */
struct typed_buffer *host_block(struct layout *l, const void *buf, int64_t count);
/* Packed, to be sent as plain bytes, or NULL. */
struct typed_buffer *host_packs(struct layout *l, const void *buf, int64_t count);
/* The same of what host_sends has left, of fewer bytes. */
struct typed_buffer *host_packs_brief(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm);
/* The same where all is known: the layout of a message that host_pack_run may pack into so many *bytes, HOST_BRIEF_MOST
 * at most; NULL where more questions are to be asked. Where nobody is at the other end the buffer may be no memory
 * at all; where there is none, the MPI says so. */
#define HOST_BRIEF_MOST (SHM_SEND_LEAST - 1)
static inline struct layout *host_brief(const void *buf, int64_t count, MPI_Datatype t, int peer, int64_t *bytes)
{
    bool may = buf && peer != MPI_PROC_NULL && filter_may_be_short(t, count) && driver_absent();
    struct layout *l = may ? layout_of(t) : NULL;
    *bytes = l ? host_pack_fast_bytes(l, count) : 0;
    return *bytes && *bytes <= HOST_BRIEF_MOST ? l : NULL;
}
/* The same of one that is to be received packed though none is sent so: it is too short for a payload that is
 * offered, and long enough for a descriptor, which brings an error then. */
struct layout *host_awaits_short(int64_t count, MPI_Datatype datatype, MPI_Comm comm, int64_t *bytes);
/* What it has brought, or taken away. */
void host_brief_leaves(const struct layout *l, const void *buf, int64_t count, void *packed, int64_t bytes);
void host_brief_arrived(struct layout *l, void *buf, int64_t count, const void *packed, int64_t bytes);
/* For what is to be received: a parcel whose bytes arrive packed and are unpacked by host_arrived, or NULL. */
struct typed_buffer *host_awaits(const void *buf, int64_t count, MPI_Datatype datatype, int source, MPI_Comm comm);
/* After such a receive of so many bytes. */
void host_arrived(struct typed_buffer *p, int64_t bytes);

/* Data in host memory was packed for the MPI to send, or unpacked that it had received; how often so far (for
 * tests). */
void host_note_packed(void);
long stridec_host_packed(void);

#endif
