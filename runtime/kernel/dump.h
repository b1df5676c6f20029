/* dump.h: STRIDEC_DUMP: writes what is generated to a folder. Files are named after the signature's hash;
 * HASH.txt tells the signature and the plan, HASH.cu is the source, HASH.sm_90.cubin (or .ptx) the module.
 * Does nothing where the variable is not set; one warning where the folder can't be written. */
#ifndef STRIDEC_DUMP_H
#define STRIDEC_DUMP_H
#include <stdbool.h>
#include <stddef.h>

void dump_source(const char *signature, const char *source, const char *plan);
/* The same for the host's code: HASH.c and HASH.host.txt. */
void dump_host(const char *signature, const char *source, const char *plan);
void dump_image(const char *signature, const char *arch, bool ptx, const void *image, size_t bytes);

#endif
