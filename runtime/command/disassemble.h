/* disassemble.h: prints the machine code of a cubin by the CUDA toolkit's tools. */
#ifndef STRIDEC_COMMAND_DISASSEMBLE_H
#define STRIDEC_COMMAND_DISASSEMBLE_H
#include "../../gen/tree.h"

/* Writes the listing to standard output. Returns 0, or -1 with *why. */
int disassemble(const void *cubin, size_t bytes, struct reason *why);

#endif
