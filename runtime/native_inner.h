/* native_inner.h: what native.c, native_load.c and kernel.c share. */
#ifndef STRIDEC_NATIVE_INNER_H
#define STRIDEC_NATIVE_INNER_H
#include "kernel_inner.h"

struct native;
/* Hangs on a kernel; native.c. */
void native_free(struct native *n);

/* native_load.c: module_load for a module without a device, and its end. */
enum stage native_load(struct gen **gen, struct module *m);
void native_unload(struct module *m);

#endif
