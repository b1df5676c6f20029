/* memory.c: memory that runs out for stridec alone, as a library to be preloaded: none that it asks for is there while
 * memory_fails is set. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

int memory_fails, memory_failures;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);

static int fails(const void *caller)
{
    Dl_info in;
    if (!memory_fails || !dladdr(caller, &in) || !in.dli_fname || !strstr(in.dli_fname, "libstridec")) return 0;
    memory_failures++;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, bytes);
}
