/* host_compiler.h: runs the system's C compiler for code in host memory (host_code.c, `stridec gen`, `stridec
 * inspect`). posix_spawn starts it without this process's preloaded libraries. libgccjit is no alternative: it runs
 * `as` too (GCC 12), so needs binutils (Debian: also libc6-dev), takes no C, and maps 32 MiB. */
#ifndef STRIDEC_HOST_COMPILER_H
#define STRIDEC_HOST_COMPILER_H
#include "../../gen/tree.h"
#include <stdatomic.h>

enum host_compiler_output { CC_LIBRARY, CC_ASSEMBLY };

/* Returns STRIDEC_CC, else the first of cc, gcc, clang on PATH, else NULL with *why (may be NULL). Static storage. */
const char *host_compiler_path(struct reason *why);
/* Returns a hash of the compiler's path, size and date, or "" without a compiler. Static storage. */
const char *host_compiler_identity(void);
/* Returns this processor's identity for compiled code: "host-" and 16 hex digits. Static storage. */
const char *host_compiler_machine(void);
/* Compiles C for this processor. Kills the compiler when `stop` (may be NULL) returns true, or after
 * host_compiler_timeout_s seconds. Returns 0 and malloc'd *data (assembly is terminated text), or -1 with the
 * compiler's first complaint in *why. Blocks. Any thread. */
int host_compiler_compile(const char *source, enum host_compiler_output output, bool (*stop)(void), void **data,
                          size_t *bytes, struct reason *why);

extern int host_compiler_timeout_s;
/* Number of threads that wait for compiled code. While it is not 0, compilers run at the caller's priority. */
extern atomic_int host_compiler_waiters;

#endif
