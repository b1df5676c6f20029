/* timing.h: the parts of `stridec tune`, and the functions for timing that they share. */
#ifndef STRIDEC_TUNE_MEASURE_H
#define STRIDEC_TUNE_MEASURE_H
#include "findings.h"
#include "pack/typed_buffer.h"
#include "tune/table.h"

struct tune_points {
    int blocks, sizes;
    const double *block, *bytes;
};
const struct tune_points *tune_points(bool quick);
/* Sets the time at the points' block-th block length and size-th size. */
void tune_set_point(struct tune_grid *g, const struct tune_points *points, int block, int size, double us);

/* Returns the GPU of a rank, NULL if there is none; the ranks of a node share its GPUs round robin. Its primary context
 * is current then. */
struct device *tune_take_gpu(int rank);

/* Calls of a point, whose median counts: at least MIN; then to MAX, or to the time limit. One slow call is enough. */
#define TUNE_REPEATS_MIN 7
#define TUNE_REPEATS_MAX 201

/* Returns the median; sorts the values. */
double tune_median(double *v, int n);

/* Returns the median of once(arg), in microseconds; negative if a call failed. */
double tune_repeat(double (*once)(void *arg), void *arg);

/* Returns true if `mine` is true on ranks 0 and 1, which both call it. */
bool tune_both(int rank, bool mine);
/* Returns rank 0's `mine` on ranks 0 and 1, which both call it. */
bool tune_follow(int rank, bool mine);

/* Returns how far repeated measurements lie apart in this process so far: the median, over all medians that tune_repeat
 * and tune_exchange returned, of the middle half's width as a part of the median. 0 if there are too few. */
double tune_scatter(void);

/* Ways of messages: `give` sends one and `take` receives it. They return false if it failed. */
struct tune_end;
struct tune_way {
    bool (*give)(const struct tune_end *e), (*take)(const struct tune_end *e);
};
extern const struct tune_way tune_by_mpi;    /* `count` elements of `type` */
extern const struct tune_way tune_by_rndv;   /* one of `layout`; fails if device memory came by the fallback copy */

/* A rank's end of messages between ranks 0 and 1. */
struct tune_end {
    int rank;
    const struct tune_way *way;
    void *user;
    int count;
    MPI_Datatype type;
    struct peer *peer;       /* the other rank; NULL if it can't be reached */
    struct device *device;   /* NULL: host memory */
    struct layout *layout;   /* NULL if unavailable */
    struct pool_buffer *buffer;   /* device memory that `user` points to, for tune_column_close */
};
/* Sends a message there and one back. Ranks 0 and 1 both call it. Returns half the time in microseconds on this rank;
 * negative if a message failed here. */
double tune_trip(const struct tune_end *e);
/* Returns how often to send messages of `bytes`, the same on both ranks. */
int tune_message_repeats(double bytes);
/* Returns the median of so many trips; negative on both ranks if a message failed on either. */
double tune_exchange(const struct tune_end *e, double bytes);
/* Exposes messages until each rank can read the other's memory. Both call it; returns false on both if that fails. */
bool tune_access(const struct tune_end *e);
/* Makes a column (tune_column) in device memory. Leaves `user` NULL without memory. */
void tune_column_open(struct tune_end *e, int64_t block, int64_t bytes);
void tune_column_close(struct tune_end *e);

/* One kernel call for a typed buffer, whose bounce buffers are acquired. */
struct tune_call {
    struct device *device;   /* entered (device_enter) */
    struct stream *stream;
    struct typed_buffer buffer;
    bool pack;
};
/* Runs a struct tune_call and waits for it. Returns microseconds; negative on failure. */
double tune_once(void *call);

/* Returns a layout of one element; the module that serves its moves in programs is ready. Takes `built`. NULL without
 * memory. */
struct layout *tune_layout(struct tree *built);
/* Return a column of blocks with gaps of at least their length: no two share a 64-byte granule. */
struct tree *tune_column(int64_t block, int64_t bytes, struct reason *why);
struct layout *tune_column_layout(int64_t block, int64_t bytes);
/* Returns the bytes from one block of the column to the next. */
int64_t tune_column_step(int64_t block);
/* Returns one element of l in a buffer of d, with no bounce buffer yet. Borrows the layout. */
struct typed_buffer tune_buffer(const struct transport *t, struct layout *l, struct device *d,
                                const struct pool_buffer *user);

/* Measures pack and unpack of each transport, of fewer blocks if the stage's time ends (progress.h), of at least one:
 * tune_fill gives the curves their other rows. Returns 0 or -1. */
int tune_curves(struct tune_table *t, struct device *d, const struct tune_points *points);
/* Finds settings that are quicker than the model's (measure_kernels.c), of the most telling layouts first, as long as
 * the stage has time; the model's stay elsewhere. Returns 0 or -1. */
int tune_kernels(struct tune_table *t, struct device *d, bool quick, struct tune_gains *gains);

/* Compiles the kernels of tune_zerocopy into the cache. */
void tune_zerocopy_prepare(struct device *d, const struct tune_points *points);
/* Measure zero-copy (measure_zerocopy.c); return 0 or -1. Ranks 0 and 1 both call tune_zerocopy, which leaves the
 * curves out if they can't read each other's memory, or if the stage's time ends before all blocks were measured. One
 * rank calls tune_fused, for many layouts at once. */
int tune_zerocopy(struct tune_table *t, struct device *d, const struct tune_points *points, int rank);
int tune_fused(struct tune_table *t, struct device *d, bool quick);

/* Measures chunks of messages between nodes (measure_pipeline.c) as long as the stage has time; settings that are left
 * are the assumed ones. Ranks 0 and 1 both call it. Returns false if it can't, and leaves the table as it is. */
bool tune_chunks(struct tune_table *t, struct device *d, bool quick, int rank);

/* Finds which messages in host memory stridec sends (measure_host.c), of the most telling runs first, as long as the
 * stage has time; others have the built-in rows. Ranks 0 and 1 both call it. Returns false if it can't; then the table
 * has no such rows. */
bool tune_host(struct tune_table *t, bool quick, int rank);

/* verify.c: checks that a module moves the same bytes as the model's. `call` uses the device transport. */
struct tune_reference;
struct tune_reference *tune_reference(struct tune_call *call);   /* under the model's module; NULL on failure */
bool tune_verify(struct tune_reference *r, const char *const knobs[2]);   /* by kernel_try; leaves the model's in use */
void tune_reference_free(struct tune_reference *r);

#endif
