/* @(title): @(family) family, in host memory. Made by stridec. */
typedef long long s64;
typedef unsigned long long u64;

/* gen/gen.h's struct stridec_host and its lists. */
struct stridec_section {
    s64 piece, first, count, start, origin, step;
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
typedef unsigned unsigned_word __attribute__((may_alias, aligned(1)));
typedef double number __attribute__((may_alias, aligned(1)));
typedef int words __attribute__((vector_size(16), may_alias, aligned(1)));
typedef double numbers __attribute__((vector_size(16), may_alias, aligned(1)));
_Static_assert(sizeof(words) == 16 && sizeof(numbers) == 16, "a compiler without GNU C's vectors");

#define FAST static inline __attribute__((always_inline))
#define PART static __attribute__((noinline))
#define COPY(to, from, n) __builtin_memcpy(to, from, n)

/* In a loop of short moves: no vectors built of several words, which are slower. */
#define ONE_BY_ONE __asm__ volatile("")

/* Two words from their places, as one. */
FAST void two_words(char *to, const char *first, const char *second)
{
    const u64 a = *(const unsigned_word *)first, b = *(const unsigned_word *)second;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const u64 both = a | b << 32;
#else
    const u64 both = a << 32 | b;
#endif
    COPY(to, &both, 8);
}
FAST void two_numbers(char *to, const char *first, const char *second)
{
    *(numbers *)to = (numbers){*(const number *)first, *(const number *)second};
}

/* What Intel's processors since Sapphire Rapids do quicker than others, and others quicker without.
 * LISTED, LISTED_EACH: before and in a loop that packs words from listed places, so many at a time: there the compiler
 * gathers (lists of 4 to 256 KiB 1.1 to 1.4 times as quick; on AMD's up to 2.2 times slower).
 * FETCH_INTEL: fetches a line ahead there, FETCH_OTHERS elsewhere (host_loop.lua; of pieces of 24 B of a list, 1 MiB is packed
 * 1.05 times as quick; on AMD's nothing is won).
 * WRITES_MEMORY: so many bytes of a list are written where it is worth fetching ahead.
 * HIDDEN: a step that the compiler is not to know, so that it moves the words of blocks one by one (host_loop.lua).
 * VECTORS: the words of short blocks are put together (host_loop.lua), where the compiler has shuffles; AMD: the same on AMD's.
 * ZEN: AMD's from the second generation on.
 * LONG_LINES: blocks up to here are moved line by line, not by a call: of what is in no cache AMD's move 11 KiB 1.1 to 2.5 times as
 * quick so as glibc, which takes `rep movsb` for them.
 * PAST: blocks of 512 B and more (moves.lua) are stored past the caches in calls whose two sides fill three quarters of CACHE, the
 * bytes of the third cache (AMD's, 32 MiB: 16 MiB in blocks of 512 B to 1 MiB 1.0 to 2.2 times as quick; 8 MiB 0.8 to 1.3).
 * ALIGNS: blocks of 256 B and more (moves.lua) are moved to whole lines of the target, behind a first move that overlaps them
 * (blocks of 264 B to 3780 B 1.1 to 1.9 times as quick, 16 KiB of them in all). */
#define FETCH_ANY(p) __builtin_prefetch(p)
#define HIDE(n) ({ s64 hidden = n; __asm__("" : "+r"(hidden)); hidden; })
#ifdef __AVX512FP16__
#define LISTED(n)
#define LISTED_EACH (void)0
#define FETCH_INTEL(p) __builtin_prefetch(p)
#define FETCH_OTHERS(p) (void)0
#define WRITES_MEMORY(n) ((n) >= 1 << 23)
#define HIDDEN(n) HIDE(n)
#define ALIGNS 1
#else
#define PRAGMA(text) _Pragma(#text)
#define LISTED(n) PRAGMA(GCC unroll n)
#define LISTED_EACH ONE_BY_ONE
#define FETCH_INTEL(p) (void)0
#define FETCH_OTHERS(p) __builtin_prefetch(p)
#define WRITES_MEMORY(n) 0
#define HIDDEN(n) n
#define ALIGNS 0
#endif

#ifndef CACHE
#define CACHE (32LL << 20)
#endif
#if defined __AVX2__ && (defined __znver2__ || defined __znver3__ || defined __znver4__ || defined __znver5__)
#define ZEN
#define PAST(a) ((a)->end - (a)->begin >= CACHE / 8 * 3)
#define LONG_LINES (512 << 10)
#else
#define PAST(a) 0
#endif
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#if defined __AVX512FP16__
#define VECTORS
#elif defined ZEN
#define AMD
#endif
#endif
#endif

@ if quads then
#if defined VECTORS || defined AMD
/* n blocks of five words, `step` bytes apart: four in five stores, in their order: others take 1.2 times as long. Nothing beside
 * a block is read. */
typedef double pair __attribute__((vector_size(16)));
typedef double quad __attribute__((vector_size(32)));
typedef double any_quad __attribute__((vector_size(32), may_alias, aligned(1)));
FAST void quads_40(char *restrict p, const char *restrict u, s64 step, s64 n)
{
#define QUAD(at) (quad)*(const any_quad *)(u + (at))
#define WORD_OF(at) *(const number *)(u + (at))
#define STORE(at, q) do { *(any_quad *)(p + (at)) = (q); __asm__ volatile("" : : : "memory"); } while (0)
    s64 k = 0;
    for (; k + 4 <= n; k += 4, p += 160, u += 4 * step) {
        const quad b = QUAD(step), c = QUAD(2 * step + 8);
        const quad end = {WORD_OF(32), WORD_OF(32), WORD_OF(32), WORD_OF(32)};
        const quad begin = {WORD_OF(3 * step), WORD_OF(3 * step), WORD_OF(3 * step), WORD_OF(3 * step)};
        const pair last = *(const numbers *)(u + step + 24), first = *(const numbers *)(u + 2 * step);
        STORE(0, QUAD(0));
        STORE(32, __builtin_shufflevector(__builtin_shufflevector(b, b, 0, 0, 1, 2), end, 4, 1, 2, 3));
        STORE(64, __builtin_shufflevector(last, first, 0, 1, 2, 3));
        STORE(96, __builtin_shufflevector(__builtin_shufflevector(c, c, 1, 2, 3, 3), begin, 0, 1, 2, 7));
        STORE(128, QUAD(3 * step + 8));
    }
    for (; k < n; k++, p += 40, u += step) COPY(p, u, 40);
}
#endif

@ end
@ if splits then
/* Eight blocks of five words, `step` bytes apart, all read before the first is written; two words at a time are written,
 * which lie in one line where the blocks begin at multiples of 16. */
FAST void split_40(char *to, s64 step, const char *from)
{
    double a[8], b[8], c[8], d[8], e[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        const number *const at = (const number *)(from + i * 40);
        a[i] = at[0], b[i] = at[1], c[i] = at[2], d[i] = at[3], e[i] = at[4];
    }
    __asm__ volatile("" ::: "memory");
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++, to += step)
        *(numbers *)to = (numbers){a[i], b[i]}, *(numbers *)(to + 16) = (numbers){c[i], d[i]}, *(number *)(to + 32) = e[i];
}

@ end
@ if lists then
/* n pieces of `bytes` at the places `at`, which count in units. `all`: packed bytes of the call, up to its end. */
#ifdef __AVX512FP16__
FAST void pack_listed(char *restrict p, const char *restrict u, const int *restrict at, s64 n, s64 unit, s64 bytes)
{
    if (bytes == 4 || bytes == 8) {
        for (s64 k = 0; k < n; k++) COPY(p + k * bytes, u + at[k] * unit, bytes);
        return;
    }
#pragma GCC unroll 16
    for (s64 k = 0; k < n; k++) {
        COPY(p + k * bytes, u + at[k] * unit, bytes);
        ONE_BY_ONE;
    }
}
/* In more lines than the first cache holds, words are scattered by the compiler (16 KiB to 256 KiB 1.1 times as quick), and three
 * words written one by one: no move across two lines (1.03 times as quick). */
FAST void unpack_listed(const char *restrict p, char *restrict u, const int *restrict at, s64 n, s64 unit, s64 bytes, s64 all)
{
    const int spread = all >= 8192;
    if (spread && bytes == 4 && 8 % unit == 0) {
        for (s64 k = 0; k < n; k++) COPY(u + at[k] * unit, p + k * 4, 4);
        return;
    }
    if (spread && bytes == 24) {
        for (s64 k = 0; k < n; k++) {
            number *const to = (number *)(u + at[k] * unit);
#pragma GCC unroll 3
            for (s64 j = 0; j < 3; j++) {
                to[j] = ((const number *)p)[k * 3 + j];
                ONE_BY_ONE;
            }
        }
        return;
    }
#pragma GCC unroll 16
    for (s64 k = 0; k < n; k++) {
        COPY(u + at[k] * unit, p + k * bytes, bytes);
        ONE_BY_ONE;
    }
}
#else
/* Two places are read at a time, and words put together before they are stored (AMD: 4 B packed 1.4 to 1.7 times as quick up
 * to 1 MiB, other lengths and unpacking 1.05 to 1.5). */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FORMER(two) (s64)(int)(two)
#define LATTER(two) ((two) >> 32)
#else
#define FORMER(two) ((two) >> 32)
#define LATTER(two) (s64)(int)(two)
#endif
#define TWO_AT(k) ({ s64 two; COPY(&two, at + (k), 8); two; })
FAST void pack_listed(char *restrict p, const char *restrict u, const int *restrict at, s64 n, s64 unit, s64 bytes)
{
    s64 k = 0;
    if (bytes == 4) {
#pragma GCC unroll 2
        for (; k + 4 <= n; k += 4) {
            const s64 a = TWO_AT(k), b = TWO_AT(k + 2);
#define WORD(place) *(const word *)(u + (place) * unit)
            *(words *)(p + k * 4) = (words){WORD(FORMER(a)), WORD(LATTER(a)), WORD(FORMER(b)), WORD(LATTER(b))};
            ONE_BY_ONE;
        }
    }
#pragma GCC unroll 8
    for (; k + 2 <= n; k += 2) {
        const s64 a = TWO_AT(k);
        const char *const first = u + FORMER(a) * unit, *const second = u + LATTER(a) * unit;
        if (bytes == 8) two_numbers(p + k * 8, first, second);
        else COPY(p + k * bytes, first, bytes), COPY(p + (k + 1) * bytes, second, bytes);
        ONE_BY_ONE;
    }
    if (k < n) COPY(p + k * bytes, u + at[k] * unit, bytes);
}
FAST void unpack_listed(const char *restrict p, char *restrict u, const int *restrict at, s64 n, s64 unit, s64 bytes, s64 all)
{
    s64 k = 0;
#ifdef AMD
    if (bytes == 12 && all >= 1 << 21) {   /* to memory: three words one by one (4 MiB 0.9 times as long; 1 MiB 1.25) */
        for (; k < n; k++) {
            word *const to = (word *)(u + at[k] * unit);
#pragma GCC unroll 3
            for (s64 j = 0; j < 3; j++) {
                to[j] = ((const word *)p)[k * 3 + j];
                ONE_BY_ONE;
            }
        }
    }
#endif
    (void)all;
#pragma GCC unroll 8
    for (; k + 2 <= n; k += 2) {
        const s64 a = TWO_AT(k);
        COPY(u + FORMER(a) * unit, p + k * bytes, bytes);
        COPY(u + LATTER(a) * unit, p + (k + 1) * bytes, bytes);
        ONE_BY_ONE;
    }
    if (k < n) COPY(u + at[k] * unit, p + k * bytes, bytes);
}
#endif

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

/* Blocks that are worth no call, in whole lines; then the rest by a line that overlaps. n >= 64. A target that begins at a line has
 * no other first move: 12 KiB of 768 B would be 1.2 times slower. AMD's: four halves of the target's lines read before they are
 * written (blocks of 720 B to 11 KiB 1.02 to 1.08 times as quick as lines from where they begin, 12 KiB of them up to 1.5), apart,
 * as the compiler would make three times the code of it. */
#ifdef ZEN
typedef int half_line __attribute__((vector_size(32), may_alias, aligned(1)));
/* n, 8 at most; all are read before the first is written. past: past the caches, where `to` is a multiple of 32. */
FAST void half_lines(char *to, const char *from, int n, int past)
{
    half_line v[8], *const at = (half_line *)to;
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) v[i] = ((const half_line *)from)[i];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) {
        if (past) __asm__ volatile("vmovntdq %1, %0" : "=m"(at[i]) : "x"(v[i]));
        else at[i] = v[i];
        __asm__ volatile("");
    }
}
PART void copy_lines(char *to, const char *from, s64 n)
{
    s64 i = 32 - (s64)((u64)to & 31);
    COPY(to, from, 32);
    for (; i + 128 <= n; i += 128) half_lines(to + i, from + i, 4, 0);
    for (; i + 32 <= n; i += 32) half_lines(to + i, from + i, 1, 0);
    if (i < n) COPY(to + n - 32, from + n - 32, 32);
}
#else
#define MOVE_LINE do { COPY(to + i, from + i, 64); __asm__ volatile(""); } while (0)   /* no call of memcpy instead */
FAST void copy_lines(char *to, const char *from, s64 n)
{
    s64 i = 0;
    if (ALIGNS && (u64)to & 63) {
        COPY(to, from, 64);
        for (i = 64 - (s64)((u64)to & 63); i + 64 <= n; i += 64) MOVE_LINE;
    } else {
#pragma GCC unroll 4
        for (; i + 64 <= n; i += 64) MOVE_LINE;
    }
    if (i < n) COPY(to + n - 64, from + n - 64, 64);
}
#endif

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

@ if past then
/* copy_long: blocks that are worth a call elsewhere. copy_past: whole lines past the caches, four read before the first is written,
 * and what lies in others by other moves: a line that is written both ways takes many times as long. n >= 64. */
#ifdef ZEN
FAST void copy_long(char *to, const char *from, s64 n)
{
    if (n <= LONG_LINES) copy_lines(to, from, n);
    else copy_call(to, from, n);
}
PART void copy_past(char *to, const char *from, s64 n)
{
    s64 i = (s64)(-(u64)to & 63);
    copy_any(to, from, i);
    for (; i + 256 <= n; i += 256) half_lines(to + i, from + i, 8, 1);
    for (; i + 64 <= n; i += 64) half_lines(to + i, from + i, 2, 1);
    copy_any(to + i, from + i, n - i);
}
#define PAST_END(a) do { if (PAST(a)) __asm__ volatile("sfence" ::: "memory"); } while (0)
#else
FAST void copy_long(char *to, const char *from, s64 n) { copy_call(to, from, n); }
FAST void copy_past(char *to, const char *from, s64 n) { copy_call(to, from, n); }
#define PAST_END(a) (void)0
#endif

@ end
@ for _, length in ipairs(lengths) do
FAST void copy_@(length.bytes)(char *to, const char *from@(length.past and ", int past" or ""))
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
/* Apart, as it saves registers that one whole element has no need of. */
PART void @(way)_range(const struct stridec_host *a)
{
    char *p = a->packed, *u = (char *)a->user;
    if (a->begin >= a->end) return;
    if (a->wrap)
        @(way)_part_elements(p, u, a->begin, a->end, a);
    else
        @(way)_part_1(p, u, a->begin, a->end, a);
}
__attribute__((visibility("default"))) void stridec_host_@(way)(const struct stridec_host *a)
{
@   if whole then
    if (a->begin == 0 && a->end == @(whole)) {   /* one element: loops of constant counts */
        @(way)_all_1(a->packed, (char *)a->user, a);
@     if past then
        PAST_END(a);
@     end
        return;
    }
@   end
    @(way)_range(a);
@   if past then
    PAST_END(a);
@   end
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
@ if past then
    PAST_END(a);
@ end
}
