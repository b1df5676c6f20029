/* layout.c: layouts as attributes of datatypes. */
#include "layout.h"
#include "../../gen/hash.h"
#include "base/env.h"
#include "base/log.h"
#include "base/reserve.h"
#include "observe/trace.h"
#include "device/host_range.h"
#include "layout_parts.h"
#include "type_filter.h"
#include "type_reader.h"
#include "type_text.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIGNATURE_RUNS 256   /* of a list; the text of more takes longer than the rest of a commit */

atomic_bool layout_any;
static int layout_key = MPI_KEYVAL_INVALID;
/* Named types that have a layout. MPICH never deletes their attributes. */
static MPI_Datatype named[128];
static int named_count;

static char unread[] = "(unread)";   /* signature of a layout that the MPI must pack */

struct layout *layout_ref(struct layout *l)
{
    atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}

void layout_unref(struct layout *l)
{
    /* An MPI may end a request, and so a type, in a thread of its own. */
    if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
    MPI_Datatype made[] = {atomic_load(&l->bytes_type), atomic_load(&l->runs_type)};
    for (int i = 0; i < 2; i++)
        if (made[i] != MPI_DATATYPE_NULL) PMPI_Type_free(&made[i]);
    if (l->host_read) filter_pack_layout_ends(l);
    kernel_put(l->kernel);
    tree_unref(l->tree);
    free(atomic_load(&l->hulls));
    layout_parts_free(atomic_load(&l->by_memory)), layout_parts_free(atomic_load(&l->by_bytes));
    if (l->signature != unread) free(l->signature);
    reserve_put(l);
}

/* Shares the layout with a duplicate, which is committed if the original was (MPI-4.1 §5.1.10). */
static int copy_attribute(MPI_Datatype old, int key, void *extra, void *value, void *copy, int *flag)
{
    (void)old, (void)key, (void)extra;
    *(void **)copy = layout_ref(value);
    *flag = 1;
    return MPI_SUCCESS;
}

/* Types that a thread used recently, so that the MPI is not asked for each message. All entries become invalid when any
 * type is freed, since a new type may get its handle. */
#define RECENT_BITS 8
static atomic_ulong types_freed;
struct recent {
    MPI_Datatype type;
    struct layout *layout;   /* NULL: free entry */
    unsigned long freed;      /* value of types_freed at the store */
};
static _Thread_local struct recent *recent;   /* the thread's table; freed by recent_key */
static pthread_key_t recent_key;
static bool recent_kept;

static void recent_drop(void *table)
{
    recent = NULL;   /* a later destructor of the application may call the MPI */
    free(table);
}

/* Returns the thread's table; NULL without memory. A table in thread-local storage would prevent loading by dlopen. */
static struct recent *recent_table(void)
{
    if (recent || !recent_kept) return recent;
    recent = calloc((size_t)1 << RECENT_BITS, sizeof *recent);
    if (recent && pthread_setspecific(recent_key, recent)) free(recent), recent = NULL;
    return recent;
}

static int delete_attribute(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)key, (void)extra;
    atomic_fetch_add_explicit(&types_freed, 1, memory_order_release);
    filter_forget(type);
    layout_unref(value);
    return MPI_SUCCESS;
}

/* Creates the key once a process, since threads may keep tables when a new session starts. */
static void make_key(void)
{
    recent_kept = !pthread_key_create(&recent_key, recent_drop);
}

int layout_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    return PMPI_Type_create_keyval(copy_attribute, delete_attribute, &layout_key, NULL) == MPI_SUCCESS ? 0 : -1;
}

void layout_finish(void)
{
    atomic_fetch_add_explicit(&types_freed, 1, memory_order_release);   /* empties all tables for a later session */
    while (named_count > 0) PMPI_Type_delete_attr(named[--named_count], layout_key);
    if (layout_key != MPI_KEYVAL_INVALID) PMPI_Type_free_keyval(&layout_key);
}

/* Returns the innermost contiguous run; for several leaves their mean, since it only guides a choice. */
int64_t layout_block(const struct tree *t)
{
    while (t->kind == TREE_STRIDE || t->kind == TREE_INDEX) t = t->child;
    return t->kind == TREE_SEQ || t->kind == TREE_BLOCKS ? t->size / t->count : t->size;
}

int64_t layout_runs(const struct tree *t)
{
    if (t->kind == TREE_BLOCKS) return t->count;
    int64_t runs =
        t->kind == TREE_STRIDE || t->kind == TREE_INDEX ? t->count * layout_runs(t->child) : t->kind == TREE_DENSE;
    for (int64_t i = 0; t->kind == TREE_SEQ && i < t->count; i++) runs += layout_runs(t->part[i]);
    return runs;
}

/* Fills a layout that the MPI must pack with the numbers that the MPI reports. */
static void layout_opaque(struct layout *l, MPI_Datatype datatype, const struct reason *why)
{
    MPI_Count size, lb, extent, low, true_extent;
    PMPI_Type_size_x(datatype, &size);
    PMPI_Type_get_extent_x(datatype, &lb, &extent);
    PMPI_Type_get_true_extent_x(datatype, &low, &true_extent);
    if (size == 0) low = true_extent = 0;   /* MPICH reports the extreme integers for an empty type */
    l->size = size, l->extent = extent, l->low = low, l->high = low + true_extent, l->block = size;
    l->signature = unread;
    log_write(LOG_INFO, "a datatype of %lld bytes is left to the MPI: %s", (long long)size, why->text);
}

/* Returns the signature; the form's for a long list. */
static char *signature_of(const struct layout *l, struct reason *why)
{
    bool lengthy = l->kernel && l->size / l->block > SIGNATURE_RUNS && !tree_is_strided(l->tree);
    return lengthy ? strdup(kernel_form_signature(l->kernel)) : tree_signature(l->tree, why);
}

static bool layout_read(struct layout *l, MPI_Datatype datatype, struct reason *why)
{
    struct type *type = read_type(datatype, &l->grain, &l->basic, why);
    if (!type) return false;
    l->tree = tree_canonical(type->tree, why);
    l->size = type->size, l->extent = type->ub - type->lb;
    type_free(type);
    if (!l->tree) return false;
    l->low = l->tree->low, l->high = l->tree->high, l->block = layout_block(l->tree);
    l->run = l->size > 0 ? l->size / layout_runs(l->tree) : 0;
    if (l->size > 0) l->kernel = kernel_get(l->tree, why);
    l->signature = signature_of(l, why);
    if (l->signature && (l->kernel || l->size == 0)) return true;
    kernel_put(l->kernel), l->kernel = NULL;
    free(l->signature), tree_unref(l->tree), l->tree = NULL;
    return false;
}

struct layout *layout_new(void)
{
    static _Atomic uint64_t made;
    struct layout *l = reserve_get(sizeof *l);
    l->refs = 1;
    l->number = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) + 1;
    l->plain = MPI_DATATYPE_NULL;
    atomic_init(&l->bytes_type, MPI_DATATYPE_NULL);
    atomic_init(&l->runs_type, MPI_DATATYPE_NULL);
    return l;
}

/* Workaround (Open MPI 4.1): a copy of INT is named "Dup MPI_INT", though the application gave it no name. */
static void take_name(const struct layout *l, MPI_Datatype datatype)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length = 0;
    if (l->named || !env_get()->stats) return;
    if (PMPI_Type_get_name(datatype, name, &length) == MPI_SUCCESS && strncmp(name, "Dup ", 4) != 0)
        stats_add_name(l->stats, name);
}

/* Tells the statistics of a row's first type. */
static void describe(const struct layout *l, MPI_Datatype datatype)
{
    char reads[STATS_READS_MAX];
    struct reason why;
    if (stats_described(l->stats)) return;
    type_text(datatype, reads, sizeof reads);
    char *whole = env_get()->record && l->kernel && !l->named ? tree_signature(l->tree, &why) : NULL;
    const char *form = l->kernel ? kernel_form_signature(l->kernel) : l->signature;
    stats_describe(l->stats, &(struct stats_type){form, reads, whole, l->size, l->extent});
    free(whole);
}

static void explain_opaque(const struct layout *l, const struct reason *why)
{
    char line[sizeof why->text + 64];
    snprintf(line, sizeof line, "%lld bytes are packed by the MPI: %s", (long long)l->size, why->text);
    stats_add_line(l->stats, line);
}

/* Creates a layout for every type. Without one, an MPI that can't read device memory would get it, and an RTS header
 * would be delivered as payload. */
static struct layout *layout_make(MPI_Datatype datatype)
{
    struct layout *l = layout_new();
    struct reason why = {""};
    bool read = layout_read(l, datatype, &why);
    if (!read) layout_opaque(l, datatype, &why);
    l->named = read_combiner(datatype) == MPI_COMBINER_NAMED;
    if (l->named && layout_contiguous(l, 2) && l->low == 0) l->plain = datatype;
    l->stats = stats_row(l->signature, l->kernel ? gen_family_name(kernel_family(l->kernel)) : "mpi");
    if (!read) explain_opaque(l, &why);
    describe(l, datatype);
    take_name(l, datatype);
    return l;
}

static struct layout *layout_get(MPI_Datatype datatype)
{
    struct layout *l = NULL;
    int found = 0;
    return PMPI_Type_get_attr(datatype, layout_key, &l, &found) == MPI_SUCCESS && found ? l : NULL;
}

void layout_forget(MPI_Datatype datatype)
{
    const struct layout *l = datatype == MPI_DATATYPE_NULL ? NULL : layout_get(datatype);
    if (l && !l->named) PMPI_Type_delete_attr(datatype, layout_key);
}

void layout_name(MPI_Datatype datatype)
{
    const struct layout *l = layout_get(datatype);
    if (l) take_name(l, datatype);
}

static const char *layout_text(struct layout *l)
{
    const char *text = atomic_load_explicit(&l->text, memory_order_relaxed);
    if (text || !l->signature) return text;
    text = trace_text(l->signature);
    atomic_store_explicit(&l->text, text, memory_order_relaxed);
    return text;
}

const char *layout_title(MPI_Datatype datatype)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length = 0;
    if (datatype == MPI_DATATYPE_NULL) return NULL;
    bool named = PMPI_Type_get_name(datatype, name, &length) == MPI_SUCCESS && *name;
    struct layout *l = named ? NULL : layout_get(datatype);
    return named ? trace_text(name) : l ? layout_text(l) : NULL;
}

void layout_moved(struct layout *l, const struct stats_sample *sample)
{
    stats_add(l->stats, sample);
    if (!trace_way) trace_way = sample->transport;
    if (!sample->nanoseconds || !trace_wanted()) return;
    int64_t now = stats_now();
    trace_add(&(struct trace_span){.kind = TRACE_MOVE, .name = sample->transport, .type = layout_text(l),
                                   .begin = now - sample->nanoseconds, .end = now, .bytes = sample->bytes,
                                   .peer = TRACE_NO_PEER, .number = sample->launches});
}

/* Attaches a layout under a lock. Setting an attribute deletes the old one, so two threads must not both set it. The
 * type is read without the lock: a long list does not delay other threads' types. */
static struct layout *layout_first_use(MPI_Datatype datatype)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct layout *l = layout_get(datatype), *made = l ? NULL : layout_make(datatype);
    if (l) return l;
    pthread_mutex_lock(&lock);
    l = layout_get(datatype);
    if (!l && made && PMPI_Type_set_attr(datatype, layout_key, made) == MPI_SUCCESS) {
        l = made, made = NULL;
        atomic_store_explicit(&layout_any, true, memory_order_relaxed);
        if (l->named && named_count < (int)(sizeof named / sizeof *named)) named[named_count++] = datatype;
    }
    pthread_mutex_unlock(&lock);
    layout_unref(made);
    if (l && l->plain == datatype) host_type_add(datatype, l->size);
    return l;
}

struct layout *layout_of(MPI_Datatype datatype)
{
    if (datatype == MPI_DATATYPE_NULL) return NULL;
    unsigned long now = atomic_load_explicit(&types_freed, memory_order_acquire);
    struct recent *m = recent_table();
    if (!m) return layout_first_use(datatype);
    m += hash_place(host_type_bits(datatype), RECENT_BITS);
    if (m->type == datatype && m->freed == now && m->layout) return m->layout;
    struct layout *l = layout_get(datatype);
    if (!l) return layout_first_use(datatype);
    *m = (struct recent){datatype, l, now};
    return l;
}

MPI_Datatype type_like(MPI_Datatype datatype)
{
    MPI_Datatype like = MPI_DATATYPE_NULL;
    if (PMPI_Type_contiguous(1, datatype, &like) != MPI_SUCCESS) return MPI_DATATYPE_NULL;
    PMPI_Type_commit(&like);
    return like;
}

bool layout_contiguous(const struct layout *l, int64_t count)
{
    return l->tree && l->tree->kind == TREE_DENSE && (count == 1 || l->extent == l->size);
}

bool layout_has_gaps(const struct layout *l)
{
    return l->kernel && !layout_contiguous(l, 2);
}

int64_t layout_bytes(const struct layout *l, int64_t count)
{
    int64_t bytes, last, end;
    bool over = __builtin_mul_overflow(l->size, count, &bytes) || __builtin_mul_overflow(l->extent, count - 1, &last)
                || __builtin_add_overflow(last, last < 0 ? l->low : l->high, &end);
    return over ? -1 : bytes;
}

void layout_span(const struct layout *l, int64_t count, int64_t *first, int64_t *past)
{
    int64_t last = (count - 1) * l->extent;
    *first = l->low + (last < 0 ? last : 0);
    *past = l->high + (last > 0 ? last : 0);
}

/* Asks the MPI by a message to MPI_PROC_NULL, so that the error is the MPI's own. The buffer is never read, but must
 * not be NULL. MPICH ignores messages of no elements. Asked once a type, unless MPI_Type_commit was intercepted. */
int layout_committed(struct layout *l, MPI_Datatype datatype, MPI_Comm comm)
{
    if (atomic_load_explicit(&l->committed, memory_order_relaxed)) return MPI_SUCCESS;
    int rc = PMPI_Send(l, 1, datatype, MPI_PROC_NULL, 0, comm);
    if (rc == MPI_SUCCESS) atomic_store_explicit(&l->committed, true, memory_order_relaxed);
    return rc;
}
