/* api.h: the library's side of stridec.h, a file for each of its calls. Each is entered with interpose_depth raised,
 * while stridec is at work. */
#ifndef STRIDEC_EXTEND_H
#define STRIDEC_EXTEND_H
#include "kernel/kernel.h"
#include "stridec.h"

/* api_register.c: after the ranks have agreed that all have stridec, and on n >= 0. */
int extend_register(MPI_Comm comm, int n, const MPI_Datatype types[], const void *memory, bool wait);
/* api_stream.c */
int extend_move(enum kernel_direction direction, const void *typed, MPI_Count count, MPI_Datatype datatype,
                const void *packed, MPI_Count room, MPI_Count *position, stridec_stream stream);
/* api_query.c */
int extend_query(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                 enum stridec_path *path, char *why, size_t why_bytes);

#endif
