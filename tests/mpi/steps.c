/* steps.c: how many instructions stridec adds to calls on contiguous messages in host memory, beside a GPU in use: counted
 * one at a time by the parent process, through stridec and straight to the MPI's library. The messages go to
 * MPI_PROC_NULL, so that the MPI does the same in both. With "packing", and no GPU: to MPI_Pack and MPI_Unpack that stridec
 * leaves to the MPI, and that it saves of those that it serves. Under a sanitizer, or where a process may not trace its
 * child, nothing is counted.
 *
 * run: -n 1
 * run: -n 1 --host packing
 * run: STRIDEC_HOST=on -n 1 --host packing
 * run: MPI_TEST_SIM=0 -n 1 --host packing
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 1 --host packing
 */
#include "check.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 8, MARK = SIGUSR1 };

static volatile long *steps;   /* from one mark to the next; shared with the parent */

/*
 * The parent.
 */

/* Until the child is gone: its exit status. */
static int count(pid_t child)
{
    bool counting = false;
    int status;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        if (signal == MARK) counting = !counting;
        if (signal == MARK && counting) *steps = 0;
        if (counting) ++*steps;
        if (signal == MARK || signal == SIGTRAP) signal = 0;
        ptrace(counting ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, (void *)(intptr_t)signal);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/*
 * The child.
 */

struct calls {
    __typeof__(MPI_Send) *Send;
    __typeof__(MPI_Recv) *Recv;
    __typeof__(MPI_Isend) *Isend;
    __typeof__(MPI_Irecv) *Irecv;
    __typeof__(MPI_Wait) *Wait;
    __typeof__(MPI_Waitall) *Waitall;
    __typeof__(MPI_Pack) *Pack;
    __typeof__(MPI_Unpack) *Unpack;
};
static char *buf;
static MPI_Request request = MPI_REQUEST_NULL;

static void call_send(const struct calls *c)
{
    c->Send(buf, BYTES, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_SELF);
}
static void call_recv(const struct calls *c)
{
    c->Recv(buf, BYTES, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}
static void call_isend(const struct calls *c)
{
    c->Isend(buf, BYTES, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_SELF, &request);
}
static void call_irecv(const struct calls *c)
{
    c->Irecv(buf, BYTES, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_SELF, &request);
}
static void call_wait(const struct calls *c)
{
    c->Wait(&request, MPI_STATUS_IGNORE);
}
static void call_waitall(const struct calls *c)
{
    c->Waitall(1, &request, MPI_STATUSES_IGNORE);
}

static const struct {
    const char *name;
    void (*call)(const struct calls *c);
    long most;   /* instructions; some are to spare for other compilers, and other builds of the MPI */
} rows[] = {
    {"MPI_Send", call_send, 36},   {"MPI_Recv", call_recv, 58}, {"MPI_Isend", call_isend, 36},
    {"MPI_Irecv", call_irecv, 42}, {"MPI_Wait", call_wait, 8},  {"MPI_Waitall", call_waitall, 8},
};

static void read_calls(struct calls *c, void *library)
{
    *(void **)&c->Send = dlsym(library, "MPI_Send");
    *(void **)&c->Recv = dlsym(library, "MPI_Recv");
    *(void **)&c->Isend = dlsym(library, "MPI_Isend");
    *(void **)&c->Irecv = dlsym(library, "MPI_Irecv");
    *(void **)&c->Wait = dlsym(library, "MPI_Wait");
    *(void **)&c->Waitall = dlsym(library, "MPI_Waitall");
    *(void **)&c->Pack = dlsym(library, "MPI_Pack");
    *(void **)&c->Unpack = dlsym(library, "MPI_Unpack");
}

static int find_mpi(struct dl_phdr_info *info, size_t size, void *library)
{
    const char *name = strrchr(info->dlpi_name, '/');
    (void)size;
    if (!name || (strncmp(name, "/libmpi.so", 10) != 0 && strncmp(name, "/libmpich.so", 12) != 0)) return 0;
    snprintf(library, PATH_MAX, "%s", info->dlpi_name);
    return 1;
}

static long steps_of(void (*call)(const struct calls *), const struct calls *c)
{
    *steps = 0;
    raise(MARK);
    call(c);
    raise(MARK);
    long n = *steps;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return n;
}

static void look(const char *memory, char *p, const struct calls *program, const struct calls *mpi)
{
    buf = p;
    MPI_Sendrecv(p, BYTES, MPI_BYTE, 0, 1, p + BYTES, BYTES, MPI_BYTE, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        long with = steps_of(rows[i].call, program), alone = steps_of(rows[i].call, mpi);
        expect(alone > 0, "%s: nothing was counted", rows[i].name);
        expect(with - alone <= rows[i].most, "%s: %ld instructions more", rows[i].name, with - alone);
        if (getenv("STEPS_SHOW")) note("%s, %s: %ld", memory, rows[i].name, with - alone);
    }
    report("%s: a few instructions a call", memory);
}

/*
 * Packing in host memory.
 */

enum { FEW = 12, MANY = 40, ROOM = MANY * 8 };
static MPI_Datatype packs;

static void call_pack(const struct calls *c)
{
    int position = 0;
    c->Pack(buf, 1, packs, buf + 4 * ROOM, ROOM, &position, MPI_COMM_SELF);
}
static void call_unpack(const struct calls *c)
{
    int position = 0;
    c->Unpack(buf + 4 * ROOM, ROOM, &position, buf, 1, packs, MPI_COMM_SELF);
}

/* The worker's first look at the type, and what follows, are not counted. */
static void settle(const struct calls *program)
{
    int (*ready)(MPI_Datatype, int);
    *(void **)&ready = dlsym(RTLD_DEFAULT, "stridec_host_ready");
    for (int i = 0; i < 4; i++) {
        call_pack(program), call_unpack(program);
        if (i == 1 && ready) ready(packs, 1);
    }
}

static void look_packing(const struct calls *program, const struct calls *mpi)
{
    bool served = getenv("STRIDEC_HOST"), gpu = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    long down = gpu ? 150 : 64;   /* a type that is not known yet: what reading it is worth is counted, too */
    const struct {
        const char *name;
        int blocks, step;
        long most;
    } types[] = {
        {"few blocks", FEW, 3, served ? 0 : down}, {"many blocks", MANY, 3, served ? -100 : down},
        {"one block", MANY, 1, down},
    };
    buf = calloc(5, ROOM);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        MPI_Type_vector(types[i].blocks, 1, types[i].step, MPI_DOUBLE, &packs);
        MPI_Type_commit(&packs);
        settle(program);
        long pack = steps_of(call_pack, program) - steps_of(call_pack, mpi);
        long unpack = steps_of(call_unpack, program) - steps_of(call_unpack, mpi), most = types[i].most;
        expect(pack <= most && unpack <= most, "%s: MPI_Pack takes %ld instructions more, MPI_Unpack %ld", types[i].name,
               pack, unpack);
        if (getenv("STEPS_SHOW")) note("%s: %ld, %ld", types[i].name, pack, unpack);
        MPI_Type_free(&packs);
    }
    free(buf);
    report(served ? "packing that is stridec's" : "packing that is the MPI's");
}

static void look_all(bool packing)
{
    static char data[2 * BYTES];
    char name[PATH_MAX] = "", stack[2 * BYTES], *heap = sbrk(2 * BYTES);
    struct calls program = {0}, mpi = {0};
    void *gpu = host_mode ? NULL : mem_alloc(MEM_DEVICE, BYTES);
    dl_iterate_phdr(find_mpi, name);
    void *library = name[0] ? dlopen(name, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    read_calls(&program, RTLD_DEFAULT);
    if (library) read_calls(&mpi, library);
    expect(mpi.Waitall && program.Waitall, "the MPI's library is not found");
    report("the calls are found");
    if (mpi.Waitall && program.Waitall && packing) {
        look_packing(&program, &mpi);
    } else if (mpi.Waitall && program.Waitall) {
        look("the program's data", data, &program, &mpi);
        look("the heap", heap, &program, &mpi);
        look("the stack", stack, &program, &mpi);
    }
    if (gpu) mem_free(MEM_DEVICE, gpu);
}

int main(int argc, char **argv)
{
    steps = mmap(NULL, sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child > 0) return count(child);
    bool traced = !dlsym(RTLD_DEFAULT, "__asan_init") && child == 0 && ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
    check_start(&argc, &argv, -1);
    bool packing = !strcmp(argv[argc - 1], "packing");
    if (traced) look_all(packing);
    else report("no instructions are counted here");
    return check_finish();
}
