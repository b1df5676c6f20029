/* table_shm.c: the least size of messages in host memory that go through shared memory. */
#include "table_shm.h"
#include "base/mpi_abi.h"
#include <stdlib.h>
#include <string.h>

#define LARGEST ((int64_t)1 << 50)

/* MPIs move long runs as fast as stridec until the caches are full (two ranks, on two cores or one). */
static const struct tune_shm defaults[] = {   /* MPICH, Open MPI */
    {2, {{1, 12 << 10}, {256, 256 << 10}}},
    {6, {{1, 4 << 10}, {96, 8 << 10}, {128, 12 << 10}, {256, 16 << 10}, {1024, 64 << 10}, {2048, 192 << 10}}},
};
const struct tune_shm *const tune_shm_default = &defaults[IS_OPEN_MPI];

const char *tune_shm_add(struct tune_shm *o, int64_t run, int64_t least)
{
    if (o->rows == TUNE_SHM_MAX) return "more than 16 rows of offers";
    if (run < 1 || run > LARGEST || least < 1 || (least > LARGEST && least != INT64_MAX))
        return "an offer is a length of runs and a number of bytes, or `never`";
    if (o->rows && run <= o->row[o->rows - 1].run) return "the runs of offers must ascend";
    o->row[o->rows].run = run, o->row[o->rows].least = least;
    o->rows++;
    return NULL;
}

const char *tune_shm_read(struct tune_shm *o, const char *rest)
{
    char *end, *past;
    int64_t run = strtoll(rest, &end, 10);
    end += strspn(end, " \t");
    bool never = !strcmp(end, "never");
    int64_t least = never ? INT64_MAX : strtoll(end, &past, 10);
    if (!never && (past == end || *past)) least = 0;
    return tune_shm_add(o, run, least);
}

void tune_shm_write(const struct tune_shm *o, FILE *f)
{
    if (o->rows)
        fprintf(f, "\n# Messages in host memory go through shared memory: of runs of so many bytes, from so many "
                   "packed bytes on.\n");
    for (int i = 0; i < o->rows; i++) {
        fprintf(f, "offer %lld ", (long long)o->row[i].run);
        if (o->row[i].least == INT64_MAX) fprintf(f, "never\n");
        else fprintf(f, "%lld\n", (long long)o->row[i].least);
    }
}

int64_t tune_shm_least(const struct tune_shm *o, int64_t run)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < o->rows && o->row[i].run <= run; i++) least = o->row[i].least;
    return least;
}
