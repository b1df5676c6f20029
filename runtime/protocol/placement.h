/* placement.h: where the packed bytes of a device buffer lie while the MPI moves them: in device memory, or where
 * the host reads them. That depends on the other rank: what comes from a rank of the node may be an RTS header,
 * which the host reads at once. */
#ifndef STRIDEC_PLACEMENT_H
#define STRIDEC_PLACEMENT_H
#include "node/segment.h"
#include "pack/typed_buffer.h"

/* Returns true if what `peer` of comm sends, or gets, so many packed bytes, is better received on the host. `peer`
 * may be MPI_ANY_SOURCE; other negative numbers are no rank. */
bool placement_on_host(int64_t bytes, int peer, MPI_Comm comm);
/* Returns true if what is sent to `dest` is better packed into host memory: all of it to ranks of the node, of which
 * a CUDA-aware MPI then opens nothing. */
bool placement_sends_on_host(int64_t bytes, int dest, MPI_Comm comm);

/* Opens a parcel (typed_buffer_open), placed by placement_on_host. */
int placement_open(struct typed_buffer **p, struct layout *l, struct location w, const void *buf, int64_t count,
                   MPI_Datatype datatype, int peer, MPI_Comm comm);
/* Opens a parcel for what `source` sends into such a buffer, if it is better received into memory of stridec's: the
 * MPI can't take the buffer itself, or an RTS header is likely to come. Else leaves *p alone. */
int placement_open_receive(struct typed_buffer **p, struct layout *l, struct location w, const void *buf, int64_t count,
                           MPI_Datatype datatype, int source, MPI_Comm comm);
/* Opens a parcel that is sent, placed by placement_sends_on_host. */
int placement_open_send(struct typed_buffer **p, struct layout *l, struct location w, const void *buf, int64_t count,
                        MPI_Datatype datatype, int dest, MPI_Comm comm);
/* Returns true if a message from device d that the MPI could take is packed all the same: to a rank of the node, too
 * short for an RTS header, or one of the first, before that rank has tried to read memory of d. What the MPI opens
 * it keeps open past its end, in the way of what lies there next (ipc_export_to_mpi). */
bool placement_packs(const struct layout *l, int64_t count, struct device *d, int dest, MPI_Comm comm);
/* Notes whether a receive of p, of RNDV_MIN bytes or more, brought an RTS header. `from` may be NULL: a rank of
 * another node. */
void placement_note(struct peer *from, const struct typed_buffer *p, bool header);

#endif
