/* gpu_count.c: prints how many GPUs the CUDA driver of this machine offers, 0 where there is no driver. */
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    int count = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = NULL;
    int (*get)(int *) = NULL;

    if (driver) {
        *(void **)&init = dlsym(driver, "cuInit");
        *(void **)&get = dlsym(driver, "cuDeviceGetCount");
    }
    if (!init || !get || init(0) != 0 || get(&count) != 0)
        count = 0;
    printf("%d\n", count);
    return 0;
}
