/* fault.c: says in one line why the process dies when the host, or a kernel, touches what it may not.
 *
 * Faults outside the simulator's memory go to the handler that was there before; so do the others once
 * the line is written, or to the default action where there was none. */
#include "sim.h"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

_Thread_local volatile int fault_in_kernel;

enum { RANGES_MAX = 1024 };
static struct {
    uintptr_t base, end;
} range[RANGES_MAX];
static int ranges;
static struct sigaction before[NSIG];

void fault_range(uintptr_t base, size_t bytes)
{
    if (ranges == RANGES_MAX) return;
    range[ranges].base = base;
    range[ranges].end = base + bytes;
    __atomic_store_n(&ranges, ranges + 1, __ATOMIC_RELEASE);
}

static bool is_ours(uintptr_t p)
{
    int n = __atomic_load_n(&ranges, __ATOMIC_ACQUIRE);
    for (int i = 0; i < n; i++)
        if (p >= range[i].base && p < range[i].end) return true;
    return false;
}

static void say(const char *what, const void *address)
{
    char line[160];
    int n = snprintf(line, sizeof line, "simulated GPU: %s at %p\n", what, address);
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0) return;
}

static void chain(int number, siginfo_t *info, void *machine)
{
    const struct sigaction *old = &before[number];
    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(number, info, machine);
    } else if (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN) {
        /* The faulting instruction runs again and ends the process. */
        signal(number, SIG_DFL);
    } else {
        old->sa_handler(number);
    }
}

static void on_fault(int number, siginfo_t *info, void *machine)
{
    if (fault_in_kernel)
        say(number == SIGSEGV || number == SIGBUS ? "a kernel touched memory that it cannot reach"
                                                  : "a kernel made a misaligned or trapped access",
            info->si_addr);
    else if (number == SIGSEGV && is_ours((uintptr_t)info->si_addr))
        say("the host touched device memory", info->si_addr);
    chain(number, info, machine);
}

void fault_install(void)
{
    static const int caught[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP};
    static bool installed;
    if (installed) return;
    installed = true;
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigemptyset(&action.sa_mask);
        sigaction(caught[i], &action, &before[caught[i]]);
    }
}
