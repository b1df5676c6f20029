/* segment.c: the files of the ranks of a node. */
#include "segment.h"
#include "base/launcher.h"
#include "base/backoff.h"
#include "base/env.h"
#include "base/file.h"
#include "base/file_share.h"
#include "base/job_id.h"
#include "base/log.h"
#include "base/world_rank.h"
#include "device/driver.h"
#include "peer_access.h"
#include "shm_pool.h"
#include "sigbus_guard.h"
#include "sweep.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPINS_PER_CHECK 65536
static const char magic[8] = "stridecB";

atomic_bool node_is_armed, node_reads_device;
static atomic_bool there;         /* the own file exists */
static unsigned char proof[32];
static char prefix[96];           /* of the names of the job's files */
static struct peer own = {.fd = -1, .self = true};
static _Atomic uint64_t reads_on;   /* copy of the own file's `gpu`, whose cache line peers often hold */
static int world_size;
static struct peer **peers;       /* by rank in MPI_COMM_WORLD; NULL: not found yet; freed at the end */
static uint32_t *patience;        /* pairs by rank: checks left to skip; checks to skip next, doubled each time */
static uint32_t all_patience[2];  /* the pair for all ranks */
static atomic_bool settled;       /* all ranks of this machine have been found */
static atomic_int slots;          /* of the own file, allocated so far */
static int neighbors;             /* number that the launcher reports; -1: unknown */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the own file, locked while its process lives ---- */

static size_t arena_at(int size)
{
    return (sizeof(struct node_file) + 3 * (size_t)size + 63) / 64 * 64;
}

static size_t file_bytes(int size)
{
    return arena_at(size) + ARENA_BYTES;
}

static struct flock whole(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

static bool names(void)
{
    char job[64];
    if (!job_id_get(job, sizeof job)) return false;
    snprintf(prefix, sizeof prefix, NODE_FOLDER "stridec.%s.", job);
    return true;
}

static void file_name(char name[128], int rank)
{
    snprintf(name, 128, "%s%d", prefix, rank);
}

/* Maps the own file with its arena, or a peer's without: its signatures are read on demand. */
static struct node_file *map(struct peer *p)
{
    size_t bytes = p->self ? file_bytes(world_size) : arena_at(world_size);
    return sigbus_guard_map(p->fd, bytes, PROT_READ | PROT_WRITE, 0, &p->lost);
}

/* Mode bits by which peers check an enabled rank's file without opening it (node_all_armed). */
#define ARMED 0700
#define UNARMED 0600

/* Logs once that a file is not used because of its owner or mode: other users know its name. */
static void not_used(const char *name, const char *why)
{
    log_once(LOG_WARN, "node file", "%s is not used, its rank's messages are the MPI's: %s", name, why);
}

/* Returns true if a rank's file exists and may be used; does not open it. */
static bool looks_usable(const char *name, struct stat *s)
{
    const char *why;
    return !lstat(name, s) && file_trusted(s, S_IFREG, FILE_OWN, &why);
}

/* Allocates the own file but the slots and the arena: without space in the folder a store would end the process. */
static bool allocate_ends(void)
{
    off_t first = offsetof(struct node_file, slot), last = offsetof(struct node_file, arena);
    return file_allocate(own.fd, 0, first) && file_allocate(own.fd, last, (off_t)arena_at(world_size) - last);
}

int node_slots(void)
{
    return atomic_load_explicit(&slots, memory_order_acquire);
}

bool node_slots_grow(void)
{
    int at = node_slots();
    struct stat s;
    if (at >= SLOTS || fstat(own.fd, &s) || s.st_size != (off_t)file_bytes(world_size)) return false;
    off_t from = (off_t)(offsetof(struct node_file, slot) + (size_t)at * sizeof(struct slot));
    if (!file_allocate(own.fd, from, SLOTS_STEP * sizeof(struct slot))) return false;
    atomic_store_explicit(&slots, at + SLOTS_STEP, memory_order_release);
    return true;
}

static void note_disk(struct node_file *f)
{
    struct stat s;
    if (!stat(NODE_DISK, &s)) f->disk[0] = s.st_dev, f->disk[1] = s.st_ino;
}

/* Makes the own file, and renames it to its final name once it is complete. */
static bool own_make(int rank, bool armed)
{
    char name[128], made[136];
    struct flock l = whole(F_WRLCK);
    struct stat s = {0};
    const char *why;
    file_name(name, rank);
    snprintf(made, sizeof made, "%s.new", name);
    if (!file_may_write((off_t)file_bytes(world_size))) return false;
    own.fd = file_make(made, &why);
    if (own.fd < 0) {
        if (errno == EPERM) not_used(made, why);
        return false;
    }
    bool whole_file = !fchmod(own.fd, armed ? ARMED : UNARMED) && !ftruncate(own.fd, (off_t)file_bytes(world_size));
    own.file = whole_file && !fstat(own.fd, &s) && !fcntl(own.fd, F_SETLK, &l) ? map(&own) : NULL;
    own.device = s.st_dev, own.number = s.st_ino;
    struct node_file *f = own.file;
    atomic_store(&slots, 0);
    if (!f || !allocate_ends() || !node_slots_grow() ||
        getrandom(&f->cookie, sizeof f->cookie, 0) != (ssize_t)sizeof f->cookie) {
        unlink(made);
        return false;
    }
    memcpy(&f->cookie, COOKIE_MARK, sizeof COOKIE_MARK);
    memcpy(f->magic, magic, sizeof magic);
    f->rank = own.rank = rank, f->size = world_size;
    atomic_store(&reads_on, 0);
    note_disk(f);
    f->pid = getpid(), f->proof = (uint64_t)(uintptr_t)proof;
    memcpy(proof, &f->cookie, sizeof proof);
    own.cookie = f->cookie;
    atomic_store(&f->arena, 64);   /* 0 means none */
    atomic_store_explicit(&f->ready, 1, memory_order_release);
    if (!rename(made, name)) return true;
    if (errno == EPERM || errno == EISDIR) not_used(name, "another user has taken its name");
    unlink(made);
    return false;
}

bool node_has_gpus(void)
{
    return driver_get() || !access("/dev/nvidiactl", F_OK);
}

enum node_domains node_start(void)
{
    int rank, initialized = 0;
    MPI_Comm parent = MPI_COMM_NULL;
    PMPI_Initialized(&initialized);
    bool device = node_has_gpus();
    if (!initialized || (!device && !env_get()->on_host.serves)) return NODE_NOTHING;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
    PMPI_Comm_get_parent(&parent);
    /* A rank alone sends to itself: in host memory only if told to. */
    bool sends = world_size > 1 || device || env_get()->on_host.always;
    if (!sends || parent != MPI_COMM_NULL || !names()) return NODE_NOTHING;
    if (launcher_local_rank(rank, world_size) <= 0) sweep_others(prefix);
    peers = calloc((size_t)world_size, sizeof *peers);
    patience = calloc(2 * (size_t)world_size, sizeof *patience);
    if (!peers || !patience || !own_make(rank, device) || world_rank_start()) {
        log_write(LOG_INFO, "no file for the ranks of the node in " NODE_FOLDER ": no zero-copy messages");
        node_finish();
        return NODE_NOTHING;
    }
    peers[rank] = &own;
    neighbors = launcher_local_size(rank, world_size);
    if (neighbors != 1) file_share_start(prefix);
    atomic_store(&node_is_armed, device);
    atomic_store(&node_reads_device, device && env_get()->ways.zerocopy);
    atomic_store(&there, true);
    return device ? NODE_DEVICE : NODE_HOST;
}

static void peer_close(struct peer *p)
{
    shm_pool_close(p);
    sigbus_guard_unmap(p->file);
    if (p->fd >= 0) close(p->fd);
    p->file = NULL, p->fd = -1, p->lost = p->told = false;
}

void node_finish(void)
{
    char name[128];
    atomic_store(&node_is_armed, false), atomic_store(&node_reads_device, false), atomic_store(&there, false);
    for (int i = 0; peers && i < world_size; i++) {
        if (!peers[i] || peers[i]->self) continue;
        peer_close(peers[i]);
        free(peers[i]);
    }
    if (own.file) {
        file_name(name, own.rank);
        unlink(name);
    }
    peer_close(&own);
    free(peers), free(patience);
    peers = NULL, patience = NULL;
    memset(all_patience, 0, sizeof all_patience), atomic_store(&settled, false);
}

/* ---- the peers ---- */

static struct peer *peer_open(int rank)
{
    char name[128];
    struct stat s;
    const char *why;
    file_name(name, rank);
    struct peer *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->rank = rank;
    p->fd = file_open(name, O_RDWR, FILE_OWN, &why);
    if (p->fd < 0 && (errno == EPERM || errno == EACCES)) not_used(name, why);
    bool whole_file = p->fd >= 0 && !fstat(p->fd, &s) && s.st_size == (off_t)file_bytes(world_size);
    p->file = whole_file ? map(p) : NULL;
    if (p->file) p->device = s.st_dev, p->number = s.st_ino;
    if (p->file && atomic_load_explicit(&p->file->ready, memory_order_acquire) &&
        !memcmp(p->file->magic, magic, sizeof magic) && p->file->rank == rank && p->file->size == world_size) {
        p->cookie = p->file->cookie;
        return p;
    }
    peer_close(p);
    free(p);
    return NULL;
}

/* Returns how many ranks have a usable file. */
static int count_files(void)
{
    char pattern[sizeof prefix + 2];
    struct stat s;
    glob_t found;
    int n = 0;
    snprintf(pattern, sizeof pattern, "%s*", prefix);
    if (glob(pattern, GLOB_NOSORT, NULL, &found)) return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *rank = found.gl_pathv[i] + strlen(prefix);
        while (isdigit((unsigned char)*rank)) rank++;
        n += !*rank && looks_usable(found.gl_pathv[i], &s);
    }
    globfree(&found);
    return n;
}

/* Returns true if it is time for a check; doubles the checks to skip until the next one. */
static bool due(uint32_t *left, uint32_t *next)
{
    if (*left) return --*left, false;
    *next = *next ? *next < 1 << 20 ? 2 * *next : *next : 1;
    *left = *next;
    return true;
}

/* Once all have been found, lets every missing rank be looked for once more. */
bool node_starting(void)
{
    if (!atomic_load_explicit(&there, memory_order_relaxed) || atomic_load_explicit(&settled, memory_order_acquire))
        return false;
    if (neighbors < 0) return true;
    pthread_mutex_lock(&lock);
    bool await = !due(&all_patience[0], &all_patience[1]) || count_files() < neighbors;
    if (!await) {
        memset(patience, 0, 2 * (size_t)world_size * sizeof *patience);
        atomic_store_explicit(&settled, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return await;
}

/* Finds a peer. A missing rank is looked for again ever more seldom, since it may still be in MPI_Init. */
static struct peer *find(int rank, bool surely)
{
    if (rank < 0 || rank >= world_size || !atomic_load_explicit(&there, memory_order_relaxed)) return NULL;
    struct peer *p = __atomic_load_n(&peers[rank], __ATOMIC_ACQUIRE);
    if (p) return p;
    pthread_mutex_lock(&lock);
    uint32_t *left = &patience[2 * rank], *next = left + 1;
    if (!(p = peers[rank]) && (due(left, next) || surely)) {
        p = peer_open(rank);
        __atomic_store_n(&peers[rank], p, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return p;
}

struct peer *node_world_peer(int rank)
{
    return find(rank, false);
}

struct peer *node_peer(MPI_Comm comm, int rank)
{
    return atomic_load_explicit(&there, memory_order_relaxed) ? find(world_rank(comm, rank), false) : NULL;
}

struct peer *node_peer_now(MPI_Comm comm, int rank)
{
    return find(world_rank(comm, rank), true);
}

bool node_all_armed(MPI_Comm comm)
{
    char name[128];
    struct stat s;
    int size = 0;
    bool all = node_armed();
    if (all) PMPI_Comm_size(comm, &size);
    for (int i = 0; i < size && all; i++) {
        int rank = world_rank(comm, i);
        if (rank >= 0) file_name(name, rank);
        all = rank >= 0 && looks_usable(name, &s) && (s.st_mode & ARMED) == ARMED;
    }
    return all;
}

/* Returns true if fd is still the peer's file. Notes one that was cut: what is left of its last page reads as zeros. */
static bool is_open(const struct peer *p)
{
    struct stat s;
    if (fstat(p->fd, &s) || s.st_dev != p->device || s.st_ino != p->number) return false;
    if (s.st_size != (off_t)file_bytes(world_size)) atomic_store(&(p->self ? &own : peers[p->rank])->lost, true);
    return true;
}

/* Withdraws the peer's access, so that it sends by the MPI alone. */
static void withdraw(struct peer *p)
{
    if (atomic_exchange(&p->told, true)) return;
    atomic_store(&own.file->accepts[p->rank], 0);
    atomic_store(&node_access_found(own.file)[p->rank], REACH_TRIED);
    log_write(LOG_ERROR, "a file of rank %d in " NODE_FOLDER " was cut: what it had under way is lost", p->rank);
}

bool node_gone(const struct peer *p)
{
    struct flock l = whole(F_WRLCK);
    bool open = is_open(p);
    if (p->self) return p->lost;
    if (p->lost) return withdraw(peers[p->rank]), true;
    return open && !fcntl(p->fd, F_GETLK, &l) && l.l_type == F_UNLCK;
}

bool node_lost(void)
{
    return atomic_load_explicit(&own.lost, memory_order_relaxed);
}

int64_t node_await_ready(const struct peer *p, const struct slot *s, int64_t at)
{
    int64_t ready;
    for (unsigned spins = 1; (ready = atomic_load_explicit(&s->ready, memory_order_acquire)) == at; spins++) {
        if (spins % SPINS_PER_CHECK == 0 && node_gone(p)) return -1;
        backoff(spins);
    }
    return ready < at ? -1 : ready;   /* the file was truncated */
}

struct node_file *node_own(void)
{
    return own.file;
}

const struct peer *node_self(void)
{
    return own.file ? &own : NULL;
}

int node_size(void)
{
    return world_size;
}

bool node_shares_disk(const struct peer *p)
{
    return own.file->disk[1] && !memcmp(own.file->disk, p->file->disk, sizeof p->file->disk);
}

void node_set_gpu(uint64_t gpu)
{
    if (atomic_load_explicit(&reads_on, memory_order_relaxed) == gpu) return;
    atomic_store_explicit(&reads_on, gpu, memory_order_relaxed);
    atomic_store(&own.file->gpu, gpu);
}

static bool in_arena(uint64_t at, uint64_t bytes)
{
    return at && at <= ARENA_BYTES && bytes <= ARENA_BYTES - at;
}

char *node_arena(uint64_t at, uint64_t bytes)
{
    return in_arena(at, bytes) ? (char *)own.file + arena_at(world_size) + at : NULL;
}

bool node_arena_read(const struct peer *p, uint64_t at, void *to, uint64_t bytes)
{
    char name[128];
    const char *why;
    file_name(name, p->rank);
    int fd = p->self || is_open(p) ? p->fd : file_open(name, O_RDONLY, FILE_OWN, &why);
    off_t from = (off_t)(arena_at(world_size) + at);
    bool read = in_arena(at, bytes) && fd >= 0 && pread(fd, to, (size_t)bytes, from) == (ssize_t)bytes;
    if (fd >= 0 && fd != p->fd) close(fd);
    return read;
}

uint64_t node_arena_alloc(uint64_t bytes)
{
    struct node_file *f = own.file;
    struct stat s;
    uint64_t at = (atomic_load(&f->arena) + 7) / 8 * 8;
    if (fstat(own.fd, &s) || s.st_size != (off_t)file_bytes(world_size)) return 0;   /* truncated: no more writes */
    if (bytes > ARENA_BYTES - at || !file_allocate(own.fd, (off_t)(arena_at(world_size) + at), (off_t)bytes)) return 0;
    atomic_store(&f->arena, at + bytes);
    return at;
}

_Atomic uint8_t *node_access_asked(struct node_file *f)
{
    return f->accepts + world_size;
}

_Atomic uint8_t *node_access_found(struct node_file *f)
{
    return f->accepts + 2 * world_size;
}

void node_pool_name(char name[128], int rank)
{
    snprintf(name, 128, "%s%d.rooms", prefix, rank);
}

void node_fallback_name(char name[128], int rank, uint32_t slot, bool on_disk)
{
    char folder[64] = "";
    if (on_disk) sweep_disk(folder);
    snprintf(name, 128, "%s%s%d.%u", folder, on_disk ? prefix + sizeof NODE_FOLDER - 1 : prefix, rank, slot);
}

void node_window_name(char name[128], int rank, uint32_t number)
{
    snprintf(name, 128, "%s%d.window%u", prefix, rank, number);
}
