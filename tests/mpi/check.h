/* check.h: what the multi-rank tests share: reports, memory of every kind, random types and their oracle.
 *
 * The programs are plain MPI programs over the CUDA runtime. With --host every buffer is malloc'd, so that
 * the tests themselves can be proved right on an MPI alone. All ranks draw the same random numbers, so each
 * knows what its peers send; the oracle is the host MPI's own MPI_Pack (struct layout's map). */
#ifndef STRIDEC_TESTS_MPI_CHECK_H
#define STRIDEC_TESTS_MPI_CHECK_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern int my_rank, num_ranks;
/* The rank that the launcher gives, before MPI_Init; -1 where it gives none. */
int rank_given(void);
extern bool host_mode;
extern uint64_t test_seed;
extern MPI_Comm check_comm;   /* of all ranks; the reports' own */

/* ---- reports (check.c) ---- */

/* MPI_Init_thread when level >= 0 (returns what was provided), else MPI_Init; reads --host and TEST_SEED. */
int check_start(int *argc, char ***argv, int level);
/* Prints the totals, finalizes; the exit status. */
int check_finish(void);
/* All of a program that can't run here: says why. The exit status. */
int check_left_out(int *argc, char ***argv, const char *why);
/* Do what check_start and check_finish do, but for MPI_Init and MPI_Finalize: for programs that start the MPI by other
 * ways. */
void check_begin(int argc, char **argv, MPI_Comm comm);
int check_end(void);
/* Notes a failure of the present check on this rank; thread safe. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define expect(cond, ...) ((cond) ? (void)0 : fail(__VA_ARGS__))
#define expect_equal(got, want, what)                                                                                  \
    expect((long long)(got) == (long long)(want), "%s is %lld, not %lld", what, (long long)(got), (long long)(want))
/* Collective, a barrier: prints "ok NAME", or "not ok NAME: why" if any rank failed since the last report. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Collective: a note from rank 0 for what this machine cannot test. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Runs `work` in n threads (8 at most), each on a duplicate of MPI_COMM_WORLD of its own, and ends when all have. */
void in_threads(int n, void *work(void *comm));
/* The MPI is, as it says itself. */
bool cuda_aware(void);
/* True while less than `seconds` have passed since *since (0 starts the clock). */
bool within(double *since, double seconds);

/* A generalized request's functions: nothing to tell, and nothing to be done. */
int nothing_to_tell(void *extra, MPI_Status *s);
int nothing_to_free(void *extra);
int nothing_to_cancel(void *extra, int complete);

/* The class of an MPI error code. */
int error_class(int code);
const char *error_name(int class);

/* 0 <= roll(n) < n, the same on every rank that has drawn as often. */
uint32_t roll(uint32_t n);
/* From here on every rank draws numbers of its own. */
void roll_apart(void);
/* A chance of the caller's own, as threads need it: below returns the next number below n. */
struct chance {
    uint64_t state;
};
uint32_t below(struct chance *c, uint32_t n);

/* A function of the MPI's own library; ends the run if there is none. The MPI's own MPI_Pack and MPI_Unpack, past
 * everything that is preloaded. */
void *own_function(const char *name);
typedef int pack_function(const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm);
typedef int unpack_function(const void *, int, int *, void *, int, MPI_Datatype, MPI_Comm);
pack_function *own_pack(void);
unpack_function *own_unpack(void);

/* ---- types (types.c) ---- */

/* Family A: what stridec compiles. B adds the combiners that fall back. */
enum family { FAMILY_A, FAMILY_B };

#define TEXT_MAX 512
/* A committed type, `count` of it, and where its packed bytes lie. */
struct layout {
    MPI_Datatype type;
    int count;
    int64_t low, span;   /* bytes touched: [low, low + span) from the origin */
    int bytes;           /* packed */
    int32_t *map;        /* packed byte i lies at low + map[i]: found by packing on the host */
    bool overlaps;       /* a byte occurs twice: it may be sent, not received into */
    char text[TEXT_MAX]; /* how it was built */
};
/* Consumes a committed or named type. */
void layout_of(struct layout *l, MPI_Datatype type, int count, const char *text);
/* A random one, span at most 256 KiB, not empty; without overlap if `receivable`. */
void layout_random(struct layout *l, enum family family, int count, bool receivable);
void layout_free(struct layout *l); /* frees the type too */
void type_commit(MPI_Datatype *type);

/* LAYOUTS different layouts of one signature: LAYOUT_DOUBLES doubles per element. 0 is contiguous; from
 * LAYOUT_FAMILY_B on they are of family B. */
#define LAYOUT_DOUBLES 120
#define LAYOUT_FAMILY_B 6
#define LAYOUTS 8
void layout_number(struct layout *l, int number, int count);

/* LISTS layouts of 240 ints: a vector, lists of other lengths, contiguous, resized. */
#define LISTS 4
void layouts_of_ints(struct layout lists[LISTS]);

/* ---- memory (memory.c) ---- */

/* MEM_POOL: of cudaMallocAsync. */
enum mem_kind { MEM_HOST, MEM_DEVICE, MEM_MANAGED, MEM_PINNED, MEM_POOL, MEM_KINDS };
extern const char *const mem_name[MEM_KINDS];
void *mem_alloc(enum mem_kind kind, size_t bytes); /* aborts the run when there is none */
void mem_free(enum mem_kind kind, void *p);
void mem_write(enum mem_kind kind, void *to, const void *from, size_t bytes);
void mem_read(enum mem_kind kind, void *to, const void *from, size_t bytes);

/* The byte at offset `at` of what is filled with a salt; of a buffer below, of its span: negative in the guard before it. */
unsigned char pattern_at(uint64_t salt, int64_t at);

/* A buffer of any kind for a layout, with guard bytes on both sides, and `shadow`, a host copy of what it
 * ought to hold. Operations change the shadow with buf_expect, then buf_check compares every byte. */
struct buf {
    enum mem_kind kind;
    unsigned char *base, *shadow;
    size_t bytes, lead; /* whole size; bytes before the span */
    int64_t low;
    uint64_t salt;
    void *origin; /* the address to give to MPI */
};
/* Filled with pattern_at(salt); its span begins `misalign` bytes past an aligned address. */
void buf_make(struct buf *b, enum mem_kind kind, const struct layout *l, int misalign, uint64_t salt);
void buf_bytes(struct buf *b, enum mem_kind kind, size_t bytes, int misalign, uint64_t salt); /* of plain bytes */
void buf_fill(struct buf *b, uint64_t salt);
void buf_free(struct buf *b);
/* Writes packed bytes [0, n) of the layout into the shadow. */
void buf_expect(struct buf *b, const struct layout *l, const unsigned char *packed, int n);
/* Compares all of it with the shadow; false and a failure naming `what` if a byte differs. */
bool buf_check(const struct buf *b, const char *what);
/* The same, but for [from, to) of the span. */
bool buf_check_but(const struct buf *b, size_t from, size_t to, const char *what);
/* A receive that nobody answers can be cancelled, and leaves its buffer as it is. */
void expect_cancelled(enum mem_kind kind, const struct layout *l, int source, int tag, MPI_Comm comm);
/* Between two ranks: so many messages each way of `doubles` doubles, every second one, in host memory. `before` (may be NULL) comes
 * before each. */
void expect_exchange(int doubles, int messages, void (*before)(void), const char *what);
/* The packed bytes of a buffer filled with pattern_at(salt), malloc'd. */
unsigned char *layout_packed(const struct layout *l, uint64_t salt);
/* What a receive into b must leave: the packed bytes of `sent` filled with `salt`. */
void buf_expect_from(struct buf *b, const struct layout *l, const struct layout *sent, uint64_t salt);

#endif
