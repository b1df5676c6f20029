/* streams.c: MPICH's streams, communicators with one, and messages in their order, as a library to be preloaded, for
 * CUDA streams on an MPICH that was built without CUDA. Its communicators have no stream then. Messages are functions
 * of the host in the stream's order, as MPICH makes them, but of host memory alone: device memory ends the
 * program. */
#include <cuda.h>
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MPIX_STREAM_NULL
#define FIRST_HANDLE 0x7a000000
#define MOST 64

static CUstream streams[MOST];   /* by handle - FIRST_HANDLE */
static int made;
static CUstream named;           /* by the last info of a stream */
static int key = MPI_KEYVAL_INVALID;   /* of a communicator's stream: its place */

/* The MPI's own functions, past what was preloaded before. */
#define OWN(name) ((__typeof__(P##name) *)own("P" #name))
typedef void function(void);
static function *own(const char *name)
{
    function *f;
    *(void **)&f = dlsym(RTLD_NEXT, name);
    return f;
}
#define DRIVER(name) ((__typeof__(name) *)driver(#name))
static function *driver(const char *name)
{
    function *f;
    *(void **)&f = dlsym(dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY), name);
    return f;
}

static int place_of(MPIX_Stream stream)
{
    intptr_t place = (intptr_t)stream - FIRST_HANDLE;
    return stream != MPIX_STREAM_NULL && place >= 0 && place < made ? (int)place : -1;
}

int MPIX_Info_set_hex(MPI_Info info, const char *name, const void *value, int bytes)
{
    if (!strcmp(name, "value") && bytes == (int)sizeof named) memcpy(&named, value, sizeof named);
    return OWN(MPIX_Info_set_hex)(info, name, value, bytes);
}

int MPIX_Stream_create(MPI_Info info, MPIX_Stream *stream)
{
    char type[16];
    int found = 0;
    if (info != MPI_INFO_NULL) PMPI_Info_get(info, "type", sizeof type - 1, type, &found);
    if (!found || strcmp(type, "cudaStream_t") != 0) return OWN(MPIX_Stream_create)(info, stream);
    if (made == MOST) abort();
    streams[made] = named;
    *stream = (MPIX_Stream)(intptr_t)(FIRST_HANDLE + made++);
    return MPI_SUCCESS;
}

int MPIX_Stream_free(MPIX_Stream *stream)
{
    if (place_of(*stream) < 0) return OWN(MPIX_Stream_free)(stream);
    *stream = MPIX_STREAM_NULL;
    return MPI_SUCCESS;
}

int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm)
{
    int place = place_of(stream);
    if (key == MPI_KEYVAL_INVALID) PMPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    int rc = OWN(MPIX_Stream_comm_create)(comm, place < 0 ? stream : MPIX_STREAM_NULL, newcomm);
    if (!rc) PMPI_Comm_delete_attr(*newcomm, key);   /* the parent's */
    if (!rc && place >= 0) PMPI_Comm_set_attr(*newcomm, key, &streams[place]);
    return rc;
}

/* ---- messages ---- */

struct message {
    int sends, waits;           /* `waits`: a blocking one */
    void *buf;
    MPI_Count count;
    MPI_Datatype type;
    int peer, tag;
    MPI_Comm comm;
    CUstream stream;
    MPI_Status *status;
    MPI_Request request, shown;   /* the MPI's, the program's */
    struct message *next;
};
static struct message *messages;   /* nonblocking ones that nobody waits for yet */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int nothing(void *extra, MPI_Status *status)
{
    (void)extra;
    return PMPI_Status_set_elements(status, MPI_BYTE, 0);
}
static int no_end(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}
static int no_cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

static void CUDA_CB finish(void *data)
{
    struct message *m = data;
    OWN(MPI_Wait)(&m->request, m->status);
    if (!m->waits) OWN(MPI_Grequest_complete)(m->shown), OWN(MPI_Wait)(&m->shown, MPI_STATUS_IGNORE);
    free(m);
}

static void CUDA_CB begin(void *data)
{
    struct message *m = data;
    if (m->sends) OWN(MPI_Isend)(m->buf, (int)m->count, m->type, m->peer, m->tag, m->comm, &m->request);
    else OWN(MPI_Irecv)(m->buf, (int)m->count, m->type, m->peer, m->tag, m->comm, &m->request);
    if (m->waits) finish(m);
}

static int enqueue(struct message from, MPI_Request *request)
{
    struct message *m = malloc(sizeof *m);
    CUmemorytype memory = CU_MEMORYTYPE_HOST;
    CUstream *stream;
    int found = 0;
    PMPI_Comm_get_attr(from.comm, key, &stream, &found);
    DRIVER(cuPointerGetAttribute)(&memory, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)from.buf);
    if (!m || !found || memory == CU_MEMORYTYPE_DEVICE) {
        fprintf(stderr, "a message in a stream's order: %s\n", found ? "device memory" : "no stream");
        abort();
    }
    *m = from, m->waits = !request, m->stream = *stream;
    if (request) {
        OWN(MPI_Grequest_start)(nothing, no_end, no_cancel, NULL, request);
        m->shown = *request;
        pthread_mutex_lock(&lock);
        m->next = messages, messages = m;
        pthread_mutex_unlock(&lock);
    }
    return DRIVER(cuLaunchHostFunc)(m->stream, begin, m) ? MPI_ERR_OTHER : MPI_SUCCESS;
}

int MPIX_Send_enqueue(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    return enqueue((struct message){.sends = 1, .buf = (void *)(uintptr_t)buf, .count = count, .type = type,
                                    .peer = dest, .tag = tag, .comm = comm, .status = MPI_STATUS_IGNORE}, NULL);
}

int MPIX_Send_enqueue_c(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    return MPIX_Send_enqueue(buf, (int)count, type, dest, tag, comm);
}

int MPIX_Recv_enqueue(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    return enqueue((struct message){.buf = buf, .count = count, .type = type, .peer = source, .tag = tag, .comm = comm,
                                    .status = status}, NULL);
}

int MPIX_Recv_enqueue_c(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                        MPI_Status *status)
{
    return MPIX_Recv_enqueue(buf, (int)count, type, source, tag, comm, status);
}

int MPIX_Isend_enqueue(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                       MPI_Request *request)
{
    return enqueue((struct message){.sends = 1, .buf = (void *)(uintptr_t)buf, .count = count, .type = type,
                                    .peer = dest, .tag = tag, .comm = comm}, request);
}

int MPIX_Irecv_enqueue(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                       MPI_Request *request)
{
    return enqueue((struct message){.buf = buf, .count = count, .type = type, .peer = source, .tag = tag,
                                    .comm = comm}, request);
}

int MPIX_Wait_enqueue(MPI_Request *request, MPI_Status *status)
{
    struct message *m = NULL;
    if (!status) return MPI_ERR_ARG;
    pthread_mutex_lock(&lock);
    for (struct message **at = &messages; *at; at = &(*at)->next)
        if ((*at)->shown == *request) {
            m = *at, *at = m->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!m) return MPI_ERR_REQUEST;
    m->status = status, *request = MPI_REQUEST_NULL;
    return DRIVER(cuLaunchHostFunc)(m->stream, finish, m) ? MPI_ERR_OTHER : MPI_SUCCESS;
}

int MPIX_Waitall_enqueue(int count, MPI_Request requests[], MPI_Status *statuses)
{
    int rc = statuses ? MPI_SUCCESS : MPI_ERR_ARG;
    for (int i = 0; i < count && !rc; i++)
        rc = MPIX_Wait_enqueue(&requests[i], statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i]);
    return rc;
}
#endif
