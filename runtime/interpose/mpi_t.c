/* mpi_t.c: the counters of observe/counters.h as performance variables of the MPI's tool interface, beside its own.
 *
 * Their indices follow those that the MPI had when it was first asked. Variables that the MPI adds later come behind
 * them, so that no index changes. The MPI never sees an index or a handle of stridec's. While there is a handle, calls
 * are observed (observed.h), which counts their messages; without one nothing is counted but fallback copies. */
#include "base/abi_check.h"
#include "observe/counters.h"
#include "base/env.h"
#include "observed.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The functions that the next library gives. */
#define EACH_FUNCTION(DO) \
    DO(pvar_get_num) DO(pvar_get_info) DO(pvar_get_index) DO(pvar_handle_alloc) DO(pvar_handle_free) \
    DO(pvar_session_free) DO(pvar_start) DO(pvar_stop) DO(pvar_read) DO(pvar_readreset) DO(pvar_write) DO(pvar_reset) \
    DO(category_get_info) DO(category_get_pvars)
#define POINTER(name) __typeof__(MPI_T_##name) *name;

struct next_t {
    EACH_FUNCTION(POINTER)
};
static struct next_t next_mpi_t, next_pmpi_t;

/* Returns what the next library's function returns. */
#define CALL(name, ...) (next->name ? next->name(__VA_ARGS__) : MPI_T_ERR_NOT_INITIALIZED)

__attribute__((constructor)) static void find_next_t(void)
{
#define FIND(name) \
    *(void **)&next_mpi_t.name = dlsym(RTLD_NEXT, "MPI_T_" #name); \
    *(void **)&next_pmpi_t.name = dlsym(RTLD_NEXT, "PMPI_T_" #name);
    EACH_FUNCTION(FIND)
}

/*
 * Indices.
 */

static atomic_int first = -1;   /* index of the first variable of stridec's */

/* Returns `first`; -1 if there are none of stridec's, or the interface is not initialized. */
static int first_own(const struct next_t *next)
{
    int n = 0, unknown = -1;
    if (env_get()->disable || !abi_check_ok()) return -1;
    if (atomic_load(&first) < 0 && CALL(pvar_get_num, &n) == MPI_SUCCESS)
        atomic_compare_exchange_strong(&first, &unknown, n);
    return atomic_load(&first);
}

/* Returns the counter of a variable; -1 for the MPI's, with *index as the MPI has it. */
static int counter_of(const struct next_t *next, int *index)
{
    int from = first_own(next);
    if (from < 0 || *index < from) return -1;
    if (*index < from + COUNTERS) return *index - from;
    *index -= COUNTERS;
    return -1;
}

/* Returns the index that the program sees of a variable of the MPI's. */
static int index_shown(const struct next_t *next, int index)
{
    int from = first_own(next);
    return from < 0 || index < from ? index : index + COUNTERS;
}

static int get_num(const struct next_t *next, int *n)
{
    int rc = CALL(pvar_get_num, n);
    if (rc == MPI_SUCCESS && first_own(next) >= 0) *n += COUNTERS;
    return rc;
}

static int category_get_pvars(const struct next_t *next, int category, int length, int indices[])
{
    int rc = CALL(category_get_pvars, category, length, indices), n = 0;
    /* The MPI has set as many as the category has. */
    if (rc == MPI_SUCCESS) rc = CALL(category_get_info, category, NULL, NULL, NULL, NULL, NULL, &n, NULL);
    for (int i = 0; rc == MPI_SUCCESS && i < length && i < n; i++) indices[i] = index_shown(next, indices[i]);
    return rc;
}

/* Copies a text and sets *length to the room that it needs, as the MPI's functions do. */
static void get_text(const char *text, char *to, int *length)
{
    if (!length) return;
    if (to && *length > 0) snprintf(to, (size_t)*length, "%s", text);
    *length = (int)strlen(text) + 1;
}

static void set(int *to, int value)
{
    if (to) *to = value;
}

static int get_info(const struct next_t *next, int index, char *name, int *name_len, int *verbosity, int *var_class,
                    MPI_Datatype *datatype, MPI_T_enum *enumtype, char *desc, int *desc_len, int *bind, int *readonly,
                    int *continuous, int *atomic)
{
    int counter = counter_of(next, &index);
    if (counter < 0)
        return CALL(pvar_get_info, index, name, name_len, verbosity, var_class, datatype, enumtype, desc, desc_len,
                    bind, readonly, continuous, atomic);
    get_text(counters[counter].name, name, name_len);
    get_text(counters[counter].description, desc, desc_len);
    set(verbosity, MPI_T_VERBOSITY_USER_BASIC), set(var_class, MPI_T_PVAR_CLASS_COUNTER);
    if (datatype) *datatype = MPI_UNSIGNED_LONG_LONG;
    if (enumtype) *enumtype = MPI_T_ENUM_NULL;
    set(bind, MPI_T_BIND_NO_OBJECT), set(readonly, 0), set(continuous, 1), set(atomic, 0);
    return MPI_SUCCESS;
}

static int get_index(const struct next_t *next, const char *name, int var_class, int *index)
{
    int from = name && index && var_class == MPI_T_PVAR_CLASS_COUNTER ? first_own(next) : -1;
    for (int i = 0; from >= 0 && i < COUNTERS; i++)
        if (!strcmp(counters[i].name, name)) return *index = from + i, MPI_SUCCESS;
    int rc = CALL(pvar_get_index, name, var_class, index);
    if (rc == MPI_SUCCESS && index) *index = index_shown(next, *index);
    return rc;
}

/*
 * Handles.
 */

struct handle {
    MPI_T_pvar_session session;
    int counter;
    uint64_t zero;   /* the counter where the handle's value is 0 */
    struct handle *next;
};
static struct handle *handles;   /* under the lock, with what they hold */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns where the list has a handle of stridec's; NULL for the MPI's, without the lock. */
static struct handle **take(MPI_T_pvar_handle handle)
{
    pthread_mutex_lock(&lock);
    for (struct handle **at = &handles; *at; at = &(*at)->next)
        if ((void *)*at == (void *)handle) return at;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void drop(struct handle **at)
{
    struct handle *h = *at;
    *at = h->next;
    free(h);
    observed_want(-1);
}

static int handle_alloc(const struct next_t *next, MPI_T_pvar_session session, int index, void *object,
                        MPI_T_pvar_handle *handle, int *count)
{
    int counter = counter_of(next, &index);
    if (counter < 0) return CALL(pvar_handle_alloc, session, index, object, handle, count);
    if (session == MPI_T_PVAR_SESSION_NULL) return MPI_T_ERR_INVALID_SESSION;
    struct handle *h = malloc(sizeof *h);
    if (!h) return MPI_T_ERR_MEMORY;
    observed_want(1);
    pthread_mutex_lock(&lock);
    *h = (struct handle){session, counter, counters_value(counter), handles};
    handles = h;
    pthread_mutex_unlock(&lock);
    *handle = (MPI_T_pvar_handle)(void *)h, *count = 1;
    return MPI_SUCCESS;
}

static int handle_free(const struct next_t *next, MPI_T_pvar_session session, MPI_T_pvar_handle *handle)
{
    struct handle **at = handle ? take(*handle) : NULL;
    if (!at) return CALL(pvar_handle_free, session, handle);
    bool own = (*at)->session == session;
    if (own) drop(at), *handle = MPI_T_PVAR_HANDLE_NULL;
    pthread_mutex_unlock(&lock);
    return own ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

/* Frees the session's handles, too. */
static int session_free(const struct next_t *next, MPI_T_pvar_session *session)
{
    MPI_T_pvar_session of = session ? *session : MPI_T_PVAR_SESSION_NULL;
    int rc = CALL(pvar_session_free, session);
    pthread_mutex_lock(&lock);
    for (struct handle **at = &handles; rc == MPI_SUCCESS && *at;)
        if ((*at)->session == of) drop(at);
        else at = &(*at)->next;
    pthread_mutex_unlock(&lock);
    return rc;
}

/* Reads the value of a handle of stridec's into *value, if that is not NULL, and sets it to *to, if that is not. Sets
 * *rc. Returns false for the MPI's. */
static bool handle_use(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *value, const void *to, int *rc)
{
    struct handle **at = take(handle), *h = at ? *at : NULL;
    if (!h) return false;
    *rc = h->session == session ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
    uint64_t now = counters_value(h->counter);
    unsigned long long read = now - h->zero, start = 0;
    if (to) memcpy(&start, to, sizeof start);
    if (*rc == MPI_SUCCESS && value) memcpy(value, &read, sizeof read);
    if (*rc == MPI_SUCCESS && to) h->zero = now - start;
    pthread_mutex_unlock(&lock);
    return true;
}

static const unsigned long long nought = 0;

/* Starts or stops by the MPI's function. Variables of stridec's always count. */
static int start_or_stop(__typeof__(MPI_T_pvar_start) *function, MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    int rc;
    if (handle_use(session, handle, NULL, NULL, &rc)) return rc != MPI_SUCCESS ? rc : MPI_T_ERR_PVAR_NO_STARTSTOP;
    return function ? function(session, handle) : MPI_T_ERR_NOT_INITIALIZED;
}

static int start(const struct next_t *next, MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return start_or_stop(next->pvar_start, session, handle);
}

static int stop(const struct next_t *next, MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return start_or_stop(next->pvar_stop, session, handle);
}

static int read_value(const struct next_t *next, MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
    int rc;
    return handle_use(session, handle, buf, NULL, &rc) ? rc : CALL(pvar_read, session, handle, buf);
}

static int readreset(const struct next_t *next, MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
    int rc;
    return handle_use(session, handle, buf, &nought, &rc) ? rc : CALL(pvar_readreset, session, handle, buf);
}

static int write_value(const struct next_t *next, MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void *buf)
{
    int rc;
    return handle_use(session, handle, NULL, buf, &rc) ? rc : CALL(pvar_write, session, handle, buf);
}

/* Returns MPI_T_PVAR_ALL_HANDLES. A variable of the MPI is looked up: its descendants may not have it. */
static MPI_T_pvar_handle all_handles(void)
{
#ifdef MPI_T_PVAR_ALL_HANDLES
    return MPI_T_PVAR_ALL_HANDLES;
#else
    static MPI_T_pvar_handle *all;
    if (!all) *(void **)&all = dlsym(RTLD_DEFAULT, "MPI_T_PVAR_ALL_HANDLES");
    return all ? *all : MPI_T_PVAR_HANDLE_NULL;
#endif
}

static int reset(const struct next_t *next, MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    int rc;
    if (handle_use(session, handle, NULL, &nought, &rc)) return rc;
    bool all = handle != MPI_T_PVAR_HANDLE_NULL && handle == all_handles();
    pthread_mutex_lock(&lock);
    for (struct handle *h = all ? handles : NULL; h; h = h->next)
        if (h->session == session) h->zero = counters_value(h->counter);
    pthread_mutex_unlock(&lock);
    return CALL(pvar_reset, session, handle);
}

/*
 * The stubs.
 */

#define STUB(name, own, declarations, ...) \
    EXPORT int MPI_T_##name declarations { return own(&next_mpi_t, __VA_ARGS__); } \
    EXPORT int PMPI_T_##name declarations { return own(&next_pmpi_t, __VA_ARGS__); }

STUB(pvar_get_num, get_num, (int *num_pvar), num_pvar)
STUB(pvar_get_info, get_info,
     (int pvar_index, char *name, int *name_len, int *verbosity, int *var_class, MPI_Datatype *datatype,
      MPI_T_enum *enumtype, char *desc, int *desc_len, int *bind, int *readonly, int *continuous, int *atomic),
     pvar_index, name, name_len, verbosity, var_class, datatype, enumtype, desc, desc_len, bind, readonly, continuous,
     atomic)
STUB(pvar_get_index, get_index, (const char *name, int var_class, int *pvar_index), name, var_class, pvar_index)
STUB(pvar_handle_alloc, handle_alloc,
     (MPI_T_pvar_session session, int pvar_index, void *obj_handle, MPI_T_pvar_handle *handle, int *count), session,
     pvar_index, obj_handle, handle, count)
STUB(pvar_handle_free, handle_free, (MPI_T_pvar_session session, MPI_T_pvar_handle *handle), session, handle)
STUB(pvar_session_free, session_free, (MPI_T_pvar_session *session), session)
STUB(pvar_start, start, (MPI_T_pvar_session session, MPI_T_pvar_handle handle), session, handle)
STUB(pvar_stop, stop, (MPI_T_pvar_session session, MPI_T_pvar_handle handle), session, handle)
STUB(pvar_read, read_value, (MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf), session, handle, buf)
STUB(pvar_readreset, readreset, (MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf), session, handle, buf)
STUB(pvar_write, write_value, (MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void *buf), session, handle,
     buf)
STUB(pvar_reset, reset, (MPI_T_pvar_session session, MPI_T_pvar_handle handle), session, handle)
STUB(category_get_pvars, category_get_pvars, (int cat_index, int len, int indices[]), cat_index, len, indices)
