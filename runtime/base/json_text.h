/* json_text.h: strings of JSON, for files and reports. */
#ifndef STRIDEC_JSON_TEXT_H
#define STRIDEC_JSON_TEXT_H
#include <stdio.h>

/* Returns the bytes of the UTF-8 character at `text`; 0 if there is none (RFC 3629: in its shortest form, no surrogate,
 * at most U+10FFFF). */
int utf8_bytes(const char *text);
/* Writes a text as a JSON string. Each byte that belongs to no UTF-8 character becomes `instead`: "?", or an escape. */
void json_text(FILE *f, const char *text, const char *instead);

#endif
