/* marks.pml: ranks find out in MPI_Init whether all of them run stridec (pipeline.c: marked_agree).
 *
 * Any ranks have a mark and any of these can use chunks. Each program sends a message to every other rank once its
 * MPI_Init has returned, and receives one from each. All ranks come to the same answer: yes if all are marked and can.
 * No rank waits for ever, takes a program's message for a word, or leaves a word to a program.
 *
 * FAULT_ONE_SIDED: rank 2 does not see the mark of the rank above it. FAULT_STRANGERS: words go to unmarked ranks, too. */
#define RANKS 4
#define PROGRAM 2            /* a message of a program; words are 0 and 1 */

chan way[RANKS * RANKS] = [3] of { byte };   /* in the order in which they were sent */
#define WAY(from, to) way[(from) * RANKS + (to)]
bool marked[RANKS], can[RANKS];
bool everyone = true;
byte finished;

#ifdef FAULT_STRANGERS
#define SEES(one, other) true
#elif defined FAULT_ONE_SIDED
#define SEES(one, other) (marked[other] && !((one) == 2 && (other) == 0))
#else
#define SEES(one, other) marked[other]
#endif
/* The lowest set bit of a rank; of four. */
#define LOWEST(r) ((r) == 0 -> RANKS : ((r) % 2 -> 1 : 2))

proctype rank(byte me)
{
    bool all = can[me];
    byte step = 1, word, i;
    if
    :: !marked[me] -> all = false
    :: else ->
       do
       :: step < LOWEST(me) && me + step < RANKS ->
          if
          :: SEES(me, me + step) -> WAY(me + step, me) ? word; assert(word != PROGRAM); all = all && word
          :: else -> all = false
          fi;
          step = step * 2
       :: else -> break
       od;
       if
       :: me == 0 -> skip
       :: me != 0 && SEES(me, me - LOWEST(me)) ->
          WAY(me, me - LOWEST(me)) ! all;
          WAY(me - LOWEST(me), me) ? word;
          assert(word != PROGRAM);
          all = word
       :: else -> all = false
       fi;
       step = 1;
       do
       :: step < LOWEST(me) && me + step < RANKS ->
          if
          :: SEES(me, me + step) -> WAY(me, me + step) ! all
          :: else -> skip
          fi;
          step = step * 2
       :: else -> break
       od
    fi;
    assert(all == everyone);
    atomic {
        for (i : 0 .. RANKS - 1) {
            if
            :: i != me -> WAY(me, i) ! PROGRAM
            :: else -> skip
            fi
        }
    }
    for (i : 0 .. RANKS - 1) {
        if
        :: i != me -> WAY(i, me) ? word; assert(word == PROGRAM)
        :: else -> skip
        fi
    }
    finished++
}

init {
    byte i;
    atomic {
        for (i : 0 .. RANKS - 1) {
            if
            :: marked[i] = true; can[i] = true
            :: marked[i] = true; everyone = false
            :: everyone = false
            fi
        }
        for (i : 0 .. RANKS - 1) { run rank(i) }
    }
    finished == RANKS
}
