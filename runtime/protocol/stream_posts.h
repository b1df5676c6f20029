/* stream_posts.h: messages of persistent requests in stream order that the MPI carries, to other nodes. The stream
 * packs into pinned memory, and a thread of stridec's passes the packed bytes to the MPI when the stream comes to them:
 *
 *    send:      start_on  pack; set GO, wait until it is clear    wait_on  wait for DONE, clear it
 *    receive:   start_on  set GO, wait until it is clear          wait_on  wait for DONE, clear it; unpack
 *    thread:              start the message; clear GO                      test the message; set DONE
 *
 * The thread makes no call of CUDA: while a stream waits, the driver may hold up all of them, also behind the loading
 * of a kernel, which waits for the stream. Nothing changes from message to message, so that graphs can hold it. */
#ifndef STRIDEC_STREAM_POSTS_H
#define STRIDEC_STREAM_POSTS_H
#include "channel.h"
#include "datatype/layout.h"

struct post;

/* Returns a post for a persistent message of `bytes` packed bytes on d, NULL if there can be none: the thread needs
 * MPI_THREAD_MULTIPLE, and memory. A receive's later messages are as long as this. Borrows l. Waits for kernels. */
struct post *post_new(const struct channel_call *call, struct layout *l, struct device *d, int64_t bytes);
/* Frees a post, unless its message is under way: then the post stays for good. NULL is allowed. */
void post_free(struct post *p);
int64_t post_bytes(const struct post *p);

/* Enqueue the starts, in this order, or the rest, of messages. The stream's device is entered, and theirs. Return 0 or
 * -1 (logged), also where an earlier message has failed. */
int posts_start(struct post *const posts[], int n, CUstream stream);
int posts_wait(struct post *const posts[], int n, CUstream stream);
/* Ends the thread, at MPI_Finalize, before posts are freed. */
void posts_finish(void);

#endif
