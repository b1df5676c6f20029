/* window.pml: epochs of stridec's own windows (window_epoch.c): the lock of a rank, and with -DGROUPS post and start.
 *
 * variable    meaning                                          written by
 * lock        readers, or WRITER, and WANTED                   try_shared, try_exclusive, release
 * posted      posts of the target so far                       window_post
 * completed   epochs that the origin has ended                 window_complete
 *
 * A rank that is kept out looks again once the variable has changed: one that would look for ever is stuck here. */
#ifndef ROUNDS
#define ROUNDS 2
#endif

#ifndef GROUPS

#define WRITER 128
#define WANTED 64

byte lock;
byte reading, writing;       /* ranks that hold it */

inline swap(next)
{
    atomic {
        if
        :: lock == is -> lock = next; had = true
        :: else -> skip
        fi
    }
}

inline try_shared()
{
    is = lock;
    if
    :: (is & (WRITER | WANTED)) -> lock != is            /* await */
    :: else -> swap(is + 1)
    fi
}

inline try_exclusive()
{
    is = lock;
    if
#ifdef FAULT_LOOKS_FOR_WRITERS
    :: (is & WRITER) ->
#else
    :: (is & (WRITER | (WANTED - 1))) ->
#endif
       if
       :: (is & WANTED) -> lock != is                    /* await */
       :: else -> lock = lock | WANTED
       fi
    :: else -> swap(WRITER)
    fi
}

active [2] proctype reader()
{
    byte is, n;
    bool had;
    do
    :: n < ROUNDS ->
       n++;
       had = false;
       do
       :: had -> break
       :: else ->
          try_shared()
       od;
       reading++;
       assert(!writing);
       reading--;
#ifdef FAULT_READER_WANTS
       lock = (lock & (WANTED - 1)) - 1 + WANTED         /* release */
#else
       lock = lock - 1                                   /* release */
#endif
    :: else -> break
    od
}

active [2] proctype writer()
{
    byte is, n;
    bool had;
    do
    :: n < ROUNDS ->
       n++;
       had = false;
       do
       :: had -> break
       :: else ->
          try_exclusive()
       od;
       writing++;
       assert(writing == 1 && !reading);
       writing--;
       lock = lock & (WRITER - 1)                        /* release */
    :: else -> break
    od
}

#else

byte posted, completed;
bool exposed;                /* the target's memory */

active proctype target()
{
    byte completes, n;
    do
    :: n < ROUNDS ->
       n++;
       exposed = true;
       posted++;                                         /* window_post */
       completed != completes;                           /* window_wait */
       completes++;
       exposed = false
    :: else -> break
    od
}

active proctype origin()
{
    byte posts, n;
    do
    :: n < ROUNDS ->
       n++;
       posted != posts;                                  /* window_start */
#ifndef FAULT_COUNTS_NO_POSTS
       posts++;
#endif
       assert(exposed);
       completed++                                       /* window_complete */
    :: else -> break
    od
}

#endif
