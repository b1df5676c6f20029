/* table.h: the tuned table, which holds measurements of a system. It is text to read and edit; `stridec tune` writes
 * it, MPI_Init reads it.
 *
 *   stridec tune 1
 *   machine NVIDIA H200
 *   mpi Open MPI v4.1.4
 *   stridec 5f3a...              version at measurement; this and mpi may be missing or `any`: not compared then
 *   cuda 13.0                    the driver's version
 *   date 2026-11-21
 *   curve pack_device            microseconds for one call, waited for
 *   bytes     256  1024  4096    packed bytes, ascending
 *   block 4   8.6  8.7   8.9     a row for each block length in bytes, ascending; "any" if it does not matter
 *
 *   curve fused                  many layouts at once; columns: packed bytes of each
 *   bytes     1024  16384
 *   jobs 2    9.1   9.4          a row for each number of layouts
 *
 *   host 4096                    least packed bytes that stridec packs in host memory (host_pack.h)
 *   offer 256 32768              messages in host memory through shared memory (table_shm.h)
 *   knobs pack strided 4 1048576 word=4 each=4 threads=256
 *   knobs pack strided 8 1048576 model
 *   pipeline chunk=524288 depth=4 least=1048576 device=0   at most once (chunk_settings.h)
 *
 * A table without curves has the built-in ones.
 * A line `knobs` has direction, family, least block length, least bytes of one element, and settings for the generator
 * (gen/knobs.lua); `model` means gen/model.lua chooses. Rows count whose both numbers a layout reaches. Of these the
 * largest block is used, then the most bytes; without a row the model chooses.
 * Knobs and the curve zerocopy only count on the GPU in `machine`. Without that curve, messages within a node go
 * zero-copy wherever they can. */
#ifndef STRIDEC_TUNE_TABLE_H
#define STRIDEC_TUNE_TABLE_H
#include "../../gen/gen.h"
#include "base/chunk_settings.h"
#include "table_shm.h"
#include <stdio.h>

/* ORDER TUNE_CURVE: names in table.c. */
enum tune_curve {
    TUNE_PACK_DEVICE, TUNE_UNPACK_DEVICE,     /* kernel to and from device memory */
    TUNE_PACK_MAPPED, TUNE_UNPACK_MAPPED,     /* kernel to and from mapped host memory */
    TUNE_PACK_STAGED, TUNE_UNPACK_STAGED,     /* device memory and a copy from and to the host */
    TUNE_MESSAGE_HOST, TUNE_MESSAGE_DEVICE,   /* half a round trip of a contiguous message */
    TUNE_ZEROCOPY,                            /* half a round trip from layout to layout: RTS, kernel, answer */
    TUNE_PEER_READ,                           /* the same kernel alone, from the other rank's memory */
    TUNE_FUSED, TUNE_APART,                   /* many layouts into others: one launch; one launch each; by jobs */
    TUNE_CURVES
};

#define TUNE_POINTS_MAX 24

struct tune_grid {
    int blocks, sizes;                        /* 0, 0: not measured */
    double block[TUNE_POINTS_MAX], bytes[TUNE_POINTS_MAX], us[TUNE_POINTS_MAX][TUNE_POINTS_MAX];
};

/* A line `knobs`. */
#define TUNE_SETTINGS_MAX 128
struct tune_knobs {
    enum gen_direction direction;
    enum gen_family family;
    int64_t block, bytes;                     /* least values of a layout for this row */
    char settings[TUNE_SETTINGS_MAX];         /* "": the model chooses */
    int line;                                 /* in the file */
};
#define TUNE_KNOBS_MAX 256
#define TUNE_HOST_LEAST 256

struct tune_table {
    char machine[96], mpi[96], stridec[48], cuda[16], date[32];
    struct tune_grid grid[TUNE_CURVES];
    struct chunk_params pipeline;
    bool borrowed;                            /* its curves are the built-in ones */
    struct tune_shm offers;                /* no rows: not measured */
    int64_t host_least;                       /* least packed bytes in host memory that stridec may pack */
    int knob_rows;
    struct tune_knobs knobs[TUNE_KNOBS_MAX];
};

/* ORDER TUNE_TRANSPORT: the transports that a table chooses from; names in tune_transport_name. */
enum tune_transport { TUNE_DEVICE, TUNE_ONESHOT, TUNE_STAGED, TUNE_TRANSPORTS };

const char *tune_transport_name(enum tune_transport w);

/* Returns the table in a file, or in text (`file` is its name in messages). NULL with "FILE:LINE: message" in *why. */
struct tune_table *tune_read(const char *file, struct reason *why);
struct tune_table *tune_parse(const char *text, const char *file, struct reason *why);
void tune_write(const struct tune_table *t, FILE *f);
/* Measured on an H200, for systems without a table (table_fit.h: other GPUs). */
extern const char tune_builtin[];

/* Returns the row for a layout by the rule above; NULL if none. */
const struct tune_knobs *tune_knobs_find(const struct tune_table *t, enum gen_direction direction,
                                         enum gen_family family, int64_t block, int64_t bytes);

/* Returns microseconds from a curve, log-linear between points and beyond its ends; negative if not measured. */
double tune_time(const struct tune_table *t, enum tune_curve c, double block, double bytes);
/* Returns the time from packing to unpacking; negative if a step was not measured. */
double tune_transport_time(const struct tune_table *t, enum tune_transport w, double block, double bytes);
/* Returns the fastest transport; TUNE_DEVICE only if `aware`. */
enum tune_transport tune_choose(const struct tune_table *t, bool aware, double block, double bytes);

#endif
