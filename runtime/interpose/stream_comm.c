/* stream_comm.c: communicators with GPU streams (MPICH's MPIX_Stream_comm_create).
 *
 * On these MPIX_Recv_enqueue and its kin receive within the MPI: they would take an RTS header (protocol/rts.h) for the
 * payload. So no RTS header takes a message's place on a communicator of which some rank has such a stream, nor on its
 * duplicates: messages are packed bytes there. The own stream is the communicator's attribute (stream_comm_of). */
#include "stream_comm.h"
#include "base/log.h"
#include "base/world_rank.h"
#include "collective/neighbor_topology.h"
#include "interpose.h"
#include "next.h"
#include "protocol/pipeline.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_Stream_comm_create

/* The handles of GPU streams. */
struct known {
    MPIX_Stream stream;
    struct mpi_stream *gpu;   /* referenced; NULL: not a CUDA stream */
    struct known *next;
};
static struct known *list;
static int key = MPI_KEYVAL_INVALID;   /* of the attribute: a referenced struct mpi_stream */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Takes a stream out of the list; NULL if it is not there. */
static struct known *take(MPIX_Stream stream)
{
    struct known *k = NULL;
    pthread_mutex_lock(&lock);
    for (struct known **at = &list; *at; at = &(*at)->next)
        if ((*at)->stream == stream) {
            k = *at, *at = k->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    return k;
}

static void put(struct known *k)
{
    pthread_mutex_lock(&lock);
    k->next = list, list = k;
    pthread_mutex_unlock(&lock);
}

static void drop(struct known *k)
{
    if (k) mpi_stream_unref(k->gpu);
    free(k);
}

static void note(MPIX_Stream stream, struct mpi_stream *gpu)
{
    struct known *k = malloc(sizeof *k);
    if (!k) log_fatal("out of memory for a GPU stream of the MPI's");
    k->stream = stream, k->gpu = gpu;
    put(k);
}

/* Returns true for a GPU's stream, and sets *gpu, referenced, if it is CUDA's; else to NULL. */
static bool is_known(MPIX_Stream stream, struct mpi_stream **gpu)
{
    const struct known *k;
    pthread_mutex_lock(&lock);
    for (k = list; k && k->stream != stream; k = k->next) continue;
    *gpu = k ? k->gpu : NULL;
    if (*gpu) mpi_stream_ref(*gpu);
    pthread_mutex_unlock(&lock);
    return k != NULL;
}

/* Returns true if an info for MPIX_Stream_create names a GPU's stream: others have no type. */
static bool names_gpu(MPI_Info info)
{
    int length, found = 0;
    return info != MPI_INFO_NULL && PMPI_Info_get_valuelen(info, "type", &length, &found) == MPI_SUCCESS && found;
}

/* Returns the value of `name` in an info, at most `room` characters; "" if there is none. */
static void value_of(MPI_Info info, const char *name, int room, char value[room + 1])
{
    int length = 0, found = 0;
    *value = '\0';
    if (PMPI_Info_get_valuelen(info, name, &length, &found) != MPI_SUCCESS || !found || length > room) return;
    if (PMPI_Info_get(info, name, room, value, &found) != MPI_SUCCESS || !found) *value = '\0';
}

/* Sets `room` bytes from MPICH's digits of them, in which "[5]" is five bytes of 0. Returns false for other texts. */
static bool read_digits(const char *text, unsigned char *bytes, size_t room)
{
    size_t n = 0;
    for (char *after; *text; text = after) {
        char pair[3] = {text[0], text[1], '\0'};
        bool zeros = *text == '[';
        unsigned long value = strtoul(zeros ? text + 1 : pair, &after, zeros ? 10 : 16);
        if (zeros ? *after != ']' || value > room - n : *after || !text[1] || n == room) return false;
        if (zeros) memset(bytes + n, 0, value);
        else bytes[n] = (unsigned char)value;
        n += zeros ? value : 1;
        after = zeros ? after + 1 : (char *)(uintptr_t)text + 2;
    }
    return n == room;
}

#define DIGITS 64
/* Returns the CUDA stream that an info names; NULL for others, and if the MPI writes it in another way. NULL, too, for
 * the streams that every program has: those are others in each thread, or for each device. */
static struct mpi_stream *stream_of(MPI_Info info)
{
    CUstream handle;
    char type[16], digits[DIGITS + 1], again[DIGITS + 1] = "";
    MPI_Info copy;
    value_of(info, "type", sizeof type - 1, type), value_of(info, "value", DIGITS, digits);
    if (strcmp(type, "cudaStream_t") != 0 || !read_digits(digits, (unsigned char *)&handle, sizeof handle)) return NULL;
    if (PMPI_Info_create(&copy) != MPI_SUCCESS) return NULL;
    if (PMPIX_Info_set_hex(copy, "value", &handle, sizeof handle) == MPI_SUCCESS)
        value_of(copy, "value", DIGITS, again);
    PMPI_Info_free(&copy);
    bool common = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    return common || strcmp(digits, again) != 0 ? NULL : mpi_stream_new(handle);
}

int call_Stream_create(const struct next *next, MPI_Info info, MPIX_Stream *stream)
{
    bool gpu = names_gpu(info);
    int rc = next->Stream_create(info, stream);
    if (rc != MPI_SUCCESS) return rc;
    drop(take(*stream));   /* of a handle that was freed where nobody saw it */
    if (gpu) note(*stream, stream_of(info));
    return rc;
}

int call_Stream_free(const struct next *next, MPIX_Stream *stream)
{
    /* Before the MPI frees it: another thread may get the handle for a new stream at once. */
    struct known *k = stream ? take(*stream) : NULL;
    int rc = next->Stream_free(stream);
    if (k && rc != MPI_SUCCESS) put(k);
    else drop(k);
    return rc;
}

/* ---- the attribute ---- */

static int copy_stream(MPI_Comm comm, int own_key, void *extra, void *value, void *copy, int *found)
{
    (void)comm, (void)own_key, (void)extra;
    mpi_stream_ref(value);
    *(void **)copy = value, *found = 1;
    return MPI_SUCCESS;
}

static int delete_stream(MPI_Comm comm, int own_key, void *value, void *extra)
{
    (void)comm, (void)own_key, (void)extra;
    mpi_stream_unref(value);
    return MPI_SUCCESS;
}

/* Returns the attribute's key, made at the first call with `made`; MPI_KEYVAL_INVALID if there is none. */
static int key_of(bool made)
{
    pthread_mutex_lock(&lock);
    if (made && key == MPI_KEYVAL_INVALID) PMPI_Comm_create_keyval(copy_stream, delete_stream, &key, NULL);
    int known = key;
    pthread_mutex_unlock(&lock);
    return known;
}

struct mpi_stream *stream_comm_of(MPI_Comm comm)
{
    void *value;
    int found = 0, known = comm != MPI_COMM_NULL ? key_of(false) : MPI_KEYVAL_INVALID;
    if (known == MPI_KEYVAL_INVALID || PMPI_Comm_get_attr(comm, known, &value, &found) != MPI_SUCCESS) return NULL;
    return found ? value : NULL;
}

/* Gives a new communicator its stream, with the reference; NULL: none. It may have its parent's. */
static void attach(MPI_Comm comm, struct mpi_stream *gpu)
{
    if (!gpu && stream_comm_of(comm)) PMPI_Comm_delete_attr(comm, key_of(false));
    if (!gpu) return;
    int known = key_of(true);
    if (known == MPI_KEYVAL_INVALID || PMPI_Comm_set_attr(comm, known, gpu) != MPI_SUCCESS) mpi_stream_unref(gpu);
}

/* Ranks that run stridec agree whether one has a GPU's stream. Where others may have one, too, nobody asks. */
static bool may_have_gpu(MPI_Comm comm, bool mine)
{
    int gpu = mine, any = 1;
    if (!node_all_armed(comm) && !pipeline_all(comm)) return true;   /* some may not run stridec */
    return neighbor_topology_agree(&gpu, &any, 1, MPI_INT, MPI_MAX, comm) != MPI_SUCCESS || any;
}

static void deny(MPI_Comm comm)
{
    if (!world_rank_deny(comm)) log_fatal("the MPI refuses an attribute of a communicator with a stream");
}

int call_Stream_comm_create(const struct next *next, MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm)
{
    struct mpi_stream *gpu;
    int rc = next->Stream_comm_create(comm, stream, newcomm);
    if (rc != MPI_SUCCESS) return rc;
    bool known = is_known(stream, &gpu);
    if (rts_armed() && may_have_gpu(*newcomm, known)) deny(*newcomm);
    attach(*newcomm, gpu);
    return rc;
}

#ifdef HAVE_Stream_comm_create_multiplex
/* MPIX_Stream_recv receives within the MPI on these, whatever the streams are. */
int call_Stream_comm_create_multiplex(const struct next *next, MPI_Comm comm, int count, MPIX_Stream array_of_streams[],
                                      MPI_Comm *newcomm)
{
    int rc = next->Stream_comm_create_multiplex(comm, count, array_of_streams, newcomm);
    if (rc == MPI_SUCCESS && rts_armed()) deny(*newcomm);
    if (rc == MPI_SUCCESS) attach(*newcomm, NULL);
    return rc;
}
#endif

void stream_comm_finish(void)
{
    for (struct known *k; (k = list);) {
        list = k->next;
        drop(k);
    }
    if (key != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&key);
}
#else
void stream_comm_finish(void)
{
}
#endif
