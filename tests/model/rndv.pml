/* rndv.pml: the life of a rendezvous message: its slot, its RTS header, the sender's buffer, the receiver's reads.
 *
 * The sender's process has two threads: the application's, and the progress thread. The receiver's has one. Each
 * process may die between any two steps. An atomic block is one step: one load, store or compare-exchange of the code,
 * with what only the model does. A statement outside of one is a step by itself. The code fills and reads a slot, and
 * reads a payload, in several steps, and so does the model. A function of the code has an inline of its name.
 *
 * state     meaning                        written by, and in which function
 * FREE      no message                     sender: rndv_send_slot; rndv_send_withdraw, from DONE (finished calls it) or
 *                                          from POSTED where the RTS header was not sent, or its send was cancelled
 * POSTED    the slot tells where the       sender: rndv_send_publish; move_away, from HELD
 *           payload is
 * HELD      the sender moves the payload,  sender: move_away, from POSTED; refused, from NACK (answered and
 *           or writes it to a file         rndv_send_serve call it)
 * TAKEN     the receiver reads             receiver: take, from POSTED
 * NACK      the receiver can't read it     receiver: rndv_recv_fallback, from TAKEN
 * FALLBACK  the payload is in a file       sender: spill, from HELD
 * LOST      the file had no room           sender: spill, from HELD
 * DONE      nobody reads the payload any   receiver: rndv_recvs_run, from TAKEN, FALLBACK or LOST; from NACK or HELD
 *           more                           where the sender has died; rndv_recv_add_told, from TAKEN, where the receive
 *                                          is too short
 *                                          sender: linger, where the receiver is leaving or dead
 * The functions are in rndv_slots.c, rndv_send.c and rndv_recv.c.
 *
 * What holds, by assertions, and by a search for processes that wait for ever:
 *   1. The receiver reads a payload only where it is: never the application's buffer after the send has ended.
 *   2. The sender reads the application's buffer only before the send has ended.
 *   3. A slot is given back only after its receiver, and the sender's threads, are through with it.
 *   4. Each payload arrives once, or one end has an error.
 *   5. Every call ends; every slot is free, and every file gone, when MPI_Finalize ends.
 * With -DNP: no run is endless, so each wait comes to its end.
 *
 * Macros:
 *   MSGS, SLOTS  numbers of messages and slots
 *   DIES         0: nobody; 1: the sender; 2: the receiver; 3: one of them
 *   NOMEM        there may be no memory to move a payload to, and no room for a file of it (move_to_file)
 *   REFUSES      the receiver may fail to read
 *   SHORT        receives may be too short
 *   SHORTEST     receives may be so short that the MPI itself truncates the RTS header
 *   CANCELS      receives and sends may be cancelled
 *   FORGETS      MPI_Finalize ends a cancelled send as any other (finish in freed.c)
 *   WAITALL      one call receives all messages
 *   LTL          adds the formulas
 *   FAULT_...    a fault, which spin has to find
 */
#ifndef MSGS
#define MSGS 2
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef DIES
#define DIES 0
#endif
#ifdef WAITALL
#define BATCH MSGS
#else
#define BATCH 1
#endif

mtype = { FREE, POSTED, HELD, TAKEN, NACK, FALLBACK, LOST, DONE }   /* enum slot_state (segment.h) */
mtype = { USER, OWN }         /* where a payload lies: the application's buffer, or memory of stridec's */
mtype = { NONE, OK, ERROR, CANCELLED }   /* what a call has returned */

#define NO 255                /* for a slot: the message goes packed, by the MPI; */
#define NOTHING 254           /* the application tells that no message comes */
#define S 0
#define R 1

/* The sender's segment, which both map (struct slot). */
typedef Slot {
    mtype state;
    mtype memory;             /* slot.user */
    byte whose                /* and of which message: slot.layout, bytes, id */
}
Slot slot[SLOTS];
byte refusals;                /* node_file.refusals */
byte file[SLOTS];             /* node_fallback_name: the message + 1; 0: no file */

/* The MPI's own channel: message, and its slot. A send of so few bytes does not wait. */
chan mpi = [MSGS] of { byte, byte };

/* The sender's own (struct rndv_send, by message). */
byte of_slot[SLOTS];          /* rndv_slots.c: the message + 1; 0: free */
byte at[MSGS];                /* its slot */
bool moved[MSGS];             /* rndv_send_moved */
bool stays[MSGS];
bool left[MSGS];              /* in the list `left` */
bool ended;                   /* progress_thread.c */

/* What processes know of each other. */
bool alive[2] = { true, true };   /* node_gone asks */
bool leaving;                 /* the receiver's node_file.leaving */
byte words;                   /* so many words of the application: a message was received */

/* What is watched. */
bool reused[MSGS];            /* the application has its buffer again, and has written it */
bool own[MSGS];               /* memory of stridec's holds the payload */
byte reads_user, reads_own;   /* the receiver is reading: the message + 1 */
bool spilling[MSGS];          /* a thread of the sender is in spill */
mtype sent[MSGS] = NONE, got[MSGS] = NONE;
bool fails;                   /* something has failed that may fail */
bool over[3];                 /* sender, receiver, progress thread */

#define state(m) slot[at[m]].state

/*
 * The sender.
 */

/* The call returns: the buffer is the application's (1, 2). */
inline send_returns(m, rc)
{
    atomic {
        assert(!alive[R] || reads_user != m + 1);
        assert(!spilling[m] || moved[m]);
        reused[m] = true;
        sent[m] = rc
    }
}

/* rndv_send_withdraw. The memory goes first, then the slot, under the spinlock. */
inline rndv_send_withdraw(m)
{
    atomic {
        assert(!alive[R] || reads_own != m + 1);
        assert(!spilling[m]);
        own[m] = false
    }
    atomic {
        state(m) = FREE;
        of_slot[at[m]] = 0;
        moved[m] = false; stays[m] = false          /* the record is nobody's */
    }
}

/* leave */
inline leave(m)
{
    left[m] = true
}

/* move_away. The compare-exchange, the move, and its end. */
inline move_away(m)
{
    if
#ifdef FAULT_MOVES_WITHOUT_HELD
    :: atomic { state(m) == POSTED && !moved[m] && !stays[m] -> skip }
#else
    :: atomic { state(m) == POSTED && !moved[m] && !stays[m] -> state(m) = HELD }
#endif
        if
        :: own[m] = true;                      /* rndv_domain: move */
           slot[at[m]].memory = OWN;           /* rndv_send_describe */
           moved[m] = true
#ifdef NOMEM
#ifdef FAULT_MOVES_AGAIN
        :: skip
#else
        :: stays[m] = true                     /* mempool_get, bounce_get: NULL */
#endif
#endif
        fi;
        state(m) = POSTED
    :: atomic { state(m) != POSTED || moved[m] || stays[m] -> skip }
    fi
}

/* spill, of a slot that the caller has brought from NACK to HELD. (2) */
inline spill(m)
{
    atomic {
        assert(moved[m] -> own[m] : !reused[m]);
        assert(of_slot[at[m]] == m + 1);
        spilling[m] = true
    }
    if
    :: file[at[m]] = m + 1;                    /* rndv_file_out */
       atomic { assert(moved[m] -> own[m] : !reused[m]); spilling[m] = false }
       atomic { assert(of_slot[at[m]] == m + 1); state(m) = FALLBACK }
    :: atomic { spilling[m] = false; fails = true }
       atomic { assert(of_slot[at[m]] == m + 1); state(m) = LOST }
    fi
}

/* finished */
inline finished(m)
{
    rndv_send_withdraw(m)
}

/* rndv_send_end: returns once the receiver is through, or the buffer is free. Each turn of its loop is one of these. */
inline rndv_send_end(m)
{
    do
    :: atomic { state(m) == NACK -> state(m) = HELD }           /* answered: refused, */
       spill(m)
    :: state(m) == DONE ->                                         /* or read */
       finished(m);
       send_returns(m, OK);
       break
    :: moved[m] ->
#ifdef FAULT_FREES_EARLY
       rndv_send_withdraw(m);
#else
       leave(m);
#endif
       send_returns(m, OK);
       break
    :: !moved[m] && !stays[m] && state(m) == POSTED ->            /* impatient */
       move_away(m)
#ifdef FAULT_ENDS_WHILE_TAKEN
    :: state(m) == TAKEN ->
       leave(m);
       send_returns(m, OK);
       break
#endif
#ifndef FAULT_NEVER_ASKS_WHO_LIVES
    :: !alive[R] ->                                                /* pulse */
#ifdef FAULT_LEAVES_TO_THE_DEAD
       leave(m);
#else
       retire(m);
       finished(m);
#endif
       send_returns(m, ERROR);
       break
#endif
    od
}

/* Of a receiver that is dead or leaving: the slot is DONE, but not before a thread that spills it is through. */
inline retire(m)
{
    atomic { state(m) != HELD -> state(m) = DONE }
}

/* harvest and rndv_send_poll: looks once at each message that was left. */
inline rndv_send_poll(k)
{
    k = 0;
    do
    :: k < MSGS && left[k] ->
       if
       :: atomic { state(k) == NACK -> state(k) = HELD }
          spill(k)
       :: atomic { state(k) == DONE -> left[k] = false }
          finished(k)
       :: atomic { state(k) != NACK && state(k) != DONE -> skip }
       fi;
       k++
    :: atomic { k < MSGS && !left[k] -> k++ }
    :: k == MSGS -> break
    od
}

/* rndv_send_finish: rndv_send_poll and linger, in turns. */
inline rndv_send_finish(k)
{
    k = 0;
    do
    :: k < MSGS && left[k] ->
       do
       :: atomic { state(k) == NACK -> state(k) = HELD }
          spill(k)
       :: atomic { state(k) == DONE -> left[k] = false }
          finished(k);
          break
       :: (leaving || !alive[R]) && state(k) != DONE ->             /* linger */
#ifdef FAULT_ENDS_WHAT_IS_HELD
          state(k) = DONE
#else
          retire(k)
#endif
       od;
       k++
    :: atomic { k < MSGS && !left[k] -> k++ }
    :: k == MSGS -> break
    od
}

/* rndv_send_to, and what MPI_Send and MPI_Isend do with the RTS header (interpose/send.c). */
inline rndv_send_to(m, i)
{
    atomic {                                   /* rndv_send_slot, under the spinlock */
        i = 0;
        do
        :: i < SLOTS && of_slot[i] -> i++
        :: else -> break
        od;
        if
        :: i < SLOTS -> of_slot[i] = m + 1; at[m] = i
        :: else -> at[m] = NO
        fi
    }
    if
    :: at[m] == NO ->                          /* packed by a transport, sent as it is */
       mpi ! m, NO;
       send_returns(m, OK)
    :: at[m] != NO ->
       state(m) = FREE;
       slot[i].memory = USER;                  /* rndv_send_describe */
       slot[i].whose = m;
       state(m) = POSTED;                     /* rndv_send_publish */
       if
       :: move_away(m)                         /* what is not to be read in place */
       :: skip
       fi;
       if
       :: mpi ! m, i
       :: rndv_send_withdraw(m);               /* the MPI refuses to send */
          send_returns(m, ERROR);
          mpi ! m, NOTHING
       fi
    fi
}

/* MPI_Cancel of a send, and its completion by rndv_complete (complete.c). With FORGETS: the request was freed, and
 * finish (freed.c) ends it without a look at its status. */
inline cancel(m)
{
    atomic {
        mpi ?? [eval(m), eval(at[m])] ->
        mpi ?? eval(m), eval(at[m]);
        mpi ! m, NOTHING
    }
#ifdef FORGETS
    fails = true;
    rndv_send_end(m)
#else
    rndv_send_withdraw(m);
    send_returns(m, CANCELLED)
#endif
}

proctype sender()
{
    byte m, i, k;
    {
        m = 0;
        do
        :: m < MSGS ->
           rndv_send_to(m, i);
           if
           :: sent[m] == NONE -> rndv_send_end(m)   /* a blocking send */
           :: skip                                  /* MPI_Isend: completed below */
           fi;
           rndv_send_poll(k);
           m++
        :: m == MSGS -> break
        od;
        m = 0;
        do
        :: m < MSGS && sent[m] == NONE ->
           if
           :: skip -> words > m || !alive[R]        /* the application waits for a word, outside of stridec */
           :: skip                                  /* MPI_Wait, or MPI_Request_free and record_poll */
           fi;
#ifdef CANCELS
           if
           :: cancel(m)
           :: sent[m] == NONE -> rndv_send_end(m)
           fi;
#else
           rndv_send_end(m);
#endif
           m++
        :: m < MSGS && sent[m] != NONE -> m++
        :: m == MSGS -> break
        od;
        rndv_send_finish(k);                        /* MPI_Finalize */
        ended = true;                               /* progress_thread_finish */
        refusals++;
        over[2] -> over[0] = true
    } unless { atomic { !alive[S] -> m = 0; i = 0; k = 0 } }
}

/* attend and rndv_send_serve: sleeps on node_file.refusals (a futex). */
proctype progress_thread()
{
    byte seen, i, m;
    {
#ifndef FAULT_MISSES_THE_END
        seen = refusals;
#endif
        do
        :: !ended ->
#ifdef FAULT_MISSES_THE_END
           seen = refusals;
#endif
           i = 0;
           do
           :: i < SLOTS ->
              if
              :: atomic {                           /* rndv_send_of_slot, refused */
                     of_slot[i] && slot[i].state == NACK ->
                     m = of_slot[i] - 1;
                     slot[i].state = HELD
                 }
                 spill(m);
                 atomic { i++; m = 0 }
              :: atomic { !of_slot[i] || slot[i].state != NACK -> i++ }
              fi
           :: atomic { i == SLOTS -> break }
           od;
           refusals != seen;                        /* FUTEX_WAIT */
#ifndef FAULT_MISSES_THE_END
           seen = refusals
#endif
        :: ended -> break
        od;
        over[2] = true
    } unless { atomic { !alive[S] -> seen = 0; i = 0; m = 0 } }
}

/*
 * The receiver.
 */

/* The receive call tells the application. (4) */
inline receive_returns(m, rc)
{
    atomic {
        assert(got[m] == NONE);
        got[m] = rc;
        words++
    }
}

/* take. False where the sender has died. */
inline take(s, taken)
{
    if
    :: atomic { slot[s].state == POSTED -> slot[s].state = TAKEN; taken = true }
    :: !alive[S] -> taken = false
    fi
}

/* tell(SLOT_DONE). (3) */
inline done(m, s)
{
    atomic {
        assert(!alive[S] || (of_slot[s] == m + 1 && slot[s].whose == m));
        slot[s].state = DONE
    }
}

/* rndv_recv_fallback, read_file: sets `came` to what came of it. */
inline rndv_recv_fallback(m, s, came)
{
    slot[s].state = NACK;
#ifndef FAULT_NEVER_CALLS
    refusals++;                                     /* progress_thread_call */
#endif
    if
    :: slot[s].state == FALLBACK ->
       atomic {                                     /* rndv_file_in, rndv_file_done */
           assert(file[s] == m + 1);
           file[s] = 0;
           came = OK
       }
    :: slot[s].state == LOST -> came = ERROR
    :: !alive[S] -> came = ERROR
    fi
}

/* side_from, open_for, and the kernel or the copy that reads. (1) */
inline read_payload(m, s, memory, came)
{
#ifdef FAULT_LOOKS_BEFORE_TAKEN
    assert(memory != 0);
#else
    memory = slot[s].memory;
#endif
    assert(slot[s].whose == m);
    if
    :: memory == USER ->
       atomic { assert(!reused[m]); reads_user = m + 1 }
       atomic { assert(!reused[m]); reads_user = 0 }
       came = OK
    :: memory == OWN ->
       atomic { assert(own[m]); reads_own = m + 1 }
       atomic { assert(own[m]); reads_own = 0 }
       came = OK
#ifdef REFUSES
    :: came = NONE                                  /* ipc_cache_open, peer_access_copy */
#endif
    :: !alive[S] -> came = NONE
    fi
}

proctype receiver()
{
    byte m[BATCH], s[BATCH], k, n;
    bool taken[BATCH], cancelled;
    mtype came[BATCH], memory;
    {
        do
        :: n < MSGS ->
           /* The MPI matches. A receive that is cancelled before leaves the RTS header to the next one. */
           k = 0;
           do
           :: k < BATCH ->
              if
              :: atomic { mpi ? m[k], s[k] -> taken[k] = false; came[k] = NONE }
#ifdef CANCELS
              :: !cancelled -> cancelled = true; goto again
#endif
              :: !alive[S] && empty(mpi) -> goto finish
              fi;
              k++;
#ifdef CANCELS
           again: skip
#endif
           :: atomic { k == BATCH -> break }
           od;
           /* rndv_recv_is_rts, rndv_recv_add_told: what is not to be read. */
           k = 0;
           do
           :: k < BATCH ->
              if
              :: atomic { s[k] == NO || s[k] == NOTHING -> came[k] = (s[k] == NO -> OK : ERROR) }
              :: s[k] < NOTHING -> skip
#ifdef SHORT
              :: s[k] < NOTHING ->
                 take(s[k], taken[k]);
#ifndef FAULT_KEEPS_WHAT_IS_LONG
                 if
                 :: taken[k] -> done(m[k], s[k])
                 :: !taken[k] -> skip
                 fi;
#endif
                 came[k] = ERROR; fails = true
#endif
#ifdef SHORTEST
              :: s[k] < NOTHING -> came[k] = ERROR; fails = true
#endif
              fi;
              k++
           :: atomic { k == BATCH -> break }
           od;
           /* rndv_recvs_run: begin of all, */
           k = 0;
           do
           :: k < BATCH && came[k] == NONE ->
#ifdef FAULT_LOOKS_BEFORE_TAKEN
              memory = slot[s[k]].memory;
#endif
              take(s[k], taken[k]);
              if
              :: atomic { !taken[k] -> came[k] = ERROR; s[k] = NOTHING }
              :: taken[k] -> skip
              fi;
              k++
           :: atomic { k < BATCH && came[k] != NONE -> s[k] = NOTHING; k++ }
           :: atomic { k == BATCH -> break }
           od;
           /* run_on and rndv_recv_rest, */
           k = 0;
           do
           :: k < BATCH && s[k] != NOTHING ->
#ifdef FAULT_DONE_EARLY
              done(m[k], s[k]);
#endif
              read_payload(m[k], s[k], memory, came[k]);
              if
              :: came[k] == NONE -> rndv_recv_fallback(m[k], s[k], came[k])
              :: came[k] != NONE -> skip
              fi;
              k++
           :: atomic { k < BATCH && s[k] == NOTHING -> k++ }
           :: atomic { k == BATCH -> break }
           od;
           /* and the word to all senders. */
           k = 0;
           do
           :: k < BATCH ->
              if
              :: s[k] != NOTHING ->
#ifndef FAULT_DONE_EARLY
                 done(m[k], s[k])
#else
                 skip
#endif
              :: s[k] == NOTHING -> skip
              fi;
              receive_returns(m[k], came[k]);
              atomic { m[k] = 0; s[k] = 0; taken[k] = false; came[k] = 0; memory = 0; k++ }
           :: atomic { k == BATCH -> break }
           od;
           n = n + BATCH
        :: n == MSGS -> break
        od;
finish: leaving = true;                             /* MPI_Finalize: rndv_send_finish */
        over[1] = true
    } unless {
        atomic {                                    /* nobody sees what it had */
            !alive[R] -> reads_user = 0; reads_own = 0; n = 0; cancelled = false; memory = 0; k = 0;
            do
            :: k < BATCH -> m[k] = 0; s[k] = 0; taken[k] = false; came[k] = 0; k++
            :: else -> k = 0; break
            od
        }
    }
}

#ifdef LTL
/* Every call of a process that lives ends. A refusal is answered. */
ltl ends { <> (over[0] || !alive[S]) && <> (over[1] || !alive[R]) }
ltl answered { [] (slot[0].state == NACK -> <> (slot[0].state != NACK || !alive[S])) }
#endif

/* Ends one process, or none, at any time. */
proctype death()
{
    if
#if DIES == 1 || DIES == 3
    :: alive[S] = false
#endif
#if DIES == 2 || DIES == 3
    :: alive[R] = false
#endif
    :: skip
    fi
}

/* Looks at what is left when all have ended. (4, 5) */
proctype judge()
{
    byte m;
    atomic {
        (!alive[S] || over[0]) && (!alive[R] || over[1]);
        m = 0;
        do
        :: m < SLOTS && alive[S] ->
           assert(of_slot[m] == 0 && (slot[m].state == FREE || slot[m].state == 0));
           assert(!alive[R] || file[m] == 0);
           m++
        :: else -> break
        od;
        m = 0;
        do
        :: m < MSGS ->
           assert(!alive[S] || sent[m] != NONE);
           assert(!alive[S] || !alive[R] || got[m] != NONE);
           assert(!alive[S] || !alive[R] || fails || got[m] == OK || sent[m] != OK);
           m++
        :: else -> break
        od
    }
}

init {
    atomic {
        run sender();
        run progress_thread();
        run receiver();
        run death();
        run judge()
    }
}
