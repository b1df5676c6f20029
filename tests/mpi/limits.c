/* limits.c: what the system may refuse, where the MPI alone goes on: files of more than a few MiB (RLIMIT_FSIZE), address space
 * (RLIMIT_AS), room in /dev/shm, or that once, for a signal; that a program writes to standard files that it has closed; and
 * what processes that start find in /dev/shm of others: of those that live nothing is taken away, and nothing is left of those
 * that are gone.
 *
 * usage: limits [file | space | full | left | interrupted | closed | crowded]
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host file
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host space
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host full
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host left
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 crowded
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on FILES_INTERRUPTED=1 LD_PRELOAD=@ATTACH -n 2 --host interrupted
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host closed
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy -n 2 --host closed
 */
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((rlim_t)1 << 20)

static bool closed;

/* To standard files that are closed: at most to what the library has open there for a moment. */
static void write_anyhow(void)
{
    static char text[MIB / 4];
    ssize_t written = 0;
    memset(text, 'x', sizeof text);
    for (int f = 0; closed && f <= STDERR_FILENO; f++) written = write(f, text, sizeof text);
    (void)written;
}

static void exchange(void)
{
    expect_exchange(50000, 20, write_anyhow, "under a limit");
}

static rlim_t mapped(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void space(void)
{
    struct rlimit l;
    rlim_t before = mapped();
    getrlimit(RLIMIT_AS, &l);
    l.rlim_cur = before + 1024 * MIB;
    setrlimit(RLIMIT_AS, &l);
    exchange();
    expect(mapped() - before < 256 * MIB, "%lld MiB of little address space are taken",
           (long long)((mapped() - before) / MIB));
    report("messages with little address space");
}

static void close_standard(void)
{
    int kept[STDERR_FILENO + 1];
    for (int f = 0; f <= STDERR_FILENO; f++) kept[f] = fcntl(f, F_DUPFD_CLOEXEC, 100), close(f);
    closed = true;
    exchange();
    closed = false;
    for (int f = 0; f <= STDERR_FILENO; f++) dup2(kept[f], f), close(kept[f]);
    report("messages of a process that has closed its standard files");
}

/*
 * A process that starts the MPI by itself, as nobody of this job. Its launcher is the job's, so that stridec starts too.
 */

static char mine[4096];

static void leave_job(void)
{
    extern char **environ;
    static const char *const job[] = {"OMPI_COMM", "OMPI_MCA_ess", "OMPI_MCA_orte", "OMPI_MCA_pmix", "OMPI_UNIVERSE", "OMPI_APP",
                                      "OMPI_FILE", "OMPI_FIRST", "OMPI_NUM", "OMPI_ARGV", "OMPI_COMMAND", "PMI", "PRTE", "HYDI",
                                      "HYDRA", "ORTE", "OMPI_MCA_mca_base"};
    char *keep[4096];
    int n = 0;
    for (char **e = environ; *e && n < 4095; e++) {
        bool out = false;
        for (size_t i = 0; i < sizeof job / sizeof *job; i++) out |= !strncmp(*e, job[i], strlen(job[i]));
        if (!out) keep[n++] = *e;
    }
    keep[n] = NULL;
    execve(mine, (char *[]){mine, "alone", NULL}, keep);
    _exit(127);
}

/* The signal that it ended by, or 0. */
static int starts(void (*before)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        if (before) before();
        leave_job();
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* A folder of its own, all of it in use, with a file in it that has no memory yet. */
static void fill_folder(void)
{
    char name[64];
    static char page[4096];
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k"))
        _exit(0);
    snprintf(name, sizeof name, "/dev/shm/stridec.%u.1.1.0.0", (unsigned)geteuid());
    int sparse = open(name, O_RDWR | O_CREAT, 0600), full = open("/dev/shm/full", O_RDWR | O_CREAT, 0600);
    if (sparse < 0 || ftruncate(sparse, 8 << 20)) _exit(0);
    while (write(full, page, sizeof page) > 0) continue;
    setenv("OMPI_MCA_btl_vader_backing_directory", "/tmp", 1);
}

/* A file of 1 MiB. */
static void put(const char *name, int byte)
{
    static char bytes[1 << 20];
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    memset(bytes, byte, sizeof bytes);
    expect(fd >= 0 && write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes, "%s can't be written", name);
    if (fd >= 0) close(fd);
}

/* The file that rank 1 keeps locked. */
static bool find(char name[256], int pid)
{
    char pattern[64];
    glob_t found;
    bool is = false;
    snprintf(pattern, sizeof pattern, "/dev/shm/stridec.%u.*.1", (unsigned)geteuid());
    if (glob(pattern, 0, NULL, &found)) return false;
    for (size_t i = 0; i < found.gl_pathc && !is; i++) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(found.gl_pathv[i], O_RDWR);
        is = fd >= 0 && !fcntl(fd, F_GETLK, &l) && l.l_type != F_UNLCK && l.l_pid == pid;
        if (is) snprintf(name, 256, "%s", found.gl_pathv[i]);
        if (fd >= 0) close(fd);
    }
    globfree(&found);
    return is;
}

static bool crowded;
static int refusals;

/* Also called by the library: the program's definition takes precedence. */
ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    char name[256], link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, name, sizeof name - 1);
    name[n > 0 ? n : 0] = '\0';
    if (crowded && !strncmp(name, "/dev/shm/", 9)) return refusals++, errno = ENOSPC, -1;
    if (lseek(fd, at, SEEK_SET) != at) return -1;
    return write(fd, from, bytes);
}

static off_t sent_bytes;   /* of the last message */

/* Files of the last message's size in /tmp. */
static int on_disk(void)
{
    char pattern[64];
    glob_t found;
    snprintf(pattern, sizeof pattern, "/tmp/*-stridec.%u.*", (unsigned)geteuid());
    if (glob(pattern, 0, NULL, &found)) return 0;
    int n = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat s;
        n += !stat(found.gl_pathv[i], &s) && s.st_size == sent_bytes;
    }
    globfree(&found);
    return n;
}

/* Both ranks wait for their sends before their receives, and no memory is left to move what they send. */
static void without_room(void)
{
    struct layout l;
    struct buf out, in;
    MPI_Request sends[2], receives[2];
    enum { ROUNDS = 30 };   /* ranks learn of each other */
    for (int round = 0; round <= ROUNDS; round++) {
        int peer = my_rank ^ 1, last = round == ROUNDS;
        layout_number(&l, 1, last ? 10000 : 300);   /* 9.6 MB: the first message of an allocation, in place */
        buf_make(&out, MEM_DEVICE, &l, 0, 10 + (uint64_t)my_rank), buf_make(&in, MEM_DEVICE, &l, 0, 30);
        if (last) setenv("SIMGPU_FAIL", "cuMemAlloc", 1);
        crowded = last, sent_bytes = l.bytes;
        MPI_Irecv(in.origin, l.count, l.type, peer, 1, MPI_COMM_WORLD, receives);
        MPI_Isend(out.origin, l.count, l.type, peer, 1, MPI_COMM_WORLD, sends);
        MPI_Wait(sends, MPI_STATUS_IGNORE);
        MPI_Wait(receives, MPI_STATUS_IGNORE);
        unsetenv("SIMGPU_FAIL");
        buf_expect_from(&in, &l, &l, 10 + (uint64_t)peer);
        buf_check(&in, "a message that had no room");
        buf_free(&out), buf_free(&in);
        layout_free(&l);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    expect(refusals > 0, "nothing was to be written to /dev/shm");
    expect_equal(on_disk(), 0, "files in /tmp");
    report("messages of ranks that wait for their sends first");
}

/* Makes a file in /tmp of a rank that is gone, so many days old. */
static void put_on_disk(char name[128], const char *word, int days)
{
    struct stat s;
    struct timespec then[2] = {{0}, {0}};
    if (stat("/dev/shm", &s)) abort();
    snprintf(name, 128, "/tmp/%llx-stridec.%u.1.1.0.0.%s", (unsigned long long)s.st_dev, (unsigned)geteuid(), word);
    put(name, 0);
    then[0].tv_sec = then[1].tv_sec = time(NULL) - (time_t)days * 86400;
    if (utimensat(AT_FDCWD, name, then, 0)) abort();
}

/* What rank 1 might put there in a message's stead, of any bytes; and the same of a rank that is gone. */
static void left(void)
{
    char own[256], live[300], gone[128], rooms[128], disk[128], others[128], fresh[128];
    int pid = (int)getpid(), zeros = 0;
    MPI_Bcast(&pid, 1, MPI_INT, 1, MPI_COMM_WORLD);
    if (my_rank == 0 && find(own, pid)) {
        snprintf(live, sizeof live, "%s.511", own);
        snprintf(gone, sizeof gone, "/dev/shm/stridec.%u.1.1.0.0.511", (unsigned)geteuid());
        snprintf(rooms, sizeof rooms, "/dev/shm/stridec.%u.1.1.0.0.rooms", (unsigned)geteuid());
        put(live, 0xa5), put(gone, zeros), put(rooms, zeros);
        put_on_disk(disk, "511", 2), put_on_disk(fresh, "512", 0), put_on_disk(others, "notes", 2);
        starts(NULL);
        expect(!access(live, F_OK), "what a rank has put into shared memory is gone when another job has started");
        bool is_gone = access(gone, F_OK) && access(rooms, F_OK) && access(disk, F_OK);
        expect(is_gone, "what a rank left that is gone is still there");
        expect(!access(others, F_OK) && !access(fresh, F_OK), "a file of others on the disk is gone");
        unlink(live), unlink(gone), unlink(rooms), unlink(disk), unlink(others), unlink(fresh);
    } else if (my_rank == 0) {
        fail("rank 1 has no file");
    }
    report("another job starts");
}

/* The files' memory is asked for again. */
static void interrupted(void)
{
    long (*offers)(int in_place);
    *(void **)&offers = dlsym(RTLD_DEFAULT, "stridec_host_offers");
    exchange();
    expect(offers && offers(0) + offers(1) > 0, "%ld messages were offered", offers ? offers(0) + offers(1) : -1);
    report("messages after a signal");
}

int main(int argc, char **argv)
{
    const char *mode = argv[argc - 1];
    struct rlimit l;
    ssize_t n = readlink("/proc/self/exe", mine, sizeof mine - 1);
    if (n < 0) return 1;
    if (!strcmp(mode, "alone")) {
        MPI_Init(NULL, NULL);
        MPI_Finalize();
        _exit(0);
    }
    if (!strcmp(mode, "file") && !getrlimit(RLIMIT_FSIZE, &l)) l.rlim_cur = 64 * MIB, setrlimit(RLIMIT_FSIZE, &l);
    check_start(&argc, &argv, -1);
    if (!strcmp(mode, "file")) exchange(), report("messages of a process that may not make long files");
    if (!strcmp(mode, "space")) space();
    if (!strcmp(mode, "full")) {
        int by = my_rank == 0 ? starts(fill_folder) : 0;
        expect(!by, "MPI_Init ends by signal %d where the folder is full", by);
        report("MPI_Init where the folder is full");
    }
    if (!strcmp(mode, "left")) left();
    if (!strcmp(mode, "crowded")) without_room();
    if (!strcmp(mode, "interrupted")) interrupted();
    if (!strcmp(mode, "closed")) close_standard();
    return check_finish();
}
