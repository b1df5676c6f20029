/* cores.h: processors that compilers share with the program. Ranks mostly spin while they wait, so where there are as
 * many of them as processors each compile costs them: there a layout is used more often before code is made for it
 * (host_pack.c), and one rank of the node compiles at a time. */
#ifndef STRIDEC_CORES_H
#define STRIDEC_CORES_H
#include <stdbool.h>

/* At MPI_Init: so many ranks share this machine, or the processors that this process may use. */
void cores_start(int ranks);
bool cores_are_scarce(void);
/* If they are few, waits until no other rank of the machine compiles, half a minute at most, and only until `stop` says
 * yes. A turn for cores_turn_ends, or -1: go on without. */
int cores_turn(bool (*stop)(void));
void cores_turn_ends(int turn);

#endif
