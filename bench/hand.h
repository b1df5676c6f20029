/* hand.h: a ping-pong of hand.c, and its way by hand (hand_kernels.c). */
#ifndef STRIDEC_BENCH_HAND_H
#define STRIDEC_BENCH_HAND_H
#include "common.h"

#define FIELDS 9
#define STAGED(bytes) (((bytes) + 255) / 256 * 256)   /* flags lie behind so many packed bytes */
#define FLAGS_MOST 4096

/* Rows of one length, in some allocations. */
struct shape {
    const char *name;
    bool pool;
    int fields, row, stride;          /* bytes */
    int rows[FIELDS];
};

/* The kernels' argument; the source declares the same. */
struct argument {
    struct {
        const void *from;
        void *to;
        unsigned first, words;        /* block of threads; of the field */
    } field[FIELDS];
    unsigned *ran, *told;             /* two words that count blocks and launches; in pinned memory, the launches */
    unsigned *flags;                  /* of the blocks: number of the launch */
    unsigned fields;
};

enum { ONE, PACK, UNPACK, KERNELS };
struct pong {
    const struct shape *s;
    int rank;
    char *from[FIELDS], *to[FIELDS];          /* this rank's */
    char *theirs[FIELDS];                     /* the other's `from`, mapped; none of a pool */
    char *staging, *their_staging;            /* packed bytes, and flags behind them; the other's mapped */
    char *plain_from, *plain_to;
    size_t bytes;                             /* packed */
    MPI_Datatype type[2];
    MPI_Win window;
    volatile unsigned *mine, *others;         /* in shared memory: messages that this rank, and the other, have read */
    cudaStream_t stream;
    unsigned *ran;                            /* in device memory, two of each kernel */
    volatile unsigned *told;                  /* in pinned memory, of each kernel one */
    unsigned sent, blocks;
    struct argument argument[KERNELS];
    cudaGraphExec_t graph[KERNELS];
    unsigned launched[KERNELS];
};

/* Bytes that field i spans. */
static inline size_t field_span(const struct shape *s, int i)
{
    return (size_t)s->rows[i] * (size_t)s->stride;
}

/* Makes the kernels' arguments and graphs; what they move is there. False where a kernel does not compile. */
bool hand_make(struct pong *p);
/* A message by hand. */
void hand_send(struct pong *p);
void hand_recv(struct pong *p);

#endif
