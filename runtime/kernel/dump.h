/* dump.h: writes generated files to the folder STRIDEC_DUMP, if it is set; warns once on failure. Names begin with
 * the signature's hash: HASH.txt has signature and plan, HASH.cu the source, HASH.sm_90.cubin (or .ptx) the module. */
#ifndef STRIDEC_DUMP_H
#define STRIDEC_DUMP_H
#include <stdbool.h>
#include <stddef.h>

/* host: code for host memory, in HASH.c and HASH.host.txt instead. */
void dump_source(const char *signature, bool host, const char *source, const char *plan);
void dump_image(const char *signature, const char *arch, bool ptx, const void *image, size_t bytes);

#endif
