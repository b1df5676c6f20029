/* push.pml: messages that the sender packs while the receiver reads (rndv_push.c).
 *
 * The receiver reads only what is there, whether it follows marks or pieces.
 *
 * The payload has PIECES pieces. A wire serves one message after another: its content is the number of the message.
 *
 * variable     meaning                                      written by
 * slot.ready   so many pieces are there; -1: no more come   rndv_send_describe, feed_pieces, feed, rndv_send_feed
 * wire, mark   a piece, and the flag of its chunk            kernels of feed_marked and feed_pieces
 * slot.mark    what a flag is when its chunk is there        rndv_push_prepare: next_mark
 * state        as in rndv.pml; a wire is not moved away     rndv_send_publish, take, rndv_recv_fallback, spill,
 *                                                           rndv_recvs_run
 *
 * The sender may die, its packing may fail, and the receiver may fail to read. -DNP: no run is endless. */
#ifndef MSGS
#define MSGS 2
#endif
#define PIECES 3

mtype = { FREE, POSTED, HELD, TAKEN, NACK, FALLBACK, LOST, DONE }
mtype state = FREE;
short ready;
byte wire[PIECES], mark[PIECES];
byte value;                  /* slot.mark */
byte sends;                  /* the message that the slot is of */
byte file;                   /* the message that was written to a file */
bool chunk;                  /* slot.chunk: chunks are marked */
bool alive = true, over;
chan mpi = [1] of { byte };

inline pack(n, i)
{
    wire[i] = n
}

/* spill: waits until all is packed, or nothing more comes. */
inline spill(n)
{
    if
    :: ready < 0 -> state = LOST
    :: ready == PIECES ->
       assert(wire[0] == n && wire[PIECES - 1] == n);
       file = n;
       state = FALLBACK
    fi
}

proctype sender()
{
    byte n, i;
    {
        n = 1;
        do
        :: n <= MSGS ->
           if                                          /* rndv_push_prepare, rndv_send_describe */
           :: chunk = true
           :: chunk = false
           fi;
#ifdef FAULT_SAME_MARK
           value = 1;
#else
           value = n;                                  /* next_mark */
#endif
           sends = n;
           ready = 0;
           state = POSTED;                            /* rndv_send_publish */
           mpi ! n;
           i = 0;
           do                                          /* feed_marked: one launch */
           :: chunk && i < PIECES -> pack(n, i); mark[i] = value; i++
           :: chunk && i == PIECES -> goto fed
           :: i == 0 -> break                          /* not marked, or the launch is not to be had */
           :: i > 0 -> goto failed                     /* the launch has failed */
           od;
           do                                          /* feed_pieces */
#ifdef FAULT_TELLS_BEFORE_PACKING
           :: i < PIECES -> ready = i + 1; pack(n, i); i++
#else
           :: i < PIECES -> pack(n, i); i++; ready = i
#endif
           :: i == PIECES -> break
           :: i < PIECES -> goto failed                /* typed_buffer_move_range, stream_wait */
           od;
       fed: ready = PIECES;                            /* feed */
           goto wait;
       failed:
#ifndef FAULT_FAILS_SILENTLY
           ready = -1;                                 /* rndv_send_feed */
#else
           skip;
#endif
       wait:
           do                                          /* rndv_send_end leaves the wire, which is stridec's */
           :: atomic { state == NACK -> state = HELD }
              spill(n)
           :: state == DONE -> break                   /* harvest */
           od;
           state = FREE;
           n++
        :: n > MSGS -> break
        od;
        over = true
    } unless { !alive }
}

/* attend: answers while the sender's thread packs. */
proctype progress_thread()
{
    {
        do
        :: atomic { state == NACK -> state = HELD }
           spill(sends)
        :: over -> break
        od
    } unless { !alive }
}

inline read(n, i)
{
    assert(wire[i] == n);
    i++
}

/* node_await_ready: more than `at`, or -1. */
inline node_await_ready(at, is)
{
    if
    :: ready != at -> is = ready
    :: !alive -> is = -1
    fi;
    if
    :: is < at -> is = -1
    :: is >= at -> skip
    fi
}

proctype receiver()
{
    byte n, i;
    short is;
    bool read_all, come;
    {
        do
        :: n < MSGS ->
           come = false;
           if
           :: mpi ? n -> come = true
           :: !alive && empty(mpi) -> break
           fi;
           if                                          /* take */
           :: atomic { state == POSTED -> state = TAKEN }
           :: !alive -> break
           fi;
           i = 0; read_all = false; is = 0;
           if
           :: chunk && ready >= 0 ->                   /* follow_marks: the kernel waits for each mark for a while */
              do
              :: i < PIECES && mark[i] == value -> read(n, i)
              :: i < PIECES && mark[i] != value -> i = 0; break   /* too late: nothing has come */
              :: i == PIECES -> read_all = true; break
              od
           :: skip
           fi;
           do                                          /* follow_pieces */
           :: read_all -> break
           :: !read_all && i == PIECES -> read_all = true
           :: !read_all && i < PIECES ->
              node_await_ready(i, is);
#ifdef FAULT_READS_WHATEVER_COMES
              if
              :: is < 0 -> is = PIECES
              :: else -> skip
              fi;
#endif
              if
              :: is < 0 -> break
              :: is >= 0 ->
                 do
                 :: i < is -> read(n, i)
                 :: i == is -> break
                 od
              fi
           :: !read_all -> break                       /* typed_buffer_move_range, ipc_cache_open */
           od;
           if
           :: read_all -> skip
           :: !read_all ->                             /* rndv_recv_fallback */
              state = NACK;
              if
              :: state == FALLBACK -> assert(file == n)
              :: state == LOST -> skip
              :: !alive -> skip
              fi
           fi;
           state = DONE                                /* rndv_recvs_run */
        :: n == MSGS -> break
        od
    }
}

proctype death()
{
    if
    :: alive = false
    :: skip
    fi
}

init {
    atomic {
        run sender();
        run progress_thread();
        run receiver();
        run death()
    }
}
