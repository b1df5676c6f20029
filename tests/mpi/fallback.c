/* fallback.c: whatever is missing or broken around stridec, messages and packs are right.
 *
 * `cold` waits until the cache folder holds a file; `damage` then spoils each file in a way of its own, before
 * the first type is committed, and wants right bytes all the same; `disabled` uses host memory only.
 * Lines with "warns" want a warning on standard error, and no rank to say the same twice.
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=auto -n 2
 * run: STRIDEC_TRANSPORT=device -n 2
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_DISABLE=1 -n 2 disabled
 * run: SIMGPU_NVRTC_FAIL=1 STRIDEC_CACHE_DIR=@NEW -n 2 => warns
 * run: SIMGPU_NVRTC_DELAY_MS=200 STRIDEC_CACHE_DIR=@NEW -n 2
 * run: STRIDEC_CACHE_DIR=/proc/no/such/folder -n 2 => warns
 * run: STRIDEC_CACHE_DIR=/dev/null -n 2 => warns
 * run: STRIDEC_CACHE_DIR=@KEEP -n 2 cold
 * run: STRIDEC_CACHE_DIR=@KEEP -n 2
 * run: STRIDEC_CACHE_DIR=@KEEP -n 2 damage => warns
 * run: STRIDEC_CACHE_DIR=@KEEP -n 2
 * run: STRIDEC_TUNE=/proc/no/such/file -n 2 => warns
 * run: STRIDEC_TRANSPORT=carrier_pigeon -n 2 => warns
 * run: STRIDEC_NO_SUCH_VARIABLE=1 -n 2 => warns
 */
#include "../../runtime/api/stridec.h"
#include "check.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int peer;
static uint64_t salt = 1;

static bool has(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], word)) return true;
    return false;
}

/* Spoils the n-th file: cut short, empty, one byte flipped, or other bytes throughout. */
static void spoil(const char *path, int n)
{
    struct stat s;
    FILE *f = fopen(path, "r+b");
    if (!f || stat(path, &s) != 0) {
        fail("%s can't be opened", path);
        if (f) fclose(f);
        return;
    }
    if (n % 4 < 2) {
        expect(ftruncate(fileno(f), n % 4 ? s.st_size / 2 : 0) == 0, "%s can't be cut", path);
    } else {
        long from = n % 4 == 2 ? s.st_size / 2 : 0, to = n % 4 == 2 ? from + 1 : s.st_size;
        for (long i = from; i < to; i++) {
            fseek(f, i, SEEK_SET);
            int c = fgetc(f);
            fseek(f, i, SEEK_SET);
            fputc(c ^ 0x5a, f);
        }
    }
    fclose(f);
}

/* Calls spoil, or only counts, for each file under a folder. */
static int each_file(const char *folder, bool damage, int n)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        char path[4096];
        struct stat s;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (stat(path, &s) != 0) continue;
        if (S_ISDIR(s.st_mode)) {
            n = each_file(path, damage, n);
        } else {
            if (damage) spoil(path, n);
            n++;
        }
    }
    if (d) closedir(d);
    return n;
}

/* Rank 0 spoils the files while the others wait. */
static void damage(void)
{
    const char *folder = getenv("STRIDEC_CACHE_DIR");
    if (my_rank == 0) {
        int n = folder ? each_file(folder, true, 0) : 0;
        expect(n > 0, "there is no cache file to damage in %s", folder ? folder : "(none)");
        note("%d cache files damaged", n);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    report("cache files damaged");
}

static void try_layout(const struct layout *l, enum mem_kind kind)
{
    struct buf a, b, p;
    int position = 0;
    buf_make(&a, kind, l, 0, salt + (uint64_t)my_rank);
    buf_make(&b, kind, l, 0, salt + 5);
    buf_bytes(&p, kind, (size_t)l->bytes, 0, salt + 6);
    MPI_Sendrecv(a.origin, l->count, l->type, peer, 1, b.origin, l->count, l->type, peer, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    buf_expect_from(&b, l, l, salt + (uint64_t)peer);
    buf_check(&b, l->text);
    MPI_Pack(a.origin, l->count, l->type, p.origin, l->bytes, &position, MPI_COMM_WORLD);
    unsigned char *want = layout_packed(l, salt + (uint64_t)my_rank);
    memcpy(p.shadow + p.lead, want, (size_t)l->bytes);
    free(want);
    buf_check(&p, l->text);
    position = 0;
    buf_fill(&b, salt + 7);
    MPI_Unpack(p.origin, l->bytes, &position, b.origin, l->count, l->type, MPI_COMM_WORLD);
    buf_expect_from(&b, l, l, salt + (uint64_t)my_rank);
    buf_check(&b, l->text);
    buf_free(&a);
    buf_free(&b);
    buf_free(&p);
    salt += 20;
}

/* Waits for a layout's kernel: on a busy machine the compiler may not start before the last message, and warns of
 * nothing. */
static void compiled(const struct layout *l, enum mem_kind kind)
{
    struct buf memory;
    buf_make(&memory, kind, l, 0, salt);
    int result = stridec_register(MPI_COMM_WORLD, 1, &l->type, memory.origin, 1);
    expect(result == (stridec_present() ? STRIDEC_OK : STRIDEC_ABSENT), "a layout is registered with %d", result);
    buf_free(&memory);
}

static void fixed(enum mem_kind kind, const char *when)
{
    struct layout l[LAYOUTS];
    for (int i = 0; i < LAYOUTS; i++) layout_number(&l[i], i, 3);
    for (int round = 0; round < 10; round++)
        for (int i = 0; i < LAYOUTS; i++) try_layout(&l[i], kind);
    compiled(&l[1], kind);
    for (int i = 0; i < LAYOUTS; i++) layout_free(&l[i]);
    report("fixed layouts%s", when);
}

static void random_ones(enum mem_kind kind, enum family family)
{
    for (int i = 0; i < 20; i++) {
        struct layout l;
        layout_random(&l, family, 1 + (int)roll(3), true);
        try_layout(&l, kind);
        layout_free(&l);
    }
    report("random types of family %c", "AB"[family]);
}

/* Compiling goes on beside us: messages until a module has come into the cache. */
static void fill_cache(void)
{
    const char *folder = getenv("STRIDEC_CACHE_DIR");
    struct layout l;
    double start = 0;
    int n = 0;
    layout_number(&l, 1, 3);
    do {
        try_layout(&l, MEM_DEVICE);
        if (my_rank == 0) n = folder ? each_file(folder, false, 0) : 0;
        if (my_rank == 0 && !within(&start, 30)) break;
    } while (MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS && n == 0);
    if (n == 0 && my_rank == 0) {
        fail("no file in the cache folder %s after 30 s", folder ? folder : "(none)");
        n = 1;
        MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    layout_free(&l);
    report("a module comes into the cache");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    peer = my_rank ^ 1;
    enum mem_kind kind = has(argc, argv, "disabled") ? MEM_HOST : MEM_DEVICE;
    if (has(argc, argv, "damage")) damage();
    if (has(argc, argv, "cold")) fill_cache();
    fixed(kind, "");
    random_ones(kind, FAMILY_A);
    random_ones(kind, FAMILY_B);
    fixed(kind, ", again");
    return check_finish();
}
