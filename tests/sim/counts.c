/* counts.c: counters, injected failures, settings from the environment. */
#include "sim.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct simgpu_counts sim_counts;

long sim_number(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static const struct {
    const char *call;
    CUresult result;
} usual_failure[] = {
    {"cuInit", CUDA_ERROR_NO_DEVICE},
    {"cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY},
    {"cuMemAllocAsync", CUDA_ERROR_OUT_OF_MEMORY},
    {"cuMemAllocHost", CUDA_ERROR_OUT_OF_MEMORY},
    {"cuMemAllocManaged", CUDA_ERROR_OUT_OF_MEMORY},
    {"cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY},
    {"cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY},
    {"cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY},
    {"cuModuleLoadData", CUDA_ERROR_INVALID_IMAGE},
    {"cuModuleGetFunction", CUDA_ERROR_NOT_FOUND},
    {"cuLaunchKernel", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},
    {"cuLaunchKernelEx", CUDA_ERROR_NOT_SUPPORTED},
    {"cuGraphCreate", CUDA_ERROR_OUT_OF_MEMORY},
    {"cuGraphInstantiateWithFlags", CUDA_ERROR_OUT_OF_MEMORY},
    {"cuGraphLaunch", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},
    {"cuIpcOpenMemHandle", CUDA_ERROR_MAP_FAILED},
    {"cuCtxEnablePeerAccess", CUDA_ERROR_PEER_ACCESS_UNSUPPORTED},
};

static CUresult failure_of(const char *call, size_t length)
{
    for (size_t i = 0; i < sizeof usual_failure / sizeof *usual_failure; i++)
        if (strlen(usual_failure[i].call) == length && !strncmp(call, usual_failure[i].call, length))
            return usual_failure[i].result;
    return CUDA_ERROR_UNKNOWN;
}

/* Length of a call's name without its version ("_v2"). */
static size_t base_length(const char *call)
{
    const char *version = strstr(call, "_v");
    return version ? (size_t)(version - call) : strlen(call);
}

/* True if a list names the call. */
static bool named(const char *list, const char *call, size_t length)
{
    for (; list && *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == length && !strncmp(list, call, length)) return true;
    return false;
}

CUresult sim_injected(const char *call)
{
    if (named(getenv("SIMGPU_KILL"), call, base_length(call))) raise(SIGKILL);
    enum { RULES_MAX = 32 };
    static unsigned long seen[RULES_MAX];
    static char last[256];
    const char *rule = getenv("SIMGPU_FAIL");
    if (rule && strncmp(last, rule, sizeof last - 1)) {   /* another rule: counts from now on */
        snprintf(last, sizeof last, "%s", rule);
        memset(seen, 0, sizeof seen);
    }
    if (!rule) last[0] = '\0';
    size_t length = base_length(call);
    for (int i = 0; rule && *rule && i < RULES_MAX; i++) {
        size_t name = strcspn(rule, ":,");
        if (name == length && !strncmp(rule, call, name)) {
            unsigned long n = rule[name] == ':' ? strtoul(rule + name + 1, NULL, 10) : 0;
            bool on = rule[strcspn(rule, "+,")] == '+';
            if (!n || ++seen[i] == n || (on && seen[i] > n)) return failure_of(call, length);
        }
        rule += strcspn(rule, ",");
        rule += *rule == ',';
    }
    return capture_refuses(call, length);
}

static void report(void)
{
    const struct simgpu_counts *c = &sim_counts;
    fprintf(stderr,
            "simulated GPU[%ld]: launches %lu (graph %lu) copies %lu (2D %lu) h2d %lu d2h %lu d2d %lu syncs %lu "
            "allocs %lu bytes %lu peak %lu modules %lu streams %lu events %lu\n",
            (long)getpid(), (unsigned long)c->launches, (unsigned long)c->graph_launches,
            (unsigned long)c->copies, (unsigned long)c->copies_2d, (unsigned long)c->bytes_h2d,
            (unsigned long)c->bytes_d2h, (unsigned long)c->bytes_d2d, (unsigned long)c->syncs,
            (unsigned long)c->allocs_live, (unsigned long)c->bytes_live, (unsigned long)c->bytes_peak,
            (unsigned long)c->modules, (unsigned long)c->stream_creates, (unsigned long)c->event_creates);
}

__attribute__((constructor)) static void arrange_report(void)
{
    if (sim_number("SIMGPU_REPORT", 0)) atexit(report);
}
