/* room.pml: messages of host memory, packed into a room while the receiver unpacks them (shm_fill.c, shm_recv.c).
 *
 * No packed byte is overwritten before it was read. The first RING pieces of a room are written again and again while
 * the receiver keeps up; from `turn` on each piece has its own place (shm_pool_offset). A message is PIECES pieces.
 *
 * variable    meaning                                         written by
 * ready       so many pieces are packed                       fill
 * bytes_read  so many were read                               follow (shm_recv.c)
 * turn        from this piece on all have their own places    shm_fill_begin, fill
 * state       as in rndv.pml; a room is never HELD            rndv_send_publish, take, rndv_recvs_run,
 *                                                             rndv_send_withdraw
 *
 * The sender waits for nobody: its patience may end whenever the receiver is behind (await_bytes_read). Either may die. With
 * -DNP: no run is endless. */
#ifndef MSGS
#define MSGS 2
#endif
#define RING 2
#ifndef PIECES
#define PIECES 5
#endif

mtype = { FREE, POSTED, TAKEN, DONE }
mtype state = FREE;
byte room[PIECES];           /* PIECE(n, i): piece i of message n */
byte ready, bytes_read, turn;
#define PIECE(n, i) ((n) * 16 + (i))
bool alive[2] = { true, true };
bool leaving;
byte sends;                  /* that have returned */
chan mpi = [MSGS] of { byte };

#define PLACE(at, turn) ((at) < (turn) -> (at) % RING : (at))

proctype sender()
{
    byte n, at;
    {
        n = 1;
        do
        :: n <= MSGS ->
           bytes_read = 0;                                  /* shm_fill_begin */
           turn = 255;
           ready = 0;
           state = POSTED;                            /* rndv_send_publish */
           mpi ! n;
           at = 0;
           do                                          /* shm_fill_rest: fill */
           :: at < PIECES ->
              if
              :: PLACE(at, turn) < at ->
                 if                                    /* await_bytes_read */
                 :: bytes_read >= at + 1 - RING -> skip
#ifdef FAULT_WAITS_FOR_NOTHING
                 :: skip
#else
                 :: bytes_read < at + 1 - RING -> turn = at
#endif
                 fi
              :: PLACE(at, turn) >= at -> skip
              fi;
              room[PLACE(at, turn)] = PIECE(n, at);
              at++;
              ready = at
           :: at == PIECES -> break
           od;
           sends++;                                    /* leave: the call returns */
           if                                          /* harvest, at the next send or MPI_Finalize */
           :: state == DONE
           :: leaving || !alive[1] -> state = DONE     /* linger */
           fi;
           state = FREE;
           n++
        :: n > MSGS -> break
        od
    } unless { !alive[0] }
}

proctype receiver()
{
    byte n, at, is, t, place, run_, end;
    {
        do
        :: n < MSGS ->
           if
           :: mpi ? n
           :: !alive[0] && empty(mpi) -> break
           fi;
           if                                          /* take */
           :: atomic { state == POSTED -> state = TAKEN }
           :: !alive[0] -> break
           fi;
           at = 0;
           do                                          /* follow */
           :: at < PIECES ->
#ifdef FAULT_TURN_BEFORE_READY
              t = turn;
#endif
              if                                       /* node_await_ready */
              :: ready != at -> is = ready
              :: !alive[0] -> break
              fi;
#ifndef FAULT_TURN_BEFORE_READY
              t = turn;
#endif
              atomic {                                 /* shm_pool_offset */
                  place = PLACE(at, t);
                  end = (at < t -> at - place + RING : is);
                  end = (at < t && end > t -> t : end);
                  end = (end < is -> end : is)
              }
#ifdef FAULT_EATS_BEFORE_READING
              bytes_read = end;
#endif
              do                                       /* write_out */
              :: at < end ->
                 assert(room[place] == PIECE(n, at));
                 at++;
                 place++
              :: at == end -> break
              od;
#ifdef FAULT_EATS_BEFORE_READING
              skip
#else
              bytes_read = at
#endif
           :: at == PIECES -> break
           od;
           state = DONE                                /* rndv_recvs_run */
        :: n == MSGS -> break
        od;
        leaving = true
    } unless { !alive[1] }
}

proctype death()
{
    if
    :: alive[0] = false
    :: alive[1] = false
    :: skip
    fi
}

init {
    atomic {
        run sender();
        run receiver();
        run death()
    }
}
