/* doctor.c: stridec doctor: one line a check, with a fix if it fails; or one line an MPI function. */
#include "base/env.h"
#include "base/file.h"
#include "command.h"
#include "device/driver.h"
#include "device/gpu_runtime.h"
#include "hostpack/host_compiler.h"
#include "interpose/call_table.h"
#include "kernel/module_cache.h"
#include "tune/table_origin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ORDER LEVEL */
enum level { OK, WARN, BAD };
static const char *const LEVEL[] = {"ok  ", "warn", "bad "};

/* Prints a line; returns its level, so that checks can end with it. */
static enum level line(enum level level, const char *what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s %-12s ", LEVEL[level], what);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    return level;
}

/* ---- driver and GPUs ---- */

/* Returns the driver, or NULL if it can't be used. Counts its GPUs. */
static const struct driver *usable_driver(int *gpus)
{
    const struct driver *d = driver_load();
    *gpus = 0;
    return d && d->cuInit(0) == CUDA_SUCCESS && d->cuDeviceGetCount(gpus) == CUDA_SUCCESS ? d : NULL;
}

/* Finds the first GPU's name. Returns false if there is no GPU. */
static bool first_gpu(char name[128])
{
    int gpus;
    CUdevice device;
    const struct driver *d = usable_driver(&gpus);
    return d && gpus && d->cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
           d->cuDeviceGetName(name, 128, device) == CUDA_SUCCESS;
}

static enum level check_driver(void)
{
    const struct driver *d = driver_load();
    int version = 0;
    const char *text = "unknown error";
    if (!d)
        return line(WARN, "driver", "no usable libcuda.so.1: install NVIDIA's driver, or use `stridec run --sim`");
    CUresult result = d->cuInit(0);
    if (result != CUDA_SUCCESS) {
        d->cuGetErrorString(result, &text);
        return line(BAD, "driver", "it does not start (%s): does nvidia-smi work, and is the GPU visible here?", text);
    }
    d->cuDriverGetVersion(&version);
    return line(OK, "driver", "CUDA %d.%d", version / 1000, version % 1000 / 10);
}

static enum level check_gpu(const struct driver *d, int ordinal)
{
    CUdevice device;
    char name[128] = "", label[16];
    int arch = gpu_arch(ordinal);
    size_t bytes = 0;
    snprintf(label, sizeof label, "gpu %d", ordinal);
    if (!arch || d->cuDeviceGet(&device, ordinal) != CUDA_SUCCESS ||
        d->cuDeviceGetName(name, sizeof name, device) != CUDA_SUCCESS ||
        d->cuDeviceTotalMem(&bytes, device) != CUDA_SUCCESS)
        return line(BAD, label, "the driver does not answer about it: does nvidia-smi list it?");
    return line(OK, label, "%s, sm_%d, %.1f GiB", name, arch, (double)bytes / (1 << 30));
}

static enum level check_gpus(void)
{
    int gpus;
    const struct driver *d = usable_driver(&gpus);
    enum level worst = OK;
    if (!d)
        return OK;   /* check_driver has reported it */
    if (gpus == 0)
        return line(WARN, "gpu", "none visible: is CUDA_VISIBLE_DEVICES set to nothing?");
    for (int i = 0; i < gpus; i++) {
        enum level l = check_gpu(d, i);
        worst = l > worst ? l : worst;
    }
    return worst;
}

static enum level check_peers(void)
{
    int gpus, pairs = 0, open = 0;
    const struct driver *d = usable_driver(&gpus);
    if (!d || gpus < 2)
        return OK;
    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < gpus; b++) {
            CUdevice from, to;
            int can = 0;
            if (a == b)
                continue;
            pairs++;
            if (d->cuDeviceGet(&from, a) == CUDA_SUCCESS && d->cuDeviceGet(&to, b) == CUDA_SUCCESS &&
                d->cuDeviceCanAccessPeer(&can, from, to) == CUDA_SUCCESS && can)
                open++;
        }
    if (open == pairs)
        return line(OK, "peer access", "between all %d GPUs", gpus);
    return line(WARN, "peer access", "%d of %d directions: `nvidia-smi topo -m` shows how the GPUs are connected",
                open, pairs);
}

static enum level check_nvrtc(void)
{
    struct reason why;
    int major, minor;
    if (!gpu_runtime->jit_version(&major, &minor, &why))
        return line(WARN, "nvrtc",
                    "%s; install the CUDA toolkit, or its wheel: pip install nvidia-cuda-nvrtc-cu12; till then "
                    "only modules of `stridec gen` and of the cache are used",
                    why.text);
    return line(OK, "nvrtc", "%d.%d, %s", major, minor, gpu_runtime->jit_file());
}

static enum level check_compiler(void)
{
    struct reason why;
    const char *path = host_compiler_path(&why);
    if (path)
        return line(OK, "compiler", "%s, for data in host memory", path);
    return line(WARN, "compiler",
                "%s: data in host memory is packed without code of its own, except that of `stridec gen`", why.text);
}

/* ---- MPI ---- */

#define VERSION_BYTES 16384   /* no less than any MPI's MPI_MAX_LIBRARY_VERSION_STRING */

static enum level check_mpi(void)
{
    static char version[VERSION_BYTES];
    int n = 0;
    int (*get_version)(char *, int *);
    *(void **)&get_version = dlsym(RTLD_DEFAULT, "PMPI_Get_library_version");
    if (!get_version || get_version(version, &n) != 0)
        return line(BAD, "mpi", "no MPI library in reach: build stridec with the mpicc that your programs use");
    version[strcspn(version, "\n")] = '\0';
    return line(OK, "mpi", "%.100s", version);
}

/* Returns 1 or 0 as the MPI says, -1 if it does not say. Asks in a child process: before MPI_Init some MPIs exit, with
 * a status of their own. */
static int ask_cuda_aware(void)
{
    enum { NO = 40, YES };
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        _exit(stridec_mpi_cuda_aware() ? YES : NO);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status) == YES ? 1 : WEXITSTATUS(status) == NO ? 0 : -1;
}

static enum level check_cuda_aware(void)
{
    static const char *const answers[] = {
        "it does not say before MPI_Init; either way works",
        "no: stridec stages device buffers through host memory; a CUDA-aware MPI would add the device transport",
        "yes",
    };
    return line(OK, "cuda-aware", "%s", answers[ask_cuda_aware() + 1]);
}

/* ---- files ---- */

/* Shortens path to its nearest folder that exists. */
static void nearest_existing(char *path)
{
    struct stat st;
    while (stat(path, &st) != 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (!slash)
            strcpy(path, ".");
        else
            slash[slash == path] = '\0';
    }
}

/* Returns true if a file can be made there. Tries it: root has permission even where the file system is read-only. */
static bool can_write_in(const char *folder)
{
    char name[PATH_MAX], *draft;
    if ((size_t)snprintf(name, sizeof name, "%s/.stridec", folder) >= sizeof name)
        return false;
    int fd = file_draft(name, 0600, &draft);
    if (fd >= 0)
        close(fd), file_publish(draft, name, false);
    return fd >= 0;
}

static enum level check_cache(void)
{
    const char *folder = module_cache_dir();
    char place[PATH_MAX];
    if (!folder)
        return line(WARN, "cache", "no folder: set STRIDEC_CACHE_DIR or HOME; every process compiles anew");
    const char *why;
    snprintf(place, sizeof place, "%s", folder);
    nearest_existing(place);
    if (strcmp(place, folder) == 0 && !file_folder(folder, FILE_OWN, &why))
        return line(WARN, "cache",
                    "%s is not used: %s; mend that or set STRIDEC_CACHE_DIR; every process compiles anew", folder, why);
    if (can_write_in(place))
        return line(OK, "cache", "%s%s", folder, strcmp(place, folder) == 0 ? "" : " (made when first needed)");
    return line(WARN, "cache", "%s can't be written: mend %s or set STRIDEC_CACHE_DIR; every process compiles anew",
                folder, place);
}

/* Prints a line for each row of knobs that the generator does not know. Returns their number. */
static int check_knobs(const struct tune_table *t, const char *file)
{
    struct reason why;
    struct gen *g = t->knob_rows ? gen_open(&why) : NULL;
    int bad = 0;
    for (int i = 0; g && i < t->knob_rows; i++) {
        const struct tune_knobs *k = &t->knobs[i];
        if (gen_knobs_check(g, k->settings, &why) == 0)
            continue;
        bad++;
        line(WARN, "tuned table", "%s:%d: %s: mend it; till then such kernels are the model's", file, k->line,
             why.text);
    }
    if (g)
        gen_close(g);
    return bad;
}

static enum level check_table(const char *file)
{
    struct reason why;
    struct tune_table *t = tune_read(file, &why);
    if (!t)
        return line(BAD, "tuned table", "%s: mend it, or run `stridec tune` again", why.text);
    char gpu[128];
    bool stale =
        tune_other_mpi(t, &why) || tune_other_stridec(t, &why) || (first_gpu(gpu) && tune_other_machine(t, gpu, &why));
    int bad = check_knobs(t, file);
    free(t);
    if (stale)
        return line(WARN, "tuned table", "%s %s: run `stridec tune` again", file, why.text);
    return bad ? WARN : line(OK, "tuned table", "%s", file);
}

static enum level check_tune(void)
{
    const struct env *e = env_get();
    if (e->tune && access(e->tune, R_OK) == 0)
        return check_table(e->tune);
    if (e->tune && (e->tune_named || errno != ENOENT))
        return line(BAD, "tuned table", "%s can't be read (%s): mend or unset STRIDEC_TUNE", e->tune, strerror(errno));
    return line(WARN, "tuned table",
                "none%s%s: built-in figures serve; `mpirun -n 2 stridec tune` measures this system",
                e->tune ? " at " : "", e->tune ? e->tune : "");
}

/* ---- MPI functions ---- */

static int list_calls(void)
{
    size_t widest = 0;
    for (int i = 0; i < call_row_total; i++) {
        size_t n = strlen(call_rows[i].name);
        widest = n > widest ? n : widest;
    }
    for (int i = 0; i < call_row_total; i++) {
        const struct call_row *row = &call_rows[i];
        const char *how = strcmp(row->how, "passed") == 0 ? "passed through" : row->how;
        printf("%-*s  %-14s  %s\n", (int)widest, row->name, how, row->why);
    }
    return 0;
}

static enum level check_version(void)
{
    return line(OK, "stridec", "%s, generator %s", stridec_version, gen_version());
}

int doctor_main(const struct args *a)
{
    static enum level (*const checks[])(void) = {check_version, check_driver,   check_gpus, check_peers,
                                                 check_nvrtc,  check_compiler, check_mpi,  check_cuda_aware,
                                                 check_cache,  check_tune};
    bool bad = false;
    if (a->words)
        return usage_error("doctor", "unexpected %s", a->word[0]);
    if (option(a, "--calls"))
        return list_calls();
    env_check();
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        bad = checks[i]() == BAD || bad;
    return bad ? 1 : 0;
}
