/* trace.c: the memory of the timeline. */
#include "trace_internal.h"
#include "base/env.h"
#include "base/file.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/plain_locale.h"
#include "stats.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Texts are cut at TEXT_MOST characters; after TEXTS different ones all others are TEXT_REST. */
#define TEXT_MOST 120
#define TEXTS 4096
#define TEXT_REST "(other)"

atomic_bool trace_on;
_Thread_local const char *trace_way;

/* Constant once trace_on is true, except `used`. */
static struct {
    struct trace_span *spans;
    size_t most;
    atomic_size_t used;   /* above `most`: spans were dropped */
    size_t written;       /* of `used`; under the lock */
    char *path, title[48];
    int rank, ranks;
    pid_t process;
} own;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *trace_text(const char *text)
{
    struct text {
        UT_hash_handle hh;
        char text[TEXT_MOST + 1];
    };
    static struct text *all;
    static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;
    char key[TEXT_MOST + 1];
    struct text *t = NULL;
    size_t length = strlen(text);
    bool whole = length <= TEXT_MOST;
    if (whole) memcpy(key, text, length + 1);
    else snprintf(key, sizeof key, "%.*s...", TEXT_MOST - 3, text);
    pthread_mutex_lock(&texts_lock);
    HASH_FIND_STR(all, key, t);
    if (!t && HASH_COUNT(all) < TEXTS && (t = calloc(1, sizeof *t))) {
        memcpy(t->text, key, sizeof key);
        HASH_ADD_STR(all, text, t);
    }
    pthread_mutex_unlock(&texts_lock);
    return t ? t->text : TEXT_REST;
}

/* Sets up the memory; pages are used as they fill. Returns false with the reason in errno. */
static bool start(int rank, const char *file)
{
    const struct env *e = env_get();
    own.most = ((size_t)e->trace_mib << 20) / sizeof *own.spans;
    bool alone = file[strspn(file, "0123456789")] == '\0';
    own.process = getpid(), own.rank = alone ? rank : (int)own.process;
    snprintf(own.title, sizeof own.title, "%s%s", rank < 0 ? "" : "rank ", file);
    if (!file_make_folder(e->trace, 0777)) return false;
    if (asprintf(&own.path, "%s/%s.json", e->trace, file) < 0) return own.path = NULL, errno = ENOMEM, false;
    if (!own.most) return true;
    void *memory = mmap(NULL, own.most * sizeof *own.spans, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    own.spans = memory;
    return true;
}

void trace_start(int rank, int ranks, const char *file)
{
    const char *folder = env_get()->trace;
    if (!folder) return;
    pthread_mutex_lock(&lock);
    if (!own.path) {
        own.ranks = ranks;
        if (start(rank, file)) atomic_store(&trace_on, true);
        else log_write(LOG_WARN, "STRIDEC_TRACE=%s: no timeline is recorded: %s", folder, strerror(errno));
    }
    pthread_mutex_unlock(&lock);
}

void trace_add(const struct trace_span *span)
{
    static _Thread_local int thread;
    size_t i = atomic_fetch_add_explicit(&own.used, 1, memory_order_relaxed);
    if (i >= own.most) return;
    if (!thread) thread = (int)syscall(SYS_gettid);
    struct trace_span *to = &own.spans[i];
    to->type = span->type, to->way = span->way, to->begin = span->begin, to->end = span->end, to->bytes = span->bytes;
    to->peer = span->peer, to->number = span->number, to->thread = thread, to->kind = span->kind;
    atomic_store_explicit(&to->name, atomic_load_explicit(&span->name, memory_order_relaxed), memory_order_release);
}

void trace_add_plain(enum trace_kind kind, const char *name, int64_t begin)
{
    trace_add(&(struct trace_span){.kind = kind, .name = name, .begin = begin, .end = stats_now(), .bytes = -1,
                                   .peer = TRACE_NO_PEER});
}

void trace_finish(void)
{
    if (!trace_wanted() || getpid() != own.process || pthread_mutex_trylock(&lock)) return;
    struct plain_locale plain = plain_locale_enter();
    size_t used = atomic_load(&own.used), n = used < own.most ? used : own.most;
    bool fresh = own.path && used != own.written;
    struct trace_record t = {own.spans, n, used - n, own.rank, own.ranks, own.title};
    if (fresh && !trace_write(own.path, &t)) log_write(LOG_WARN, "%s can't be written: %s", own.path, strerror(errno));
    if (fresh && t.dropped)
        log_write(LOG_WARN, "%s lacks the last %llu events: STRIDEC_TRACE_MIB=%d was full", own.path,
                  (unsigned long long)t.dropped, env_get()->trace_mib);
    own.written = used;
    plain_locale_leave(plain);
    pthread_mutex_unlock(&lock);
}

/* Writes what is new when a process exits, if it has not called MPI_Finalize. */
__attribute__((destructor)) static void finish_at_exit(void)
{
    trace_finish();
}
