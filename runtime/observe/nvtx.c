/* nvtx.c: see nvtx.h. NVTX's header loads the profiler's library at the first call. */
#include "nvtx.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

static nvtxDomainHandle_t domain;

static void make_domain(void)
{
    domain = nvtxDomainCreateA("stridec");
}

void nvtx_push(const char *text)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    nvtxEventAttributes_t a = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .messageType = NVTX_MESSAGE_TYPE_ASCII, .message.ascii = text};
    pthread_once(&once, make_domain);
    nvtxDomainRangePushEx(domain, &a);
}

void nvtx_pop(void)
{
    nvtxDomainRangePop(domain);
}
#else
void nvtx_push(const char *text)
{
    (void)text;
}

void nvtx_pop(void)
{
}
#endif
