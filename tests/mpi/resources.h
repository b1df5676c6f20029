/* resources.h: what the process holds of the host, the device and the disk, and what the simulated GPU counted. */
#ifndef STRIDEC_TESTS_MPI_RESOURCES_H
#define STRIDEC_TESTS_MPI_RESOURCES_H
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

struct resources {
    int64_t heap;                  /* bytes that malloc gave out; 0 under a sanitizer */
    int64_t resident, anonymous;   /* VmRSS, bytes; of it, what is shared with no file: a simulated device's memory is one */
    int64_t device_bytes;          /* allocated on the device; on hardware, what all processes have of it */
    int64_t descriptors, threads;
    int64_t files;                 /* in the folder of compiled modules */
    int64_t compiles;              /* of all ranks since resources_watch_compiles; on hardware, as files */
    int64_t modules;               /* loaded so far; the rest too is 0 on hardware */
    int64_t launches, copies, syncs;
    int64_t early;                 /* launches that may begin before earlier work has ended */
    int64_t opens;                 /* of memory of other processes */
    int64_t calls, questions, failed;   /* of the driver, all; about pointers; by SIMGPU_FAIL */
    bool simulated;
};
void resources_now(struct resources *r);
/* Collective, before the first commit: compiles of all ranks are counted from here on. */
void resources_watch_compiles(void);
/* How many of the compiles past `since` are of what was among the first `first`; 0 on hardware. */
int64_t resources_compiled_again(int64_t first, int64_t since);
/* Calls use(type), unless use is NULL, until `modules` more have been loaded than when the watch began, at most 60 s;
 * on hardware for 2 s. The cache folder must be new: the interpreter is loaded only where something is compiled. */
void resources_wait_modules(int64_t modules, MPI_Datatype type, void (*use)(MPI_Datatype type));

#endif
