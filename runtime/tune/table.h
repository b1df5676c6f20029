/* table.h: what was measured on a system, and what it makes of a choice. Text, for people to read and
 * edit; `stridec tune` writes it, MPI_Init reads it.
 *
 *   stridec tune 1
 *   machine NVIDIA H200
 *   mpi Open MPI v4.1.4
 *   stridec 5f3a...              the version that measured; it and mpi may be missing, or `any`: then not compared
 *   cuda 13.0                    the driver's
 *   date 2026-11-21
 *   curve pack_device            microseconds for one call, waited for
 *   bytes     256  1024  4096    packed bytes, ascending
 *   block 4   8.6  8.7   8.9     one row a block length in bytes, ascending; "any" where none matters
 *
 *   curve fused                  many layouts at once: columns: packed bytes of each
 *   bytes     1024  16384
 *   jobs 2    9.1   9.4          one row a number of layouts
 *
 *   host 4096                    packed bytes: from here on stridec may pack data in host memory (host_pack.h)
 *   offer 256 32768              messages in host memory that go through shared memory: table_shm.h
 *   knobs pack strided 4 1048576 word=4 each=4 threads=256
 *   knobs pack strided 8 1048576 model
 *
 *   pipeline chunk=524288 depth=4 least=1048576 device=0   chunk_settings.h; once, or not at all
 *
 * A table without any curve has those that come with the library.
 * A line `knobs` is about kernels: direction, family, least block length, least bytes of one element, and the settings
 * (gen/knobs.lua) to generate with; `model` leaves the choice to gen/model.lua. Of the rows of a direction
 * and family that a layout reaches with both numbers, the one of the largest block counts, among those the one of the
 * most bytes; a layout that reaches none is the model's. They count only on the GPU that `machine` names,
 * and so does the curve zerocopy: elsewhere, and without it, messages go from memory to memory wherever they can. */
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
    TUNE_ZEROCOPY,                            /* half a round trip from layout to layout: offer, kernel, answer */
    TUNE_PEER_READ,                           /* its kernel alone, from the other rank's memory */
    TUNE_FUSED, TUNE_APART,                   /* many layouts into others: one launch, and one for each; by jobs */
    TUNE_CURVES
};

#define TUNE_POINTS_MAX 24

struct tune_grid {
    int blocks, sizes;                        /* 0, 0: not measured */
    double block[TUNE_POINTS_MAX], bytes[TUNE_POINTS_MAX], us[TUNE_POINTS_MAX][TUNE_POINTS_MAX];
};

/* True for curves whose rows are numbers of layouts. */
bool tune_by_jobs(enum tune_curve c);

/* A line `knobs`. */
#define TUNE_SETTINGS_MAX 128
struct tune_knobs {
    enum gen_direction direction;
    enum gen_family family;
    int64_t block, bytes;                     /* the least that the row is for */
    char settings[TUNE_SETTINGS_MAX];         /* "": the model's */
    int line;                                 /* of the file */
};
#define TUNE_KNOBS_MAX 256
#define TUNE_HOST_LEAST 256

struct tune_table {
    char machine[96], mpi[96], stridec[48], cuda[16], date[32];
    struct tune_grid grid[TUNE_CURVES];
    struct tune_pipeline pipeline;
    bool borrowed;                            /* its curves are not its own */
    struct tune_offers offers;                /* no rows: not measured */
    int64_t host_least;                       /* packed bytes from which on data in host memory may be stridec's */
    int knob_rows;
    struct tune_knobs knobs[TUNE_KNOBS_MAX];
};

/* ORDER TUNE_WAY: the transports that a table chooses among; names in tune_way_name. */
enum tune_way { TUNE_DEVICE, TUNE_ONESHOT, TUNE_STAGED, TUNE_WAYS };

const char *tune_way_name(enum tune_way w);

/* The table of a file, or of text (file is then its name in messages). NULL with "FILE:LINE: message". */
struct tune_table *tune_read(const char *file, struct reason *why);
struct tune_table *tune_parse(const char *text, const char *file, struct reason *why);
void tune_write(const struct tune_table *t, FILE *f);
/* Figures measured on an H200, for systems without a table. */
extern const char tune_builtin[];

/* The row that counts for a layout, by the rule above; NULL if there is none. */
const struct tune_knobs *tune_knobs_find(const struct tune_table *t, enum gen_direction direction,
                                         enum gen_family family, int64_t block, int64_t bytes);

/* Microseconds off the curve: linear between the logarithms of neighbouring points, and beyond the ends.
 * A negative number if the curve was not measured. */
double tune_time(const struct tune_table *t, enum tune_curve c, double block, double bytes);
/* From the sender's typed buffer to the receiver's; negative if a part was not measured. */
double tune_way_time(const struct tune_table *t, enum tune_way w, double block, double bytes);
/* The quickest way; TUNE_DEVICE only where `aware`. */
enum tune_way tune_choose(const struct tune_table *t, bool aware, double block, double bytes);

#endif
