/* stridec.h: what a program may ask of stridec beside MPI. All of it is optional: nothing here is linked, and where
 * libstridec.so is not loaded (LD_PRELOAD, `stridec run`) each call says STRIDEC_ABSENT and the program goes its own way.
 * C11 and C++11, with gcc or clang; before glibc 2.34 programs link with -ldl.
 *
 *   stridec_register   layouts and kernels are exchanged and made ahead, so that the first message is like the tenth
 *   stridec_pack_on    MPI_Pack and MPI_Unpack of device memory on a CUDA stream of the program's: in order behind what the
 *   stridec_unpack_on  stream does before, and without waiting
 *   stridec_query      which way a message will take, and why
 *
 * All sizes are bytes; counts are elements of a datatype. Calls are allowed between MPI_Init and MPI_Finalize, from any
 * thread that may call MPI (of stridec_register: as of a collective call). No call keeps a pointer or a handle that it was
 * given, but the work that the stream calls enqueue reads and writes both buffers until the stream has done it.
 *
 * Errors are returned, as enum stridec_result: no error handler of MPI's is called, unless a datatype was not committed,
 * which is the MPI's error on MPI_COMM_SELF. */
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
    STRIDEC_ABSENT,   /* stridec is not loaded here (stridec_register: on some rank), is disabled, or has ended */
    STRIDEC_UNABLE,   /* stridec can't do this (see each call); MPI's own calls do it */
    STRIDEC_INVALID,  /* a wrong argument: a negative count, a packed buffer that is too small, a null handle, no such rank */
    STRIDEC_FAILED    /* the driver refused, or memory is out; the log says more */
};

/* ORDER: names in stridec_path_name. */
enum stridec_path {
    STRIDEC_PATH_MPI,        /* the MPI gets the call as it is: nothing to send, bytes in one piece that it takes, or host
                                memory of which it sends such layouts as quickly */
    STRIDEC_PATH_ZEROCOPY,   /* the receiver reads the sender's memory, a device's or the host's */
    STRIDEC_PATH_PIPELINED,  /* packed, copied and sent in chunks */
    STRIDEC_PATH_DEVICE,     /* packed in device memory, which the MPI sends */
    STRIDEC_PATH_ONESHOT,    /* packed by a kernel straight into host memory, which the MPI sends */
    STRIDEC_PATH_STAGED,     /* packed in device memory, copied to host memory, which the MPI sends */
    STRIDEC_PATH_PARTS,      /* the buffer lies in several memories: packed part by part */
    STRIDEC_PATH_SHADOW,     /* of a type that stridec can't read: the MPI packs a copy in host memory */
    STRIDEC_PATH_SHARED,     /* host memory: packed into memory that the processes of the node share, unpacked from there */
    STRIDEC_PATH_PACKED      /* host memory: packed by code made for the layout, and the MPI sends the bytes */
};

/* A cudaStream_t or CUstream; NULL is the default stream. */
typedef void *stridec_stream;

/* The library's side of the calls below. Version 1 stays as it is; later ones add members at the end. */
#define STRIDEC_VERSION 1
struct stridec_calls {
    int (*active)(void);
    int (*register_types)(MPI_Comm comm, int n, const MPI_Datatype types[], const void *memory, int wait);
    int (*pack_on)(const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf, MPI_Count outsize,
                   MPI_Count *position, stridec_stream stream);
    int (*unpack_on)(const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf, MPI_Count outcount,
                     MPI_Datatype datatype, stridec_stream stream);
    int (*query)(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                 enum stridec_path *path, char *why, size_t why_bytes);
};
typedef const struct stridec_calls *stridec_calls_function(int version);

/* The loaded library's, or NULL. Looked for at the first call and again until it is found. */
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

/* 1 if stridec serves this process now: between MPI_Init and MPI_Finalize, loaded, and neither STRIDEC_DISABLE nor
 * another MPI than its own keeps it from that. Else 0. */
static inline int stridec_present(void)
{
    return stridec_calls() != NULL;
}

/* Registers n committed datatypes for messages among the ranks of comm, an intracommunicator. Collective: every rank
 * of comm calls it, with the same n; types[i] of one rank may have another layout than types[i] of another, which is
 * what it will be received as. Ranks without stridec may take part: then all get STRIDEC_ABSENT.
 *
 * Afterwards the ranks of a node know each other's layouts, and have tried whether they can read each other's
 * memory: the first message carries no layout, and goes from memory to memory where later ones would. `memory` is
 * any address in the memory that messages will be sent from and received into (a device's, or the host's: then code
 * for the host is made, and the ranks of the node try whether they reach it); NULL: registers layouts only. With
 * `wait`, it returns when kernels (and code for the host) of these types have been compiled or found in a cache, or
 * that has failed; else they are made in the background. `memory` and `wait` may differ between ranks.
 *
 * A registration lasts as long as the datatypes; registering again is allowed and costs the collective calls
 * alone. STRIDEC_OK; STRIDEC_UNABLE: stridec can't read some of this rank's types (the others are registered);
 * STRIDEC_INVALID: n differs between ranks or is negative, comm is not allowed, or one of this rank's types is
 * MPI_DATATYPE_NULL; STRIDEC_FAILED: some rank has no memory left, and nothing is registered. */
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

/* Enqueues on `stream` the packing of `incount` elements at inbuf to outbuf + *position, and adds their packed bytes
 * to *position; the bytes are those of MPI_Pack. Returns at once: what the stream was given before is done before,
 * and the packed bytes are there for what it is given later. The host must not free or use either buffer, nor free
 * the datatype, before the stream has come so far (an event, cudaStreamSynchronize).
 *
 * inbuf must lie in one device's memory, that of the stream, and the packed buffer where that device reaches it: in
 * its own memory or in pinned host memory. The first call with a type may take longer: it uploads what the kernel
 * needs to know of the type and, for types of more than 4096 blocks, waits up to 2 s for a kernel; stridec_register
 * with `wait` has done both. After that a call allocates nothing on the device.
 *
 * STRIDEC_OK; STRIDEC_UNABLE: host memory, several memories, a packed buffer out of reach, a type that stridec can't
 * read; STRIDEC_INVALID: among others, fewer than the packed bytes are left in outsize; STRIDEC_FAILED: part of it
 * may have been enqueued. *position stays as it was unless STRIDEC_OK is returned. */
static inline int stridec_pack_on(const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf,
                                  MPI_Count outsize, MPI_Count *position, stridec_stream stream)
{
    const struct stridec_calls *calls = stridec_calls();
    return calls ? calls->pack_on(inbuf, incount, datatype, outbuf, outsize, position, stream) : STRIDEC_ABSENT;
}

/* Unpacks as stridec_pack_on packs: from inbuf + *position, which holds `insize` bytes in all, to `outcount`
 * elements at outbuf. */
static inline int stridec_unpack_on(const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf,
                                    MPI_Count outcount, MPI_Datatype datatype, stridec_stream stream)
{
    const struct stridec_calls *calls = stridec_calls();
    return calls ? calls->unpack_on(inbuf, insize, position, outbuf, outcount, datatype, stream) : STRIDEC_ABSENT;
}

/* Which way MPI_Send of these arguments would take now, by the same decision: into *path, and why in words into
 * `why` (at most why_bytes with the 0 at its end; NULL is allowed). Local; nothing is sent. The answer may change:
 * when ranks have learnt that they can read each other's memory (after the first messages, or stridec_register), and
 * with what is under way. A path of STRIDEC_PATH_ZEROCOPY may still be packed where the receiver comes late, and one
 * of STRIDEC_PATH_SHARED go by the MPI where no room is left. Derived types in host memory are the MPI's until they
 * have been sent a few times, or registered. STRIDEC_OK, also of MPI_PROC_NULL; STRIDEC_INVALID: a negative count, a
 * null handle, no rank of comm; *path and `why` are then as they were. */
static inline int stridec_query(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                                enum stridec_path *path, char *why, size_t why_bytes)
{
    const struct stridec_calls *calls = stridec_calls();
    return calls ? calls->query(buf, count, datatype, dest, comm, path, why, why_bytes) : STRIDEC_ABSENT;
}

/* A word for a path, as STRIDEC_TRANSPORT and --stats have it; static storage. */
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
