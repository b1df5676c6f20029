/* env.h: the environment. Of the STRIDEC_* variables one table (env.c) names each, what it allows and what it does. */
#ifndef STRIDEC_ENV_H
#define STRIDEC_ENV_H
#include <stdbool.h>
#include <stddef.h>

enum env_transport { ENV_AUTO, ENV_DEVICE, ENV_ONESHOT, ENV_STAGED, ENV_ZEROCOPY, ENV_PIPELINED };
enum env_host { ENV_HOST_OFF, ENV_HOST_ON, ENV_HOST_AUTO };
enum env_engine { ENV_ENGINE_AUTO, ENV_ENGINE_KERNEL, ENV_ENGINE_COPY };

struct env {
    bool disable;                  /* STRIDEC_DISABLE: every call goes straight down */
    int log_level;                 /* STRIDEC_LOG=error|warn|info|debug */
    enum env_transport transport;  /* STRIDEC_TRANSPORT=auto|device|oneshot|staged|zerocopy|pipelined */
    bool pipeline, pipeline_named; /* STRIDEC_PIPELINE: the value; it is set, as it must be on every rank then */
    const char *chunks;            /* STRIDEC_CHUNKS: see chunk_settings.h; NULL if none */
    enum env_engine engine;        /* STRIDEC_ENGINE=auto|kernel|copy */
    int sm_limit;                  /* STRIDEC_SM_LIMIT: multiprocessors that kernels may use; 0: all */
    int keep;                      /* STRIDEC_KEEP: MiB of a GPU's memory that a process keeps between messages; 0: a sixteenth */
    const char *cache_dir;   /* STRIDEC_CACHE_DIR, else $XDG_CACHE_HOME/stridec, else ~/.cache/stridec; NULL if none */
    const char *dump;              /* STRIDEC_DUMP: folder for what is generated, or NULL */
    bool stats;                    /* STRIDEC_STATS: table at MPI_Finalize */
    const char *aot;               /* STRIDEC_AOT: folder written by `stridec gen`, or NULL */
    enum env_host host;            /* STRIDEC_HOST=off|on|auto: data in host memory, packed and sent */
    const char *cc;                /* STRIDEC_CC: the C compiler for it, or NULL */
    const char *knobs;             /* STRIDEC_KNOBS: see kernel_knobs.h; NULL if none */
    const char *tune;              /* STRIDEC_TUNE, else $XDG_CONFIG_HOME/stridec/tune, else ~/.config/stridec/tune; NULL if none */
    bool tune_named;               /* the user named the file: not finding it is worth a warning */
};

/* Read once, at the first call; then constant. Thread safe. */
const struct env *env_get(void);
/* A variable of any name as it was at that first call; NULL where unset or empty. Static storage. Thread safe, also
 * beside a program that changes its environment, as getenv is not. */
const char *env_variable(const char *name);
/* All of them as they were, NAME=TEXT, ended by NULL. Static storage. */
char *const *env_all(void);
/* Logs a warning for each unknown STRIDEC_* name and each value that is not allowed, saying what is. */
void env_check(void);

#endif
