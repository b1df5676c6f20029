/* host_compiler.h: the system's C compiler, for code in host memory (host_code.c, `stridec gen` and `stridec
 * inspect`). It is run as a process of its own, by posix_spawn, without the preloaded libraries of this one. Not
 * libgccjit: that runs `as` as a process too (strace, GCC 12), so needs binutils; Debian's also wants libc6-dev. It
 * takes no C, which people read and `stridec gen` writes, and maps 32 MiB. */
#ifndef STRIDEC_CC_H
#define STRIDEC_CC_H
#include "../../gen/tree.h"
#include <stdatomic.h>

enum host_compiler_output { CC_LIBRARY, CC_ASSEMBLY };

/* STRIDEC_CC, else the first of cc, gcc and clang on PATH; NULL with *why (may be NULL). Looked for once. Static
 * storage. */
const char *host_compiler_path(struct reason *why);
/* What tells the code of one compiler from another's: its path, size and date. Static storage; "" without one. */
const char *host_compiler_identity(void);
/* This processor, as far as code made for it depends on that: "host-" and 16 hex digits. Static storage. */
const char *host_compiler_machine(void);
/* Compiles C for this processor. `stop` (may be NULL) is asked now and then; once it says yes, the compiler is
 * killed, as it is where it takes more than host_compiler_patience seconds. 0 and malloc'd *data (assembly is terminated text),
 * or -1 with the compiler's first complaint in *why. Any thread. */
int host_compiler_compile(const char *source, enum host_compiler_output output, bool (*stop)(void), void **data,
                          size_t *bytes, struct reason *why);

extern int host_compiler_patience;
/* How many threads wait for what is compiled: while there are some, compilers run at the caller's priority. */
extern atomic_int host_compiler_awaited;

#endif
