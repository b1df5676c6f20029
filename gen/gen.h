/* gen.h: the compiler's face: a signature goes in, a plan and kernel source come out.
 *
 * Knows neither MPI nor CUDA calls. The work is done in Lua (plan.lua decides, emit.lua fills a file of
 * templates/); a `struct gen` is one Lua state, for one thread at a time; open one per thread.
 */
#ifndef STRIDEC_GEN_GEN_H
#define STRIDEC_GEN_GEN_H

#include "gpu.h"
#include "tree.h"

struct gen;

/* ORDER GEN_FAMILY: names in gen_family_name. */
enum gen_family {
    GEN_CONTIGUOUS,   /* one dense block: a copy, no kernel, unless elements lie apart */
    GEN_STRIDED,      /* a chain of strides over a dense block */
    GEN_STRUCT,       /* a few parts, all of them constants of the source */
    GEN_INDEXED,      /* lists in device memory, among strides */
    GEN_MIXED,        /* both */
    GEN_GENERIC,      /* any tree, interpreted */
    GEN_LINK,         /* from layouts into layouts (gen_link) */
    GEN_REDUCE        /* rows of elements into one (gen_reduce) */
};
const char *gen_family_name(enum gen_family f);

#define GEN_WORDS_MAX 5
#define GEN_NUMBERS_MAX 32

/* ORDER kernel_direction (runtime/kernel/kernel.h). */
enum gen_direction { GEN_PACK, GEN_UNPACK };

/* How the kernels of one direction work. */
struct gen_way {
    int word;                    /* the widest of gen_plan.words that this direction uses */
    int threads;                 /* per block */
    int words_per_thread;        /* a block moves threads * words_per_thread words at a time */
    int narrow_words_per_thread; /* the same of narrower words */
};

/* The words that a block moves at a time. */
static inline int64_t gen_block_words(const struct gen_way *way, int word)
{
    return (int64_t)way->threads * (word < way->word ? way->narrow_words_per_thread : way->words_per_thread);
}

/* What a launcher must know. A module holds, for each listed word width W, the entry points
 * stridec_pack_wW and stridec_unpack_wW. Each takes one struct stridec_launch by value (below). */
struct gen_plan {
    enum gen_family family;
    int nwords;
    int words[GEN_WORDS_MAX];    /* widths in bytes, widest first; the last is always 1 */
    struct gen_way way[2];       /* by gen_direction */
    int index_bits;              /* 32: one launch may cover at most 2^31 - 1 words, `begin` reduced below one
                                    element's packed size included; 64: no limit */
    struct {
        int threads, words_per_thread, word[2];
    } marked;                    /* of stridec_pack_marked and stridec_unpack_marked, or of stridec_link_marked; zeros:
                                    there are none */
};

struct gen_kernel {
    struct gen_plan plan;
    char *source;                /* the whole file: CUDA C, or HIP */
    char *why;                   /* the plan in words, lines for `stridec inspect` */
};

/* The argument of every kernel. templates/ declare the same struct; keep them equal.
 * The grid is one-dimensional; ceil(words / gen_block_words()) blocks move them without a second round, and any other
 * number of at least one is right as well. */
struct stridec_launch {
    uint64_t packed;    /* address of packed byte `begin` */
    uint64_t user;      /* address of the origin of element 0 plus the root's offset */
    int64_t extent;     /* bytes from one element to the next; read only where wrap is 1 */
    int64_t begin;      /* first packed byte; a multiple of W */
    int64_t end;        /* one past the last; end - begin is a multiple of W */
    int64_t wrap;       /* 1: the range is cut into elements of the type's size, `extent` apart;
                           0: one element, or the outermost stride simply goes on */
    uint64_t program;   /* device address of what the kernel reads of its type: tree_program's words (the generic
                           family), or form_lists' bytes (forms with lists) */
    uint64_t done;      /* address of a 32-bit word, in mapped host memory, that becomes `ticket` once every word is
                           moved and seen by the host; or 0 */
    uint64_t ticket;
    uint64_t ended;     /* of a grid of several blocks with `done`: address of a 32-bit word of device memory that
                           counts them; 0 between launches */
    /* Of stridec_DIRECTION_marked alone, which move the range in chunks, in their order, a block a chunk at a time: */
    uint64_t marks;     /* address of a 64-bit word for each chunk. Packing sets it to `mark` when the chunk is there;
                           unpacking first waits for that, */
    uint64_t mark;
    int64_t chunk;      /* bytes; a multiple of W */
    int64_t patience;   /* no longer than so many counts of stridec_clock (templates/target.cuh): then the 32-bit word
                           at `done`, in mapped host memory, becomes `ticket`, and what is unpacked is worth nothing */
    uint64_t number[GEN_NUMBERS_MAX];   /* of forms with lists: form_numbers; a kernel declares as many as it reads */
};

/* What a tree's own kernel is compiled for; types that differ in their long lists alone share it (form.h). */
struct form;
/* The tree must outlive its form. NULL without memory. */
struct form *form_of(const struct tree *t, struct reason *why);
void form_free(struct form *f);
/* The module's key: the shape signature, with long lists left out. */
const char *form_signature(const struct form *f);
enum gen_family form_family(const struct form *f);
bool form_has_lists(const struct form *f);
/* The bytes that belong at stridec_launch.program, malloc'd; NULL and *bytes 0 for forms without lists. NULL
 * and *bytes not 0 without memory. form.h bounds them: at most 7.5 bytes a block and 4 KiB for all but huge ones. */
void *form_lists(const struct form *f, size_t *bytes, struct reason *why);
/* Writes them; what nobody reads may stay as it is. */
void form_lists_write(const struct form *f, void *lists);
/* Fills stridec_launch.number for the entries of words of this width. */
void form_numbers(const struct form *f, int word, uint64_t number[GEN_NUMBERS_MAX]);

/* NULL and a line in *why on failure. */
struct gen *gen_open(struct reason *why);
void gen_close(struct gen *g);

/*
 * The host target: C for data in host memory. A source has three functions, stridec_host_pack, stridec_host_unpack and
 * stridec_host_copy, each of a pointer to a struct stridec_host. The last copies whole elements, `end` bytes of them, to where
 * element 0 of others of the same tree and extent lies, the root's offset included: `packed`. Of their plan the family counts;
 * GEN_GENERIC has none: pack.h serves it.
 */

/* A list of the tree, in the order of the form's nodes, padded so that entries may be fetched ahead (form_host.c). */
struct stridec_host_list {
    const void *at, *start;
    int64_t count;
    const struct stridec_host_section *section; /* of blocks that are cut into pieces, then start is NULL; else NULL */
    int64_t sections;
    int64_t entry;      /* bytes of an entry of `at` */
};
/* Blocks that are cut into pieces of one length. Piece k lies at origin + at[first + k] * step. A list's only section has no
 * origin, and the list's units are its steps. */
struct stridec_host_section {
    int64_t piece;      /* bytes */
    int64_t first, count; /* pieces; others may have the same entries */
    int64_t start;      /* where the first one lies in the packed bytes of the list */
    int64_t origin;     /* bytes */
    int64_t step;       /* bytes: the list's unit, or the piece */
};
/* templates/host.c declares the same structs. */
struct stridec_host {
    char *packed;       /* where packed byte `begin` is or goes */
    uint64_t user;      /* address of the origin of element 0 plus the root's offset */
    int64_t extent;     /* bytes from one element to the next; read only where wrap is 1 */
    int64_t begin, end; /* the range of the packed stream */
    int64_t wrap;       /* 1: elements lie `extent` apart; 0: one element, or the outermost stride simply goes on */
    const struct stridec_host_list *list;
};
typedef void stridec_host_function(const struct stridec_host *);
/* ORDER gen_direction; then GEN_HOST_COPY. */
#define GEN_HOST_ENTRIES {"stridec_host_pack", "stridec_host_unpack", "stridec_host_copy"}
enum { GEN_HOST_COPY = 2, GEN_HOST_WAYS };
/* The form's lists, all in one piece for free(); NULL and an empty *why without lists, NULL without memory. */
struct stridec_host_list *form_host_lists(const struct form *f, struct reason *why);

/* Plans and emits for a shape signature (no root offset). GEN_CONTIGUOUS trees yield source too: it
 * serves elements that lie apart. target is "host", "cuda" (an H200), "hip", or another GPU (gen_gpu_target); of
 * functions below not "host". Returns 0, or -1 with *why. Free with gen_kernel_free.
 *
 * knobs: by gen_direction, settings that stand instead of the model's choice, such as "word=8 each=4 store=exch"
 * (gen/knobs.lua lists them); either may be NULL, and so may knobs. A setting that does not suit the tree is
 * ignored; one that there is not is an error. */
int gen_kernel(struct gen *g, const char *signature, const char *target, const char *const knobs[2],
               struct gen_kernel *out, struct reason *why);
/* The same for a form. */
int gen_kernel_form(struct gen *g, const struct form *f, const char *target, const char *const knobs[2],
                    struct gen_kernel *out, struct reason *why);
/* The settings worth trying for a form in a direction, at most 60, each different from the others once the tree is
 * known: texts for `knobs`, the model's own choice first. Returns their number, or -1 with *why; *list ends with
 * NULL and is freed by gen_knob_list_free. */
int gen_knob_list(struct gen *g, const struct form *f, const char *target, enum gen_direction direction, char ***list,
                  struct reason *why);
void gen_knob_list_free(char **list);
/* Whether a text is settings that there are, with values that they may have: 0, or -1 with *why. */
int gen_knobs_check(struct gen *g, const char *knobs, struct reason *why);
/* The generic interpreter: one source for every type. */
int gen_generic(struct gen *g, const char *target, struct gen_kernel *out, struct reason *why);
void gen_kernel_free(struct gen_kernel *k);

/*
 * Links: kernels that move bytes from one layout into another, with no packed ones between. A module holds the entries
 * stridec_link_N for each number N of gen_plan.words; of gen_plan.way the first counts.
 */

/* Between two forms with a family of their own: N is a word's width in bytes. The argument is a struct stridec_launch a
 * side, `from` first, each cut after form_link_numbers of its numbers: user, extent, begin, end (as many bytes from
 * begin on both), wrap (the same on both; where it is 1, extent is read of both), program and numbers are the side's;
 * `packed` of the first is 1 where both sides lie alike (one form, one extent, one begin, the same lists), else 0;
 * done, ticket and ended are the second's.
 * Or, with NULL for both, between any layouts, many at once: the argument is a struct stridec_links, cut after its
 * first N links; where N is 0, they lie in device memory. That one alone interprets. */
int gen_link(struct gen *g, const struct form *from, const struct form *to, const char *target, struct gen_kernel *out,
             struct reason *why);
/* Numbers that each launch of a pair's argument has. */
int form_link_numbers(const struct form *from, const struct form *to);

#define GEN_LINK_LEVELS 5
#define GEN_LINK_MOST 39

/* Words `start` and the following of two layouts' packed order. Chains of strides are told by numbers: a word's digits
 * count from the innermost level on, each up to the level's count, the last without bound; on either side the word lies
 * at the sum of its digits times the steps. Without levels, each side is tree_program's words. templates/link_list.cu
 * declares the same struct. */
struct stridec_link {
    uint64_t from, to;
    union {
        int32_t step[GEN_LINK_LEVELS][2];   /* words: of from, of to; nothing lies past 2^31 words */
        struct {
            uint64_t at[2];                 /* device addresses; 0: packed bytes */
            int64_t extent[2];
        } program;
    };
    uint32_t magic[GEN_LINK_LEVELS - 1];    /* x / count is the upper half of x * magic, shifted right, for x < 2^31 */
    uint32_t count[GEN_LINK_LEVELS - 1];    /* at least 2 */
    uint32_t code;                          /* shifts, 5 bits a level; from bit 20 levels, from 23 log2 of the width,
                                             * from 26 the word that stridec_exchange waits for, from 1 on, or 0 */
    uint32_t start, words;                  /* their sum is below 2^31 */
    uint32_t first;                         /* block of the list that begins with this one's first words */
};

/* Blocks move threads * words_per_thread words of one link each. */
struct stridec_links {
    uint64_t done, ticket, ended;   /* as in stridec_launch */
    uint64_t list;          /* device address of the links, for the entry that has none in its argument */
    uint32_t n, blocks;
    struct stridec_link job[GEN_LINK_MOST];
};

/* Kernels of the module of lists for streams that wait for each other. A launch copies a whole argument: so there are
 * entries for short and for long ones, NAME_SOME and NAME_MOST. Each begins while the one before it in its stream ends,
 * where the launch allows that (CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION; from sm_90 on), and then waits. */

/* The argument of stridec_flags_N, for one block of threads. It stores 1 to words of device memory, the first `sets`,
 * once all earlier work of the stream is done; then it waits until each of the next `waits` is 1, and stores 0 there.
 * templates/link_list.cu declares the same struct. */
#define GEN_FLAGS_SOME 8
#define GEN_FLAGS_MOST 256
struct stridec_flags {
    uint32_t sets, waits;
    uint64_t at[GEN_FLAGS_MOST];
};

/* The argument of stridec_exchange_N: links, of which each may wait for one word of device memory. Its words are the
 * `ready` ones, which links wait for, then `sets`, `ends` and `begins`. First of all 1 is stored to `begins`. Once all
 * is moved the last block stores 0 to `ready` and 1 to `sets`; then it waits until each of `ends` is 1, and stores 0
 * there. Links without levels don't go so. templates/link_list.cu declares the same. */
#define GEN_EXCHANGE_LINKS 26
#define GEN_EXCHANGE_WORDS 128   /* no more than a block has threads */
#define GEN_EXCHANGE_SOME 64
#define GEN_EXCHANGE_MOST (GEN_EXCHANGE_WORDS + GEN_EXCHANGE_LINKS * (int)(sizeof(struct stridec_link) / 8))
struct stridec_exchange {
    uint64_t ended;         /* address of a word that counts blocks; 0 between launches */
    uint32_t n, blocks;
    uint32_t ready, sets, ends, begins;
    uint64_t rest[GEN_EXCHANGE_MOST];   /* the words' addresses, then the n links */
};
_Static_assert(GEN_EXCHANGE_MOST == 466, "link.lua has the number, too");
_Static_assert(sizeof(struct stridec_links) <= 4096, "older CUDA takes no longer argument");

/* The argument of stridec_link_marked, an entry of the module of lists: one nest, told by one link, or by two where the
 * last is a tail in narrower words, from or to packed bytes that a kernel of another GPU writes or reads at the same
 * time. Blocks take the packed bytes in their order, and the last one the tail. Packing, block i sets mark number i;
 * unpacking, a block first waits for the marks of its bytes. templates/link_list.cu declares the same. */
struct stridec_link_marked {
    uint64_t done, ticket, ended;   /* as in stridec_launch */
    uint64_t late, late_ticket;     /* as `done` of stridec_launch where a kernel waits for marks */
    uint64_t marks, mark;           /* as in stridec_launch; so are */
    int64_t chunk, patience;
    int64_t bytes;                  /* packed */
    uint32_t packs, n, blocks;      /* packs: 1, or 0; links; blocks of the first link */
    struct stridec_link job[2];     /* both with first = 0 */
};

/*
 * Reductions: kernels that combine rows of elements by MPI's predefined operations. A module holds the entry
 * stridec_reduce_w16, with all operations of a type; of gen_plan.way the first counts.
 */

/* ORDER GEN_OP: reduce.lua */
enum gen_op {
    GEN_SUM, GEN_PROD, GEN_MAX, GEN_MIN, GEN_LAND, GEN_LOR, GEN_LXOR, GEN_BAND, GEN_BOR, GEN_BXOR,
    GEN_MAXLOC, GEN_MINLOC
};
/* Types of elements: signed, unsigned, floats, complex numbers of two, C's bool, pairs of a value and an index. */
#define GEN_REDUCE_TYPES(X) \
    X(i8) X(i16) X(i32) X(i64) X(u8) X(u16) X(u32) X(u64) X(f32) X(f64) X(c64) X(c128) X(bool) \
    X(i16_i32) X(i32_i32) X(i64_i32) X(i64_i64) X(f32_i32) X(f64_i32) X(f32_f32) X(f64_f64)
#define GEN_REDUCE_TYPE(name) GEN_REDUCE_##name,
enum gen_reduce_type { GEN_REDUCE_TYPES(GEN_REDUCE_TYPE) GEN_REDUCE_TYPE_TOTAL };
const char *gen_reduce_type_name(enum gen_reduce_type type);
int gen_reduce(struct gen *g, enum gen_reduce_type type, const char *target, struct gen_kernel *out,
               struct reason *why);

/* The argument. Row k lies at from + k * step; `to` gets row 0 OP row 1 OP ... In blocks of threads * words_per_thread
 * words, or elements where words is 0; any other number of blocks is right as well. templates/reduce.cu declares the
 * same struct. */
struct stridec_reduce {
    uint64_t from, to;
    int64_t step;           /* bytes, of either sign */
    int64_t count;          /* elements of a row */
    int64_t words;          /* 16 bytes each, at the beginning of a row; from, to and step are multiples of 16 then */
    uint32_t rows, op;      /* at least one row */
    uint32_t all;           /* 1: each row from the second on also becomes the result up to it */
    uint32_t unused;
    uint64_t done, ticket, ended;   /* as in stridec_launch */
};

/* A hash of the generator itself (Lua, templates): part of every cache key. Hex, static. */
const char *gen_version(void);

#endif
