/* library.h: the MPI's own library. */
#ifndef STRIDEC_BENCH_LIBRARY_H
#define STRIDEC_BENCH_LIBRARY_H

/* For dlsym: past what is preloaded. Ends the run where none is loaded. */
void *mpi_library(void);

#endif
