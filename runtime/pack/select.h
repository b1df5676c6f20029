/* select.h: explains why a message takes its transport (transport.h selects it). */
#ifndef STRIDEC_SELECT_H
#define STRIDEC_SELECT_H
#include "datatype/layout.h"
#include "tune/verdict.h"

/* Writes the reason why a message was sent by zero-copy (`direct`) or packed. */
void select_explain(const struct layout *l, int64_t count, int64_t bytes, bool direct, char why[TUNE_WHY_MAX]);

#endif
