/* @(title): @(family) family, in host memory. Made by stridec. */
typedef long long s64;
typedef unsigned long long u64;

/* gen/gen.h's struct stridec_host and its lists. */
struct stridec_section {
    s64 piece, first, count, start;
};
struct stridec_list {
    const void *at, *start;
    s64 count;
    const struct stridec_section *section;
    s64 sections, entry;
};
struct stridec_host {
    char *packed;      /* where packed byte `begin` is or goes */
    u64 user;          /* address of the origin of element 0 plus the root's offset */
    s64 extent;        /* bytes from one element to the next; read only where wrap is 1 */
    s64 begin, end;    /* the range of the packed stream */
    s64 wrap;          /* 1: elements lie `extent` apart; 0: the outermost stride goes on */
    const struct stridec_list *list;
};

typedef int word __attribute__((may_alias, aligned(1)));
typedef double number __attribute__((may_alias, aligned(1)));

#define FAST static inline __attribute__((always_inline))
#define PART static __attribute__((noinline))
#define COPY(to, from, n) __builtin_memcpy(to, from, n)

/* In a loop of short moves: no vectors built of several words, which are slower. */
#define ONE_BY_ONE __asm__ volatile("")

/* What Intel's processors since Sapphire Rapids do quicker than others, and others quicker without.
 * LISTED, LISTED_EACH: before and in a loop that packs words from listed places, so many at a time: there the compiler
 * gathers (lists of 4 to 256 KiB 1.1 to 1.4 times as quick; on AMD's up to 2.2 times slower).
 * FETCH_INTEL: fetches a line ahead there, FETCH_OTHERS elsewhere (host_loop.lua; of pieces of 24 B of a list, 1 MiB is packed
 * 1.05 times as quick; on AMD's nothing is won).
 * WRITES_MEMORY: so many bytes of a list are written where it is worth fetching ahead.
 * HIDDEN: a step that the compiler is not to know, so that it puts blocks of three words together word by word, not by shuffling
 * 16 bytes of each (4 to 64 KiB 1.1 times as quick; on AMD's 0.9). */
#define FETCH_ANY(p) __builtin_prefetch(p)
#define HIDE(n) ({ s64 hidden = n; __asm__("" : "+r"(hidden)); hidden; })
#ifdef __AVX512FP16__
#define LISTED(n)
#define LISTED_EACH (void)0
#define FETCH_INTEL(p) __builtin_prefetch(p)
#define FETCH_OTHERS(p) (void)0
#define WRITES_MEMORY(n) ((n) >= 1 << 23)
#define HIDDEN(n) HIDE(n)
#else
#define PRAGMA(text) _Pragma(#text)
#define LISTED(n) PRAGMA(GCC unroll n)
#define LISTED_EACH ONE_BY_ONE
#define FETCH_INTEL(p) (void)0
#define FETCH_OTHERS(p) __builtin_prefetch(p)
#define WRITES_MEMORY(n) 0
#define HIDDEN(n) n
#endif

@ if splits then
/* Eight blocks of five words, `step` bytes apart, all read before the first is written; two words at a time are written,
 * which lie in one line where the blocks begin at multiples of 16. */
FAST void split_40(char *to, s64 step, const char *from)
{
    typedef double pair __attribute__((vector_size(16), may_alias, aligned(1)));
    double a[8], b[8], c[8], d[8], e[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        const number *const at = (const number *)(from + i * 40);
        a[i] = at[0], b[i] = at[1], c[i] = at[2], d[i] = at[3], e[i] = at[4];
    }
    __asm__ volatile("" ::: "memory");
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++, to += step)
        *(pair *)to = (pair){a[i], b[i]}, *(pair *)(to + 16) = (pair){c[i], d[i]}, *(number *)(to + 32) = e[i];
}

@ end
/* The packed byte of the list behind a section's last. */
FAST s64 section_end(const struct stridec_section *s)
{
    return s->start + s->count * s->piece;
}

/* By the process's library: a compiler that knew the length might think of something slower. Not memcpy: this code is
 * linked with no library, and glibc gives those who ask for no version its oldest one, which knows no wide moves. */
extern void *library_copy(void *to, const void *from, unsigned long n) __asm__("memmove");
FAST void copy_call(char *to, const char *from, s64 n)
{
    library_copy(to, from, (unsigned long)n);
}

/* Blocks that are worth no call, in whole lines; then the rest by a line that overlaps. n >= 64. */
FAST void copy_lines(char *to, const char *from, s64 n)
{
    s64 i = 0;
#pragma GCC unroll 4
    for (; i + 64 <= n; i += 64) {
        COPY(to + i, from + i, 64);
        __asm__ volatile("");   /* no call of memcpy instead */
    }
    if (i < n) COPY(to + n - 64, from + n - 64, 64);
}

/* Any length: short ones by two moves that may overlap. */
#define TWICE(width) \
    if (n >= width) { \
        char first[width], last[width]; \
        COPY(first, from, width), COPY(last, from + n - width, width); \
        COPY(to, first, width), COPY(to + n - width, last, width); \
        return; \
    }
FAST void copy_any(char *to, const char *from, s64 n)
{
    if (n > 128) {
        copy_call(to, from, n);
        return;
    }
    TWICE(64) TWICE(32) TWICE(16) TWICE(8) TWICE(4) TWICE(2)
    if (n) *to = *from;
}

@ for _, length in ipairs(lengths) do
FAST void copy_@(length.bytes)(char *to, const char *from)
{
@   for _, line in ipairs(length.lines) do
    @(line)
@   end
}

@ end
@ for _, line in ipairs(sizes) do
@(line)
@ end
@ for _, way in ipairs { "pack", "unpack" } do
/*
 * @(way)
 */

FAST void @(way)_any(char *p, char *u, s64 n)
{
    @(way == "pack" and "copy_any(p, u, n)" or "copy_any(u, p, n)");
}
FAST void @(way)_bytes(char *p, char *u, s64 n)
{
    @(way == "pack" and "copy_call(p, u, n)" or "copy_call(u, p, n)");
}

@   for _, line in ipairs(code[way]) do
@(line)
@   end
__attribute__((visibility("default"))) void stridec_host_@(way)(const struct stridec_host *a)
{
    char *p = a->packed, *u = (char *)a->user;
    if (a->begin >= a->end) return;
@   if whole then
    if (a->begin == 0 && a->end == @(whole)) {   /* one element: loops of constant counts */
        @(way)_all_1(p, u, a);
        return;
    }
@   end
    if (a->wrap)
        @(way)_part_elements(p, u, a->begin, a->end, a);
    else
        @(way)_part_1(p, u, a->begin, a->end, a);
}

@ end
/*
 * copy: from `user` to where an element like it begins, at `packed`; all of `end` bytes, in whole elements.
 */

@ for _, line in ipairs(code.copy) do
@(line)
@ end
__attribute__((visibility("default"))) void stridec_host_copy(const struct stridec_host *a)
{
    char *p = a->packed, *u = (char *)a->user;
    if (a->end <= 0) return;
    if (a->wrap)
        copy_run_elements(p, u, 0, a->end / (@(element)), a);
    else
@ if goes_on then
        copy_run_1(p, u, 0, a->end / (@(goes_on)), a);
@ elseif whole then
        copy_all_1(p, u, a);
@ else
        copy_call(p, u, a->end);
@ end
}
