/* probed.pml: a synchronous send ends after the match, and a probe is none (probed.h): the probe takes the RTS out of
 * the MPI's queue, for the MPI that is the match, and it completes the RTS's send.
 *
 * variable   meaning                                             written by
 * acked      the MPI has completed the send of the RTS           the MPI
 * probing    node_file.probing: the receiver is taking an RTS    rndv_recv_probing
 * probed     slot.probed, or the mode of a file without a slot:  rndv_recv_probed
 *            it waits in the probed queue
 * matched    the application has posted a receive for it         the application
 *
 * The receiver has THREADS threads, the sender one message to each. The MPI takes the messages in any order. */
#ifndef THREADS
#define THREADS 2
#endif

bool sent[THREADS], acked[THREADS], probed[THREADS], matched[THREADS], taken[THREADS];
byte probing;

proctype sender(byte m)
{
    sent[m] = true;
    acked[m];                                     /* PMPI_Wait, and from here on rndv_send_end */
    do
#ifdef FAULT_LOOKS_AT_THE_SLOT_FIRST
    :: !probed[m] -> if :: !probing -> break :: probing -> skip fi
    :: probed[m] -> skip
#else
    :: !probing -> if :: !probed[m] -> break :: probed[m] -> skip fi
    :: probing -> skip
#endif
    od;
    assert(matched[m]);                           /* MPI_Ssend returns */
}

/* Takes any message out of the MPI's queue, as a probe that looks for m does with earlier ones. */
inline take()
{
    probing++;                                    /* rndv_recv_probing */
    if
    :: atomic { sent[0] && !taken[0] -> taken[0] = true; which = 0 }
    :: atomic { sent[THREADS - 1] && !taken[THREADS - 1] -> taken[THREADS - 1] = true; which = THREADS - 1 }
    :: else -> which = THREADS
    fi;
    if
    :: which < THREADS ->
       acked[which] = true;
#ifdef FAULT_TELLS_AFTERWARDS
       probing--;
       probed[which] = true
#else
       probed[which] = true;                      /* rndv_recv_probed */
       probing--
#endif
    :: which == THREADS -> probing--
    fi
}

proctype receiver(byte m)
{
    byte which = THREADS;
    do
    :: which != m && !taken[m] -> take()
    :: atomic { sent[m] && !taken[m] -> taken[m] = true }   /* a receive finds it in the MPI */
       matched[m] = true; acked[m] = true; break
    :: taken[m] && probed[m] ->                   /* a receive finds it in the probed queue */
       matched[m] = true;
       probed[m] = false; break
    od
}

init {
    atomic {
        run sender(0); run receiver(0);
        run sender(THREADS - 1); run receiver(THREADS - 1)
    }
}
