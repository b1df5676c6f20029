/* jobs.h: what the tests of collectives share: a collective call in all its forms on two sets of buffers, host memory,
 * where the MPI alone is at work, and the memory under test. What the first holds afterwards the second must hold. */
#ifndef STRIDEC_TESTS_MPI_JOBS_H
#define STRIDEC_TESTS_MPI_JOBS_H
#include "check.h"
#include "persistent.h"

#if MPI_VERSION >= 4
#define HAVE_LARGE 1
#endif

enum form { BLOCKING, NONBLOCKING, PERSISTENT, LARGE, NONBLOCKING_LARGE, PERSISTENT_LARGE, FORMS };
extern const char *const form_name[FORMS];
bool form_exists(enum form form);

/* ---- layouts of one signature ---- */

/* Of 12 ints times `scale`: contiguous, a vector, indexed with an empty block, one with bytes before its origin,
 * interleaving columns, a struct, and one that is resized. */
#define SHAPES 7
extern const char *const shape_name[SHAPES];
MPI_Datatype shape_make(int shape, int scale);
#define SHAPE_INTS 12

/* ---- jobs ---- */

/* Between the first half of the ranks and the others: true in the first. */
bool two_groups(MPI_Comm *inter);

#define PEERS 8

/* One end of a call: the arguments of all the calls that have such an end. */
struct end {
    void *buf;
    int count;
    MPI_Datatype type, types[PEERS];
    int counts[PEERS], displs[PEERS], bytes[PEERS];
    MPI_Count wide_counts[PEERS];
    MPI_Aint wide_displs[PEERS], wide_bytes[PEERS];
};

struct job {
    enum form form;
    bool alone;            /* by the MPI's own function, past all that is preloaded: what moves data; among neighbours blocking forms alone */
    MPI_Comm comm;
    int root;
    MPI_Op op;
    struct end s, r;
    MPI_Request request;   /* of nonblocking and persistent forms */
};

/* How a call's counts depend on who sends and who receives, and where MPI_IN_PLACE stands. */
enum { BY_SENDER = 1, BY_RECEIVER = 2, IN_PLACE_ROOT = 4, IN_PLACE_ALL = 8, IN_PLACE_OUT = 16, ROOTED = 32, SCATTERS = 64,
       FIRST_NOTHING = 128, BLOCKING_ONLY = 256, MPICH_CANT_PERSIST = 512 };

struct call {
    const char *name;
    int (*call)(struct job *j);
    int flags;
};
extern const struct call data_calls[], neighbor_calls[], reduce_calls[];
extern const int data_call_count, neighbor_call_count, reduce_call_count;

/* The two buffers of one end. */
struct pair {
    struct buf host, tested;
};
/* Room for what an end may hold at this scale, and its origin. */
void pair_make(struct pair *p, enum mem_kind kind, int scale);
void pair_fill(struct pair *p, uint64_t salt);
void *pair_origin(const struct buf *b, int scale);
/* The tested buffer holds what the host's does. But for [from, to) from the origin. */
void pair_check(struct pair *p, const char *what);
void pair_check_but(struct pair *p, int scale, size_t from, size_t to, const char *what);
void pair_free(struct pair *p);

/* A round's choices, by numbers that are the same on all ranks. */
struct round {
    MPI_Comm comm;
    int rank, n_sources, n_targets;     /* the own rank; the ranks that it receives from and sends to */
    int sources[PEERS], targets[PEERS]; /* MPI_PROC_NULL: nobody */
    bool inter, first;                  /* between two groups; of the first */
    int number, scale;
    bool in_place;
    bool named;                         /* all types are MPI_INT */
};
/* Of all ranks of a communicator, or of a remote group. */
void round_all(struct round *r, MPI_Comm comm);
/* Runs a call of data in a form: three starts where it is persistent. */
void run_data(const struct call *c, const struct round *of, enum form form);
/* As many operands in host memory has the library packed so far; 0 without one. */
long hosted_operands(void);
/* Does what the form asks for after the call: starts, waits, frees. `last` frees a persistent request. */
int job_run(const struct call *c, struct job *j, bool first, bool last);
/* Memory of an end in this round: device on some or all ranks. */
enum mem_kind round_memory(const struct round *r, bool receives);
bool form_persists(enum form form);
/* False where the MPI itself is wrong. */
bool mpi_can(const struct call *c, const struct round *r, enum form form);
#define STARTS 3   /* of a persistent request */

#endif
