/* type_text.h: a datatype in words, as its constructor reads: for the statistics. */
#ifndef STRIDEC_TYPE_TEXT_H
#define STRIDEC_TYPE_TEXT_H
#include <mpi.h>
#include <stddef.h>

/* Writes how the type was made, "vector(1024, 1, 256) of double", cut at `size`: lists are counted, not written, and
 * deep nests end in "...". Asks the MPI for envelopes and contents, so not for the path of a message. */
void type_text(MPI_Datatype datatype, char *text, size_t size);

#endif
