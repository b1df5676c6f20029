/* module.c: loads what the simulated NVRTC made and finds its kernels. */
#include "sim.h"
#include "image.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef unsigned sizer(unsigned long *bytes);   /* NULL asks for the number only */

struct CUmod_st {
    struct CUctx_st *context;
    void *library;
    size_t shared_bytes;     /* of its thread-local segment, which is its kernels' shared memory */
    int fd;                  /* open as long as loaded: its number makes the name that dlopen knows it by */
    struct CUfunc_st *functions;
    struct CUmod_st *next;
};
static struct CUmod_st *modules;

/* The length of the shared object in a good image for the card. */
static CUresult check_image(const unsigned char *image, size_t *bytes)
{
    if (memcmp(image, ELFMAG, SELFMAG)) return CUDA_ERROR_INVALID_IMAGE;
    if (memcmp(image + IMAGE_MARK_AT, IMAGE_MARK, IMAGE_MARK_BYTES)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    struct image_trailer t;
    *bytes = image_elf_bytes(image);
    memcpy(&t, image + *bytes, sizeof t);
    if (memcmp(t.mark, IMAGE_MARK, sizeof t.mark) || t.hash != image_hash(image, *bytes))
        return CUDA_ERROR_INVALID_IMAGE;
    return t.arch == (unsigned)device_sm() ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
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

static size_t shared_bytes(const unsigned char *image)
{
    Elf64_Ehdr head;
    Elf64_Phdr segment;
    memcpy(&head, image, sizeof head);
    for (size_t i = 0; i < head.e_phnum; i++) {
        memcpy(&segment, image + head.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type == PT_TLS) return segment.p_memsz;
    }
    return 0;
}

/* The dynamic linker's own call, as compilers make it for the calling thread's variables of one library. */
extern void *__tls_get_addr(size_t module_and_offset[2]);

void *function_shared(CUfunction f, size_t *bytes)
{
    size_t where[2] = {0, 0};
    *bytes = f->module->shared_bytes;
    if (*bytes && dlinfo(f->module->library, RTLD_DI_TLS_MODID, &where[0])) *bytes = 0;
    return *bytes ? __tls_get_addr(where) : NULL;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *out, const void *image)
{
    ENTER();
    size_t bytes;
    if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_image(image, &bytes);
    if (r) return r;
    sim_hold();
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
    m->shared_bytes = shared_bytes(image);
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

/* They stay, of no context. */
void modules_close(struct CUctx_st *c)
{
    for (struct CUmod_st *m = modules; m; m = m->next)
        if (m->context == c) m->context = NULL;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
    ENTER();
    struct CUmod_st **link = module_link(module), *m = *link;
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    if (!m->context) context_misused("module");
    if (m->context != ctx) return CUDA_ERROR_INVALID_CONTEXT;
    context_run(ctx);
    link = module_link(module);
    if (*link != m) return CUDA_ERROR_INVALID_HANDLE;
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
    kernel_entry *run = (kernel_entry *)(uintptr_t)symbol(m->library, "simgpu_run_", name);
    sizer *sizes = (sizer *)(uintptr_t)symbol(m->library, "simgpu_sizes_", name);
    if (!run || !sizes) return NULL;
    unsigned n = sizes(NULL);
    struct CUfunc_st *f = calloc(1, sizeof *f + strlen(name) + 1);
    if (!f || !(f->bytes = calloc(n + 1, sizeof *f->bytes))) {
        free(f);
        return NULL;
    }
    f->module = m;
    f->context = m->context;
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

CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
    ENTER();
    if (!value || attribute != CU_FUNC_ATTRIBUTE_PTX_VERSION) return CUDA_ERROR_INVALID_VALUE;
    if (!function_live(f)) return CUDA_ERROR_INVALID_HANDLE;
    *value = device_sm();
    return ctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

bool function_live(CUfunction f)
{
    for (struct CUmod_st *m = modules; m; m = m->next)
        for (struct CUfunc_st *at = m->functions; at; at = at->next)
            if (at == f && !m->context) context_misused("kernel");
            else if (at == f) return true;
    return false;
}
