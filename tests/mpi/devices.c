/* devices.c: GPUs chosen after MPI_Init, several of them in one rank, pushed contexts; nothing current changes, and none is used
 * that the program does not use.
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: SIMGPU_DEVICES=1 -n 2
 * run: SIMGPU_DEVICES=4 STRIDEC_TRANSPORT=oneshot -n 2
 */
#include "check.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int peer, devices = 1;
static uint64_t salt = 1;

/* The driver calls, from the library that the CUDA runtime has loaded. */
static struct {
    CUresult (*get_current)(CUcontext *);
    CUresult (*push)(CUcontext);
    CUresult (*pop)(CUcontext *);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*release)(CUdevice);
    CUresult (*state)(CUdevice, unsigned *flags, int *active);
} cu;

static void load_driver(void)
{
    void *lib = host_mode ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (host_mode) return;
    expect(lib, "libcuda.so.1 is not loaded after CUDA calls");
    if (!lib) return;
    *(void **)&cu.get_current = dlsym(lib, "cuCtxGetCurrent");
    *(void **)&cu.push = dlsym(lib, "cuCtxPushCurrent_v2");
    *(void **)&cu.pop = dlsym(lib, "cuCtxPopCurrent_v2");
    *(void **)&cu.retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
    *(void **)&cu.release = dlsym(lib, "cuDevicePrimaryCtxRelease_v2");
    *(void **)&cu.state = dlsym(lib, "cuDevicePrimaryCtxGetState");
    expect(cu.state && cu.get_current && cu.push && cu.pop && cu.retain && cu.release, "driver symbols are missing");
}

static void select_device(int d)
{
    if (!host_mode) expect(cudaSetDevice(d % devices) == cudaSuccess, "cudaSetDevice(%d)", d % devices);
}

/* What is current now. */
struct current {
    CUcontext context;
    int device;
};

static struct current current(void)
{
    struct current c = {NULL, -1};
    if (host_mode) return c;
    if (cu.get_current) cu.get_current(&c.context);
    if (c.context) cudaGetDevice(&c.device);
    return c;
}

static void unchanged(struct current before, const char *call)
{
    struct current after = current();
    expect(before.context == after.context, "%s changes the current context from %p to %p", call,
           (void *)before.context, (void *)after.context);
    expect(before.device == after.device, "%s changes the device from %d to %d", call, before.device, after.device);
}

#define KEEPS(call)                                                                                                    \
    do {                                                                                                               \
        struct current before_ = current();                                                                            \
        call;                                                                                                          \
        unchanged(before_, #call);                                                                                     \
    } while (0)

/* Every call on buffers that lie on other devices than the current one. */
static void exchange(int source_device, int target_device, int number)
{
    struct layout l;
    struct buf a, b, p;
    MPI_Request r[2];
    MPI_Message handle;
    MPI_Status s;
    int flag, position = 0, size;
    struct current c = current();
    KEEPS(layout_number(&l, number, 2));
    if (!host_mode) cudaSetDevice(source_device % devices);
    buf_make(&a, MEM_DEVICE, &l, 0, salt + (uint64_t)my_rank);
    if (!host_mode) cudaSetDevice(target_device % devices);
    buf_make(&b, MEM_DEVICE, &l, 0, salt + 5);
    buf_bytes(&p, MEM_DEVICE, (size_t)l.bytes, 0, salt + 6);
    if (!host_mode && c.device >= 0) cudaSetDevice(c.device);

    KEEPS(MPI_Irecv(b.origin, 2, l.type, peer, 1, MPI_COMM_WORLD, &r[0]));
    KEEPS(MPI_Isend(a.origin, 2, l.type, peer, 1, MPI_COMM_WORLD, &r[1]));
    KEEPS(MPI_Test(&r[1], &flag, &s));
    KEEPS(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    buf_expect_from(&b, &l, &l, salt + (uint64_t)peer);
    buf_check(&b, "received across devices");

    buf_fill(&b, salt + 7);
    KEEPS(MPI_Isend(a.origin, 2, l.type, peer, 2, MPI_COMM_WORLD, &r[0]));
    KEEPS(MPI_Mprobe(peer, 2, MPI_COMM_WORLD, &handle, &s));
    KEEPS(MPI_Mrecv(b.origin, 2, l.type, &handle, &s));
    KEEPS(MPI_Wait(&r[0], &s));
    buf_expect_from(&b, &l, &l, salt + (uint64_t)peer);
    buf_check(&b, "matched and received across devices");

    KEEPS(MPI_Pack_size(2, l.type, MPI_COMM_WORLD, &size));
    KEEPS(MPI_Pack(a.origin, 2, l.type, p.origin, l.bytes, &position, MPI_COMM_WORLD));
    buf_fill(&b, salt + 8);
    position = 0;
    KEEPS(MPI_Unpack(p.origin, l.bytes, &position, b.origin, 2, l.type, MPI_COMM_WORLD));
    buf_expect_from(&b, &l, &l, salt + (uint64_t)my_rank);
    buf_check(&b, "packed on one device, unpacked on another");
    KEEPS(layout_free(&l));
    buf_free(&a);
    buf_free(&b);
    buf_free(&p);
    salt += 20;
}

/* Packed bytes in a pool of another device than the typed buffer's: neither device reaches what is the other's. */
static void pools(void)
{
    struct layout l;
    struct buf a, b;
    unsigned char *packed, *want, *pool = NULL;
    int position = 0;
    if (host_mode || devices < 2) return;
    select_device(0);
    layout_number(&l, 2, 2);
    buf_make(&a, MEM_DEVICE, &l, 0, salt), buf_make(&b, MEM_DEVICE, &l, 0, salt + 1);
    packed = malloc((size_t)l.bytes), want = layout_packed(&l, salt);
    select_device(1);
    expect(cudaMallocAsync((void **)&pool, (size_t)l.bytes, 0) == cudaSuccess, "cudaMallocAsync");
    cudaStreamSynchronize(0);
    select_device(0);
    KEEPS(MPI_Pack(a.origin, 2, l.type, pool, l.bytes, &position, MPI_COMM_WORLD));
    select_device(1);
    cudaMemcpy(packed, pool, (size_t)l.bytes, cudaMemcpyDeviceToHost);
    expect(!memcmp(packed, want, (size_t)l.bytes), "packed into another device's pool");
    select_device(0);
    position = 0;
    KEEPS(MPI_Unpack(pool, l.bytes, &position, b.origin, 2, l.type, MPI_COMM_WORLD));
    buf_expect_from(&b, &l, &l, salt), buf_check(&b, "unpacked from another device's pool");
    select_device(1);
    cudaFreeAsync(pool, 0), cudaStreamSynchronize(0);
    select_device(0);
    buf_free(&a), buf_free(&b), layout_free(&l);
    free(packed), free(want);
    salt += 2;
    report("packed bytes in the pool of another device");
}

/* Each rank on a GPU of its own, chosen only now, long after MPI_Init. */
static void own_device(void)
{
    select_device(my_rank);
    for (int i = 0; i < LAYOUTS; i++) exchange(my_rank, my_rank, i);
    report("each rank on its own device");
}

static void several(void)
{
    for (int now = 0; now < 2; now++)
        for (int i = 0; i < 4; i++) {
            select_device(now);
            exchange(i & 1, i >> 1, (i + now) % LAYOUTS);
        }
    report("two devices in one rank");
}

/* A context pushed on top of the runtime's; MPI calls leave the stack as it is. */
static void pushed(void)
{
    CUcontext top = NULL, popped = NULL;
    select_device(0);
    struct current before = current();
    if (!host_mode && cu.push) {
        cu.retain(&top, 1 % devices);
        cu.push(top);
    }
    exchange(0, 1, 1);
    if (!host_mode && cu.push) {
        expect(current().context == top, "the pushed context is not current any more");
        cu.pop(&popped);
        expect(popped == top, "another context lies on the stack");
        cu.release(1 % devices);
    }
    unchanged(before, "a pushed and popped context");
    report("a pushed context");
}

/* A thread that has made no CUDA call has no context; it must still have none after its MPI calls. */
static void *bare_thread(void *arg)
{
    struct buf *b = arg;
    struct layout l;
    CUcontext c = NULL;
    layout_number(&l, 1, 2);
    MPI_Request r[2];
    MPI_Irecv(b[1].origin, 2, l.type, peer, 3, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(b[0].origin, 2, l.type, peer, 3, MPI_COMM_WORLD, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    if (cu.get_current) cu.get_current(&c);
    expect(c == NULL, "MPI calls leave a context current in a thread that had none");
    layout_free(&l);
    return NULL;
}

/* What is received, in memory of this kind. */
static void without_context(int provided, enum mem_kind kind)
{
    struct buf b[2];
    struct layout l;
    pthread_t id;
    if (provided < MPI_THREAD_SERIALIZED) return;
    layout_number(&l, 1, 2);
    buf_make(&b[0], MEM_DEVICE, &l, 0, salt + (uint64_t)my_rank);
    buf_make(&b[1], kind, &l, 0, salt + 5);
    for (int i = 0; i < 5; i++) {
        pthread_create(&id, NULL, bare_thread, b);
        pthread_join(id, NULL);
    }
    buf_expect_from(&b[1], &l, &l, salt + (uint64_t)peer);
    buf_check(&b[1], "received by a thread without a context");
    buf_free(&b[0]);
    buf_free(&b[1]);
    layout_free(&l);
    report("a thread without a context receives in %s memory", kind == MEM_DEVICE ? "device" : "host");
}

static void unused(int device)
{
    unsigned flags;
    int active = 0;
    if (host_mode || device == 1 % devices) return;
    if (cu.state) cu.state(device, &flags, &active);
    expect(!active, "device %d has a context", device);
    report("a device that is not the program's");
}

/* A persistent send of a rank to itself, started when the process has used one device, and again when it has used two, of which the
 * one does not read the other's memory. */
static struct {
    struct layout l;
    struct buf out, in;
    MPI_Request send;
} self;

static void self_start(uint64_t with)
{
    buf_fill(&self.out, with), buf_fill(&self.in, with + 1);
    int rc = MPI_Start(&self.send);
    expect(rc == MPI_SUCCESS, "MPI_Start returns %s", error_name(error_class(rc)));
    if (rc != MPI_SUCCESS) return;
    MPI_Recv(self.in.origin, 1, self.l.type, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Wait(&self.send, MPI_STATUS_IGNORE);
    buf_expect_from(&self.in, &self.l, &self.l, with);
    buf_check(&self.in, "sent to the own rank");
}

static void self_open(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    select_device(1);
    layout_number(&self.l, 1, 1);
    buf_make(&self.out, MEM_DEVICE, &self.l, 0, 1), buf_make(&self.in, MEM_DEVICE, &self.l, 0, 2);
    MPI_Send_init(self.out.origin, 1, self.l.type, 0, 7, MPI_COMM_SELF, &self.send);
    self_start(1000);
}

static void self_again(void)
{
    self_start(2000);
    MPI_Request_free(&self.send);
    buf_free(&self.out), buf_free(&self.in);
    layout_free(&self.l);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    report("a persistent send to the own rank, started on one device and again beside another");
}

int main(int argc, char **argv)
{
    int provided = check_start(&argc, &argv, MPI_THREAD_SERIALIZED);
    peer = my_rank ^ 1;
    if (!host_mode) expect(cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0, "no CUDA device");
    select_device(1);
    mem_free(MEM_DEVICE, mem_alloc(MEM_DEVICE, 1));
    load_driver();
    note("%d devices", devices);
    for (int i = 0; i < 5; i++) exchange(1, 1, 1);
    self_open();
    without_context(provided, MEM_HOST);
    unused(0);
    own_device();
    self_again();
    several();
    pushed();
    pools();
    without_context(provided, MEM_DEVICE);
    return check_finish();
}
