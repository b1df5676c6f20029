/* programs.h: random MPI programs, drawn from a seed and executed at once, beside an oracle of their own.
 *
 * A program has one to three strands; each runs in a thread of its own, on communicators of its own. A strand is a list of
 * operations. Every rank draws the same list, so each knows what its peers do. An operation is a few events, each at a time, in
 * a phase and on a rank. A rank executes its events in the order of (time, phase, number of the operation). An event waits
 * only for events of other ranks that come earlier in that order, or are the same: so no program can hang by itself. */
#ifndef STRIDEC_TESTS_PROGRAMS_H
#define STRIDEC_TESTS_PROGRAMS_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANKS 5              /* the most */
#define STRANDS 3
#define OPS 24               /* of a strand, at most */
#define TIMES 16             /* of a strand; half of them come before its barrier */
#define TEXT 1200

/* ---- chance (chance.c) ---- */

struct chance {
    uint64_t state;
};
/* A chance of its own for each pair of numbers. */
struct chance chance_of(uint64_t seed, uint64_t number);
/* 0 <= draw < n. */
int draw(struct chance *c, int n);
/* A number between low and high, both included. */
int draw_in(struct chance *c, int low, int high);
/* True once in n. */
bool once_in(struct chance *c, int n);
/* A divisor of n. */
int draw_divisor(struct chance *c, int n);
unsigned char stream_at(uint64_t salt, int64_t i);   /* byte i of a message's content */

/* ---- the run (main.c) ---- */

struct setup {
    bool host;               /* all memory is malloc's */
    bool tell;               /* print what is done */
    bool may_be_short;       /* draw also what MPICH may cut short (known.h) */
    bool near;               /* no pools and mappings of other devices, where the MPI takes device memory (known.h) */
    int depth;               /* the most levels of a type */
    int most;                /* the most elements of a message; 0: no bound */
    int threads;             /* the most strands that run at a time */
    bool plant;              /* what operations ought to bring is spoilt: every program must differ */
    const char *digest;      /* the file of digests; NULL: none */
    const char *only;        /* numbers of operations, separated by commas; NULL: all */
};
extern struct setup setup;
extern int my_rank, ranks;

/* Returns true if the MPI alone takes device memory (memory.c). */
bool mpi_is_aware(void);
/* Notes a difference; thread safe. */
void differ(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a line of what is done, under --tell. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
int error_class(int code);

/* ---- the digest of a program (digest.c); all but its opening is thread safe ---- */

void digest_open(const char *file);                           /* this rank's is FILE.RANK */
void digest_bytes(const char *what, const void *bytes, size_t n);
void digest_numbers(const char *what, int a, int b, int c);
/* Adds source, tag, cancelled, and the counts and elements of a type; MPI_DATATYPE_NULL: bytes alone. */
void digest_status(const char *what, const MPI_Status *status, MPI_Datatype type);
void digest_write(uint64_t seed);                             /* of the program that has ended: a line */
void digest_close(void);

/* ---- layouts (kinds.c, map.c, layout.c) ---- */

/* A named datatype. Pairs have two parts, with a gap in between. */
struct kind {
    MPI_Datatype type;
    const char *name;
    int size, extent, parts;
    struct {
        int at, size;
    } part[2];
};
enum { KINDS_PLAIN = 12, KINDS_ALL = 16 };
extern struct kind kinds[KINDS_ALL];
void kinds_make(void);

/* The kinds that a message repeats: so many of each, in this order. */
struct unit {
    int n;
    struct {
        int kind, n;
    } part[3];
};
struct unit unit_draw(struct chance *c);
int unit_bytes(const struct unit *u);
int unit_elements(const struct unit *u);
bool unit_pairs(const struct unit *u);   /* has pairs */

/* A typemap, walked by hand: n values of a kind, one after another. */
struct run {
    int64_t at;
    int32_t n;
    uint8_t kind, region;
};
struct map {
    struct run *run;
    int n, room;
    int64_t bytes, elements;
};
void map_add(struct map *m, int64_t at, int64_t n, int kind, int region);
/* Appends `times` copies of another map, `step` bytes apart, the first at `at`. */
void map_repeat(struct map *m, const struct map *of, int64_t at, int64_t times, int64_t step);
void map_range(const struct map *m, int64_t *low, int64_t *high);   /* of region 0 */
/* Calls f for each piece of the first `bytes` packed bytes: (arg, region, offset, packed, length). */
typedef void map_piece(void *arg, int region, int64_t at, int64_t packed, int64_t n);
void map_walk(const struct map *m, int64_t bytes, map_piece *f, void *arg);
/* The basic elements that the first `bytes` packed bytes have; -1 where they end within one. */
int64_t map_elements(const struct map *m, int64_t bytes);
void map_free(struct map *m);

/* A committed datatype whose one element has `reps` repetitions of a unit. */
struct layout {
    MPI_Datatype type;
    bool named, wide;        /* wide: made by large-count constructors too */
    int reps;
    int64_t extent, size;
    struct map map;
    char text[TEXT];
};
enum { OVERLAP_NEVER, OVERLAP_MAY };
/* Draws a layout of `reps` units for use with `count`; no byte occurs twice unless `overlap` says so. */
void layout_draw(struct layout *l, uint64_t seed, const struct unit *u, int reps, int count, int overlap);
/* Joins layouts into one of absolute addresses: part i in region i, whose origin is given. Takes the parts. */
void layout_absolute(struct layout *l, int n, struct layout part[], const MPI_Aint origin[]);
void layout_split(struct chance *c, int reps, int n, int each[]);   /* `reps` among n parts */
void layout_free(struct layout *l);

/* ---- memory (memory.c) ---- */

enum memory { HOST, DEVICE, MANAGED, PINNED, POOL, MAPPED, MEMORIES };
extern const char *const memory_name[MEMORIES];
/* Some memory, with guards on both sides, and a shadow of what it ought to hold. */
struct region {
    enum memory memory;
    int device;
    bool fresh;              /* an allocation of its own */
    bool any;                /* holds bytes that may be others in another run: no part of the digest */
    unsigned char *base, *shadow;
    size_t bytes;
    int64_t lead;            /* the origin is at base + lead */
};
void memory_start(void);
void memory_stop(void);
/* Memory of [low, high) about an origin. */
void region_open(struct region *r, int strand, struct chance *c, enum memory memory, int64_t low, int64_t high);
void region_close(struct region *r);
/* Gives back what a strand's regions took of its larger allocations. */
void memory_reset(int strand);
unsigned char *region_origin(const struct region *r);
void region_load(const struct region *r, unsigned char *to);  /* the memory's bytes */
void region_store(struct region *r);                          /* the shadow's bytes into the memory */
bool region_check(const struct region *r, const char *what);  /* compares every byte */
enum memory memory_draw(struct chance *c);

/* ---- ends (end.c) ---- */

/* `count` elements of a layout at `at` bytes from the buffer. */
struct block {
    struct layout *layout;
    int count;
    int64_t at;
};
#define REGIONS 3
/* A buffer of a call: one block for each message. */
struct end {
    int strand, n, regions, layouts;
    bool open;
    struct block block[RANKS];
    struct layout layout[RANKS];
    struct region region[REGIONS];
    void *buf;
};
/* Opens an end of one block: at most `reps` units in elements of `each`. May lie in several memories where `absolute`. */
void end_open(struct end *e, int strand, uint64_t seed, const struct unit *u, int each, int count, int overlap, bool absolute);
/* Opens the memory of an end whose layouts and blocks are set. */
void end_place(struct end *e, int strand, struct chance *c, enum memory memory);
void end_clear(struct end *e, uint64_t salt);                 /* fills all of it with bytes of no message */
void end_put(struct end *e, int block, uint64_t salt);        /* writes a message's content into the shadow */
void end_put_bytes(struct end *e, int block, const unsigned char *packed, int64_t bytes);
void end_expect(struct end *e, int block, uint64_t salt, int64_t bytes);
unsigned char *end_packed(const struct end *e, int block);    /* gathered from the shadow; malloc'd */
void end_store(struct end *e);
void end_accept(struct end *e, int block);                    /* takes a block's bytes for right, whatever they are */
bool end_check(const struct end *e, const char *what);
int64_t end_bytes(const struct end *e, int block);
void end_close(struct end *e);
void end_tell(const struct end *e, const char *what);

/* ---- communicators (comms.c) ---- */

enum { COMM_WORLD, COMM_BACKWARDS, COMM_PART, COMM_BETWEEN, COMM_GRID, COMM_GRAPH, COMM_WILD, COMMS };
struct comm {
    MPI_Comm comm;
    bool inter;
    int n[2], world[2][RANKS];   /* the ranks of the group, of both groups; numbers in MPI_COMM_WORLD */
    int sources[RANKS][RANKS], nsources[RANKS], targets[RANKS][RANKS], ntargets[RANKS];   /* of a topology, by rank */
};
/* The rank of `world` as its peers call it; -1: no member. */
int comm_rank(const struct comm *c, int world);
int comm_side(const struct comm *c, int world);
void comms_open(struct comm comms[COMMS], uint64_t seed);
void comms_close(struct comm comms[COMMS]);

/* ---- operations ---- */

enum phase { START, BLOCK, DONE };
struct event {
    int time, rank;              /* in MPI_COMM_WORLD */
    enum phase phase;
    int what, round;             /* the operation's own */
    int op;
};
#define EVENTS 100
struct strand;
struct op {
    const struct op_row *row;
    struct strand *strand;
    int number;
    uint64_t seed;
    bool dropped, fails, alone;   /* left out; may end in an error; is completed by itself, by MPI_Wait */
    bool told;                    /* needs its statuses */
    int n;
    struct event event[EVENTS];
    void *own;
};
/* A form of operation. All ranks plan alike; each prepares and acts on its own events. */
struct op_row {
    const char *name;
    int weight;
    size_t bytes;                                    /* of `own` */
    void (*plan)(struct op *, struct chance *);
    void (*prepare)(struct op *);
    void (*act)(struct op *, const struct event *);  /* START and BLOCK */
    MPI_Request *(*request)(struct op *, const struct event *);   /* DONE: what is to be completed */
    void (*done)(struct op *, const struct event *, const MPI_Status *status, int code);   /* status may be NULL */
    void (*finish)(struct op *);                     /* after a barrier: checks and frees */
};
extern const struct op_row message_row, wild_row, exchange_row, cancel_row, collective_row, reduction_row, neighbor_row, pack_row,
    window_row, file_row, partitioned_row;   /* the last one where MPI_VERSION >= 4 */
static inline bool planted(const struct op *o)
{
    return setup.plant && o;
}
/* Notes a difference where a call has ended in an error; digests its class. */
void op_must(const struct op *o, int code, const char *call);
void op_event(struct op *o, int time, int rank, enum phase phase, int what, int round);
/* Starts a persistent request now, or with others of its time. */
void op_start(const struct op *o, MPI_Request *request);

/* How many units a message has. */
int units_draw(struct chance *c, const struct unit *u);

/* ---- strands (strand.c) ---- */

enum { STARTING = 8 };
struct strand {
    int number;
    uint64_t seed;
    struct comm *comms;
    int n;
    struct op op[OPS];
    int messages;                                    /* tags so far */
    int files;                                       /* so far */
    bool file_alone;                                 /* there is no other file beside the first */
    int wild_receivers;                              /* a bit for each rank that receives by wild.c */
    bool starts_together;                            /* persistent requests of the time at hand */
    MPI_Request *start[STARTING];                    /* those that wait for others of their time */
    int starts;
};
void strand_plan(struct strand *s, uint64_t seed, int number, struct comm *comms);
void strand_run(struct strand *s);

#endif
