/* select.h: why a message takes its transport (transport.h chooses it). */
#ifndef STRIDEC_CHOOSE_H
#define STRIDEC_CHOOSE_H
#include "datatype/layout.h"
#include "tune/verdict.h"

/* Why a message that went from memory to memory did, or one that was packed. */
void select_explain(const struct layout *l, int64_t count, int64_t bytes, bool direct, char why[TUNE_WHY_MAX]);

#endif
