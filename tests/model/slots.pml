/* slots.pml: who gets a slot (rndv_slots.c): one that is kept for a persistent send is there when it starts.
 *
 * Each function is one step: it holds the spinlock.
 *
 * variable      meaning                                         written by
 * taken         slots with a message                            rndv_send_slot, rndv_send_withdraw
 * reservations  slots kept for sends that have not started      as reserved
 * reserved[p]   one of them is kept for this persistent send    the same, rndv_send_reserve, rndv_send_stays,
 *                                                               rndv_send_unreserve
 *
 * PERSISTENT sends start MSGS times each. OTHERS threads send MSGS messages each, without a reservation. A slot is
 * given back when its message was read: at the end of the send, or later where the receiver was late
 * (rndv_send_stays). */
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

byte taken, reservations;
bool reserved[PERSISTENT];
byte behind;                          /* messages that stay behind their sends */
byte running = PERSISTENT + OTHERS;

#define CONSISTENT (taken + reservations <= SLOTS && reservations == reserved[0] + reserved[PERSISTENT - 1])

/* rndv_send_reserve */
inline rndv_send_reserve(p)
{
    atomic {
        if
        :: taken + reservations < SLOTS -> reservations++; reserved[p] = true
        :: else -> reserved[p] = false
        fi;
        assert(CONSISTENT)
    }
}

/* A message stays behind its send, and is read some day: rndv_send_withdraw, without a reservation. */
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
    rndv_send_reserve(p);
    if
    :: !reserved[p] -> goto closed     /* send_plan: it goes another way */
    :: reserved[p]
    fi;
    do
    :: n < MSGS ->
       atomic {                       /* rndv_send_slot */
           had = reserved[p]; has = false;
           if
           :: had || taken + reservations < SLOTS ->
              assert(taken < SLOTS);
              taken++; has = true;
              if
              :: had -> reservations--; reserved[p] = false
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
                 taken--; reservations++; reserved[p] = true;
                 assert(CONSISTENT)
             }
          :: atomic {                 /* rndv_send_stays */
                 if
#ifdef FAULT_PROMISES_WHAT_IS_NOT_FREE
                 :: true -> reservations++; reserved[p] = true
#else
                 :: taken + reservations < SLOTS -> reservations++; reserved[p] = true
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
    atomic {                          /* persistent_send_close: rndv_send_unreserve */
        reservations = reservations - reserved[p]; reserved[p] = false;
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
           :: taken + reservations < SLOTS -> taken++; has = true
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
    running == 0 && behind == 0 -> assert(taken == 0 && reservations == 0)
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
