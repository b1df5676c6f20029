/* stream_posts.h: persistent requests that the MPI carries, in stream order: a thread of stridec starts and completes
 * them when a stream comes to them, and no thread of the program waits. It needs MPI_THREAD_MULTIPLE.
 *
 *    stream           posts_start   a host function: rings for the thread      posts_wait   waits for DONE, clears it
 *    posting thread                 MPI_Startall, MPI_Test ..., sets DONE
 *
 * DONE is a word in pinned memory for each request. Its values are the same for each message, and what the host
 * function names lives until MPI_Finalize: so a graph can hold both. */
#ifndef STRIDEC_STREAM_POSTS_H
#define STRIDEC_STREAM_POSTS_H
#include "device/device.h"
#include <mpi.h>
#include <stdbool.h>

struct post;
/* Returns true if the thread may take requests of this stream: there is a context. */
bool posts_able(CUstream stream);
/* Returns what is kept for a request, NULL if nothing is. A handle that was freed and is used again keeps it. */
struct post *post_of(MPI_Request request);
/* Makes it, for later starts. Allocates: not while a stream is captured. Returns NULL without memory. */
struct post *post_make(MPI_Request request);
/* Returns true from posts_start to posts_wait. */
bool post_under_way(const struct post *p);
bool post_captured(const struct post *p);
MPI_Request post_request(const struct post *p);

/* Enqueue on a stream of the program's the start, or the completion, of requests; their order is that of the MPI's
 * calls. Return 0; or -1 (logged): the driver refuses, or an earlier message of a request has failed. */
int posts_start(struct post *const posts[], int n, CUstream stream, bool captured);
int posts_wait(struct post *const posts[], int n, CUstream stream);
/* Waits until the thread has started all that streams have come to: the program's own calls of the MPI come behind. */
void posts_settle(void);
/* Ends the thread and forgets all, at MPI_Finalize. */
void posts_finish(void);

#endif
