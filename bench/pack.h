/* pack.h: the parts of bench/pack: a layout at work, the limits of the machine, the search for the best kernel. */
#ifndef STRIDEC_BENCH_PACK_H
#define STRIDEC_BENCH_PACK_H
#include "common.h"
#include "layouts.h"

struct work {
    struct layout *l;
    char *host, *host_packed;     /* span_bytes, packed_bytes */
    char *user, *packed;          /* the same on the device */
    char *second;                 /* device, packed_bytes: where the contiguous copy goes */
    cudaStream_t stream;
};

/* One call, of a struct work. */
void pack(void *work);
void unpack(void *work);

/* limits.c: the limits of this machine, measured in this run. */
struct limits {
    double launch_us;     /* an empty kernel and the wait for it */
    double bytes_per_us;  /* device-to-device copy, bytes read plus written */
};
/* With copies of so many bytes. */
struct limits limits_measure(size_t bytes);

/* best.c: all kernels that the generator can make for a layout, beside the one that serves it. */
struct best {
    int variants;                       /* how many were tried; 0: the serving kernel is all there is */
    double us[2], best_us[2];           /* packing and unpacking: the serving kernel's time, and the least of all */
    char name[2][128];                   /* the settings of the quickest; "" for the serving kernel */
};
/* After w's bytes were checked, and as that left them. At most `most` variants a direction. False where one moved wrong
 * bytes; it then takes no part. */
bool best_find(struct best *b, struct work *w, int most);

#endif
