/* probed.c: the unexpected (probed) queue. */
#include "probed.h"
#include "base/activity.h"
#include "base/log.h"
#include "base/reserve.h"
#include "base/spinlock.h"
#include "next.h"
#include "protocol/rndv_recv.h"
#include "protocol/rts.h"
#include "protocol/shm_send.h"
#include "receive_gate.h"
#include "record.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct probed_at at;
    MPI_Message message;       /* matched by probed_match; else MPI_MESSAGE_NULL */
    union {
        struct rts rts;
        char bytes[SHM_SEND_MIN + SHM_SEND_GAP];
    };
    int64_t payload;
    bool is_rts;               /* the bytes are an RTS */
    uint64_t number;           /* of entries so far, when it came */
    MPI_Request sent;          /* MPI_REQUEST_NULL: not sent again */
    struct entry *next;
};

static struct entry *first, **last = &first;   /* the queue, in the order of arrival */
static struct entry *leaving;                  /* taken; the MPI may still read their bytes */
static MPI_Comm self = MPI_COMM_NULL;
static uint64_t entries;   /* so far */
static uint64_t tags;      /* that may be used */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define TAGS_MIN 32768   /* an MPI must allow so many */

int probed_start(void)
{
    const int *most = NULL;
    int told = 0;
    if (self != MPI_COMM_NULL) return 0;
    if (PMPI_Comm_dup(MPI_COMM_SELF, &self) != MPI_SUCCESS) return -1;
    PMPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    if (PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &told) != MPI_SUCCESS) told = 0;
    tags = told && *most >= TAGS_MIN ? (uint64_t)*most + 1 : TAGS_MIN;
    return 0;
}

static bool matches(const struct entry *e, int source, int tag, MPI_Comm comm)
{
    return e->message == MPI_MESSAGE_NULL && e->at.from_comm == comm &&
           (source == MPI_ANY_SOURCE || source == e->at.from_source) && (tag == MPI_ANY_TAG || tag == e->at.from_tag);
}

/* Returns the link to the first that matches, or to the end. The caller holds the lock. */
static struct entry **find(int source, int tag, MPI_Comm comm)
{
    struct entry **link = &first;
    while (*link && !matches(*link, source, tag, comm)) link = &(*link)->next;
    return link;
}

static void correct(const struct probed_at *at, MPI_Status *status)
{
    status->MPI_SOURCE = at->from_source, status->MPI_TAG = at->from_tag;
}

/* Raises the error of a message that was sent again on its first communicator. Returns rc. */
static int raised(const struct probed_at *at, int rc)
{
    if (rc != MPI_SUCCESS && at->message == MPI_MESSAGE_NULL) PMPI_Comm_call_errhandler(at->from_comm, rc);
    return rc;
}

int probed_came(const struct probed_at *at, MPI_Status *status, int rc)
{
    correct(at, status);
    return raised(at, rc);
}

int probed_receive(const struct probed_at *at, void *buf, MPI_Count count, MPI_Datatype type, MPI_Status *status)
{
    MPI_Message message = at->message;
    bool matched = message != MPI_MESSAGE_NULL;
#ifdef HAVE_Recv_c
    int rc = matched ? PMPI_Mrecv_c(buf, count, type, &message, status)
                     : PMPI_Recv_c(buf, count, type, 0, at->tag, at->comm, status);
#else
    int rc = matched ? PMPI_Mrecv(buf, (int)count, type, &message, status)
                     : PMPI_Recv(buf, (int)count, type, 0, at->tag, at->comm, status);
#endif
    return probed_came(at, status, rc);
}

int probed_ireceive(const struct probed_at *at, void *buf, MPI_Count count, MPI_Datatype type, MPI_Request *request)
{
    MPI_Message message = at->message;
    bool matched = message != MPI_MESSAGE_NULL;
#ifdef HAVE_Recv_c
    int rc = matched ? PMPI_Imrecv_c(buf, count, type, &message, request)
                     : PMPI_Irecv_c(buf, count, type, 0, at->tag, at->comm, request);
#else
    int rc = matched ? PMPI_Imrecv(buf, (int)count, type, &message, request)
                     : PMPI_Irecv(buf, (int)count, type, 0, at->tag, at->comm, request);
#endif
    return raised(at, rc);
}

static void show(const struct entry *e, MPI_Status *status)
{
    correct(&e->at, status);
    PMPI_Status_set_elements_x(status, MPI_BYTE, e->payload);
    PMPI_Status_set_cancelled(status, 0);
}

bool probed_probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    if (!probed_any()) return false;
    pthread_mutex_lock(&lock);
    const struct entry *e = *find(source, tag, comm);
    if (e) show(e, status);
    pthread_mutex_unlock(&lock);
    return e != NULL;
}

/* Takes *link out of the queue. The caller holds the lock. */
static void drop(struct entry **link, struct probed_at *at)
{
    struct entry *e = *link;
    *at = e->at;
    *link = e->next;
    if (!*link) last = link;
    e->next = leaving;
    leaving = e;
    if (e->is_rts) rndv_recv_probed(&e->rts, false);
    if (atomic_fetch_sub(&probed_count, 1) == 1 && !receive_gate_on()) atomic_store(&rts_check_least, rts_least());
    spinlock_count(&request_records, -1);
}

bool probed_match(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status, int *rc)
{
    if (!probed_any()) return false;
    pthread_mutex_lock(&lock);
    struct entry **link = find(source, tag, comm), *e = *link;
    if (e) show(e, status);
    if (e && e->at.message != MPI_MESSAGE_NULL) {
        struct probed_at at;
        drop(link, &at);
        *message = at.message;
        *rc = MPI_SUCCESS;
    } else if (e) {
        *rc = PMPI_Mprobe(0, e->at.tag, self, message, MPI_STATUS_IGNORE);
        if (*rc == MPI_SUCCESS) e->message = *message;
    }
    pthread_mutex_unlock(&lock);
    return e != NULL;
}

/* Frees taken entries whose messages were received; `all`: waits for that. The caller holds the lock. */
static void sweep(bool all)
{
    for (struct entry **link = &leaving; *link;) {
        struct entry *e = *link;
        int done = 0;
        if (all) PMPI_Wait(&e->sent, MPI_STATUS_IGNORE), done = 1;
        else PMPI_Test(&e->sent, &done, MPI_STATUS_IGNORE);
        if (!done) {
            link = &e->next;
            continue;
        }
        *link = e->next;
        reserve_put(e);
    }
}

bool probed_take(int source, int tag, MPI_Comm comm, struct probed_at *at)
{
    if (!probed_any()) return false;
    pthread_mutex_lock(&lock);
    struct entry **link = find(source, tag, comm);
    bool found = *link;
    if (found) drop(link, at);
    pthread_mutex_unlock(&lock);
    return found;
}

bool probed_matched(MPI_Message message, struct probed_at *at)
{
    struct entry **link = &first;
    if (!probed_any() || message == MPI_MESSAGE_NULL) return false;
    pthread_mutex_lock(&lock);
    while (*link && (*link)->message != message) link = &(*link)->next;
    bool found = *link;
    if (found) drop(link, at);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Appends to the queue. The caller holds the lock. */
static void append(struct entry *e)
{
    e->number = entries++;
    *last = e;
    last = &e->next;
    atomic_fetch_add(&probed_count, 1), spinlock_count(&request_records, 1);   /* so stubs pass on any start, */
    atomic_store(&rts_check_least, 0);   /* and any receive */
}

/* Sends an entry's bytes to this process. Long ones have a gap, like an RTS to oneself: the receive may be too short
 * (shm_send.c). */
static int resend(struct entry *e, int64_t length)
{
    MPI_Datatype gapped = length == SHM_SEND_MIN ? shm_send_gapped() : MPI_DATATYPE_NULL;
    if (gapped == MPI_DATATYPE_NULL) return PMPI_Isend(e->bytes, (int)length, MPI_BYTE, 0, e->at.tag, self, &e->sent);
    char *second = e->bytes + SHM_SEND_MIN / 2;
    memmove(second + SHM_SEND_GAP, second, SHM_SEND_MIN / 2);
    return PMPI_Isend(e->bytes, 1, gapped, 0, e->at.tag, self, &e->sent);
}

static bool uses_tag(const struct entry *e, int tag)
{
    while (e && (e->at.comm != self || e->at.tag != tag)) e = e->next;
    return e != NULL;
}

/* Returns a tag that no message has that was sent again and is not received. The caller holds the lock. */
static int free_tag(void)
{
    int tag = (int)(entries % tags);
    bool round = first && entries - first->number >= tags;
    for (uint64_t tried = 1; round && tried < tags && (uses_tag(first, tag) || uses_tag(leaving, tag)); tried++)
        tag = (int)(++entries % tags);
    return tag;
}

/* Sends the bytes again and queues them; `message`: matches them for the caller. */
static struct entry *put(const void *bytes, int64_t length, MPI_Comm comm, const MPI_Status *status,
                         MPI_Message *message)
{
    struct entry *e = reserve_get(sizeof *e);
    struct typed_buffer whole = {.address = e->bytes, .bytes = length};
    struct rts found;
    memcpy(e->bytes, bytes, (size_t)length);
    e->is_rts = rndv_recv_is_rts(&whole, e->bytes, length, &found);
    e->payload = e->is_rts ? e->rts.bytes : length;
    if (e->is_rts) rndv_recv_probed(&e->rts, true);
    e->at = (struct probed_at){MPI_MESSAGE_NULL, self, free_tag(), status->MPI_SOURCE, status->MPI_TAG, comm};
    e->message = MPI_MESSAGE_NULL;
    sweep(false);
    resend(e, length);
    if (message && PMPI_Mprobe(0, e->at.tag, self, message, MPI_STATUS_IGNORE) == MPI_SUCCESS) e->message = *message;
    append(e);
    return e;
}

/* Receives a matched message and queues it. The caller holds the lock. */
static int keep(MPI_Message *matched, MPI_Message *message, MPI_Comm comm, MPI_Status *status)
{
    unsigned char bytes[SHM_SEND_MIN];
    MPI_Status own = *status;
    int64_t length = mpi_bytes_received(status);
    int rc = PMPI_Mrecv(bytes, (int)length, MPI_BYTE, matched, &own);
    if (rc == MPI_SUCCESS) show(put(bytes, length, comm, &own, message), status);
    return rc;
}

/* Queues a matched message that is no RTS: the MPI keeps it. */
static int keep_matched(MPI_Message matched, MPI_Comm comm, const MPI_Status *status)
{
    struct entry *e = reserve_get(sizeof *e);
    e->at = (struct probed_at){matched, comm, status->MPI_TAG, status->MPI_SOURCE, status->MPI_TAG, comm};
    e->message = MPI_MESSAGE_NULL, e->sent = MPI_REQUEST_NULL;
    e->payload = mpi_bytes_received(status);
    append(e);
    return MPI_SUCCESS;
}

static bool may_be(MPI_Comm comm, const MPI_Status *status)
{
    int64_t bytes = rts_armed() ? mpi_bytes_received(status) : 0;
    return bytes >= rts_least() && rts_fits(bytes) && rndv_recv_from(comm, status->MPI_SOURCE);
}

static bool same(const MPI_Status *a, const MPI_Status *b)
{
    return a->MPI_SOURCE == b->MPI_SOURCE && a->MPI_TAG == b->MPI_TAG && mpi_bytes_received(a) == mpi_bytes_received(b);
}

static int ranks_of(MPI_Comm comm)
{
    int inter = 0, ranks = 0;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter) PMPI_Comm_remote_size(comm, &ranks);
    else PMPI_Comm_size(comm, &ranks);
    return ranks;
}

/* Probes a found message again, by its source: another one may be found for any source. */
static int confirm(int tag, MPI_Comm comm, int *there, MPI_Status *s, bool *agree)
{
    MPI_Status found = *s;
    if (found.MPI_SOURCE < 0 || found.MPI_SOURCE >= ranks_of(comm)) return MPI_SUCCESS;
    int rc = PMPI_Iprobe(found.MPI_SOURCE, tag, comm, there, s);
    *agree = *there && same(&found, s);
    return rc;
}

/* Workaround (Open MPI 4.1): its probe reads a message's status after another thread may have received the message, and
 * reused its memory. With threads, two probes must agree. */
static int probe_sure(int source, int tag, MPI_Comm comm, int *there, MPI_Status *s)
{
    bool agree = !receive_gate_on();
    int rc;
    do {
        rc = PMPI_Iprobe(source, tag, comm, there, s);
        if (rc == MPI_SUCCESS && *there && !agree) rc = confirm(tag, comm, there, s, &agree);
    } while (rc == MPI_SUCCESS && *there && !agree);
    return rc;
}

/* Queues the first message of a rank. The caller holds the lock. Nobody else takes the message between the two calls: a
 * receive that might has shown itself, and one that shows itself now waits for the lock. */
static int take(int source, MPI_Comm comm, int *there, MPI_Status *s)
{
    MPI_Message message;
    int rc = probe_sure(source, MPI_ANY_TAG, comm, there, s);
    if (rc != MPI_SUCCESS || !*there) return rc;
    if (receive_gate_awaits(source, s->MPI_TAG, comm)) return *there = 0, rc;
    rndv_recv_probing(true);
    rc = PMPI_Improbe(source, s->MPI_TAG, comm, there, &message, s);
    if (rc == MPI_SUCCESS && *there)
        rc = may_be(comm, s) ? keep(&message, NULL, comm, s) : keep_matched(message, comm, s);
    rndv_recv_probing(false);
    return rc;
}

/* Queues all messages of a rank up to the probed one. */
static int take_up_to(int source, int tag, MPI_Comm comm, int *there, MPI_Status *status)
{
    MPI_Status s = {.MPI_TAG = MPI_ANY_TAG};
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && *there && s.MPI_TAG != tag) rc = take(source, comm, there, &s);
    if (rc == MPI_SUCCESS && *there) *status = s;
    return rc;
}

/* Queues a probed message, unless another thread has queued or received it since. */
static int look(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    const struct entry *e = *find(source, tag, comm);
    if (e) return show(e, status), MPI_SUCCESS;
    int rc = probe_sure(source, tag, comm, flag, status);
    if (rc != MPI_SUCCESS || !*flag || !may_be(comm, status)) return rc;
    atomic_fetch_add(&probed_count, 1);   /* before the gates are read */
    rc = take_up_to(status->MPI_SOURCE, status->MPI_TAG, comm, flag, status);
    atomic_fetch_sub(&probed_count, 1);
    return rc;
}

/* Looks at any message if there are threads: another one may be queueing it. */
int probed_look(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    if (source == MPI_PROC_NULL || (!receive_gate_on() && !may_be(comm, status))) return MPI_SUCCESS;
    pthread_mutex_lock(&lock);
    int rc = look(source, tag, comm, flag, status);
    pthread_mutex_unlock(&lock);
    return rc;
}

int probed_look_matched(MPI_Message *message, MPI_Comm comm, MPI_Status *status)
{
    MPI_Message came = *message;
    if (came == MPI_MESSAGE_NO_PROC || !may_be(comm, status)) return MPI_SUCCESS;
    pthread_mutex_lock(&lock);
    rndv_recv_probing(true);
    int rc = keep(&came, message, comm, status);
    rndv_recv_probing(false);
    pthread_mutex_unlock(&lock);
    return rc;
}

/* Drops a queued message that the application, wrongly, never received. */
static void waste(struct entry **link)
{
    unsigned char bytes[SHM_SEND_MIN];
    MPI_Message matched = (*link)->message;
    struct probed_at at;
    drop(link, &at);
    if (at.message != MPI_MESSAGE_NULL) return;
    if (matched == MPI_MESSAGE_NULL) PMPI_Recv(bytes, sizeof bytes, MPI_BYTE, 0, at.tag, self, MPI_STATUS_IGNORE);
    else PMPI_Mrecv(bytes, sizeof bytes, MPI_BYTE, &matched, MPI_STATUS_IGNORE);
}

/* Receives nothing of a rendezvous, so that the sender gets its buffer back, and with it the slot. */
static void decline(struct entry *e)
{
    struct typed_buffer none = {.bytes = 0};
    struct rndv_recvs recvs = {0};
    MPI_Status s;
    if (!e->is_rts) return;
    rndv_recv_probed(&e->rts, e->is_rts = false);
    rndv_recv_add(&recvs, &e->rts, NULL, &none, &s), rndv_recvs_run(&recvs);
}

void probed_forget(MPI_Comm comm)
{
    if (!probed_any()) return;
    pthread_mutex_lock(&lock);
    for (struct entry **link = &first; *link;) {
        struct entry *e = *link;
        if (e->at.from_comm == comm && e->message == MPI_MESSAGE_NULL) decline(e), waste(link);
        else link = &e->next;
    }
    pthread_mutex_unlock(&lock);
}

void probed_finish(void)
{
    if (self == MPI_COMM_NULL) return;
    while (first) waste(&first);
    sweep(true);
    PMPI_Comm_free(&self);
}
