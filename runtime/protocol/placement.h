/* placement.h: where the packed bytes of a device buffer lie while the MPI moves them: in device or in host memory.
 * That depends on the other rank: a rank of the node may send an RTS header, which the host reads at once. */
#ifndef STRIDEC_PLACEMENT_H
#define STRIDEC_PLACEMENT_H
#include "message.h"

/* Returns true if a message to send is better packed into host memory. Messages to ranks of the node always are: then
 * a CUDA-aware MPI opens no memory of these ranks. */
bool placement_sends_on_host(const struct message *m);

/* Opens a typed buffer (typed_buffer_open) of a message that goes either way, where it suits the peer. */
int placement_open(struct typed_buffer **p, const struct message *m);
/* Opens a typed buffer for a receive if the MPI can't take it, or an RTS is likely. Else leaves *p unchanged. */
int placement_open_receive(struct typed_buffer **p, const struct message *m);
/* Opens a typed buffer for a send, placed by placement_sends_on_host. */
int placement_open_send(struct typed_buffer **p, const struct message *m);
/* Returns true if one of the first messages to a rank of the node is packed although the MPI could take it: the rank
 * has not read memory of that device yet. The MPI keeps freed allocations open, which blocks the next
 * (ipc_export_to_mpi). */
bool placement_packs(const struct message *m);
/* Notes if a receive of p (RNDV_MIN bytes or more) brought an RTS. `from`: NULL for a rank of another node. */
void placement_note(struct peer *from, const struct typed_buffer *p, bool header);

#endif
