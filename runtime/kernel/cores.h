/* cores.h: tells if processors are scarce. Waiting ranks spin, so each compile slows ranks down if there are as many as
 * processors. Then a layout is compiled after more uses (host_pack.c), by one rank of the node at a time. */
#ifndef STRIDEC_CORES_H
#define STRIDEC_CORES_H
#include <stdbool.h>

/* Compares the machine's ranks with the processors that this process may use. Called by MPI_Init. */
void cores_start(int ranks);
bool cores_are_scarce(void);
/* If processors are scarce, waits until no other rank of the machine compiles: at most 30 s, and until `stop`
 * returns true. Returns a lock for cores_compile_unlock, or -1: continue without. */
int cores_compile_lock(bool (*stop)(void));
void cores_compile_unlock(int turn);

#endif
