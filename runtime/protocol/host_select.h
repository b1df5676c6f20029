/* host_select.h: derived types in host memory: sent by rendezvous (shm_send.h), or packed if the MPI is slower. */
#ifndef STRIDEC_HOST_SELECT_H
#define STRIDEC_HOST_SELECT_H
#include "datatype/type_filter.h"
#include "hostpack/host_pack.h"
#include "pack/typed_buffer.h"
#include "rndv_send.h"

/* Returns the layout of a buffer that typed_buffer_claim did not claim; NULL if stridec may not send it. */
struct layout *host_sends(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm);
/* Counts, for the statistics, a message with a layout that passes to the MPI. */
struct message;
void host_count_passed(const struct message *m);
/* Returns the rules of l in host memory, for filter_start. */
struct filter_rules host_rules(const struct layout *l);
/* Return true if packed bytes of l may match any type of another rank; and if collectives pack l. */
bool host_matches_types(const struct layout *l);
bool host_collects(const struct layout *l);
/* Returns the least packed size, in bytes, at which collectives with one count pack host memory; INT64_MAX if never. */
int64_t host_collects_least(void);
/* Returns true if collectives pack an argument of so many bytes. */
bool host_collects_bytes(int64_t bytes);
/* Returns true if l is sent packed where it does not go by rendezvous. */
bool host_packs_short(const struct layout *l);
/* Returns a typed buffer with a bounce buffer, not packed yet; NULL without memory. */
struct typed_buffer *host_block(struct layout *l, const void *buf, int64_t count);
/* Packs the buffer, to be sent as plain bytes. Returns NULL if the message goes another way. */
struct typed_buffer *host_packs(struct layout *l, const void *buf, int64_t count);
/* Packs a buffer of any layout, also where STRIDEC_HOST is off. Returns NULL outside host memory, without memory, and
 * for types that stridec can't read. */
struct typed_buffer *host_packs_any(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm);
/* Packs a short buffer for which host_sends returned NULL. Returns NULL if that does not pay. */
struct typed_buffer *host_packs_tried(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm);
/* Returns the layout of a short message that host_pack_run may pack at once, into *bytes (at most HOST_SHORT_MOST);
 * NULL if host_packs_tried must decide. With MPI_PROC_NULL buf may be invalid; the MPI reports a NULL buf. */
#define HOST_SHORT_MOST (SHM_SEND_LEAST - 1)
static inline struct layout *host_sends_short(const void *buf, int64_t count, MPI_Datatype t, int peer, int64_t *bytes)
{
    bool may = buf && peer != MPI_PROC_NULL && filter_may_be_short(t, count) && driver_absent();
    struct layout *l = may ? layout_of(t) : NULL;
    *bytes = l ? host_pack_fast_bytes(l, count) : 0;
    return *bytes && *bytes <= HOST_SHORT_MOST ? l : NULL;
}
/* Returns the layout, and *bytes, of a short message that is received packed; else NULL. Such a message is too short
 * for a rendezvous payload, but long enough for an RTS header, which then causes an error. */
struct layout *host_awaits_short(int64_t count, MPI_Datatype datatype, MPI_Comm comm, int64_t *bytes);
/* Pack, or unpack, a message for which host_sends_short or host_awaits_short returned l. */
void host_short_pack(const struct layout *l, const void *buf, int64_t count, void *packed, int64_t bytes);
void host_short_unpack(struct layout *l, void *buf, int64_t count, const void *packed, int64_t bytes);
/* Returns a typed buffer whose bytes arrive packed and are unpacked by host_arrived; NULL if the MPI receives it. */
struct typed_buffer *host_awaits(const void *buf, int64_t count, MPI_Datatype datatype, int source, MPI_Comm comm);
/* Unpacks `bytes` received bytes. */
void host_arrived(struct typed_buffer *p, int64_t bytes);

/* Count, and return the number of, messages of host memory that stridec packed or unpacked (for tests). */
void host_note_packed(void);
long stridec_host_packed(void);

#endif
