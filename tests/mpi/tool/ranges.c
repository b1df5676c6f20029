/* ranges.c: a profiler for NVTX, as a library that NVTX_INJECTION64_PATH names: writes what is pushed, and "-" for each
 * pop, to the file that RANGES names, with the process's number behind it. */
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *file;
static const char *domain = "";

static nvtxDomainHandle_t create(const char *name)
{
    domain = strdup(name);
    return (nvtxDomainHandle_t)(void *)&domain;
}

static int push(nvtxDomainHandle_t d, const nvtxEventAttributes_t *a)
{
    fprintf(file, "%s: %s\n", d == (nvtxDomainHandle_t)(void *)&domain ? domain : "?", a->message.ascii);
    fflush(file);
    return 0;
}

static int pop(nvtxDomainHandle_t d)
{
    (void)d;
    fputs("-\n", file);
    fflush(file);
    return 0;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables)
{
    const NvtxExportTableCallbacks *t = tables(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable functions;
    unsigned n;
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", getenv("RANGES"), (int)getpid());
    if (!t || !t->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &n) || !(file = fopen(path, "w"))) return 0;
    *functions[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *functions[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *functions[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
#else
typedef int no_header;
#endif
