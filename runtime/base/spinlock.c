/* spinlock.c: see spinlock.h. */
#include "spinlock.h"

bool spinlock_needed;
