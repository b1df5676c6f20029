/* stridec.h: optional calls of stridec beside MPI. Nothing is linked: without libstridec.so (`stridec run` or
 * LD_PRELOAD) stridec_start_on, _wait_on and _exchange_on call MPI_Start and MPI_Wait and return STRIDEC_HOST; the
 * other calls return STRIDEC_ABSENT. C11 and C++11, with gcc or clang; before glibc 2.34 link with -ldl.
 *
 *   stridec_register     exchanges layouts and makes kernels ahead, so that the first message is as fast as later ones
 *   stridec_pack_on      pack and unpack device memory like MPI_Pack and MPI_Unpack, but on a CUDA stream of the
 *   stridec_unpack_on    program: in stream order, and without waiting
 *   stridec_start_on     start and complete persistent requests on a CUDA stream: within a node no host takes part, and
 *   stridec_wait_on      a CUDA graph may hold both
 *   stridec_exchange_on  does both, by a kernel fewer
 *   stridec_query        tells which path a message will take, and why
 *
 * Sizes are in bytes; counts are elements of a datatype. Calls are allowed between MPI_Init and MPI_Finalize, from
 * any thread that may call MPI; stridec_register is a collective call. No call keeps a pointer or handle that it was
 * given. But enqueued work of the stream calls uses both buffers until the stream has done it.
 *
 * Errors are returned as enum stridec_result; no MPI error handler is called. One exception: an uncommitted datatype
 * is the MPI's error, on MPI_COMM_SELF. */
#ifndef STRIDEC_H
#define STRIDEC_H
#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum stridec_result {
    STRIDEC_OK,
    STRIDEC_ABSENT,   /* not loaded (stridec_register: on some rank), disabled, or ended */
    STRIDEC_UNABLE,   /* stridec can't do this (see each call); MPI's own calls can */
    STRIDEC_INVALID,  /* wrong argument: negative count, packed buffer too small, null handle, no such rank */
    STRIDEC_FAILED,   /* the driver failed, or memory is out; the log says more */
    STRIDEC_HOST      /* done, but by the host: see stridec_start_on */
};

/* In the order of the names in stridec_path_name. */
enum stridec_path {
    STRIDEC_PATH_MPI,        /* unchanged: no bytes; contiguous bytes, of a device only where they can't go zero-copy
                              * and the MPI is CUDA-aware; or host memory that the MPI sends as fast */
    STRIDEC_PATH_ZEROCOPY,   /* the receiver reads the sender's memory (device or host) */
    STRIDEC_PATH_PIPELINED,  /* packed, copied and sent in chunks */
    STRIDEC_PATH_DEVICE,     /* packed in device memory, which the MPI sends */
    STRIDEC_PATH_ONESHOT,    /* packed by a kernel directly into host memory, which the MPI sends */
    STRIDEC_PATH_STAGED,     /* packed in device memory, copied to host memory, which the MPI sends */
    STRIDEC_PATH_PARTS,      /* the buffer lies in several memories: packed part by part */
    STRIDEC_PATH_SHADOW,     /* stridec can't read the type: the MPI packs a copy in host memory */
    STRIDEC_PATH_SHARED,     /* host memory: packed into memory that the node's processes share, unpacked from there */
    STRIDEC_PATH_PACKED      /* host memory: packed by code made for the layout; the MPI sends the bytes */
};

/* A cudaStream_t or CUstream; NULL is the default stream. */
typedef void *stridec_stream;

/* The library's functions. Version 1 never changes; later versions add members at the end. */
#define STRIDEC_VERSION 3
struct stridec_calls {
    int (*active)(void);
    int (*register_types)(MPI_Comm comm, int n, const MPI_Datatype types[], const void *memory, int wait);
    int (*pack_on)(const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf, MPI_Count outsize,
                   MPI_Count *position, stridec_stream stream);
    int (*unpack_on)(const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf, MPI_Count outcount,
                     MPI_Datatype datatype, stridec_stream stream);
    int (*query)(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                 enum stridec_path *path, char *why, size_t why_bytes);
    /* version 2 */
    int (*start_on)(int n, MPI_Request requests[], stridec_stream stream);
    int (*wait_on)(int n, MPI_Request requests[], stridec_stream stream);
    /* version 3 */
    int (*exchange_on)(int n, MPI_Request requests[], stridec_stream stream);
};
typedef const struct stridec_calls *stridec_calls_function(int version);

/* Returns the loaded library's functions, or NULL if stridec is absent. Searches at each call until found. */
static inline const struct stridec_calls *stridec_calls(void)
{
    static const struct stridec_calls *found;
    const struct stridec_calls *calls = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
    stridec_calls_function *ask;
    void *symbol;

    if (calls) return calls->active() ? calls : NULL;
    symbol = dlsym((void *)0 /* RTLD_DEFAULT */, "stridec_calls_of");
    if (!symbol) return NULL;
    *(void **)(void *)&ask = symbol;
    calls = ask(STRIDEC_VERSION);
    if (calls) __atomic_store_n(&found, calls, __ATOMIC_RELEASE);
    return calls && calls->active() ? calls : NULL;
}

/* Returns 1 if stridec serves this process now, else 0: between MPI_Init and MPI_Finalize, loaded, not disabled
 * (STRIDEC_DISABLE), and with the MPI that it was built for. */
static inline int stridec_present(void)
{
    return stridec_calls() != NULL;
}

/* Registers n committed datatypes for messages among the ranks of comm, an intracommunicator. Collective: every rank
 * of comm calls it with the same n. types[i] may have different layouts on different ranks: a message sent as one is
 * received as the other. If some ranks lack stridec, all get STRIDEC_ABSENT.
 *
 * Then the ranks of a node know each other's layouts, and whether they can read each other's memory. The first
 * message carries no layout, and is zero-copy if later ones would be. A registration lasts as long as the datatypes.
 * Registering again is allowed and costs only the collective calls.
 *
 * memory: any address in the memory that messages use, of a device or the host; NULL registers layouts only. For
 * host memory it makes host code, and the ranks of the node probe whether they reach it. wait: the call returns when
 * kernels (and host code) are compiled or found in a cache, or have failed; else they are made in the background.
 * `memory` and `wait` may differ between ranks.
 *
 * Returns STRIDEC_OK; STRIDEC_UNABLE: stridec can't read some types of this rank, the others are registered;
 * STRIDEC_INVALID: n differs between ranks or is negative, comm is not allowed, or a type of this rank is
 * MPI_DATATYPE_NULL; STRIDEC_FAILED: some rank is out of memory, and nothing is registered. */
static inline int stridec_register(MPI_Comm comm, int n, const MPI_Datatype types[], const void *memory, int wait)
{
    const struct stridec_calls *calls = stridec_calls();
    int mine[3], least[3], inter = 0;

    if (comm == MPI_COMM_NULL || MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter) return STRIDEC_INVALID;
    mine[0] = calls != NULL, mine[1] = n, mine[2] = -n;
    if (MPI_Allreduce(mine, least, 3, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS) return STRIDEC_FAILED;
    if (!least[0]) return STRIDEC_ABSENT;
    if (least[1] < 0 || least[1] != -least[2]) return STRIDEC_INVALID;
    return calls->register_types(comm, n, types, memory, wait);
}

/* Enqueues on `stream` the packing of `incount` elements from inbuf to outbuf + *position. Adds the packed bytes to
 * *position; the bytes are those of MPI_Pack. Returns at once: the packing runs in stream order. The host must not
 * free or use either buffer, nor free the datatype, until the stream has done it (an event, cudaStreamSynchronize).
 *
 * inbuf must lie in the memory of one device, the stream's. The packed buffer must lie in that device's memory or in
 * pinned host memory that it reaches. The first call with a type may take longer: it uploads what the kernel needs.
 * For types of more than 4096 blocks it also waits up to 2 s for a kernel. stridec_register with `wait` does both
 * ahead. After that a call allocates nothing on the device.
 *
 * Returns STRIDEC_OK; STRIDEC_UNABLE: host memory, several memories, a packed buffer out of reach, or a type that
 * stridec can't read; STRIDEC_INVALID: also if fewer than the packed bytes are left in outsize; STRIDEC_FAILED: a
 * part may have been enqueued. *position changes only with STRIDEC_OK. */
static inline int stridec_pack_on(const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf,
                                  MPI_Count outsize, MPI_Count *position, stridec_stream stream)
{
    const struct stridec_calls *calls = stridec_calls();
    return calls ? calls->pack_on(inbuf, incount, datatype, outbuf, outsize, position, stream) : STRIDEC_ABSENT;
}

/* Enqueues the unpacking, as stridec_pack_on packs: from inbuf + *position, of `insize` bytes in all, to `outcount`
 * elements at outbuf. */
static inline int stridec_unpack_on(const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf,
                                    MPI_Count outcount, MPI_Datatype datatype, stridec_stream stream)
{
    const struct stridec_calls *calls = stridec_calls();
    return calls ? calls->unpack_on(inbuf, insize, position, outbuf, outcount, datatype, stream) : STRIDEC_ABSENT;
}

/* Waits for the program's stream by the driver that the process has loaded, for calls without the library. */
static inline int stridec_synchronize(stridec_stream stream)
{
    int (*synchronize)(void *stream);
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY), *symbol;
    int result;

    if (!driver) return 0;
    symbol = dlsym(driver, "cuStreamSynchronize");
    *(void **)(void *)&synchronize = symbol;
    result = symbol ? synchronize(stream) : -1;
    return result == 3 || result == 201 ? 0 : result;   /* no context: there is no work to wait for */
}

/* Start, and complete, n persistent requests in the order of `stream`: messages (MPI_Send_init and its kin,
 * MPI_Recv_init), and collectives that are no reductions, as MPI_Neighbor_alltoallw_init. They hold what earlier work
 * of the stream has written; later work finds what was received, and may write what was sent. The calls replace
 * MPI_Startall and MPI_Waitall. The requests stay inactive for the MPI. Null requests are ignored; so are requests in
 * stridec_wait_on that were not started. A collective is a message for each pair of neighbours: what is said of
 * messages here, and of both partners, is true of it and of all its ranks; but its communicator may be freed.
 *
 * Both partners of a message call stridec_start_on for it, always; the requests were made after CUDA's start
 * (cudaSetDevice) in each process. At the first time they bind: stridec_start_on waits for the stream, and
 * stridec_wait_on for the partner's stridec_wait_on. The communicator must live until then. Later calls enqueue work
 * and return: within a node kernels move the data, and streams wait for each other, with no host thread. They may be
 * captured into a graph (cudaStreamBeginCapture), which may be launched any number of times; each launch is one
 * message a request, and partners must launch, or call, as often. Bytes move in stridec_wait_on: for overlap, use a
 * stream for messages and another one for the computation, with events between them.
 *
 * Memory is that of one device, the stream's. Receives name their source and tag. Which two requests are partners is
 * settled at the first time, for good: a program that frees one makes both anew. Until then no other messages of that
 * source and tag may be under way. Until the stream has done it, the buffers must not be used or freed, nor the
 * requests freed; the program waits for the stream before MPI_Finalize. Nothing else may start or complete a request
 * that is started so. A send is complete when the receives that its partner completes in one call have all been sent.
 * A partner that ends without its part leaves the stream waiting. Errors of the MPI call its error handlers.
 *
 * stridec_wait_on may be given another stream than stridec_start_on, if an event puts that stream behind the start.
 * Then receives are waited for before sends, or with them, as the partner's sends wait for these receives. A message
 * that was started while its stream was captured must be waited for in a capture, too (else STRIDEC_INVALID), and one
 * that was not, outside (else STRIDEC_UNABLE). If the graph is thrown away, start the message anew outside a capture.
 *
 * To ranks of other nodes the stream packs into pinned memory as large as the message, and a thread of stridec's passes
 * the bytes to the MPI when the stream comes to them; so from the second time on, and if MPI_Init_thread provided
 * MPI_THREAD_MULTIPLE. Each process decides that alone. The first time of such a message is the host's: STRIDEC_HOST;
 * so is any call in which the MPI carries another one as the host's. Later messages of a receive are as long as its
 * first one: else a later call returns STRIDEC_FAILED.
 *
 * While a stream waits for a message, cudaFree and the first launch of a kernel, which loads it, wait as well, and then
 * all calls of CUDA in the process: what the partner needs for that message must have been enqueued before.
 *
 * Returns STRIDEC_OK, at the first start even where stridec_wait_on then returns STRIDEC_HOST; STRIDEC_HOST: the MPI
 * carries some messages, the stream was waited for, and stridec_wait_on has waited for these messages: a partner on
 * another node (see above), data in host memory or on another device, a collective that stridec leaves to the MPI, or
 * no library;
 * STRIDEC_UNABLE: `stream` is captured, and a request was not started before or is the host's (the log says which):
 * nothing was enqueued; STRIDEC_INVALID: n < 0, a request that is started already or listed twice, MPI_ANY_SOURCE,
 * MPI_ANY_TAG, or a stream of another device than before (found where it is not captured); STRIDEC_FAILED.
 *
 * Data that the partner can't open (cudaMallocAsync, managed memory, too many allocations) are packed in the stream's
 * order first, into device memory as long as the message, which the request keeps. */
static inline int stridec_start_on(int n, MPI_Request requests[], stridec_stream stream)
{
    const struct stridec_calls *calls = stridec_calls();
    int rc = MPI_SUCCESS, i;

    if (calls) return calls->start_on(n, requests, stream);
    if (stridec_synchronize(stream)) return STRIDEC_FAILED;
    for (i = 0; i < n && rc == MPI_SUCCESS; i++)
        if (requests[i] != MPI_REQUEST_NULL) rc = MPI_Start(&requests[i]);
    return rc == MPI_SUCCESS ? STRIDEC_HOST : STRIDEC_FAILED;
}

static inline int stridec_wait_on(int n, MPI_Request requests[], stridec_stream stream)
{
    const struct stridec_calls *calls = stridec_calls();

    if (calls) return calls->wait_on(n, requests, stream);
    return MPI_Waitall(n, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS ? STRIDEC_HOST : STRIDEC_FAILED;
}

/* Starts and completes requests: stridec_start_on, then stridec_wait_on, where nothing is to be enqueued between them.
 * Within a node that takes a kernel fewer. Partners may use either way. Returns like stridec_wait_on; or like
 * stridec_start_on where that fails. */
static inline int stridec_exchange_on(int n, MPI_Request requests[], stridec_stream stream)
{
    const struct stridec_calls *calls = stridec_calls();
    int started;

    if (calls) return calls->exchange_on(n, requests, stream);
    started = stridec_start_on(n, requests, stream);
    return started == STRIDEC_OK || started == STRIDEC_HOST ? stridec_wait_on(n, requests, stream) : started;
}

/* Sets *path to the path that MPI_Send with these arguments would take now, by the same decision. Writes the reason
 * as text into `why`, at most why_bytes with the final 0; `why` may be NULL. Local; sends nothing.
 *
 * The answer may change: when ranks learn that they can read each other's memory (first messages, stridec_register),
 * and with other messages under way. A STRIDEC_PATH_ZEROCOPY message is still packed if the receiver is late. A
 * STRIDEC_PATH_SHARED one goes by the MPI if no shared memory is free. Derived types in host memory are the MPI's
 * until they were sent a few times, or registered.
 *
 * Returns STRIDEC_OK, also for MPI_PROC_NULL, or STRIDEC_INVALID: negative count, null handle, no rank of comm; then
 * *path and `why` are unchanged. */
static inline int stridec_query(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                                enum stridec_path *path, char *why, size_t why_bytes)
{
    const struct stridec_calls *calls = stridec_calls();
    return calls ? calls->query(buf, count, datatype, dest, comm, path, why, why_bytes) : STRIDEC_ABSENT;
}

/* Returns the path's name as in STRIDEC_TRANSPORT and --stats, where "packed" is host, and what is "mpi" or "shadow"
 * here is under "left to the MPI" or mpi; static storage. */
static inline const char *stridec_path_name(enum stridec_path path)
{
    static const char *const names[] = { "mpi",    "zerocopy", "pipelined", "device", "oneshot",
                                         "staged", "parts",    "shadow",    "shared", "packed" };
    return (unsigned)path < sizeof names / sizeof *names ? names[path] : "unknown";
}

#ifdef __cplusplus
}
#endif
#endif
