/* explain.c: reports the path of messages and its reason. */
#include "explain.h"
#include "base/hash_table.h"
#include "select.h"
#define XXH_INLINE_ALL
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define TOLD_MAX 1024   /* then no more is logged */

/* Paths with a reason to report. */
static const char *const paths[] = {"device", "oneshot", "staged", "zerocopy", "spilled", "shared"};
enum { ZEROCOPY = 3, SPILLED, SHARED, PATHS };

static int path_of(const char *name)
{
    for (int i = 0; i < PATHS; i++)
        if (!strcmp(paths[i], name)) return i;
    return -1;
}

/* Returns true the first time. Layouts come and go; equal signatures count as one. */
static bool is_new(const struct layout *l, int64_t bytes, int path)
{
    struct told {
        uint64_t key;
        UT_hash_handle hh;
    };
    static struct told *all;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct told *t;
    uint64_t key = XXH64(l->signature, strlen(l->signature), (uint64_t)bytes * PATHS + (uint64_t)path);
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, all, &key, sizeof key, t);
    bool fresh = !t && HASH_COUNT(all) < TOLD_MAX && (t = calloc(1, sizeof *t));
    if (fresh) {
        t->key = key;
        HASH_ADD(hh, all, key, sizeof t->key, t);
    }
    pthread_mutex_unlock(&lock);
    return fresh;
}

void explain_path(struct layout *l, int64_t count, int64_t bytes, const char *name)
{
    int path = path_of(name);
    uint64_t key = (uint64_t)bytes * PATHS + (uint64_t)path + 1;
    if (path < 0 || bytes <= 0 || !l->signature || atomic_exchange_explicit(&l->told, key, memory_order_relaxed) == key)
        return;
    char why[TUNE_WHY_MAX], line[TUNE_WHY_MAX + 64];
    if (!is_new(l, bytes, path)) return;
    if (path == SPILLED) snprintf(why, sizeof why, "the receiver can't read the sender's memory");
    else if (path == SHARED) snprintf(why, sizeof why, "host memory, to a rank of the node");
    else select_explain(l, count, bytes, path == ZEROCOPY, why);
    snprintf(line, sizeof line, "%lld bytes: %s: %s", (long long)bytes, name, why);
    log_write(LOG_INFO, "%.120s: %s", l->signature, line);
    stats_set_why(l->stats, name, bytes, why);
}
