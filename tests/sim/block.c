/* block.c: the threads of a block, one at a time, on stacks of their own where they meet at barriers.
 *
 * The first stack runs one thread after another. Where one has to wait it keeps that stack, and the next stack takes
 * over the threads that have not begun; so kernels without barriers switch once for each block, whatever its size. As
 * soon as all have begun, every thread waits or has returned, and those that may go on do, in turn. A thread that has
 * returned is not waited for (Volta and later).
 *
 * Stacks stay for later blocks. A switch saves no signal mask and no floating-point modes: nothing changes them. */
#include "block.h"
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_BYTES = 64 << 10, STACKS_MAX = 1025, WARP = 32, SHARED_POISON = 0xA5 };

typedef void *place[5];   /* what __builtin_setjmp fills */

struct stack {
    place at;
    bool waits;            /* else it has run out of threads */
    unsigned thread, mask; /* as block_calls.meet was told */
    int line;
};

static struct stack *stacks[STACKS_MAX];   /* those that wait come first, in the order of their threads */
static struct stack *current;
static place driver;                       /* whoever resumed `current` */
static struct {
    void (*threads)(void *);
    void *launch;
} job;
static struct {
    void *memory;
    size_t bytes;
} shared;

void block_shared(void *memory, size_t bytes)
{
    shared.memory = memory;
    shared.bytes = bytes;
}

/* --- stacks --- */

/* Compiled without a look into it, or at who calls it. */
#ifdef __clang__
#define APART __attribute__((noinline, optnone))
#else
#define APART __attribute__((noipa))
#endif

/* Apart from hop: in one function the compiler takes the jump's target for somewhere else. */
APART static void leap(place to)
{
    __builtin_longjmp(to, 1);
}

APART static void hop(place from, place to)
{
    if (!__builtin_setjmp(from)) leap(to);
}

APART static void enter(const ucontext_t *start)
{
    if (!__builtin_setjmp(driver)) setcontext(start);
}

static void stack_main(void)
{
    struct stack *s = current;
    for (;;) {
        hop(s->at, driver);
        job.threads(job.launch);
        s->waits = false;
    }
}

static void out_of_memory(void)
{
    fputs("simulated GPU: no memory for the stacks of a block's threads\n", stderr);
    abort();
}

/* Above a closed page. Returns at stack_main's first hop. */
static struct stack *stack_new(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct stack *s = calloc(1, sizeof *s);
    char *memory = mmap(NULL, page + STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    ucontext_t start;
    if (!s || memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) || getcontext(&start)) out_of_memory();
    start.uc_stack = (stack_t){.ss_sp = memory + page, .ss_size = STACK_BYTES};
    start.uc_link = NULL;
    makecontext(&start, stack_main, 0);
    current = s;
    enter(&start);
    return s;
}

/* Until it waits again or runs out of threads. */
static bool resume(struct stack *s)
{
    current = s;
    hop(driver, s->at);
    return s->waits;
}

static void meet(unsigned thread, unsigned mask, int line)
{
    struct stack *s = current;
    s->waits = true;
    s->thread = thread;
    s->mask = mask;
    s->line = line;
    hop(s->at, driver);
}

/* --- barriers --- */

static void diverged(const struct stack *a, const struct stack *b)
{
    fprintf(stderr,
            "simulated GPU: a divergent barrier: thread %u of a block waits for %s at line %d, "
            "thread %u for %s at line %d\n",
            a->thread, a->mask ? "its warp" : "its block", a->line, b->thread, b->mask ? "its warp" : "its block",
            b->line);
    abort();
}

/* Some thread at a warp's barrier waits for one at the block's, which waits for all: none would ever go on. */
static void check_warps(unsigned waiting)
{
    for (unsigned i = 0; i < waiting; i++)
        for (unsigned j = i < WARP ? 0 : i - WARP; stacks[i]->mask && j < waiting && j < i + WARP; j++)
            if (!stacks[j]->mask && stacks[i]->thread / WARP == stacks[j]->thread / WARP &&
                stacks[i]->mask >> stacks[j]->thread % WARP & 1)
                diverged(stacks[i], stacks[j]);
}

/* Lets those go on that may, the block's barrier being passed only once none is at a warp's. Later phases run in
 * turns forwards and backwards, so that a missing barrier shows whichever way it is needed. Returns how many wait. */
static unsigned pass(unsigned waiting, bool backwards)
{
    unsigned at_warp = 0, left = 0;
    for (unsigned i = 0; i < waiting; i++) at_warp += stacks[i]->mask != 0;
    if (at_warp) check_warps(waiting);
    for (unsigned i = 1; !at_warp && i < waiting; i++)
        if (stacks[i]->line != stacks[0]->line) diverged(stacks[0], stacks[i]);
    for (unsigned i = 0; i < waiting; i++) {
        struct stack *s = stacks[backwards ? waiting - 1 - i : i];
        if (!at_warp || s->mask) resume(s);
    }
    for (unsigned i = 0; i < waiting; i++) {
        struct stack *s = stacks[i];
        if (!s->waits) continue;
        stacks[i] = stacks[left];
        stacks[left++] = s;
    }
    return left;
}

static void run(void (*threads)(void *), void *launch)
{
    unsigned waiting = 0;
    if (shared.bytes) memset(shared.memory, SHARED_POISON, shared.bytes);
    job.threads = threads;
    job.launch = launch;
    for (;; waiting++) {
        if (!stacks[waiting]) stacks[waiting] = stack_new();
        if (!resume(stacks[waiting])) break;
    }
    for (bool backwards = true; waiting; backwards = !backwards) waiting = pass(waiting, backwards);
}

const struct block_calls block_calls = {run, meet};
