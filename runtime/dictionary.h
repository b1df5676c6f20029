/* dictionary.h: uthash, which where there is no memory says so before it ends the process (its default: exit without a word). */
#ifndef STRIDEC_DICTIONARY_H
#define STRIDEC_DICTIONARY_H
#include "log.h"
#define uthash_fatal(what) log_fatal("no memory for a table (uthash: %s)", what)
#include <uthash.h>

#endif
