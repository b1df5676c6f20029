/* simgpu.h: what tests may ask of the simulated GPU, beside the CUDA calls; exported by its libcuda.so.1.
 *
 * Environment:
 *   SIMGPU_DEVICES=n         devices (default 2, at most 16)
 *   SIMGPU_MEMORY=n          MiB of memory of each device (default 4096)
 *   SIMGPU_EAGER=1           work runs when it is enqueued, or, behind a wait for a value that has not come, later; by
 *                            default only when someone waits for it
 *   SIMGPU_CLOCK=n           kHz that the device tells of its clock (default 1000000); kernels that ask for the time count
 *                            their questions
 *   SIMGPU_CARD=NAME         the properties of a V100, T4, A100, A40, L40S, L4, H200, B200 or RTX PRO 6000; by default an H100's
 *   SIMGPU_DRIVER=n          the version that the driver tells, as 12020; by default that of cuda.h
 *   SIMGPU_PEERS=0           no device reaches another's memory
 *   SIMGPU_REUSE=1           freed addresses are used again at once, as a driver does; by default as late as possible
 *   SIMGPU_MAPPING_IDS=n     numbers of mapped memory (BUFFER_ID): 0 each mapping has its own, 1 the memory's wherever
 *                            it is mapped, 2 that of the range of addresses, whatever lies there
 *   SIMGPU_OFFSETS=1         cuMemMap maps memory from an offset on, which CUDA 13 does not
 *   SIMGPU_MEM_OPS=0         no stream memory operations: the device says so, and the calls answer
 *                            CUDA_ERROR_NOT_SUPPORTED
 *   SIMGPU_HOLD=1            cuModuleLoadData, cuMemFree and cuIpcCloseMemHandle wait for all streams, also for those
 *                            that wait for a word, and other threads' calls wait for them: an H200's driver (580)
 *                            does so
 *   SIMGPU_OPEN=1            the host may touch device memory: with libaware.so preloaded, any MPI is CUDA-aware
 *   SIMGPU_FAIL=NAME[:n[+]],..  driver call NAME fails: at its n-th call, from it on, or always
 *   SIMGPU_FAULT=n           the n-th kernel that runs touches memory that it cannot reach: from then on calls return
 *                            CUDA_ERROR_ILLEGAL_ADDRESS, in all contexts that there are
 *   SIMGPU_KILL=NAME[,NAME..]   the process ends, as by kill -9, at the next call of these
 *   SIMGPU_REPORT=1          one line of counters on standard error at exit
 *   SIMGPU_CXX               the host compiler of the simulated NVRTC (default c++)
 *   SIMGPU_NVRTC_FAIL=1      every compile fails
 *   SIMGPU_NVRTC_DELAY_MS=n  every compile takes that much longer
 *   SIMGPU_NVRTC_LOG=FILE    every compile appends a line: the program's name, and a hash of its source
 *   SIMGPU_KEEP=FOLDER       what is compiled is written there too; in a folder "kernels" beside libnvrtc.so it is read
 *                            in place of compiling */
#ifndef SIMGPU_H
#define SIMGPU_H
#include <stdint.h>

/* Counted when the work is enqueued, whole process; what is captured counts then, and each launch of its graph as one.
 * `launches` includes graph_launches, and early_launches, which may begin while the work before them ends; `copies`
 * includes copies_2d (2D and 3D). Bytes of a copy between two devices or within one are d2d; managed memory counts as
 * device memory. tests/fortran/calls.F90 declares the same. */
struct simgpu_counts {
    uint64_t launches, copies, copies_2d, bytes_h2d, bytes_d2h, bytes_d2d, syncs;
    uint64_t allocs_live, bytes_live;   /* device and managed memory now, imports not included */
    uint64_t modules, stream_creates, event_creates;
    uint64_t bytes_peak, graph_launches, early_launches;
    uint64_t arguments_set;             /* of graphs that are there */
    uint64_t questions;                 /* about pointers' attributes */
    uint64_t ipc_opens;                 /* of memory of other processes */
    uint64_t calls, failed;             /* of the driver; of these, what SIMGPU_FAIL made fail */
};
void simgpu_counts(struct simgpu_counts *out);
/* Returns how many calls wait for all streams now (SIMGPU_HOLD). */
int simgpu_holds(void);
/* Zeroes all but allocs_live and bytes_live; bytes_peak starts again from bytes_live. */
void simgpu_reset(void);

#endif
