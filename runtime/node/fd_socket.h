/* fd_socket.h: file descriptors from process to process on the node, with a record that tells what they are.
 *
 * The sender connects to the receiver's socket, sends and closes. The receiver need not be there: records wait until it
 * takes them. The socket is named by a hash of the cookie, which other users cannot read; both ends check the other
 * one's user. */
#ifndef STRIDEC_FD_SOCKET_H
#define STRIDEC_FD_SOCKET_H
#include "segment.h"
#include <stddef.h>

#define FD_SOCKET_MOST 64   /* descriptors with a record */

/* Makes the own socket once, and tells so in the own file. Without it, records are sent to nobody. One thread. */
void fd_socket_open(void);
/* Sends a record and n descriptors, which stay open here. Returns false if the peer has no socket, or can't be reached,
 * or has too many records to take. Does not block. */
bool fd_socket_send(const struct peer *p, const void *record, size_t bytes, const int fds[], int n);
/* Takes a record of `bytes` and its descriptors, *n of them: the caller closes them. Returns false if there is none.
 * Skips what is no such record. One thread at a time. */
bool fd_socket_take(void *record, size_t bytes, int fds[FD_SOCKET_MOST], int *n);
/* Closes the own socket, at MPI_Finalize. */
void fd_socket_close(void);

#endif
