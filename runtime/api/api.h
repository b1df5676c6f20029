/* api.h: the library's side of stridec.h, a file for each call. The caller has raised interpose_depth, and stridec
 * is active. */
#ifndef STRIDEC_API_H
#define STRIDEC_API_H
#include "kernel/kernel.h"
#include "stridec.h"

/* api_register.c. All ranks have stridec, and the same n >= 0. */
int api_register_types(MPI_Comm comm, int n, const MPI_Datatype types[], const void *memory, bool wait);
/* api_stream.c */
int api_move(enum kernel_direction direction, const void *typed, MPI_Count count, MPI_Datatype datatype,
             const void *packed, MPI_Count room, MPI_Count *position, stridec_stream stream);
/* api_order.c */
int api_start_on(int n, MPI_Request requests[], stridec_stream stream);
int api_wait_on(int n, MPI_Request requests[], stridec_stream stream);
int api_exchange_on(int n, MPI_Request requests[], stridec_stream stream);
/* api_query.c */
int api_query_path(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                   enum stridec_path *path, char *why, size_t why_bytes);

#endif
