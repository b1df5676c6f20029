/* module.c: loads what the simulated NVRTC made and runs its kernels, one thread after another. */
#include "sim.h"
#include "image.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void runner(void **arguments, const unsigned grid[3], const unsigned block[3]);
typedef unsigned sizer(unsigned long *bytes);   /* NULL asks for the number only */

struct CUfunc_st {
    struct CUmod_st *module;
    runner *run;
    unsigned arguments;
    unsigned long *bytes;
    struct CUfunc_st *next;
    char name[];
};

struct CUmod_st {
    struct CUctx_st *context;
    void *library;
    int fd;                  /* open as long as loaded: its number makes the name that dlopen knows it by */
    struct CUfunc_st *functions;
    struct CUmod_st *next;
};
static struct CUmod_st *modules;

/* The length of the shared object in a good image for compute capability 9.0. */
static CUresult check_image(const unsigned char *image, size_t *bytes)
{
    if (memcmp(image, ELFMAG, SELFMAG)) return CUDA_ERROR_INVALID_IMAGE;
    if (memcmp(image + IMAGE_MARK_AT, IMAGE_MARK, IMAGE_MARK_BYTES)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    struct image_trailer t;
    *bytes = image_elf_bytes(image);
    memcpy(&t, image + *bytes, sizeof t);
    if (memcmp(t.mark, IMAGE_MARK, sizeof t.mark) || t.hash != image_hash(image, *bytes))
        return CUDA_ERROR_INVALID_IMAGE;
    return t.arch == 90 ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

static bool write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t n = write(fd, at, bytes);
        if (n <= 0) return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static void *load(int fd, const unsigned char *image, size_t bytes)
{
    char path[64];
    unsigned char ident[EI_NIDENT];
    memcpy(ident, image, sizeof ident);
    memset(ident + IMAGE_MARK_AT, 0, IMAGE_MARK_BYTES);
    if (!write_all(fd, ident, sizeof ident) || !write_all(fd, image + sizeof ident, bytes - sizeof ident)) return NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "simulated GPU: %s\n", dlerror());
    return library;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *out, const void *image)
{
    ENTER();
    size_t bytes;
    if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_image(image, &bytes);
    if (r) return r;
    struct CUmod_st *m = calloc(1, sizeof *m);
    if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
    m->context = ctx;
    m->fd = memfd_create("simulated module", MFD_CLOEXEC);
    m->library = m->fd < 0 ? NULL : load(m->fd, image, bytes);
    if (!m->library) {
        if (m->fd >= 0) close(m->fd);
        free(m);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    m->next = modules;
    modules = *out = m;
    sim_counts.modules++;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int n, CUjit_option *options,
                                    void **values)
{
    (void)n, (void)options, (void)values;
    return cuModuleLoadData(out, image);
}

static struct CUmod_st **module_link(CUmodule handle)
{
    struct CUmod_st **link = &modules;
    while (*link && *link != handle) link = &(*link)->next;
    return link;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
    ENTER();
    struct CUmod_st **link = module_link(module), *m = *link;
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    if (m->context != ctx) return CUDA_ERROR_INVALID_CONTEXT;
    context_run(ctx);
    *link = m->next;
    while (m->functions) {
        struct CUfunc_st *f = m->functions;
        m->functions = f->next;
        free(f->bytes);
        free(f);
    }
    dlclose(m->library);
    close(m->fd);
    free(m);
    return CUDA_SUCCESS;
}

static void *symbol(void *library, const char *prefix, const char *name)
{
    char full[512];
    int n = snprintf(full, sizeof full, "%s%s", prefix, name);
    return n > 0 && n < (int)sizeof full ? dlsym(library, full) : NULL;
}

static struct CUfunc_st *function_new(struct CUmod_st *m, const char *name)
{
    runner *run = (runner *)(uintptr_t)symbol(m->library, "simgpu_run_", name);
    sizer *sizes = (sizer *)(uintptr_t)symbol(m->library, "simgpu_sizes_", name);
    if (!run || !sizes) return NULL;
    unsigned n = sizes(NULL);
    struct CUfunc_st *f = calloc(1, sizeof *f + strlen(name) + 1);
    if (!f || !(f->bytes = calloc(n + 1, sizeof *f->bytes))) {
        free(f);
        return NULL;
    }
    f->module = m;
    f->run = run;
    f->arguments = sizes(f->bytes);
    strcpy(f->name, name);
    f->next = m->functions;
    m->functions = f;
    return f;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    ENTER();
    struct CUmod_st *m = *module_link(module);
    if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    struct CUfunc_st *f = m->functions;
    while (f && strcmp(f->name, name)) f = f->next;
    if (!f) f = function_new(m, name);
    if (!f) return CUDA_ERROR_NOT_FOUND;
    *out = f;
    return CUDA_SUCCESS;
}

/* --- launches --- */

struct launch_op {
    struct op op;
    struct CUfunc_st *function;
    unsigned grid[3], block[3];
    void **arguments;   /* copies, in the same block of memory */
};

static CUresult run_launch(struct op *o)
{
    struct launch_op *l = (struct launch_op *)o;
    memory_open(o->context);
    fault_in_kernel = 1;
    l->function->run(l->arguments, l->grid, l->block);
    fault_in_kernel = 0;
    return CUDA_SUCCESS;
}

static void drop_launch(struct op *o)
{
    free(((struct launch_op *)o)->arguments);
}

/* The pointers, then the values, each at a multiple of 16 bytes. */
static void **copy_arguments(const struct CUfunc_st *f, void **from)
{
    size_t total = (f->arguments * sizeof(void *) + 15) / 16 * 16;
    for (unsigned i = 0; i < f->arguments; i++) total += (f->bytes[i] + 15) / 16 * 16;
    void **to = aligned_alloc(16, total ? total : 16);
    char *value = to ? (char *)to + (f->arguments * sizeof(void *) + 15) / 16 * 16 : NULL;
    for (unsigned i = 0; to && i < f->arguments; i++) {
        to[i] = memcpy(value, from[i], f->bytes[i]);
        value += (f->bytes[i] + 15) / 16 * 16;
    }
    return to;
}

static bool dimensions_ok(const unsigned g[3], const unsigned b[3])
{
    if (!g[0] || !g[1] || !g[2] || !b[0] || !b[1] || !b[2]) return false;
    if (g[0] > 0x7fffffff || g[1] > 65535 || g[2] > 65535) return false;
    return b[0] <= 1024 && b[1] <= 1024 && b[2] <= 64 && (uint64_t)b[0] * b[1] * b[2] <= 1024;
}

static bool function_live(const struct CUfunc_st *f)
{
    for (struct CUmod_st *m = modules; m; m = m->next)
        for (struct CUfunc_st *at = m->functions; at; at = at->next)
            if (at == f) return true;
    return false;
}

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                                void **arguments, void **extra)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s || !function_live(f)) return CUDA_ERROR_INVALID_HANDLE;
    if (f->module->context != ctx) return CUDA_ERROR_INVALID_CONTEXT;
    if (s->context != ctx) return CUDA_ERROR_INVALID_HANDLE;
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    if (extra || (f->arguments && !arguments) || shared > 49152 || !dimensions_ok(grid, block))
        return CUDA_ERROR_INVALID_VALUE;
    struct launch_op *l = calloc(1, sizeof *l);
    if (l) l->arguments = copy_arguments(f, arguments);
    if (!l || !l->arguments) {
        free(l);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    l->op.run = run_launch;
    l->op.drop = drop_launch;
    l->function = f;
    memcpy(l->grid, grid, sizeof grid);
    memcpy(l->block, block, sizeof block);
    sim_counts.launches++;
    stream_add(s, &l->op);
    return CUDA_SUCCESS;
}
