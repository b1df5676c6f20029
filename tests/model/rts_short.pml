/* rts_short.pml: who is sent short RTS headers (rts_short.h): a receive that does not look for them never gets one.
 *
 * variable     meaning                                       written by
 * takes_short  node_file.takes_short: the receiver looks     rts_short_refuse
 * short_msgs   node_file.short_msgs: under way to it         rts_short_begin, rts_short_take_back, rts_short_taken
 * looks        rts_least() <= RTS_SHORT_MIN                  rts_short_refuse
 *
 * When it is posted, a receive decides whether it will look at what comes (rndv_recv_prepare): a long one always, a
 * short one while rts_least() is so. rndv_recv_is_rts asks rts_least() once more when the message is there.
 * A sender may die.
 * With -DNP: no run is endless. */
#ifndef SENDERS
#define SENDERS 2
#endif
#ifndef EACH
#define EACH 2   /* messages of a sender */
#endif

bool takes_short = true, looks = true;
byte short_msgs, through;
chan mpi = [SENDERS * EACH] of { bool };          /* true: a short RTS header */
chan posted = [SENDERS * EACH] of { bool };       /* true: it looks at what comes */
bool dies;

proctype sender()
{
    byte n;
    do
    :: n < EACH ->
       if                                         /* rts_short_begin */
       :: takes_short ->
#ifndef FAULT_COUNTS_AFTER_ASKING
          short_msgs++;
#endif
          if
          :: takes_short ->
#ifdef FAULT_COUNTS_AFTER_ASKING
             short_msgs++;
#endif
             if
             :: mpi ! true
             :: short_msgs--; mpi ! false             /* rts_short_take_back: it goes another way after all */
             fi
          :: !takes_short ->
#ifndef FAULT_COUNTS_AFTER_ASKING
             short_msgs--;
#endif
             mpi ! false
          fi
       :: !takes_short -> mpi ! false
       fi;
       n++
    :: n < EACH -> atomic { dies = true; n = EACH }   /* its process ends */
    :: n == EACH -> break
    od;
    through++
}

/* rts_short_refuse */
inline rts_short_refuse()
{
#ifdef FAULT_LOOKS_BEFORE_REFUSING
    none = short_msgs == 0;
    takes_short = false;
#else
    takes_short = false;
    none = short_msgs == 0;
#endif
    if
    :: none -> looks = false
    :: !none -> skip
    fi
}

proctype receiver()
{
    bool brief, watched, none;
    byte n, m;
    do
    :: n < SENDERS * EACH ->                      /* posts a receive, */
       if
       :: posted ! true                           /* a long one, */
       :: rts_short_refuse();                     /* or one in host memory, of fewer than RNDV_MIN bytes */
          posted ! looks
       fi;
       n++
    :: m < n && nempty(posted) && nempty(mpi) ->   /* or completes one */
       mpi ? brief; posted ? watched;
       if
       :: brief ->
          assert(watched);                        /* rndv_recv_prepare */
          assert(looks);                          /* rndv_recv_is_rts: rts_fits */
          short_msgs--                                /* rts_short_taken */
       :: !brief -> skip
       fi;
       m++
    :: n == SENDERS * EACH && empty(mpi) && through == SENDERS -> break
    od;
    assert(dies || short_msgs == 0);                  /* all counted back: */
    rts_short_refuse();
    assert(dies || !looks)                        /* the next short receive is the MPI's */
}

init {
    byte i;
    atomic {
        run receiver();
        do
        :: i < SENDERS -> run sender(); i++
        :: else -> break
        od
    }
}
