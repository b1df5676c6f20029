/* file.c: derived types of GPU memory in files.
 *
 * usage: mpirun -n 1 stridec run -- file [--folder DIR] [OUT.json]     DIR is $TMPDIR or /tmp by default
 *
 * 32 MiB in a span of 1 GiB, in blocks of 8 B, 256 B and 32 KiB. Of each: MPI_File_write_at and MPI_File_read_at of the
 * derived type in GPU memory; the same bytes, contiguous, in host memory, which is what the file itself costs; and what
 * is left without stridec: the span copied to host memory and back, and the derived type there. The file's bytes are
 * compared with what the MPI packs in host memory, and what was read with what was written. Exit status 1 where a byte
 * was wrong. */
#include "common.h"
#include <stdlib.h>
#include <string.h>

#define BYTES ((size_t)32 << 20)
#define SPAN ((size_t)1 << 30)
#define BUDGET_US 2e6

static const int blocks[] = { 8, 256, 32768 };
#define CASES (int)(sizeof(blocks) / sizeof(blocks[0]))

struct state {
    MPI_File file;
    MPI_Datatype type;
    char *device, *host, *packed;
};

static void write_device(void *arg)
{
    struct state *s = arg;

    MPI_File_write_at(s->file, 0, s->device, 1, s->type, MPI_STATUS_IGNORE);
}

static void read_device(void *arg)
{
    struct state *s = arg;

    MPI_File_read_at(s->file, 0, s->device, 1, s->type, MPI_STATUS_IGNORE);
}

static void write_host(void *arg)
{
    struct state *s = arg;

    MPI_File_write_at(s->file, 0, s->packed, (int)BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
}

static void read_host(void *arg)
{
    struct state *s = arg;

    MPI_File_read_at(s->file, 0, s->packed, (int)BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
}

static void write_span(void *arg)
{
    struct state *s = arg;

    CUDA(cudaMemcpy(s->host, s->device, SPAN, cudaMemcpyDeviceToHost));
    MPI_File_write_at(s->file, 0, s->host, 1, s->type, MPI_STATUS_IGNORE);
}

static void read_span(void *arg)
{
    struct state *s = arg;

    CUDA(cudaMemcpy(s->host, s->device, SPAN, cudaMemcpyDeviceToHost));   /* what lies between the blocks stays */
    MPI_File_read_at(s->file, 0, s->host, 1, s->type, MPI_STATUS_IGNORE);
    CUDA(cudaMemcpy(s->device, s->host, SPAN, cudaMemcpyHostToDevice));
}

static const struct way {
    const char *key;
    void (*run)(void *arg);
} ways[] = {
    { "write_us", write_device }, { "read_us", read_device }, { "contiguous_write_us", write_host },
    { "contiguous_read_us", read_host }, { "span_write_us", write_span }, { "span_read_us", read_span },
};
#define WAYS (int)(sizeof(ways) / sizeof(ways[0]))

/* Whether a file written from the device, and the device's memory that is read from a file, have the right bytes. */
static bool right(struct state *s)
{
    char *written = host_new(BYTES);
    int position = 0;
    bool same;

    random_bytes(s->host, SPAN, 1);
    device_write(s->device, s->host, SPAN);
    MPI_Pack(s->host, 1, s->type, s->packed, (int)BYTES, &position, MPI_COMM_SELF);
    write_device(s);
    MPI_File_read_at(s->file, 0, written, (int)BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
    same = !memcmp(written, s->packed, BYTES);
    random_bytes(s->packed, BYTES, 2);
    write_host(s);
    position = 0;
    MPI_Unpack(s->packed, (int)BYTES, &position, s->host, 1, s->type, MPI_COMM_SELF);
    read_device(s);
    same = device_equals(s->device, s->host, SPAN) && same;
    free(written);
    return same;
}

static bool measure(FILE *f, struct state *s, int block, bool last)
{
    double us[WAYS];
    bool ok;

    MPI_Type_vector((int)(BYTES / (size_t)block), block, block * (int)(SPAN / BYTES), MPI_BYTE, &s->type);
    MPI_Type_commit(&s->type);
    ok = right(s);
    fprintf(f, "{\"case\": \"32 MiB in 1 GiB, blocks of %d B\", \"bytes\": %zu, \"ok\": %s", block, BYTES,
            ok ? "true" : "false");
    for (int i = 0; i < WAYS; i++) {
        us[i] = median_us(ways[i].run, s, BUDGET_US, 3);
        fprintf(f, ", \"%s\": %.1f", ways[i].key, us[i]);
    }
    fprintf(f, "}%s\n", last ? "" : ",");
    fprintf(stderr, "file: blocks of %d B: write %.0f us (contiguous %.0f, by the span %.0f), read %.0f (%.0f, %.0f): "
            "%s\n", block, us[0], us[2], us[4], us[1], us[3], us[5], ok ? "verified" : "WRONG BYTES");
    MPI_Type_free(&s->type);
    return ok;
}

int main(int argc, char **argv)
{
    const char *out = NULL, *folder = getenv("TMPDIR");
    struct state s;
    char path[4096];
    int wrong = 0;

    MPI_Init(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--folder") && i + 1 < argc)
            folder = argv[++i];
        else
            out = argv[i];
    }
    if (!gpu_select(0)) {
        printf("file: no GPU found: nothing to measure\n");
        MPI_Finalize();
        return 0;
    }
    snprintf(path, sizeof(path), "%s/stridec-bench-file", folder ? folder : "/tmp");
    if (MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                      &s.file)) {
        fprintf(stderr, "file: %s can't be written\n", path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    s.device = device_new(SPAN);
    s.host = host_new(SPAN);
    s.packed = host_new(BYTES);
    FILE *f = cases_open(out, argc, argv, "file");
    for (int i = 0; i < CASES; i++)
        wrong += !measure(f, &s, blocks[i], i == CASES - 1);
    cases_close(f);
    MPI_File_close(&s.file);
    CUDA(cudaFree(s.device));
    free(s.host);
    free(s.packed);
    MPI_Finalize();
    return wrong != 0;
}
