/* spinlock.c: see spinlock.h. */
#include "spinlock.h"

bool latch_calls;
