/* file.c: reading and writing files from derived buffers on a device: every call against the same call with host
 * buffers on a file of its own; short reads, views, and external32 where the MPI has it. `span`: data that lie in a
 * span for which the host has no memory.
 *
 * run: -n 2
 * run: -n 2 span
 * run: STRIDEC_TRANSPORT=staged -n 2 span
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef OPEN_MPI
#define OPEN true
#else
#define OPEN false
#endif
#define INTS 240   /* of a call */
#define PER_RANK (INTS * 4)

static struct layout lists[LISTS];

/* ---- one side of a comparison: a file and a buffer of one kind ---- */

struct side {
    enum mem_kind kind;
    MPI_File file;
    char path[256];
    const struct layout *l;
    struct buf buf;
    MPI_Offset at;   /* of this rank, in the view */
    MPI_Status status;
};

static struct side host = {.kind = MEM_HOST}, device = {.kind = MEM_DEVICE};

static void side_path(struct side *s, const char *name)
{
    int pid = (int)getpid();
    const char *folder = getenv("TMPDIR");
    MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(s->path, sizeof s->path, "%s/stridec-file-%d-%s", folder ? folder : "/tmp", pid, name);
}

static void side_open(struct side *s, const char *name)
{
    side_path(s, name);
    if (MPI_File_open(MPI_COMM_WORLD, s->path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &s->file))
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static void side_close(struct side *s)
{
    MPI_File_close(&s->file);
    if (my_rank == 0) remove(s->path);
}

/* The file has so many bytes, of which all pointers are at the first. */
static void side_fill(struct side *s, int round, int bytes)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank == 0) {
        FILE *f = fopen(s->path, "wb");
        for (int i = 0; f && i < bytes; i++) fputc(i * 37 + i / 256 + round, f);
        if (!f || fclose(f)) MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_File_set_view(s->file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    s->l = &lists[round % LISTS];
    buf_make(&s->buf, s->kind, s->l, 0, (uint64_t)(round * 10 + my_rank));
}

/* The whole file; rank 0 alone looks. */
static unsigned char *contents(const struct side *s, size_t *n)
{
    unsigned char *all = calloc(1, 1 << 20);
    FILE *f = fopen(s->path, "rb");
    *n = f ? fread(all, 1, 1 << 20, f) : 0;
    if (f) fclose(f);
    return all;
}

/* What ROMIO leaves of a derived buffer past a short read is nobody's to say, though its status counts it. */
static void forgive(int read)
{
    unsigned char *now = malloc(device.buf.bytes);
    mem_read(device.kind, now, device.buf.base, device.buf.bytes);
    for (int i = read; i >= 0 && i < device.l->bytes; i++) {
        size_t at = device.buf.lead + (size_t)device.l->map[i];
        device.buf.shadow[at] = now[at];
    }
    free(now);
}

/* After a read of at most so many bytes. ROMIO's status of a short read into a derived buffer counts all that was asked
 * for; into stridec's buffer, which is contiguous, what was read. */
static void same(const char *what, int bytes)
{
    int read = bytes < 0 ? 0 : bytes < PER_RANK ? bytes : PER_RANK;
    MPI_Count a = -1, b = -1;
    mem_read(MEM_HOST, device.buf.shadow, host.buf.base, host.buf.bytes);
    if (!OPEN) forgive(read);
    buf_check(&device.buf, what);
    MPI_Get_elements_x(&host.status, MPI_BYTE, &a);
    MPI_Get_elements_x(&device.status, MPI_BYTE, &b);
    expect(b == a || (!OPEN && b == read), "%s: the status has %d bytes, the MPI's %d", what, (int)b, (int)a);
}

static void same_files(const char *what)
{
    size_t n, m;
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank == 0) {
        unsigned char *h = contents(&host, &n), *d = contents(&device, &m);
        expect_equal(m, n, "the file's size");
        expect(n != m || !memcmp(h, d, n), "%s: the files differ", what);
        free(h), free(d);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- the calls ---- */

#define BUF(s) (s)->buf.origin, (s)->l->count, (s)->l->type

typedef void call(struct side *s);

#define PLAIN(name, function) \
    static void name(struct side *s) \
    { \
        expect_equal(function(s->file, BUF(s), &s->status), MPI_SUCCESS, #function); \
    }
#define PLAIN_AT(name, function) \
    static void name(struct side *s) \
    { \
        expect_equal(function(s->file, (s)->at, BUF(s), &s->status), MPI_SUCCESS, #function); \
    }
#define BEGUN(name, function) \
    static void name(struct side *s) \
    { \
        MPI_Request r; \
        expect_equal(function(s->file, BUF(s), &r), MPI_SUCCESS, #function); \
        MPI_Wait(&r, &s->status); \
    }
#define BEGUN_AT(name, function) \
    static void name(struct side *s) \
    { \
        MPI_Request r; \
        expect_equal(function(s->file, (s)->at, BUF(s), &r), MPI_SUCCESS, #function); \
        MPI_Wait(&r, &s->status); \
    }
#define SPLIT(name, function) \
    static void name(struct side *s) \
    { \
        expect_equal(function##_begin(s->file, BUF(s)), MPI_SUCCESS, #function "_begin"); \
        expect_equal(function##_end(s->file, s->buf.origin, &s->status), MPI_SUCCESS, #function "_end"); \
    }
#define SPLIT_AT(name, function) \
    static void name(struct side *s) \
    { \
        expect_equal(function##_begin(s->file, (s)->at, BUF(s)), MPI_SUCCESS, #function "_begin"); \
        expect_equal(function##_end(s->file, s->buf.origin, &s->status), MPI_SUCCESS, #function "_end"); \
    }
PLAIN(read_, MPI_File_read)
PLAIN(read_all, MPI_File_read_all)
PLAIN_AT(read_at, MPI_File_read_at)
PLAIN_AT(read_at_all, MPI_File_read_at_all)
PLAIN(read_shared, MPI_File_read_shared)
PLAIN(read_ordered, MPI_File_read_ordered)
BEGUN(iread, MPI_File_iread)
BEGUN(iread_all, MPI_File_iread_all)
BEGUN_AT(iread_at, MPI_File_iread_at)
BEGUN_AT(iread_at_all, MPI_File_iread_at_all)
BEGUN(iread_shared, MPI_File_iread_shared)
SPLIT(read_all_split, MPI_File_read_all)
SPLIT_AT(read_at_all_split, MPI_File_read_at_all)
SPLIT(read_ordered_split, MPI_File_read_ordered)
PLAIN(write_, MPI_File_write)
PLAIN(write_all, MPI_File_write_all)
PLAIN_AT(write_at, MPI_File_write_at)
PLAIN_AT(write_at_all, MPI_File_write_at_all)
PLAIN(write_shared, MPI_File_write_shared)
PLAIN(write_ordered, MPI_File_write_ordered)
BEGUN(iwrite, MPI_File_iwrite)
BEGUN(iwrite_all, MPI_File_iwrite_all)
BEGUN_AT(iwrite_at, MPI_File_iwrite_at)
BEGUN_AT(iwrite_at_all, MPI_File_iwrite_at_all)
BEGUN(iwrite_shared, MPI_File_iwrite_shared)
SPLIT(write_all_split, MPI_File_write_all)
SPLIT_AT(write_at_all_split, MPI_File_write_at_all)
SPLIT(write_ordered_split, MPI_File_write_ordered)
#if MPI_VERSION >= 4
PLAIN_AT(read_at_c, MPI_File_read_at_c)
BEGUN_AT(iwrite_at_c, MPI_File_iwrite_at_c)
static void read_all_split_c(struct side *s)
{
    expect_equal(MPI_File_read_all_begin_c(s->file, BUF(s)), MPI_SUCCESS, "MPI_File_read_all_begin_c");
    expect_equal(MPI_File_read_all_end(s->file, s->buf.origin, &s->status), MPI_SUCCESS, "MPI_File_read_all_end");
}
#endif

/* By what the file's positions are: with a pointer that all share, one rank calls, or in order of ranks. */
enum pointer { OWN, SHARED, ORDERED };
static const struct function {
    const char *name;
    call *run;
    bool writes;
    enum pointer pointer;
} functions[] = {
    {"MPI_File_read", read_, false, OWN},
    {"MPI_File_read_all", read_all, false, OWN},
    {"MPI_File_read_at", read_at, false, OWN},
    {"MPI_File_read_at_all", read_at_all, false, OWN},
    {"MPI_File_read_shared", read_shared, false, SHARED},
    {"MPI_File_read_ordered", read_ordered, false, ORDERED},
    {"MPI_File_iread", iread, false, OWN},
    {"MPI_File_iread_all", iread_all, false, OWN},
    {"MPI_File_iread_at", iread_at, false, OWN},
    {"MPI_File_iread_at_all", iread_at_all, false, OWN},
    {"MPI_File_iread_shared", iread_shared, false, SHARED},
    {"MPI_File_read_all_begin, _end", read_all_split, false, OWN},
    {"MPI_File_read_at_all_begin, _end", read_at_all_split, false, OWN},
    {"MPI_File_read_ordered_begin, _end", read_ordered_split, false, ORDERED},
    {"MPI_File_write", write_, true, OWN},
    {"MPI_File_write_all", write_all, true, OWN},
    {"MPI_File_write_at", write_at, true, OWN},
    {"MPI_File_write_at_all", write_at_all, true, OWN},
    {"MPI_File_write_shared", write_shared, true, SHARED},
    {"MPI_File_write_ordered", write_ordered, true, ORDERED},
    {"MPI_File_iwrite", iwrite, true, OWN},
    {"MPI_File_iwrite_all", iwrite_all, true, OWN},
    {"MPI_File_iwrite_at", iwrite_at, true, OWN},
    {"MPI_File_iwrite_at_all", iwrite_at_all, true, OWN},
    {"MPI_File_iwrite_shared", iwrite_shared, true, SHARED},
    {"MPI_File_write_all_begin, _end", write_all_split, true, OWN},
    {"MPI_File_write_at_all_begin, _end", write_at_all_split, true, OWN},
    {"MPI_File_write_ordered_begin, _end", write_ordered_split, true, ORDERED},
#if MPI_VERSION >= 4
    {"MPI_File_read_at_c", read_at_c, false, OWN},
    {"MPI_File_iwrite_at_c", iwrite_at_c, true, OWN},
    {"MPI_File_read_all_begin_c, _end", read_all_split_c, false, OWN},
#endif
};

/* ---- each call, in each view ---- */

enum view { BYTES, STRIDED, EXTERNAL };
static const char *const view_name[] = {"", ", strided view", ", external32"};

/* Ranks take turns of 5 ints. */
static int strided_view(MPI_File file)
{
    MPI_Datatype turns, type;
    MPI_Type_vector(INTS / 5, 5, 5 * num_ranks, MPI_INT, &turns);
    MPI_Type_create_resized(turns, 0, num_ranks * PER_RANK, &type);
    MPI_Type_commit(&type);
    int rc = MPI_File_set_view(file, 8 + my_rank * 20, MPI_INT, type, "native", MPI_INFO_NULL);
    MPI_Type_free(&turns), MPI_Type_free(&type);
    return rc;
}

static int set_view(struct side *s, enum view view)
{
    int rc = MPI_SUCCESS;
    s->at = (MPI_Offset)my_rank * (view == BYTES ? PER_RANK : view == EXTERNAL ? INTS : 0);
    if (view == STRIDED) rc = strided_view(s->file);
    if (view == EXTERNAL) rc = MPI_File_set_view(s->file, 4, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
    if (rc == MPI_SUCCESS) MPI_File_seek(s->file, s->at, MPI_SEEK_SET);
    return rc;
}

static void run(struct side *s, const struct function *f)
{
    memset(&s->status, 0, sizeof s->status);
    if (f->pointer != SHARED || my_rank == 0) f->run(s);
}

/* In a file of so many bytes, or for writing an empty one; false where the MPI has no such view. */
static bool try_once(const struct function *f, enum view view, int round, int bytes)
{
    bool can = true;
    for (int i = 0; i < 2; i++) {
        struct side *s = i ? &device : &host;
        side_fill(s, round, f->writes ? 0 : bytes);
        can &= set_view(s, view) == MPI_SUCCESS;
        if (can) run(s, f);
    }
    if (can && (f->pointer != SHARED || my_rank == 0)) same(f->name, f->writes ? PER_RANK : bytes - my_rank * PER_RANK);
    buf_free(&host.buf), buf_free(&device.buf);
    if (can) same_files(f->name);
    return can;
}

static void try_function(const struct function *f, enum view view)
{
    bool can = true;
    for (int round = view == BYTES ? 0 : 1; round < LISTS && can; round += view == BYTES ? 1 : 2)
        can = try_once(f, view, round, num_ranks * PER_RANK + 100);
    if (can) report("%s%s", f->name, view_name[view]);
    else note("%s: not in this MPI", view_name[view] + 2);
}

/* The file ends in the middle of an int of the last rank's, or before it. */
static void try_short(const struct function *f)
{
    try_once(f, BYTES, 0, num_ranks * PER_RANK - 401);
    try_once(f, BYTES, 3, num_ranks * PER_RANK - 400);
    try_once(f, BYTES, 1, (num_ranks - 1) * PER_RANK);
    try_once(f, BYTES, 2, 0);
    report("%s, at the end of the file", f->name);
}

/* Two files, each with a split collective under way, and nonblocking calls ended by one MPI_Waitall. */
static void together(void)
{
    struct buf a, b, c;
    const struct layout *l = &lists[0], *m = &lists[1];
    MPI_Request r[2];
    MPI_Status status[2];
    side_fill(&host, 0, 2 * num_ranks * PER_RANK), side_fill(&device, 0, 2 * num_ranks * PER_RANK);
    MPI_Barrier(MPI_COMM_WORLD);
    buf_make(&a, MEM_DEVICE, l, 0, 1), buf_make(&b, MEM_DEVICE, m, 0, 2), buf_make(&c, MEM_DEVICE, m, 0, 2);
    MPI_File_read_at_all_begin(host.file, 0, a.origin, l->count, l->type);
    MPI_File_read_at_all_begin(device.file, PER_RANK, b.origin, m->count, m->type);
    MPI_File_read_at_all_end(host.file, a.origin, &host.status);
    MPI_File_read_at_all_end(device.file, b.origin, MPI_STATUS_IGNORE);
    buf_fill(&host.buf, 1);
    MPI_File_read_at(host.file, 0, host.buf.origin, l->count, l->type, MPI_STATUS_IGNORE);
    mem_read(MEM_HOST, a.shadow, host.buf.base, a.bytes);
    buf_check(&a, "the first file");
    MPI_File_iread_at(device.file, PER_RANK, c.origin, m->count, m->type, &r[0]);
    MPI_File_iwrite_at(host.file, PER_RANK, a.origin, l->count, l->type, &r[1]);
    MPI_Waitall(2, r, status);
    mem_read(MEM_DEVICE, c.shadow, b.base, b.bytes);
    buf_check(&c, "by MPI_Waitall");
    buf_check(&a, "written");
    buf_free(&a), buf_free(&b), buf_free(&c), buf_free(&host.buf), buf_free(&device.buf);
    report("two files at once");
}

/* A type by absolute addresses, with a part on the host and one on a device: most of the address space lies between them. */
static void far_apart(void)
{
    enum { EACH = 100, BYTES_EACH = EACH * (int)sizeof(int) };
    static const char nothing[BYTES_EACH];
    static const enum mem_kind kinds[] = {MEM_HOST, MEM_DEVICE};
    struct buf b[2];
    MPI_Aint at[2];
    MPI_Datatype type;
    for (int i = 0; i < 2; i++) {
        buf_bytes(&b[i], kinds[i], BYTES_EACH, 0, (uint64_t)(i + 2 * my_rank));
        MPI_Get_address(b[i].origin, &at[i]);
    }
    MPI_Type_create_hindexed(2, (int[]){EACH, EACH}, at, MPI_INT, &type);
    type_commit(&type);
    set_view(&device, BYTES);
    MPI_File_write_at(device.file, my_rank * 2 * BYTES_EACH, MPI_BOTTOM, 1, type, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) mem_write(kinds[i], b[i].origin, nothing, BYTES_EACH);
    MPI_File_read_at_all(device.file, my_rank * 2 * BYTES_EACH, MPI_BOTTOM, 1, type, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) buf_check(&b[i], "written, and read again"), buf_free(&b[i]);
    MPI_Type_free(&type);
    report("parts on the host and on a device");
}

static int write_uncommitted(struct side *s, MPI_Datatype type)
{
    struct buf b;
    MPI_Request r = MPI_REQUEST_NULL;
    buf_bytes(&b, s->kind, PER_RANK, 0, 1);
    int at_once = MPI_File_write_at(s->file, 0, b.origin, 1, type, MPI_STATUS_IGNORE);
    int begun = MPI_File_iwrite_at(s->file, 0, b.origin, 1, type, &r);
    expect_equal(error_class(begun), error_class(at_once), "the class of MPI_File_iwrite_at's error");
    buf_free(&b);
    return error_class(at_once);
}

/* The handlers of files return. */
static void not_committed(void)
{
    MPI_Datatype type;
    MPI_Type_vector(4, 2, 3, MPI_DOUBLE, &type);
    int want = write_uncommitted(&host, type);
    expect_equal(write_uncommitted(&device, type), want, "the class of a device buffer's error");
    MPI_Type_free(&type);
    report("a type that is not committed");
}

/* An Open MPI 4.1 built for CUDA crashes in external32, of host memory too, until it has sent some of a device. */
static void meet_devices(void)
{
    int *p = mem_alloc(MEM_DEVICE, 2 * sizeof *p);
    MPI_Sendrecv(p, 1, MPI_INT, my_rank, 0, p + 1, 1, MPI_INT, my_rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    mem_free(MEM_DEVICE, p);
}

/* From now on the process gets so many bytes of address space more. */
static void limit_memory(size_t more)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu", &pages) != 1) MPI_Abort(MPI_COMM_WORLD, 3);
    fclose(f);
    rlim_t most = pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    if (setrlimit(RLIMIT_AS, &(struct rlimit){most, RLIM_INFINITY})) MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Blocks of 8 bytes, far apart: what is moved, and what memory it takes, is their number, not the span. */
static void span(void)
{
    enum { BLOCKS = 65536, STEP = 8192 };
    MPI_Datatype type;
    MPI_Count got = 0;
    double *data = malloc(BLOCKS * sizeof *data), *back = malloc(BLOCKS * sizeof *back);
    char *memory = mem_alloc(MEM_DEVICE, (size_t)BLOCKS * STEP);
    for (int i = 0; i < BLOCKS; i++) data[i] = i + 0.5 * my_rank;
    for (int i = 0; i < BLOCKS; i++) mem_write(MEM_DEVICE, memory + (size_t)i * STEP, &data[i], sizeof *data);
    MPI_Type_create_hvector(BLOCKS, 1, STEP, MPI_DOUBLE, &type);
    type_commit(&type);
    side_open(&device, "span");
    limit_memory((size_t)128 << 20);
    MPI_Offset at = my_rank * (MPI_Offset)(BLOCKS * sizeof *data);
    expect_equal(MPI_File_write_at_all(device.file, at, memory, 1, type, &device.status), MPI_SUCCESS, "writing");
    MPI_Get_elements_x(&device.status, type, &got);
    expect_equal(got, BLOCKS, "elements written");
    MPI_File_read_at(device.file, at, back, BLOCKS, MPI_DOUBLE, MPI_STATUS_IGNORE);
    expect(!memcmp(back, data, BLOCKS * sizeof *data), "the file's bytes");
    for (int i = 0; i < BLOCKS; i++) mem_write(MEM_DEVICE, memory + (size_t)i * STEP, &(double){0}, sizeof *data);
    MPI_Request r;
    expect_equal(MPI_File_iread_at(device.file, at, memory, 1, type, &r), MPI_SUCCESS, "reading");
    MPI_Wait(&r, &device.status);
    MPI_Get_elements_x(&device.status, type, &got);
    expect_equal(got, BLOCKS, "elements read");
    for (int i = 0; i < BLOCKS; i++) mem_read(MEM_DEVICE, &back[i], memory + (size_t)i * STEP, sizeof *back);
    expect(!memcmp(back, data, BLOCKS * sizeof *data), "the bytes in memory");
    report("data in a span that the host has no memory for");
    MPI_Type_free(&type);
    side_close(&device);
    mem_free(MEM_DEVICE, memory), free(data), free(back);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    if (argc > 1 && !strcmp(argv[1], "span")) return span(), check_finish();
    meet_devices();
    layouts_of_ints(lists);
    side_open(&host, "host"), side_open(&device, "device");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const struct function *f = &functions[i];
        try_function(f, BYTES);
        if (f->pointer == OWN) try_function(f, STRIDED);
        /* ROMIO of MPICH 4.0.2 corrupts its heap where the buffer is not contiguous. */
        if (f->pointer == OWN && OPEN) try_function(f, EXTERNAL);
        /* Of a nonblocking or split read past the end Open MPI 4.1.4 never returns from the completion. */
        bool begun = strstr(f->name, "iread") || strstr(f->name, "_begin");
        if (!f->writes && !(OPEN && begun)) try_short(f);
    }
    together();
    far_apart();
    not_committed();
    side_close(&host), side_close(&device);
    for (int i = 0; i < LISTS; i++) layout_free(&lists[i]);
    return check_finish();
}
