/* messages.h: checked messages between the ranks of a job, by each protocol that is possible there
 * (`stridec doctor --messages`). */
#ifndef STRIDEC_MEASURE_MESSAGES_H
#define STRIDEC_MEASURE_MESSAGES_H

/* Counts of the messages of a memory that took a path, over all ranks. */
struct messages_row {
    const char *memory, *path;   /* "host" or "device"; names as in stridec.h */
    long sent, wrong;
    double bytes;
    const char *why;             /* the first wrong message; or, if none was sent, why */
    const char *without;         /* what avoids the path */
};
typedef void messages_visit(void *arg, const struct messages_row *row);

/* Sends messages from each rank to the next one, and calls `each` for every path on rank 0. Collective, between
 * MPI_Init and MPI_Finalize, with no other message under way; leaves STRIDEC_TRANSPORT changed. */
void messages_check(messages_visit *each, void *arg);

#endif
