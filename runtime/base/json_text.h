/* json_text.h: strings of JSON, for the files that the library writes. */
#ifndef STRIDEC_JSON_TEXT_H
#define STRIDEC_JSON_TEXT_H
#include <stdio.h>

/* Writes a text as a JSON string. Each byte that belongs to no UTF-8 character becomes `instead`: "?", or an escape. */
void json_text(FILE *f, const char *text, const char *instead);

#endif
