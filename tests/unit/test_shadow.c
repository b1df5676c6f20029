/* test_shadow.c: the fall-back for datatypes that can't be read: the MPI packs a host copy. On the simulated GPU (its
 * folder is on LD_LIBRARY_PATH). Whole and short messages, several elements; gaps must stay as they are. */
#include "../../runtime/pack/typed_buffer.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { COUNT = 3, SPACE = 4096, ORIGIN = 1024 };

static struct device *device;
static const struct driver *driver;

/* A distributed array's part, its layout told by sizes alone. */
static struct layout *unread(MPI_Datatype *type)
{
    int gsizes[2] = {6, 5}, distribs[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
    int dargs[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, psizes[2] = {2, 2}, size;
    MPI_Aint lb, extent, low, true_extent;
    MPI_Type_create_darray(4, 1, 2, gsizes, distribs, dargs, psizes, MPI_ORDER_C, MPI_INT, type);
    MPI_Type_commit(type);
    MPI_Type_size(*type, &size);
    MPI_Type_get_extent(*type, &lb, &extent);
    MPI_Type_get_true_extent(*type, &low, &true_extent);
    struct layout *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->refs = 1;
    l->size = size, l->extent = extent, l->low = low, l->high = low + true_extent;
    return l;
}

static struct typed_buffer typed_buffer_of(struct layout *l, MPI_Datatype type, CUdeviceptr user)
{
    struct typed_buffer p = typed_buffer_on(l, device, (void *)(uintptr_t)(user + ORIGIN), COUNT);
    p.datatype = type;
    p.transport = &transport_by_mpi;
    assert_true(transport_by_mpi.acquire(&p));
    return p;
}

static void test_pack_and_unpack(void **state)
{
    (void)state;
    static char typed[SPACE], expected[SPACE], packed[SPACE], got[SPACE];
    MPI_Datatype type;
    struct layout *l = unread(&type);
    CUdeviceptr user;
    assert_int_equal(driver->cuMemAlloc(&user, SPACE), CUDA_SUCCESS);
    struct stream *s = stream_get(device);
    for (int i = 0; i < SPACE; i++) typed[i] = (char)(i * 7 + i / 256);
    assert_int_equal(driver->cuMemcpyHtoDAsync(user, typed, SPACE, stream_use(s)), CUDA_SUCCESS);
    struct typed_buffer p = typed_buffer_of(l, type, user);

    int position = 0;
    MPI_Pack(typed + ORIGIN, COUNT, type, packed, SPACE, &position, MPI_COMM_SELF);
    assert_int_equal(position, p.bytes);
    assert_int_equal(transport_by_mpi.move(&p, s, KERNEL_PACK, 0, p.bytes), 0);
    assert_int_equal(stream_wait(device, s), 0);
    assert_memory_equal(p.address, packed, (size_t)position);

    /* Whole, then cut in the middle of an element, to the byte of an int. */
    const int lengths[] = {(int)p.bytes, (int)p.bytes - 12, 4};
    for (int n = 0; n < 3; n++) {
        for (int i = 0; i < position; i++) ((char *)p.address)[i] = (char)(i * 13 + n);
        memset(typed, 0x5a + n, SPACE);
        memcpy(expected, typed, SPACE);
        MPI_Sendrecv(p.address, lengths[n], MPI_PACKED, 0, 0, expected + ORIGIN, COUNT, type, 0, 0, MPI_COMM_SELF,
                     MPI_STATUS_IGNORE);
        assert_int_equal(driver->cuMemcpyHtoDAsync(user, typed, SPACE, stream_use(s)), CUDA_SUCCESS);
        assert_int_equal(stream_wait(device, s), 0);
        assert_int_equal(transport_by_mpi.move(&p, s, KERNEL_UNPACK, 0, lengths[n]), 0);
        assert_int_equal(stream_wait(device, s), 0);
        assert_int_equal(driver->cuMemcpyDtoHAsync(got, user, SPACE, stream_use(s)), CUDA_SUCCESS);
        assert_int_equal(stream_wait(device, s), 0);
        assert_memory_equal(got, expected, SPACE);
    }
    mempool_put(p.wire);
    stream_put(device, s);
    driver->cuMemFree(user);
    MPI_Type_free(&type);
    free(l);
}

/* What MPI ints can't count is refused, not cut. */
static void test_too_large(void **state)
{
    (void)state;
    MPI_Datatype type;
    struct layout *l = unread(&type);
    struct typed_buffer p = typed_buffer_on(l, device, NULL, (int64_t)1 << 31);
    assert_false(transport_by_mpi.acquire(&p));
    MPI_Type_free(&type);
    free(l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pack_and_unpack), cmocka_unit_test(test_too_large)};
    CUcontext context;
    MPI_Init(&argc, &argv);
    driver = driver_load();
    if (!driver || driver->cuInit(0) || driver->cuDevicePrimaryCtxRetain(&context, 0) ||
        driver->cuCtxPushCurrent(context) || !(device = device_default())) {
        printf("not ok no simulated GPU: put its folder on LD_LIBRARY_PATH\n");
        return 1;
    }
    int failed = cmocka_run_group_tests_name("shadow", tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
