/* shared.c: files of ranks in /dev/shm: those that another user has made under a rank's name, those that are cut while they are
 * mapped, and how much address space a peer's take. Files of another user take root to make; `taken` is run by
 * tests/cli/trust.sh, as root may take any name back.
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host forged
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 forged
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host cut
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host cut rooms
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host cut meanwhile
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host cut packing
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host cut posted
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 1 --host cut posted
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 cut
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 3 --host space
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host limits
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 3 --host sweeps
 */
#include "check.h"
#include "offers.h"
#include "../../runtime/node/segment.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRANGER 65533
#define ELEMENT 2000    /* doubles, every second one */
#define DOUBLES 20000   /* of a message */
#define MESSAGES 40
#define MOST 4000
#define LONG 1000000     /* doubles of a message whose block has 8 MiB */
#define TAG 5
#define SWEPT 1000077     /* a rank that no other test takes */

static enum mem_kind kind = MEM_HOST;

/*
 * Messages.
 */

static MPI_Datatype spaced;
static void *out, *in;
static double *image;

static void messages_begin(int doubles)
{
    MPI_Datatype vector;
    MPI_Type_vector(ELEMENT, 1, 2, MPI_DOUBLE, &vector);
    MPI_Type_create_resized(vector, 0, 2 * ELEMENT * (MPI_Aint)sizeof(double), &spaced);
    MPI_Type_commit(&spaced);
    MPI_Type_free(&vector);
    size_t bytes = 2 * (size_t)doubles * sizeof(double);
    out = mem_alloc(kind, bytes), in = mem_alloc(kind, bytes), image = malloc(bytes);
}

static void messages_end(void)
{
    MPI_Type_free(&spaced);
    mem_free(kind, out), mem_free(kind, in), free(image);
}

static double value(int rank, int number, int at)
{
    return 1e6 * number + 1e5 * rank + at / 2;
}

static int send(int peer, int doubles, int number)
{
    size_t bytes = 2 * (size_t)doubles * sizeof(double);
    for (int i = 0; i < 2 * doubles; i++) image[i] = value(my_rank, number, i);
    mem_write(kind, out, image, bytes);
    return MPI_Send(out, doubles / ELEMENT, spaced, peer, TAG, MPI_COMM_WORLD);
}

/* Returns the call's error; with success the bytes must be there. */
static int receive(int peer, int doubles, int number)
{
    size_t bytes = 2 * (size_t)doubles * sizeof(double);
    int wrong = 0;
    memset(image, 0xff, bytes);
    mem_write(kind, in, image, bytes);
    int rc = MPI_Recv(in, doubles / ELEMENT, spaced, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    mem_read(kind, image, in, bytes);
    for (int i = 0; i < 2 * doubles && rc == MPI_SUCCESS; i += 2) wrong += image[i] != value(peer, number, i);
    expect(!wrong, "message %d from rank %d: %d of %d doubles are wrong", number, peer, wrong, doubles);
    return rc;
}

/* Both ways; how many of the two calls failed. */
static int exchange(int peer, int doubles, int number)
{
    int failed = 0;
    for (int turn = 0; turn < 2; turn++)
        failed += ((my_rank < peer) == (turn == 0) ? send : receive)(peer, doubles, number) != MPI_SUCCESS;
    return failed;
}

static long offered(void)
{
    long (*ask)(int) = NULL;
    *(void **)&ask = dlsym(RTLD_DEFAULT, "stridec_host_offers");
    return ask ? ask(0) + ask(1) : 0;
}

/* Exchanges messages, at least MESSAGES, until it is so on both ranks, which learn of each other while they talk. */
static void exchanges_until(bool (*is)(void), int doubles, int *number)
{
    int failed = 0, more = 1;
    for (int i = 0; i < MESSAGES || (more && i < MOST); i++, ++*number) {
        failed += exchange(1 - my_rank, doubles, *number);
        int not_yet = !is();
        if (i >= MESSAGES) MPI_Allreduce(&not_yet, &more, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    expect_equal(failed, 0, "calls that failed");
}

static bool has_offered(void)
{
    return kind != MEM_HOST || offered() > 0;
}

/* Messages of host memory go by shared memory; those of device memory leave no trace there. */
static void exchanges(int doubles, int *number)
{
    long before = offered();
    exchanges_until(has_offered, doubles, number);
    expect(kind != MEM_HOST || offered() > before, "nothing was offered");
}

/*
 * Names, and what is said.
 */

/* The file's name of a rank as this process has it mapped, with this ending. False where it has none. */
static bool name_of(char name[256], int rank, const char *ending)
{
    char line[512], end[32];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");
    snprintf(end, sizeof end, ".%d%s\n", rank, ending);
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "/dev/shm/stridec.");
        size_t length = at ? strlen(at) : 0;
        found = length > strlen(end) && !strcmp(at + length - strlen(end), end);
        if (found) snprintf(name, 256, "%.*s", (int)(length - 1), at);
    }
    if (f) fclose(f);
    return found;
}

static int heard = -1, before;   /* what is said, and standard error as it was */

static void listen(void)
{
    heard = memfd_create("said", MFD_CLOEXEC);
    before = dup(STDERR_FILENO);
    dup2(heard, STDERR_FILENO);
}

static int said(const char *text)
{
    static char all[1 << 16];
    int n = 0;
    ssize_t got = pread(heard, all, sizeof all - 1, 0);
    all[got > 0 ? got : 0] = '\0';
    for (const char *at = all; (at = strstr(at, text)); at++) n++;
    return n;
}

/*
 * Another user's files.
 */

/* Makes rank 1's file as another user: a copy of this rank's, which accepts all that rank 0 may offer, and that all may write to. */
static void forge(void)
{
    char name[256];
    struct stat s;
    int status = 1;
    bool there = name_of(name, 0, "") && !stat(name, &s);
    expect(there, "rank 0 has no file");
    if (!there) return;
    name[strlen(name) - 1] = '1';
    pid_t child = fork();
    if (!child) {
        if (setgroups(0, NULL) || setgid(STRANGER) || setuid(STRANGER)) _exit(2);
        int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0666);
        if (fd < 0 || fchmod(fd, 0777) || ftruncate(fd, s.st_size)) _exit(3);
        struct node_file *f = mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (f == MAP_FAILED) _exit(4);
        memset(f, 0xff, sizeof *f + 3 * 2);   /* accepts all */
        memcpy(f->magic, offers_file(0)->magic, sizeof f->magic);
        atomic_store(&f->ready, 1);
        f->rank = 1, f->size = 2;
        memset(f->slot, 0, sizeof f->slot);
        _exit(0);
    }
    waitpid(child, &status, 0);
    expect(!status, "the other user's file can't be made: %d", status);
}

static const char *expected;

static bool is_said(void)
{
    return !expected || said(expected);
}

static void forged(void)
{
    int number = 0, is = getenv("STRANGER") != NULL;
    if (my_rank == 0) forge();
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank == 0) expected = "is not used, its rank's messages are the MPI's: it belongs to another user";
    exchanges_until(is_said, DOUBLES, &number);
    expect(!offered(), "a message was offered to nobody");
    int warnings = expected ? said(expected) : 1;
    expect_equal(warnings, 1, "warnings");
    dup2(before, STDERR_FILENO);
    expect(is == my_rank, "rank %d runs stridec, or not", my_rank);
    char name[256];
    if (my_rank == 0 && name_of(name, 0, "")) name[strlen(name) - 1] = '1', unlink(name);
    report("a file of another user stands for a rank on another node");
}

/* While rank 1 is kept in MPI_Init (tool/late.c), its file's name is told, by a file that TAKE names, to who then makes that one
 * as another user, and the file LATE. */
static void tell(void)
{
    char name[256];
    bool there = name_of(name, 0, "");
    FILE *f = fopen(getenv("TAKE"), "w");
    if (there) name[strlen(name) - 1] = '1';
    expect(there && f && fprintf(f, "%s\n", name) > 0, "rank 0 has no file");
    if (f) fclose(f);
}

static void taken(void)
{
    int number = 0;
    expected = my_rank ? "another user has taken its name" : "it belongs to another user";
    exchanges_until(is_said, DOUBLES, &number);
    expect(!offered(), "a message was offered");
    int warnings = said(expected);
    expect_equal(warnings, 1, "warnings");
    dup2(before, STDERR_FILENO);
    report("another user has taken a rank's name");
}

/* Rank 1 begins anew without stridec, as on another node. */
static void become_stranger(char **argv)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (rank_given() != 1 || getenv("STRANGER") || n < 0) return;
    exe[n] = '\0';
    setenv("STRANGER", "1", 1), unsetenv("LD_PRELOAD");
    execv(exe, argv);
}

/*
 * Files that are cut.
 */

#define PARTLY 4500   /* bytes that are left: the first slots lie behind, in the same page */

static char victim[2][256];
static atomic_int go;

static void *cut_meanwhile(void *arg)
{
    (void)arg;
    while (!atomic_load(&go)) sched_yield();
    for (int i = 0; i < 2; i++)
        if (*victim[i] && truncate(victim[i], 0)) fail("%s can't be cut", victim[i]);
    return NULL;
}

/* Rank 0 cuts the other's file. No process ends; a call that succeeds has moved the right bytes; in the end all succeed. */
static void cut(const char *what)
{
    int number = 0, failed = 0, meanwhile = !strcmp(what, "meanwhile"), rooms = !strcmp(what, "rooms") || meanwhile;
    pthread_t thread;
    exchanges(DOUBLES, &number);
    listen();
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank == 0) {
        expect(rooms || name_of(victim[0], 1, ""), "rank 1's file is not mapped");
        expect(!rooms || name_of(victim[1], 1, ".rooms"), "rank 1's rooms are not mapped");
        if (meanwhile) name_of(victim[0], 1, "");
        atomic_store(&go, !meanwhile);
        if (pthread_create(&thread, NULL, cut_meanwhile, NULL)) exit(2);
        if (!meanwhile) pthread_join(thread, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MESSAGES; i++, number++) {
        if (i == MESSAGES / 4) atomic_store(&go, 1);
        failed += exchange(1 - my_rank, DOUBLES, number);
    }
    if (my_rank == 0 && meanwhile) pthread_join(thread, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    int last = 0;
    for (int i = 0; i < MESSAGES; i++, number++) last = exchange(1 - my_rank, DOUBLES, number);
    expect_equal(last, 0, "calls that failed in the end");
    dup2(before, STDERR_FILENO);
    note("%d calls of rank 0 failed", failed);
    report("messages after a file was cut: %s", what);
}

/* A message is posted, and the file of its sender, the last rank, cut before rank 0 receives: an error, and no wait for
 * ever. */
static void cut_posted(void)
{
    MPI_Request sent = MPI_REQUEST_NULL;
    int number = 0, last = num_ranks - 1, failed = 0, all = 0;
    if (last) exchanges(DOUBLES, &number);
    expect(name_of(victim[0], last, ""), "rank %d has no file", last);
    listen();
    if (my_rank == last) MPI_Isend(out, DOUBLES / ELEMENT, spaced, 0, TAG, MPI_COMM_WORLD, &sent);
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank == 0 && truncate(victim[0], last ? PARTLY : 0)) fail("%s can't be cut", victim[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank == 0)
        failed += MPI_Recv(in, DOUBLES / ELEMENT, spaced, last, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    failed += MPI_Wait(&sent, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(all > 0, "neither call failed");
    dup2(before, STDERR_FILENO);
    report("a file is cut before what it tells of is received");
}

static size_t out_bytes;

/* The first load from `out` has come: this process's file is cut. */
static void touched(int signal)
{
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);   /* any other fault is one */
    if (mprotect(out, out_bytes, PROT_READ | PROT_WRITE)) _exit(2);
    if (truncate(victim[0], 0)) _exit(3);
}

/* Rank 1's file is cut while it packs a message that it has a slot for. The receive brings the right bytes, or
 * fails. */
static void cut_packing(void)
{
    int number = 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 2 * (size_t)DOUBLES * sizeof(double);
    out_bytes = (bytes + page - 1) / page * page;
    void *heap = out;
    out = mmap(NULL, out_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    exchanges(DOUBLES, &number);
    listen();
    struct sigaction own = {.sa_handler = touched}, old;
    bool there = my_rank == 0 || name_of(victim[0], 1, "");
    expect(there, "rank 1 has no file");
    for (int i = 0; i < 2 * DOUBLES; i++) ((double *)out)[i] = value(my_rank, number, i);
    sigaction(SIGSEGV, &own, &old);
    if (my_rank == 0) receive(1, DOUBLES, number);
    if (my_rank == 1 && there && !mprotect(out, out_bytes, PROT_NONE))
        MPI_Send(out, DOUBLES / ELEMENT, spaced, 0, TAG, MPI_COMM_WORLD);
    sigaction(SIGSEGV, &old, NULL);
    struct stat s;
    expect(my_rank == 0 || stat(victim[0], &s) || !s.st_size, "the file was not cut");
    int last = exchange(1 - my_rank, DOUBLES, number + 1);
    expect_equal(last, 0, "calls that failed in the end");
    dup2(before, STDERR_FILENO);
    munmap(out, out_bytes);
    out = heap;
    report("a file is cut while its owner packs");
}

/*
 * Address space.
 */

/* Bytes that this process has mapped of other ranks' files. */
static int64_t mapped_of_others(void)
{
    char line[512], own[32], rooms[32];
    int64_t bytes = 0;
    uintptr_t from, past;
    FILE *f = fopen("/proc/self/maps", "r");
    snprintf(own, sizeof own, ".%d\n", my_rank), snprintf(rooms, sizeof rooms, ".%d.rooms\n", my_rank);
    while (f && fgets(line, sizeof line, f)) {
        size_t length = strlen(line);
        bool shared = strstr(line, "/dev/shm/stridec.") && sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &past) == 2;
        if (shared && strcmp(line + length - strlen(own), own) && strcmp(line + length - strlen(rooms), rooms))
            bytes += (int64_t)(past - from);
    }
    if (f) fclose(f);
    return bytes;
}

/* Holds what is mapped of a peer: its file's head with its slots, and blocks of 256 KiB for messages of 160 KB. */
#define PEER_BYTES ((int64_t)2 << 20)

static void space(void)
{
    int failed = 0;
    for (int i = 0; i < MESSAGES; i++)
        for (int a = 0; a < num_ranks; a++)
            for (int b = a + 1; b < num_ranks; b++)
                if (my_rank == a || my_rank == b) failed += exchange(a + b - my_rank, DOUBLES, i);
    expect_equal(failed, 0, "calls that failed");
    int64_t mapped = mapped_of_others();
    expect(offered() > 0, "nothing was offered");
    expect(mapped > 0 && mapped <= (num_ranks - 1) * PEER_BYTES, "%" PRId64 " bytes of %d peers are mapped", mapped, num_ranks - 1);
    report("address space that peers take");
}

/* Rank 1 sends what takes a block of another size than all before it. */
static void one_way(int doubles, int number, const char *what)
{
    long before = offered();
    int rc = my_rank ? send(0, doubles, number) : receive(1, doubles, number);
    expect_equal(rc, MPI_SUCCESS, what);
    expect(!my_rank || offered() > before, "%s: the message was not offered", what);
}

static int use_up(int files[], int most)
{
    int n = 0;
    while (n < most && (files[n] = open("/dev/null", O_RDONLY)) >= 0) n++;
    return n;
}

/* A message that lies in shared memory is read also if the process can open or map nothing more. */
static void limits(void)
{
    static int files[1 << 16];
    struct rlimit before, few = {.rlim_cur = 256};
    int number = 0, n = 0;
    long pages = 0;
    messages_end();
    messages_begin(LONG);
    exchanges(ELEMENT, &number);
    getrlimit(RLIMIT_NOFILE, &before);
    few.rlim_max = before.rlim_max;
    if (my_rank == 0) setrlimit(RLIMIT_NOFILE, &few), n = use_up(files, 1 << 16);
    one_way(DOUBLES, number++, "without a file descriptor");
    while (n) close(files[--n]);
    setrlimit(RLIMIT_NOFILE, &before);
    report("shared memory is read where no file can be opened");
    getrlimit(RLIMIT_AS, &before);
    FILE *f = fopen("/proc/self/statm", "r");
    expect(f && fscanf(f, "%ld", &pages) == 1, "the process's size is not known");
    if (f) fclose(f);
    few = (struct rlimit){(rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (1 << 20), before.rlim_max};
    if (my_rank == 0) setrlimit(RLIMIT_AS, &few);
    one_way(LONG, number++, "without address space");
    setrlimit(RLIMIT_AS, &before);
    report("shared memory is read where no address space is left");
}

/*
 * A process that starts looks for what others that are gone have left.
 */

static char foreign[64];   /* a file of another job, which is being made */
static int opens;

/* The library's too: the program's functions come first. */
int open(const char *name, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    opens += *foreign && !strcmp(name, foreign);
    return openat(AT_FDCWD, name, flags, mode);
}

static void sweeps_begin(void)
{
    snprintf(foreign, sizeof foreign, "/dev/shm/stridec.%u.1.1.0.%d", (unsigned)geteuid(), SWEPT);
    if (rank_given() == 0) close(openat(AT_FDCWD, foreign, O_CREAT | O_WRONLY, 0600));
}

static void sweeps(void)
{
    int all = 0;
    MPI_Allreduce(&opens, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (my_rank == 0) unlink(foreign);
    expect_equal(all, 1, "times that a file of another job was opened by all ranks");
    report("one rank looks for what others have left");
}

int main(int argc, char **argv)
{
    const char *mode = "", *what = "segment";
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--host")) *mode ? (what = argv[i]) : (mode = argv[i]);
    bool forges = !strcmp(mode, "forged"), takes = !strcmp(mode, "taken"), may = !geteuid();
    if (forges && may) become_stranger(argv);
    if (getenv("STRANGER")) host_mode = true;
    if (forges || takes) listen();
    if (!strcmp(mode, "sweeps")) sweeps_begin();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    if (takes && my_rank == 0) tell();
    check_begin(argc, argv, MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    kind = host_mode ? MEM_HOST : MEM_DEVICE;
    messages_begin(DOUBLES);
    if (forges && may) {
        forged();
    } else if (forges) {
        note("another user's files can't be made here");
        report("nothing");
    }
    if (takes) taken();
    if (!strcmp(mode, "cut") && !strcmp(what, "packing")) cut_packing();
    else if (!strcmp(mode, "cut") && !strcmp(what, "posted")) cut_posted();
    else if (!strcmp(mode, "cut")) cut(what);
    if (!strcmp(mode, "space")) space();
    if (!strcmp(mode, "sweeps")) sweeps();
    if (!strcmp(mode, "limits")) limits();
    messages_end();
    return check_finish();
}
