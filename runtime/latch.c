/* latch.c: see latch.h. */
#include "latch.h"

bool latch_calls;
