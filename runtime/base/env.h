/* env.h: the environment. One table in env.c names each STRIDEC_* variable, its allowed values and its purpose. */
#ifndef STRIDEC_ENV_H
#define STRIDEC_ENV_H
#include <stdbool.h>

enum env_transport { ENV_AUTO, ENV_DEVICE, ENV_ONESHOT, ENV_STAGED, ENV_ZEROCOPY, ENV_PIPELINED };
enum env_host { ENV_HOST_OFF, ENV_HOST_ON, ENV_HOST_AUTO };
enum env_stats { ENV_STATS_NONE, ENV_STATS_SCREEN, ENV_STATS_ALL, ENV_STATS_JSON };
enum env_engine { ENV_ENGINE_AUTO, ENV_ENGINE_KERNEL, ENV_ENGINE_COPY };

/* Says what a value of STRIDEC_TRANSPORT allows. `always`: wherever it is possible, whatever the tuned table says. */
struct transport_ways {
    bool by_table;                    /* the tuned table alone selects */
    bool zerocopy, zerocopy_always;   /* messages of a node go zero-copy */
    bool chunks, chunks_always;       /* messages between nodes go in chunks, if all ranks can (pipeline.h) */
    enum { PACKED_BY_TABLE, PACKED_DEVICE, PACKED_ONESHOT, PACKED_STAGED } packed;   /* where packed bytes lie */
};
/* Says what a value of STRIDEC_HOST allows. */
struct host_ways {
    bool serves, always;              /* data in host memory; always: without trials and long use first */
};

struct env {
    bool disable;                  /* STRIDEC_DISABLE: every call passes to the MPI */
    int log_level;                 /* STRIDEC_LOG=error|warn|info|debug */
    enum env_transport transport;  /* STRIDEC_TRANSPORT=auto|device|oneshot|staged|zerocopy|pipelined */
    struct transport_ways ways;    /* of `transport`: code asks these */
    bool pipeline, pipeline_named;   /* STRIDEC_PIPELINE: its value; it is set (then alike on every rank) */
    const char *chunks;            /* STRIDEC_CHUNKS: see chunk_settings.h; NULL if none */
    enum env_engine engine;        /* STRIDEC_ENGINE=auto|kernel|copy */
    int sm_limit;                  /* STRIDEC_SM_LIMIT: multiprocessors that kernels may use; 0: all */
    int special;                   /* STRIDEC_SPECIAL: words of a move; see kernel_special.c; 0: kernels at commit */
    int keep;                      /* STRIDEC_KEEP: MiB of a GPU kept between messages; 0: a sixteenth */
    const char *cache_dir;   /* STRIDEC_CACHE_DIR, else $XDG_CACHE_HOME/stridec, else ~/.cache/stridec; NULL if none */
    const char *dump;              /* STRIDEC_DUMP: folder for generated sources and modules, or NULL */
    bool stats;                    /* counts are kept: for STRIDEC_STATS or STRIDEC_RECORD */
    enum env_stats stats_form;     /* STRIDEC_STATS=0|1|all|json:FILE: what MPI_Finalize tells */
    const char *stats_text;        /* its text; NULL if unset */
    const char *stats_file;        /* FILE of json:FILE; else NULL */
    const char *record;            /* STRIDEC_RECORD: file for a spec of the committed types, or NULL */
    const char *trace;             /* STRIDEC_TRACE: folder of the timelines, or NULL */
    int trace_mib;                 /* STRIDEC_TRACE_MIB: memory of a rank's timeline */
    bool ranges;                   /* a profiler is attached that wants ranges of NVTX (nvtx.h) */
    bool observed, timed;          /* trace or ranges: calls are followed; stats or those: moves are timed, too */
    const char *aot;               /* STRIDEC_AOT: folder written by `stridec gen`, or NULL */
    enum env_host host;            /* STRIDEC_HOST=off|on|auto: serve data in host memory */
    struct host_ways on_host;      /* of `host`: code asks these */
    const char *cc;                /* STRIDEC_CC: the C compiler for host code, or NULL */
    const char *knobs;             /* STRIDEC_KNOBS: see kernel_knobs.h; NULL if none */
    const char *tune;   /* STRIDEC_TUNE, else $XDG_CONFIG_HOME/stridec/tune, else ~/.config/stridec/tune; or NULL */
    bool tune_named;               /* STRIDEC_TUNE is set: a missing file is worth a warning */
};

/* Returns the settings, read at the first call, and constant since but for the functions below. Thread safe. */
const struct env *env_get(void);
/* Returns a variable's value at the first env_get; NULL if unset or empty. Static. Thread safe, unlike getenv. */
const char *env_variable(const char *name);
/* Returns all variables at the first env_get as NAME=TEXT, ended by NULL. Static storage. */
char *const *env_all(void);
/* Logs a warning for each unknown STRIDEC_* name and each value that is not allowed, and lists the allowed ones. */
void env_check(void);
/* Calls `each` for every STRIDEC_* variable that is set. `problem`: what is wrong and what is allowed; NULL if nothing
 * is wrong. */
typedef void env_visit(void *arg, const char *name, const char *value, const char *problem);
void env_each(env_visit *each, void *arg);
/* For messages of the command's own, before MPI_Init: statistics, specs and timelines are of programs. */
void env_unobserved(void);
/* For `stridec doctor` in a job, on all ranks alike. env_widen, before MPI_Init: what is not set lets every protocol
 * be used, at once. env_force, with no message under way: sets STRIDEC_TRANSPORT anew. */
void env_widen(void);
void env_force(enum env_transport transport);

#endif
