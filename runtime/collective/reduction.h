/* reduction.h: MPI's predefined operations on predefined types as kernels do them (kernel/reduce.h).
 *
 * The kernels give the MPI's results: integers wrap; sums and products are rounded after each step; of a NaN and
 * another number MAX and MIN give the operand of the lower rank, as Open MPI's plain code does. They differ where an
 * MPI saturates short integers (Open MPI 4.1's vector code, 8 and 16 bits). The MPI does own operations, long double,
 * Fortran's logicals and numbers of odd sizes. It refuses predefined operations on derived types (MPI-4.1 section
 * 6.9.2). */
#ifndef STRIDEC_REDUCTION_H
#define STRIDEC_REDUCTION_H
#include "args.h"
#include "kernel/reduce.h"

struct reduction {
    enum gen_reduce_type type;
    enum gen_op op;
};

/* Sets *r if kernels do the operation on the type. Returns false if not, or if the arguments are wrong. */
bool reduction_of(MPI_Op op, MPI_Datatype type, struct reduction *r);
/* Returns the device that holds count > 0 elements and whose kernels can take them; NULL if there is none. */
struct device *reduction_device(struct layout *l, const void *buf, int64_t count, enum gen_reduce_type type);
/* Runs the job on d, waits, and counts it in the statistics of the type, with the buffer `buf`. Returns 0 or -1. */
int reduction_run(struct layout *l, struct device *d, const void *buf, const struct reduce_job *job);
/* Does an MPI_Reduce_local by one kernel if both buffers lie on one device, and sets *rc. Returns false if not possible
 * now; then the MPI does it, staged. */
bool reduction_local(const struct args_set *o, MPI_Op op, int *rc);

#endif
