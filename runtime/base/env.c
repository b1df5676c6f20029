/* env.c: the table of STRIDEC_* variables. A new variable is a row here and a field in env.h. */
#include "env.h"
#include "../../gen/nearest.h"
#include "chunk_settings.h"
#include "log.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct variable {
    const char *name;
    const char *const *allowed;   /* words, ended by NULL; a value is a word's index. NULL: any path, text or number */
    const char *default_text;     /* a description for paths; paths_default finds their value */
    size_t field;
    enum { AS_BOOL, AS_INT, AS_TEXT, AS_PROGRAM, AS_PATH } kind;   /* AS_INT: enums, too; from AS_TEXT on: strings */
    const char *purpose;
    const char *(*problem)(const char *text);   /* NULL: no check; else returns NULL or the reason why not */
};

static const char *const flags[] = {"0", "1", NULL};
/* ORDER LOG_LEVEL */
static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
/* ORDER env_transport */
static const char *const transports[] = {"auto", "device", "oneshot", "staged", "zerocopy", "pipelined", NULL};

/* ORDER env_engine */
static const char *const engines[] = {"auto", "kernel", "copy", NULL};

/* ORDER env_host */
static const char *const hosts[] = {"off", "on", "auto", NULL};

static const char *chunks_problem(const char *text)
{
    struct chunk_params p = CHUNK_SETTINGS_DEFAULT;
    return chunk_settings_read(&p, text);
}

/* ORDER env_stats; json:FILE is no word. */
static const char *const stats_words[] = {"0", "1", "all", NULL};
static const char stats_json[] = "json:";

static bool is_json(const char *text)
{
    return !strncmp(text, stats_json, sizeof stats_json - 1) && text[sizeof stats_json - 1];
}

static int word_index(const char *const *allowed, const char *text)
{
    for (int i = 0; allowed[i]; i++)
        if (!strcmp(allowed[i], text)) return i;
    return -1;
}

static const char *stats_problem(const char *text)
{
    return word_index(stats_words, text) >= 0 || is_json(text) ? NULL : "allowed: 0, 1, all, json:FILE";
}

_Static_assert(sizeof(enum env_transport) == sizeof(int) && sizeof(enum env_engine) == sizeof(int) &&
               sizeof(enum env_host) == sizeof(int), "AS_INT sets them");
#define AT(field) offsetof(struct env, field)
static const struct variable variables[] = {
    {"STRIDEC_DISABLE", flags, "0", AT(disable), AS_BOOL,
     "every call goes straight to the MPI, which must be CUDA-aware for buffers on the GPU", NULL},
    {"STRIDEC_LOG", levels, "warn", AT(log_level), AS_INT, "the least grave message that is written", NULL},
    {"STRIDEC_TRANSPORT", transports, "auto", AT(transport), AS_INT, "how messages travel", NULL},
    {"STRIDEC_PIPELINE", flags, "0", AT(pipeline), AS_BOOL,
     "long messages between nodes in chunks; unset: ranks find out whether all can", NULL},
    {"STRIDEC_CHUNKS", NULL, "none", AT(chunks), AS_TEXT,
     "how messages between nodes are cut, instead of as the tuned table says; for debugging", chunks_problem},
    {"STRIDEC_ENGINE", engines, "auto", AT(engine), AS_INT, "what moves bytes on the GPU", NULL},
    {"STRIDEC_SM_LIMIT", NULL, "0", AT(sm_limit), AS_INT, "the most multiprocessors that kernels use; 0: all", NULL},
    {"STRIDEC_SPECIAL", NULL, "131072", AT(special), AS_INT,
     "words of a move that are worth a kernel for a regular layout alone; 0: compiled at commit", NULL},
    {"STRIDEC_KEEP", NULL, "0", AT(keep), AS_INT,
     "MiB of a GPU's memory that are kept between messages; 0: a sixteenth of it", NULL},
    {"STRIDEC_HOST", hosts, "auto", AT(host), AS_INT, "whether data in host memory is packed by code made for it",
     NULL},
    {"STRIDEC_CC", NULL, "cc, gcc or clang", AT(cc), AS_PROGRAM, "the C compiler that makes that code", NULL},
    {"STRIDEC_CACHE_DIR", NULL, "~/.cache/stridec", AT(cache_dir), AS_PATH, "folder of compiled modules", NULL},
    {"STRIDEC_DUMP", NULL, "none", AT(dump), AS_PATH, "folder to which generated sources and modules are written",
     NULL},
    {"STRIDEC_STATS", NULL, "0", AT(stats_text), AS_TEXT, "statistics at MPI_Finalize", stats_problem},
    {"STRIDEC_RECORD", NULL, "none", AT(record), AS_PATH,
     "file to which MPI_Finalize writes a spec of the committed types, for `stridec gen`", NULL},
    {"STRIDEC_TRACE", NULL, "none", AT(trace), AS_PATH,
     "folder to which each rank writes a timeline at MPI_Finalize, RANK.json, for Perfetto", NULL},
    {"STRIDEC_TRACE_MIB", NULL, "64", AT(trace_mib), AS_INT, "MiB of memory for a rank's timeline; what comes later is "
     "dropped", NULL},
    {"STRIDEC_AOT", NULL, "none", AT(aot), AS_PATH, "folder written by `stridec gen`", NULL},
    {"STRIDEC_KNOBS", NULL, "none", AT(knobs), AS_TEXT, "settings of kernels instead of the model's, for debugging",
     NULL},
    {"STRIDEC_TUNE", NULL, "~/.config/stridec/tune", AT(tune), AS_PATH, "table written by `stridec tune`", NULL},
};
#define VARIABLES (sizeof variables / sizeof *variables)

static struct env settings;

/* Returns a number from 0 to 2^31 - 1, or -1. */
static int number_of(const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno && value <= INT_MAX ? (int)value : -1;
}

/* Returns the value, -1 if not allowed. Not for strings. */
static int value_of(const struct variable *v, const char *text)
{
    return v->allowed ? word_index(v->allowed, text) : number_of(text);
}

/* A copy of the environment: stridec's own threads read it while the program may change the original. */
static char **saved_environment;

static void keep_environment(void)
{
    size_t n = 0;
    while (environ && environ[n]) n++;
    saved_environment = calloc(n + 1, sizeof *saved_environment);
    for (size_t i = 0, used = 0; saved_environment && i < n; i++)
        if ((saved_environment[used] = strdup(environ[i]))) used++;
}

char *const *env_all(void)
{
    static char *const none[] = {NULL};
    env_get();
    return saved_environment ? saved_environment : none;
}

/* Returns NULL if the variable is unset or empty. */
static const char *text_of(const char *name)
{
    size_t length = strlen(name);
    for (char **e = saved_environment; e && *e; e++)
        if (!strncmp(*e, name, length) && (*e)[length] == '=') return (*e)[length + 1] ? *e + length + 1 : NULL;
    return NULL;
}

const char *env_variable(const char *name)
{
    env_get();
    return text_of(name);
}

/* Returns an absolute path, since the program may change its folder; `path` if there is no memory. Never freed. */
static const char *absolute(const char *path)
{
    char *here = path && *path != '/' ? getcwd(NULL, 0) : NULL, *whole = NULL;
    if (here && asprintf(&whole, "%s/%s", strcmp(here, "/") ? here : "", path) < 0) whole = NULL;
    free(here);
    return whole ? whole : path;
}

static void set_field(const struct variable *v)
{
    char *field = (char *)&settings + v->field;
    const char *text = text_of(v->name);
    if (v->kind >= AS_TEXT) {
        bool path = v->kind == AS_PATH || (v->kind == AS_PROGRAM && text && strchr(text, '/'));
        if (path && text && !strcmp(text, "none")) text = NULL;
        *(const char **)field = path ? absolute(text) : text;
        return;
    }
    int value = text ? value_of(v, text) : -1;
    if (value < 0) value = value_of(v, v->default_text);
    if (v->kind == AS_BOOL) *(bool *)field = value;
    else *(int *)field = value;
}

/* Returns $xdg/tail, else $HOME/under/tail, malloc'd; NULL if neither variable is set. */
static const char *user_path(const char *xdg, const char *under, const char *tail)
{
    const char *base = text_of(xdg), *home = text_of("HOME");
    char *path = NULL;
    int made = base ? asprintf(&path, "%s/%s", base, tail) : home ? asprintf(&path, "%s/%s/%s", home, under, tail) : -1;
    if (made < 0) return NULL;
    const char *whole = absolute(path);
    if (whole != path) free(path);
    return whole;
}

/* The one place where the values of STRIDEC_TRANSPORT and STRIDEC_HOST get their meaning. */
static const struct transport_ways transport_ways[] = {
    [ENV_AUTO] = {.by_table = true, .zerocopy = true, .chunks = true},
    [ENV_DEVICE] = {.packed = PACKED_DEVICE},
    [ENV_ONESHOT] = {.packed = PACKED_ONESHOT},
    [ENV_STAGED] = {.packed = PACKED_STAGED},
    [ENV_ZEROCOPY] = {.zerocopy = true, .zerocopy_always = true, .chunks = true},
    [ENV_PIPELINED] = {.chunks = true, .chunks_always = true},
};
static const struct host_ways host_ways[] = {
    [ENV_HOST_OFF] = {.serves = false},
    [ENV_HOST_AUTO] = {.serves = true},
    [ENV_HOST_ON] = {.serves = true, .always = true},
};

static void paths_default(void)
{
    settings.tune_named = settings.tune != NULL;
    settings.pipeline_named = text_of("STRIDEC_PIPELINE") != NULL;
    if (!settings.cache_dir) settings.cache_dir = user_path("XDG_CACHE_HOME", ".cache", "stridec");
    if (!settings.tune) settings.tune = user_path("XDG_CONFIG_HOME", ".config", "stridec/tune");
}

static void stats_default(void)
{
    const char *text = settings.stats_text ? settings.stats_text : "0";
    int word = word_index(stats_words, text);
    settings.stats_form = word >= 0 ? (enum env_stats)word : is_json(text) ? ENV_STATS_JSON : ENV_STATS_NONE;
    if (settings.stats_form == ENV_STATS_JSON) settings.stats_file = absolute(text + sizeof stats_json - 1);
    settings.stats = settings.stats_form || settings.record;
}

static void read_all(void)
{
    keep_environment();
    for (size_t i = 0; i < VARIABLES; i++) set_field(&variables[i]);
    stats_default();
    settings.ways = transport_ways[settings.transport], settings.on_host = host_ways[settings.host];
    paths_default();
    settings.ranges = text_of("NVTX_INJECTION64_PATH") != NULL;
    settings.observed = settings.trace || settings.ranges, settings.timed = settings.observed || settings.stats;
}

const struct env *env_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static atomic_bool read;
    if (atomic_load_explicit(&read, memory_order_acquire)) return &settings;
    pthread_once(&once, read_all);
    atomic_store_explicit(&read, true, memory_order_release);
    return &settings;
}

/* Appends ", word" to text; truncates at `size`. */
static void append(char *text, size_t size, const char *word)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? ", " : "", word);
}

/* Writes what is wrong with a value, and what is allowed. Returns false if nothing is. */
static bool value_problem(const struct variable *v, const char *value, char *text, size_t size)
{
    char list[256] = "";
    struct nearest n = {.wanted = value};
    const char *problem = v->problem && *value ? v->problem(value) : NULL;
    bool wrong = v->kind < AS_TEXT && *value && value_of(v, value) < 0;
    if (!problem && !wrong) return false;
    if (!v->allowed) append(list, sizeof list, "0 to 2147483647");
    for (int i = 0; v->allowed && v->allowed[i]; i++) append(list, sizeof list, v->allowed[i]);
    for (int i = 0; v->allowed && v->allowed[i]; i++) nearest_try(&n, v->allowed[i]);
    snprintf(text, size, "%s=%s is not allowed and counts as %s (%s)%s%s%s%s%s", v->name, value, v->default_text,
             v->purpose, problem ? ": " : "; allowed: ", problem ? problem : list, n.name ? "; did you mean " : "",
             n.name ? n.name : "", n.name ? "?" : "");
    return true;
}

/* Writes that there is no such variable, with the name that may be meant, else with all. */
static void name_problem(const char *name, char *text, size_t size)
{
    char list[512] = "";
    struct nearest n = {.wanted = name};
    for (size_t i = 0; i < VARIABLES; i++) append(list, sizeof list, variables[i].name);
    for (size_t i = 0; i < VARIABLES; i++) nearest_try(&n, variables[i].name);
    snprintf(text, size, "%s is not a variable of stridec%s%s%s", name, n.name ? ": did you mean " : "; allowed: ",
             n.name ? n.name : list, n.name ? "?" : "");
}

static void visit_entry(const char *entry, env_visit *each, void *arg)
{
    char name[64], problem[1024];
    size_t length = strcspn(entry, "=");
    const char *value = entry[length] ? entry + length + 1 : "";
    const struct variable *v = variables;
    snprintf(name, sizeof name, "%.*s", (int)length, entry);
    while (v < variables + VARIABLES && strcmp(v->name, name)) v++;
    bool known = v < variables + VARIABLES, wrong = !known || value_problem(v, value, problem, sizeof problem);
    if (!known) name_problem(name, problem, sizeof problem);
    each(arg, name, value, wrong ? problem : NULL);
}

void env_each(env_visit *each, void *arg)
{
    static const char prefix[] = "STRIDEC_";
    for (char *const *e = env_all(); *e; e++)
        if (!strncmp(*e, prefix, sizeof prefix - 1)) visit_entry(*e, each, arg);
}

static void log_problem(void *arg, const char *name, const char *value, const char *problem)
{
    (void)arg, (void)name, (void)value;
    if (problem) log_write(LOG_WARN, "%s", problem);
}

void env_check(void)
{
    env_each(log_problem, NULL);
}

void env_unobserved(void)
{
    env_get();
    settings.stats = settings.observed = settings.timed = settings.ranges = false;
    settings.stats_form = ENV_STATS_NONE, settings.record = settings.trace = NULL;
}

void env_widen(void)
{
    env_get();
    if (settings.host == ENV_HOST_AUTO) settings.host = ENV_HOST_ON;
    settings.on_host = host_ways[settings.host];
    if (!settings.pipeline_named) settings.pipeline = settings.pipeline_named = true;
}

void env_force(enum env_transport transport)
{
    env_get();
    settings.transport = transport, settings.ways = transport_ways[transport];
}
