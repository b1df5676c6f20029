#include "cores.h"
#include "module_cache.h"
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_bool scarce;

static int usable(void)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    return online > 0 && online < INT_MAX ? (int)online : INT_MAX;   /* more processors than a set holds */
}

void cores_start(int ranks)
{
    atomic_store(&scarce, ranks >= usable());
}

bool cores_are_scarce(void)
{
    return atomic_load_explicit(&scarce, memory_order_relaxed);
}

/* Sets the lock's key to the host name, because several machines may share the folder. */
static const char *turn_key(char key[HOST_NAME_MAX + 16])
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    snprintf(key, HOST_NAME_MAX + 16, "turn of %s", host);
    return key;
}

int cores_compile_lock(bool (*stop)(void))
{
    char key[HOST_NAME_MAX + 16];
    return cores_are_scarce() ? module_cache_lock(turn_key(key), stop) : -1;
}

void cores_compile_unlock(int turn)
{
    char key[HOST_NAME_MAX + 16];
    module_cache_unlock(turn, turn_key(key));
}
