/* disassemble.h: a cubin's machine code as text, by the CUDA toolkit's own tools. */
#ifndef STRIDEC_COMMAND_DISASSEMBLE_H
#define STRIDEC_COMMAND_DISASSEMBLE_H
#include "../../gen/tree.h"

/* Writes the listing to standard output. 0, or -1 with *why. */
int disassemble(const void *cubin, size_t bytes, struct reason *why);

#endif
