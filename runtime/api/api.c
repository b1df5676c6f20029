/* api.c: the table of functions that stridec.h looks up in the library. */
#include "api.h"
#include "base/activity.h"

EXPORT stridec_calls_function stridec_calls_of;

static int active(void)
{
    return atomic_load_explicit(&interpose_active, memory_order_acquire) != INTERPOSE_OFF;
}

static int register_types(MPI_Comm comm, int n, const MPI_Datatype types[], const void *memory, int wait)
{
    interpose_depth++;
    int result = api_register_types(comm, n, types, memory, wait);
    interpose_depth--;
    return result;
}

static int pack_on(const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf, MPI_Count outsize,
                   MPI_Count *position, stridec_stream stream)
{
    interpose_depth++;
    int result = api_move(KERNEL_PACK, inbuf, incount, datatype, outbuf, outsize, position, stream);
    interpose_depth--;
    return result;
}

static int unpack_on(const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf, MPI_Count outcount,
                     MPI_Datatype datatype, stridec_stream stream)
{
    interpose_depth++;
    int result = api_move(KERNEL_UNPACK, outbuf, outcount, datatype, inbuf, insize, position, stream);
    interpose_depth--;
    return result;
}

static int query(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                 enum stridec_path *path, char *why, size_t why_bytes)
{
    interpose_depth++;
    int result = api_query_path(buf, count, datatype, dest, comm, path, why, why_bytes);
    interpose_depth--;
    return result;
}

static int start_on(int n, MPI_Request requests[], stridec_stream stream)
{
    interpose_depth++;
    int result = api_start_on(n, requests, stream);
    interpose_depth--;
    return result;
}

static int wait_on(int n, MPI_Request requests[], stridec_stream stream)
{
    interpose_depth++;
    int result = api_wait_on(n, requests, stream);
    interpose_depth--;
    return result;
}

static int exchange_on(int n, MPI_Request requests[], stridec_stream stream)
{
    interpose_depth++;
    int result = api_exchange_on(n, requests, stream);
    interpose_depth--;
    return result;
}

const struct stridec_calls *stridec_calls_of(int version)
{
    static const struct stridec_calls calls = {active,  register_types, pack_on, unpack_on, query,
                                               start_on, wait_on,        exchange_on};
    return version >= 1 && version <= STRIDEC_VERSION ? &calls : NULL;
}
