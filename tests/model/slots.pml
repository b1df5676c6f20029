/* slots.pml: who gets a slot (rndv_slots.c): one that is kept for a persistent send is there when it starts.
 *
 * Each function is one step: it holds the spinlock.
 *
 * variable     meaning                                        written by
 * taken        slots with a message                            rndv_send_slot, rndv_send_withdraw
 * promised     slots kept for sends that have not started       as promise
 * promise[p]   one of them is kept for this persistent send     the same, rndv_send_promise, rndv_send_stays,
 *                                                               rndv_send_break_promise
 *
 * PERSISTENT sends start MSGS times each. OTHERS threads send MSGS messages each, without a promise. A slot is given
 * back when its message was read: at the end of the send, or later where the receiver was late (rndv_send_stays). */
#ifndef SLOTS
#define SLOTS 3
#endif
#ifndef PERSISTENT
#define PERSISTENT 2
#endif
#ifndef OTHERS
#define OTHERS 2
#endif
#ifndef MSGS
#define MSGS 2
#endif

byte taken, promised;
bool promise[PERSISTENT];
byte behind;                          /* messages that stay behind their sends */
byte running = PERSISTENT + OTHERS;

#define CONSISTENT (taken + promised <= SLOTS && promised == promise[0] + promise[PERSISTENT - 1])

/* rndv_send_promise */
inline rndv_send_promise(p)
{
    atomic {
        if
        :: taken + promised < SLOTS -> promised++; promise[p] = true
        :: else -> promise[p] = false
        fi;
        assert(CONSISTENT)
    }
}

/* A message stays behind its send, and is read some day: rndv_send_withdraw, without a promise. */
proctype late()
{
    atomic {
        taken--;
        behind--;
        assert(CONSISTENT)
    }
}

proctype persistent(byte p)
{
    byte n;
    bool had, has;
    rndv_send_promise(p);
    if
    :: !promise[p] -> goto closed     /* persistent_send_open: it goes another way */
    :: promise[p]
    fi;
    do
    :: n < MSGS ->
       atomic {                       /* rndv_send_slot */
           had = promise[p]; has = false;
           if
           :: had || taken + promised < SLOTS ->
              assert(taken < SLOTS);
              taken++; has = true;
              if
              :: had -> promised--; promise[p] = false
              :: else
              fi
           :: else
           fi;
           assert(!had || has);
           assert(CONSISTENT)
       }
       if
       :: !has                        /* persistent_send_start: spilled, rndv_file_apart */
       :: has ->
          if
          :: atomic {                 /* finished: rndv_send_withdraw */
                 taken--; promised++; promise[p] = true;
                 assert(CONSISTENT)
             }
          :: atomic {                 /* rndv_send_stays */
                 if
#ifdef FAULT_PROMISES_WHAT_IS_NOT_FREE
                 :: true -> promised++; promise[p] = true
#else
                 :: taken + promised < SLOTS -> promised++; promise[p] = true
                 :: else
#endif
                 fi;
                 behind++;
                 run late();
                 assert(CONSISTENT)
             }
          fi
       fi;
       n++
    :: n == MSGS -> break
    od;
    atomic {                          /* persistent_send_close: rndv_send_break_promise */
        promised = promised - promise[p]; promise[p] = false;
        assert(CONSISTENT)
    }
closed:
    running--
}

proctype other()
{
    byte n;
    bool has;
    do
    :: n < MSGS ->
       atomic {                       /* rndv_send_slot */
           has = false;
           if
#ifdef FAULT_TAKES_WHAT_IS_PROMISED
           :: taken < SLOTS -> taken++; has = true
#else
           :: taken + promised < SLOTS -> taken++; has = true
#endif
           :: else                    /* packed */
           fi;
           assert(CONSISTENT)
       }
       if
       :: has ->
          if
          :: atomic { taken--; assert(CONSISTENT) }
          :: atomic { behind++; run late() }
          fi
       :: !has
       fi;
       n++
    :: n == MSGS -> break
    od;
    running--
}

proctype judge()
{
    running == 0 && behind == 0 -> assert(taken == 0 && promised == 0)
}

init {
    byte i;
    atomic {
        do
        :: i < PERSISTENT -> run persistent(i); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < OTHERS -> run other(); i++
        :: else -> break
        od;
        run judge()
    }
}
