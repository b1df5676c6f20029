#include "cores.h"
#include "base/job_id.h"
#include "module_cache.h"
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_bool scarce;

static cpu_set_t of_job;
static atomic_bool known;   /* of_job is set */

static int usable(void)
{
    cpu_set_t own, set;
    int launcher = job_launcher();
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (atomic_load(&known)) return CPU_COUNT(&of_job);   /* a later session; compiles may read it */
    if (sched_getaffinity(0, sizeof own, &own))   /* more processors than a set holds */
        return online > 0 && online < INT_MAX ? (int)online : INT_MAX;
    if (launcher < 0 || sched_getaffinity(launcher, sizeof set, &set)) return CPU_COUNT(&own);
    CPU_OR(&of_job, &own, &set);
    atomic_store_explicit(&known, true, memory_order_release);
    return CPU_COUNT(&of_job);
}

void cores_spread(void)
{
    if (atomic_load_explicit(&known, memory_order_acquire)) sched_setaffinity(0, sizeof of_job, &of_job);
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
