/* nvrtc.c: finds and loads NVRTC: in each place the newest version first. */
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include "driver.h"
#include "nvrtc.h"
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *soname;
    int major;
} versions[] = {
    {"libnvrtc.so.13", 13},
    {"libnvrtc.so.12", 12},
    {"libnvrtc.so.11.2", 11},
};
#define VERSIONS (sizeof versions / sizeof *versions)

struct search {
    char tried[200]; /* places, for the message */
    int newest;      /* major version of the driver, which can't load modules of a newer NVRTC */
    struct nvrtc table;
};

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
#define READ_SYMBOL(name) &&(*(void **)&s->table.name = dlsym(library, TEXT(name))) != NULL
static bool read_table(struct search *s, void *library)
{
    return true NVRTC_CALLS(READ_SYMBOL) && s->table.nvrtcVersion(&s->table.major, &s->table.minor) == NVRTC_SUCCESS;
}

/* Tries all versions in one place. prefix is "" (the linker's own search) or ends with a slash. */
static bool try_place(struct search *s, const char *prefix)
{
    char path[PATH_MAX];
    size_t used = strlen(s->tried);
    snprintf(s->tried + used, sizeof s->tried - used, "%s%s", used ? ", " : "",
             *prefix ? prefix : "the linker's search");
    for (size_t i = 0; i < VERSIONS; i++) {
        if (versions[i].major > s->newest) continue;
        if ((size_t)snprintf(path, sizeof path, "%s%s", prefix, versions[i].soname) >= sizeof path) continue;
        void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
        if (library && read_table(s, library)) {
            log_write(LOG_INFO, "NVRTC %d.%d from %s", s->table.major, s->table.minor, path);
            return true;
        }
        if (library) dlclose(library);
    }
    return false;
}

static bool try_pattern(struct search *s, const char *pattern)
{
    glob_t places;
    bool ok = false;
    if (glob(pattern, GLOB_MARK | GLOB_ONLYDIR, NULL, &places) == 0) {
        for (size_t i = 0; i < places.gl_pathc && !ok; i++) ok = try_place(s, places.gl_pathv[i]);
        globfree(&places);
    }
    return ok;
}

static int find_cudart(struct dl_phdr_info *info, size_t size, void *folder)
{
    (void)size;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strncmp(slash + 1, "libcudart.so", 12) || slash + 2 - info->dlpi_name > PATH_MAX) return 0;
    snprintf(folder, PATH_MAX, "%.*s", (int)(slash + 1 - info->dlpi_name), info->dlpi_name);
    return 1;
}

static bool try_cudart(struct search *s)
{
    char folder[PATH_MAX];
    return dl_iterate_phdr(find_cudart, folder) && try_place(s, folder);
}

static bool try_toolkit(struct search *s, const char *root)
{
    static const char *const under[] = {"lib64", "lib"};
    char folder[PATH_MAX];
    for (int i = 0; root && *root && i < 2; i++)
        if ((size_t)snprintf(folder, sizeof folder, "%s/%s/", root, under[i]) < sizeof folder && try_place(s, folder))
            return true;
    return false;
}

/* Tries NVRTC wheels of the Python in this bin folder, without running it: fork under MPI is not always safe. */
static bool try_wheels(struct search *s, const char *bin)
{
    static const char *const wheels[] = {
        "../lib/python3*/site-packages/nvidia/cu1*/lib",
        "../lib/python3*/site-packages/nvidia/cuda_nvrtc/lib",
        "../lib/python3*/dist-packages/nvidia/cu1*/lib",
        "../lib/python3*/dist-packages/nvidia/cuda_nvrtc/lib",
        "../local/lib/python3*/dist-packages/nvidia/cu1*/lib",
        "../local/lib/python3*/dist-packages/nvidia/cuda_nvrtc/lib",
    };
    char pattern[PATH_MAX];
    for (size_t i = 0; i < sizeof wheels / sizeof *wheels; i++)
        if ((size_t)snprintf(pattern, sizeof pattern, "%s/%s", bin, wheels[i]) < sizeof pattern &&
            try_pattern(s, pattern))
            return true;
    return false;
}

static bool try_python(struct search *s)
{
    char program[PATH_MAX];
    if (!file_program(env_variable("PATH"), false, "python3", program)) return false;
    *strrchr(program, '/') = '\0';
    return try_wheels(s, program);
}

/* Returns the driver's major version, or INT_MAX. Loads the driver, so that `stridec gen --arch` fits it. */
static int driver_major(void)
{
    const struct driver *driver = driver_load();
    int version;
    if (!driver || driver->cuDriverGetVersion(&version) != CUDA_SUCCESS) return INT_MAX;
    return version / 1000;
}

static _Atomic uintptr_t code_begin, code_end;   /* of NVRTC's segment that holds nvrtcCompileProgram */

static int find_code(struct dl_phdr_info *info, size_t size, void *compile)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || (uintptr_t)compile - begin >= segment->p_memsz) continue;
        atomic_store(&code_begin, begin), atomic_store(&code_end, begin + segment->p_memsz);
        return 1;
    }
    return 0;
}

bool nvrtc_contains(uintptr_t code)
{
    return code >= atomic_load(&code_begin) && code < atomic_load(&code_end);
}

static bool search_all(struct search *s)
{
    return try_place(s, "") || try_cudart(s) || try_toolkit(s, env_variable("CUDA_HOME")) ||
           try_toolkit(s, env_variable("CUDA_PATH")) || try_toolkit(s, "/usr/local/cuda") || try_python(s);
}

const struct nvrtc *nvrtc_get(struct reason *why)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct search search;
    static enum { UNKNOWN, ABSENT, PRESENT } state;
    pthread_mutex_lock(&lock);
    if (state == UNKNOWN) {
        search.newest = driver_major();
        state = search_all(&search) ? PRESENT : ABSENT;
        if (state == PRESENT) dl_iterate_phdr(find_code, *(void **)&search.table.nvrtcCompileProgram);
    }
    const struct nvrtc *table = state == PRESENT ? &search.table : NULL;
    pthread_mutex_unlock(&lock);
    if (!table && why) snprintf(why->text, sizeof why->text, "no NVRTC found; tried %s", search.tried);
    return table;
}

bool nvrtc_version(int *major, int *minor, struct reason *why)
{
    const struct nvrtc *n = nvrtc_get(why);
    if (n) *major = n->major, *minor = n->minor;
    return n != NULL;
}

const char *nvrtc_file(void)
{
    const struct nvrtc *n = nvrtc_get(NULL);
    Dl_info info;
    return n && dladdr(*(void *const *)&n->nvrtcVersion, &info) && info.dli_fname ? info.dli_fname : "place unknown";
}
