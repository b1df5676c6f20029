/* timing.h: what the parts of `stridec tune` share: what is measured, and the one way of timing a kernel. */
#ifndef STRIDEC_TUNE_MEASURE_H
#define STRIDEC_TUNE_MEASURE_H
#include "pack/typed_buffer.h"
#include "tune/table.h"

/* The points of the curves; the quick ones are a few of them. */
struct tune_points {
    int blocks, sizes;
    const double *block, *bytes;
};
const struct tune_points *tune_points(bool quick);

/* A point is called until both are reached, and its median taken; a slow one ends at the time limit. */
#define TUNE_REPEATS_MIN 7
#define TUNE_REPEATS_MAX 201

/* Sorts the values. */
double tune_median(double *v, int n);

/* The median of once(arg), in microseconds; negative where one was. */
double tune_repeat(double (*once)(void *arg), void *arg);

/* Of ranks 0 and 1, who both call these. True where `mine` is so on both. */
bool tune_both(int rank, bool mine);
/* A message there and one back, by give(arg) on one end and take(arg) on the other: half of it in microseconds, as
 * this rank saw it; negative where one failed here. */
double tune_trip(int rank, bool (*give)(void *arg), bool (*take)(void *arg), void *arg);
/* How often messages of so many bytes go, the same on both ends. */
int tune_message_repeats(double bytes);
/* The median of so many; negative on both ranks where a message failed on either. */
double tune_exchange(int rank, double bytes, bool (*give)(void *arg), bool (*take)(void *arg), void *arg);

/* One kernel call, by a parcel whose transport's buffers are acquired. */
struct tune_call {
    struct device *device;   /* entered */
    struct stream *stream;
    struct typed_buffer parcel;
    bool pack;
};
/* Microseconds until it is done; negative where it failed. */
double tune_once(struct tune_call *c);

/* A layout of one element around `built`, which it takes; its kernel is ready. NULL without memory. */
struct layout *tune_layout(struct tree *built);
/* A column of blocks with as much space between them: wide enough that no two share a 64-byte granule. */
struct tree *tune_column(int64_t block, int64_t bytes, struct reason *why);
/* Bytes from one of its blocks to the next. */
int64_t tune_column_step(int64_t block);
/* One element of l in a buffer of d, on its way by t; its wire is not acquired. Borrows the layout. */
struct typed_buffer tune_parcel(const struct transport *t, struct layout *l, struct device *d,
                                const struct pool_buffer *user);

/* The curves of kernels: what each transport's pack and unpack take. 0 or -1. */
int tune_curves(struct tune_table *t, struct device *d, const struct tune_points *points);
/* The rows of knobs (measure_kernels.c): settings that are quicker than the model's. 0 or -1. */
int tune_kernels(struct tune_table *t, struct device *d, bool quick);

/* The curves of zero-copy, between ranks 0 and 1, who both call it; left out where they can't read each other's memory.
 * And, on one rank, those of many layouts at once (measure_zerocopy.c). 0 or -1. */
int tune_zerocopy(struct tune_table *t, struct device *d, const struct tune_points *points, int rank);
int tune_fused(struct tune_table *t, struct device *d, bool quick);

/* How messages between nodes are cut, between ranks 0 and 1, who both call it (measure_pipeline.c). False where that
 * can't be measured: the table stays as it is. */
bool tune_chunks(struct tune_table *t, struct device *d, bool quick, int rank);

/* Which messages in host memory are offered, between ranks 0 and 1, who both call it (measure_host.c). False where
 * that can't be measured: the table says nothing of it. */
bool tune_host(struct tune_table *t, bool quick, int rank);

/* verify.c: that a module moves the same bytes as the model's. `call` is of a device transport. */
struct tune_reference;
struct tune_reference *tune_reference(struct tune_call *call);   /* while the model's serves; NULL where that failed */
bool tune_verify(struct tune_reference *r, const char *const knobs[2]);   /* by kernel_try; leaves the model's */
void tune_reference_free(struct tune_reference *r);

#endif
