/* cuda_aware.c: finds out if the MPI takes device memory, and answers applications that ask. */
#include "base/abi_check.h"
#include "base/mpi_abi.h"
#include "base/activity.h"
#include "base/env.h"
#include "device/host_range.h"
#include "node/segment.h"
#include "transport.h"
#include <dlfcn.h>

/* Open MPI has the first, MPICH both; neither is declared everywhere. MPICH's PMPIX names are left alone. */
typedef int query(void);
typedef int query_gpu(int gpu_type, int *is_supported);
static query cuda_taken;
static query_gpu gpu_taken;
enum { CUDA = 0 };   /* MPIX_GPU_SUPPORT_CUDA */

#define STANDS_FOR(function) EXPORT __attribute__((alias(#function)))
STANDS_FOR(cuda_taken) query MPIX_Query_cuda_support;
#if HAS_GPU_QUERY
STANDS_FOR(gpu_taken) query_gpu MPIX_GPU_query_support;
#endif
EXPORT query stridec_mpi_cuda_aware;   /* the MPI alone: for tests and benchmarks */

/* Returns the process's function of that name, other than this library's own. */
static void *below(const char *name, const void *own)
{
    void *f = dlsym(RTLD_DEFAULT, name);
    return f == own ? dlsym(RTLD_NEXT, name) : f;
}

static bool ask_aware(void)
{
    query *cuda;
    query_gpu *gpu;
    int supported = 0;
    *(void **)&cuda = below("MPIX_Query_cuda_support", (void *)(uintptr_t)cuda_taken);
    *(void **)&gpu = below("MPIX_GPU_query_support", (void *)(uintptr_t)gpu_taken);
    if (cuda) return cuda() == 1;
    return gpu && gpu(CUDA, &supported) == MPI_SUCCESS && supported;
}

bool mpi_cuda_aware(void)
{
    static atomic_int known;   /* 0: not asked, 1: no, 2: yes */
    int k = atomic_load_explicit(&known, memory_order_relaxed);
    if (!k) {
        k = ask_aware() ? 2 : 1;
        atomic_store_explicit(&known, k, memory_order_relaxed);
        atomic_store_explicit(&host_contig_passes, k == 2 && !node_zerocopy(), memory_order_relaxed);
    }
    return k == 2;
}

int stridec_mpi_cuda_aware(void)
{
    return mpi_cuda_aware();
}

/* Returns true if stridec handles device memory, or will after MPI_Init. */
static bool taken_here(void)
{
    int initialized = 0;
    if (!node_has_gpus()) return false;
    if (atomic_load(&interpose_active)) return true;
    PMPI_Initialized(&initialized);
    return !initialized && !env_get()->disable && abi_check_ok();
}

static int cuda_taken(void)
{
    return taken_here() || ask_aware();
}

__attribute__((unused)) static int gpu_taken(int gpu_type, int *is_supported)
{
    query_gpu *next;
    if (gpu_type == CUDA && is_supported && taken_here()) return *is_supported = 1, MPI_SUCCESS;
    *(void **)&next = below("MPIX_GPU_query_support", (void *)(uintptr_t)gpu_taken);
    return next ? next(gpu_type, is_supported) : MPI_ERR_OTHER;
}
