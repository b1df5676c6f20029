/* query.c: what programs are told that ask whether the MPI takes device memory, before MPI_Init and after it: that it does, where
 * stridec sees to that. Then contiguous messages of device memory are right.
 *
 * usage: query [disabled]
 *
 * run: -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 -n 2
 * run: STRIDEC_DISABLE=1 -n 2 disabled
 */
#include "check.h"
#include <dlfcn.h>
#include <string.h>

enum { CUDA = 0 };
static int (*cuda)(void), (*gpu)(int type, int *supported);

static bool told(void)
{
    int supported = -1;
    bool is = cuda && cuda() == 1;
    if (gpu) expect(gpu(CUDA, &supported) == MPI_SUCCESS && supported == is, "two answers");
    return is;
}

int main(int argc, char **argv)
{
    bool disabled = argc > 1 && !strcmp(argv[argc - 1], "disabled");
    *(void **)&cuda = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    *(void **)&gpu = dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support");
    mem_free(MEM_DEVICE, mem_alloc(MEM_DEVICE, 1));
    bool before = disabled || told();   /* MPICH itself ends programs that ask so early */
    check_start(&argc, &argv, -1);
    bool wanted = host_mode || disabled ? cuda_aware() : true;
    expect(before, "device memory was not taken before MPI_Init");
    expect_equal(told(), wanted, "the answer");
    report("whether device memory is taken");
    if (wanted) {
        struct layout l;
        struct buf in, out;
        layout_number(&l, 0, 4);
        buf_make(&out, MEM_DEVICE, &l, 0, 1), buf_make(&in, MEM_DEVICE, &l, 0, 2);
        MPI_Sendrecv(out.origin, 4, l.type, my_rank ^ 1, 0, in.origin, 4, l.type, my_rank ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        buf_expect_from(&in, &l, &l, 1);
        buf_check(&in, "a contiguous message");
        buf_free(&in), buf_free(&out);
        layout_free(&l);
        report("it is");
    }
    return check_finish();
}
