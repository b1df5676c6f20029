/* message.h: a message to send or to receive, and what is known of it. */
#ifndef STRIDEC_MESSAGE_H
#define STRIDEC_MESSAGE_H
#include "node/segment.h"
#include "pack/typed_buffer.h"

/* When the application may reuse the buffer of a send. */
enum reuse {
    REUSE_BUFFERED,   /* on return: the MPI has a copy */
    REUSE_BLOCKING,   /* on return */
    REUSE_LATER       /* at completion */
};

/* A message to send, or to receive (peer may be MPI_ANY_SOURCE then). The caller sets the first part and leaves the
 * second zero; message_set, message_locate, send_select and send_probe set it. */
struct message {
    const void *buf;
    int64_t count;
    MPI_Datatype type;
    int peer;
    MPI_Comm comm;
    enum reuse reuse;        /* of a send */
    bool synchronous;        /* a send that ends only after the match */

    bool located;            /* this part is set */
    struct layout *layout;   /* NULL: host memory, and a type or count that stridec does not send */
    struct location where;   /* all zero for host memory */
    int64_t bytes;           /* packed; 0 without a layout */
    struct peer *near;       /* the peer, if it is a rank of the node with stridec; NULL without a layout */
};

/* Sets the second part for a buffer of this layout in this place. */
void message_set(struct message *m, struct layout *l, struct location where);
/* Sets the second part if the buffer lies at least partly on a device; else it stays zero. Returns true if it does. */
bool message_locate(struct message *m);

#endif
