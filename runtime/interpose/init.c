/* init.c: MPI_Init, MPI_Finalize, sessions and MPI_Type_commit: stridec starts and ends here. */
#include "base/abi_check.h"
#include "base/launcher.h"
#include "base/env.h"
#include "base/file_share.h"
#include "base/log.h"
#include "base/modex.h"
#include "base/mpi_abi.h"
#include "base/self_comm.h"
#include "observe/trace.h"
#include "base/world_rank.h"
#include "collective/exchange.h"
#include "collective/neighbor_topology.h"
#include "datatype/byte_types.h"
#include "datatype/type_filter.h"
#include "device/device_internal.h"
#include "hostpack/host_pack.h"
#include "interpose.h"
#include "kernel/cores.h"
#include "next.h"
#include "observed.h"
#include "stream_comm.h"
#include "node/ipc_cache.h"
#include "node/ipc_export.h"
#include "node/segment.h"
#include "node/shm_pool.h"
#include "protocol/channel.h"
#include "protocol/host_select.h"
#include "protocol/kept_jobs.h"
#include "protocol/pipeline.h"
#include "request/probed.h"
#include "request/record.h"
#include "tune/active.h"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* How long MPI_Init waits for the ranks of the node to meet (ipc_cache_meet), where the program has a GPU's context by
 * then: 8 ms on two H200s, which the first messages would take otherwise. */
#define SETTLE_NS 20000000

/* The open sessions, plus one for the world, in any order. stridec runs while this is above 0. */
static int begun;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void count_ranks(int rank)
{
    int size = 1;
    if (world_exists()) PMPI_Comm_size(MPI_COMM_WORLD, &size);
    stats_start(world_exists() ? size : 0);
    int told = launcher_local_size(rank, size);
    cores_start(told < 0 ? size : told);
}

/* Names the file of this process: its rank, with the process where others of the job have the same one. */
static void start_trace(int rank)
{
    char file[32];
    int ranks = 0;
    MPI_Comm parent = MPI_COMM_NULL;
    if (!env_get()->trace) return;
    if (world_exists()) PMPI_Comm_get_parent(&parent), PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank < 0) snprintf(file, sizeof file, "process-%d", (int)getpid());
    else if (parent != MPI_COMM_NULL) snprintf(file, sizeof file, "%d-%d", rank, (int)getpid());
    else snprintf(file, sizeof file, "%d", rank);
    trace_start(rank, ranks, file);
}

static void start(void)
{
    int rank = launcher_rank();
    if (env_get()->disable || !abi_check_ok()) {
        driver_hide();
        return;
    }
    if (world_exists()) PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    log_set_rank(rank);
    if (rank <= 0) env_check();
    start_trace(rank);
    table_start();
    if (layout_start()) {
        log_write(LOG_ERROR, "the MPI gives no attribute key for datatypes: stridec steps aside");
        return;
    }
    /* Without RTS headers, packed bytes may still arrive in parts that not every type accepts (byte_types.h). */
    const int64_t nothing = PARTS_ARE_WHOLE ? SHM_SEND_MIN : INT64_MAX;
    const int64_t least[] = {[NODE_NOTHING] = nothing, [NODE_HOST] = SHM_SEND_MIN, [NODE_DEVICE] = RTS_SHORT_MIN};
    enum node_domains domains = node_start();
    if (domains && probed_start()) node_finish(), domains = NODE_NOTHING;
    rts_arm(least[domains]);
    if (domains == NODE_DEVICE) atomic_store(&node_own()->takes_short, 1);
    count_ranks(rank);
    atomic_store(&interpose_recording, env_get()->record != NULL), atomic_store(&interpose_naming, env_get()->stats);
    filter_start(domains && env_get()->on_host.serves ? SHM_SEND_LEAST : INT64_MAX, host_collects_least(),
                 host_rules);
    observed_activate();
    if (domains == NODE_DEVICE) kernel_set_chore(ipc_cache_meet), kernel_warm_up();
}

static void begin(bool threads)
{
    pthread_mutex_lock(&lock);
    record_begin(threads);
    if (begun++ == 0) start();
    else rts_arm(rts_least());   /* the thread level may be new */
    pthread_mutex_unlock(&lock);
}

static const char *why_empty(bool active)
{
    const struct env *e = env_get();
    if (e->disable) return "STRIDEC_DISABLE leaves all to the MPI";
    if (!active) return "stridec has stepped aside, for the reason that it gave at the start";
    if (!e->on_host.serves)
        return "no derived type was used in device memory, and STRIDEC_HOST=off leaves host memory to the MPI";
    return "no derived type was packed or sent in device memory, or again and again in host memory";
}

/* Reports for the world, or for this process alone, which needs no MPI. Where stridec is off it takes part with no
 * rows: the other ranks wait for this one. The world's report is the last: a session may outlive the world. */
static void report(bool world, bool active)
{
    static bool done;
    if (!env_get()->stats || !abi_check_ok() || done || (!world && !active)) return;
    done = world;
    const struct device *d = active && driver_get() ? device_first() : NULL;
    /* A copy reads each byte and writes it. */
    stats_report(world ? MPI_COMM_WORLD : MPI_COMM_NULL,
                 &(struct stats_about){.empty = why_empty(active), .unread = active ? filter_unread() : 0,
                                             .gpu = d ? d->name : NULL, .copy_rate = d ? d->gpu.memory / 2.0 : 0});
}

static void stop(void)
{
    filter_finish();
    channels_finish(), enqueued_finish();
    record_finish();
    rts_arm(INT64_MAX);
}

static void finish(void)
{
    kernel_set_chore(NULL);
    exchange_finish(), neighbor_topology_finish(), stream_comm_finish();
    kept_jobs_finish();
    ipc_cache_finish(), ipc_export_finish(), probed_finish(), shm_pool_finish(), node_finish(), world_rank_finish();
    layout_finish();
    typed_copy_finish();
    bool stopped = kernel_finish();
    trace_finish();
    if (driver_get()) device_finish();
    if (stopped) table_finish(), file_share_finish();
    self_comm_finish();
}

/* Ends a session or the world. The world's end always reports: all ranks take part, also those that still have a
 * session. */
static void end(bool world)
{
    pthread_mutex_lock(&lock);
    bool last = --begun == 0;
    bool active = last ? atomic_exchange(&interpose_active, INTERPOSE_OFF) : atomic_load(&interpose_active);
    if (last && active) stop();
    if (last || world) report(world, active);
    if (last && active) finish();
    pthread_mutex_unlock(&lock);
}

/* Ends the world: the delete callback of the oldest attribute of MPI_COMM_SELF. MPI_Finalize deletes attributes in
 * reverse order. The program's own callbacks may still exchange messages with ranks that are not in MPI_Finalize. */
static int end_world_callback(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    interpose_depth++;
    pipeline_finish();
    end(true);
    interpose_depth--;
    return MPI_SUCCESS;
}

static bool world_attr_set;   /* end_world_callback will be called */

static void end_world_by_attr(void)
{
    int key = MPI_KEYVAL_INVALID;
    if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_world_callback, &key, NULL) != MPI_SUCCESS) return;
    world_attr_set = PMPI_Comm_set_attr(MPI_COMM_SELF, key, &world_attr_set) == MPI_SUCCESS;
    PMPI_Comm_free_keyval(&key);
}

static void begin_world(void)
{
    int level = MPI_THREAD_MULTIPLE;
    if (abi_check_ok()) end_world_by_attr();
    PMPI_Query_thread(&level);
    begin(level == MPI_THREAD_MULTIPLE);
    kernel_settle(SETTLE_NS);
    bool able = atomic_load(&interpose_active) && (!pipeline_wanted() || !probed_start());
    if (abi_check_ok() && pipeline_start(able) && rts_least() > RNDV_MIN) rts_arm(RNDV_MIN);
}

/* Marks this rank, unless the user has decided or no rank of the job is on another machine. A marked rank must call
 * pipeline_start. */
static void mark_world(void)
{
    const struct env *e = env_get();
    modex_begin(STARTS_BY_PMIX && !e->disable && !e->pipeline_named && !launcher_one_node() && abi_check_ok());
}

int call_Init(const struct next *next, int *argc, char ***argv)
{
    mark_world();
    int rc = next->Init(argc, argv);
    modex_end();
    if (rc == MPI_SUCCESS) begin_world();
    return rc;
}

int call_Init_thread(const struct next *next, int *argc, char ***argv, int required, int *provided)
{
    mark_world();
    int rc = next->Init_thread(argc, argv, required, provided);
    modex_end();
    if (rc == MPI_SUCCESS) begin_world();
    return rc;
}

/* Writes the timeline first: the MPI may end the process without exit handlers. */
int call_Abort(const struct next *next, MPI_Comm comm, int errorcode)
{
    trace_finish();
    return next->Abort(comm, errorcode);
}

int call_Finalize(const struct next *next)
{
    if (!world_attr_set) pipeline_finish(), end(true);
    return next->Finalize();
}

#ifdef HAVE_Session_init
/* Assumes that any number of threads call MPI: other sessions may have other thread levels. */
int call_Session_init(const struct next *next, MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session)
{
    int rc = next->Session_init(info, errhandler, session);
    if (rc != MPI_SUCCESS) return rc;
    begin(true);
    if (atomic_load(&interpose_active)) self_comm_set_session(*session);
    return rc;
}

int call_Session_finalize(const struct next *next, MPI_Session *session)
{
    if (session && *session != MPI_SESSION_NULL) end(false);
    return next->Session_finalize(session);
}
#endif

int call_Type_commit(const struct next *next, MPI_Datatype *datatype)
{
    kernel_warm_up();
    int rc = next->Type_commit(datatype);
    struct layout *l = rc == MPI_SUCCESS ? layout_of(*datatype) : NULL;
    if (l) atomic_store_explicit(&l->committed, true, memory_order_relaxed);
    return rc;
}

int call_Type_free(const struct next *next, MPI_Datatype *datatype)
{
    filter_forget(*datatype);
    layout_forget(*datatype);
    return next->Type_free(datatype);
}

int call_Type_set_name(const struct next *next, MPI_Datatype datatype, const char *name)
{
    int rc = next->Type_set_name(datatype, name);
    if (rc == MPI_SUCCESS) layout_name(datatype);
    return rc;
}
