/* cores.h: tells if processors are scarce. Waiting ranks spin, so each compile slows ranks down if there are as many as
 * processors. Then a layout is compiled after more uses (host_pack.c), by one rank of the node at a time. */
#ifndef STRIDEC_CORES_H
#define STRIDEC_CORES_H
#include <stdbool.h>

/* Compares the machine's ranks with the processors that the job may use: this process or its launcher. Called by
 * MPI_Init. */
void cores_start(int ranks);
/* Lets the calling thread, and what it starts, use all processors of the job. Launchers bind a rank to a core, which
 * the program's thread uses all the time, also while it waits. */
void cores_spread(void);
bool cores_are_scarce(void);
/* If processors are scarce, waits until no other rank of the machine compiles: at most 30 s, and until `stop`
 * returns true. Returns a lock for cores_compile_unlock, or -1: continue without. */
int cores_compile_lock(bool (*stop)(void));
void cores_compile_unlock(int turn);

#endif
