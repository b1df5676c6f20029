/* modex.c: see modex.h. The types and numbers are of the PMIx standard, versions 4 and 5. */
#include "modex.h"
#include "activity.h"
#include "env.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "stridec.1"   /* with the version of the words and the RTS of marked ranks (pipeline.c) */

enum { SUCCESS = 0, NOT_SUPPORTED = -47 };   /* pmix_status_t */
enum { GLOBAL = 3 };                         /* pmix_scope_t */
enum { BOOL = 1 };                           /* pmix_data_type_t */
struct proc {
    char space[256];
    uint32_t rank;
};
struct value {
    uint16_t type;
    union {
        bool flag;
        void *largest[3];
    } data;
};
struct info {
    char key[512];
    uint32_t flags;
    struct value value;
};
typedef void (*done_function)(int status, void *data);
typedef int (*fence_function)(const struct proc *, size_t, const struct info *, size_t, done_function, void *);
typedef int (*put_function)(uint8_t scope, const char *key, struct value *);
typedef int (*get_function)(const struct proc *, const char *key, const struct info *, size_t, struct value **);

static _Thread_local bool to_mark;   /* this thread is in MPI_Init, and the mark is still to be put */

static get_function get;
static struct {
    done_function done;
    void *data;
} watched;
static atomic_bool fenced;   /* all ranks have passed a fence since this one put its mark */

/* ---- the function that stands before PMIx's ---- */

/* Returns the loaded library or program that holds the address; NULL if unknown. The caller closes it. */
static void *library_of(const void *address)
{
    Dl_info where;
    return dladdr(address, &where) ? dlopen(where.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : NULL;
}

/* Returns true if the function is of this or another copy of stridec. */
static bool of_stridec(const void *function)
{
    Dl_info one, other;
    void *library = library_of(function), *serves = library ? dlsym(library, "stridec_serves") : NULL;
    if (library) dlclose(library);
    return serves && dladdr(serves, &one) && dladdr(function, &other) && one.dli_fbase == other.dli_fbase;
}

/* Returns PMIx's function as `caller`, the address of a call, would find it without stridec; NULL if there is none. A
 * component of the MPI may have PMIx in a scope of its own, which only the component's handle reaches. */
static void *beneath(const char *name, const void *caller)
{
    void *library = library_of(caller), *found = library ? dlsym(library, name) : NULL;
    if (library) dlclose(library);
    return found && !of_stridec(found) ? found : dlsym(RTLD_NEXT, name);
}

static bool known_version(const char *(*version)(void))
{
    static const char name[] = "OpenPMIx ";
    const char *text = version ? version() : "";
    int major = strncmp(text, name, sizeof name - 1) ? 0 : atoi(text + sizeof name - 1);
    return major == 4 || major == 5;
}

static bool set(const char *parameter)
{
    const bool *value = dlsym(RTLD_DEFAULT, parameter);
    return !value || *value;
}

/* Returns true if a rank may leave MPI_Init before its fence has ended, or end while others are still in MPI_Init (Open
 * MPI's parameters). PMIx 4 and 5 leave requests for the entries of a rank that has ended without an answer. */
static bool may_be_apart(void)
{
    return set("ompi_async_mpi_init") || set("ompi_async_mpi_finalize");
}

/* Commits the mark by PMIx's library, that of the function `fence`. Returns true if it did. */
static bool commit_mark(void *fence)
{
    void *library = library_of(fence);
    const char *(*version)(void);
    put_function put;
    int (*commit)(void);
    if (!library) return false;
    *(void **)&version = dlsym(library, "PMIx_Get_version");
    *(void **)&put = dlsym(library, "PMIx_Put");
    *(void **)&commit = dlsym(library, "PMIx_Commit");
    *(void **)&get = dlsym(library, "PMIx_Get");
    dlclose(library);
    struct value yes = {.type = BOOL, .data.flag = true};
    return put && commit && get && known_version(version) && put(GLOBAL, MARK, &yes) == SUCCESS && commit() == SUCCESS;
}

static void watched_done(int status, void *data)
{
    (void)data;
    if (status == SUCCESS) atomic_store_explicit(&fenced, true, memory_order_release);
    watched.done(status, watched.data);
}

EXPORT int PMIx_Fence_nb(const struct proc *procs, size_t num_procs, const struct info *info, size_t num_info,
                         done_function done, void *data)
{
    fence_function next;
    *(void **)&next = beneath(__func__, __builtin_return_address(0));
    if (!next) return NOT_SUPPORTED;
    bool marks = to_mark && !procs && done && !may_be_apart() && commit_mark(*(void **)&next);
    if (marks) to_mark = false, watched.done = done, watched.data = data;
    return next(procs, num_procs, info, num_info, marks ? watched_done : done, marks ? NULL : data);
}

/* ---- the marks ---- */

void modex_begin(bool mark)
{
    to_mark = mark && env_variable("PMIX_NAMESPACE");
}

void modex_end(void)
{
    to_mark = false;
}

bool modex_ready(void)
{
    return atomic_load_explicit(&fenced, memory_order_acquire);
}

/* Returns true if the server has the mark. `how` says where it looks. */
static bool ask(int rank, const char *how)
{
    struct info info = {.value = {.type = BOOL, .data.flag = true}};
    struct proc of = {.rank = (uint32_t)rank};
    struct value *mark = NULL;
    snprintf(info.key, sizeof info.key, "%s", how);
    snprintf(of.space, sizeof of.space, "%s", env_variable("PMIX_NAMESPACE"));
    bool marked = get(&of, MARK, &info, 1, &mark) == SUCCESS;
    if (marked) free(mark);
    return marked;
}

/* A request without these words waits for a mark that is missing. "Immediate" asks this machine's server, which knows
 * its own ranks' marks and may lack others'. "Refresh" asks the server of the rank's machine, unless it is this one. */
bool modex_marked(int rank)
{
    return modex_ready() && (ask(rank, "pmix.immediate") || ask(rank, "pmix.get.refresh"));
}
