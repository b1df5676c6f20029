/* json_text.c: see json_text.h. */
#include "json_text.h"
#include <stdbool.h>

/* Returns the bytes of the UTF-8 character at c; 0 if there is none. */
static int utf8_bytes(const char *c)
{
    const unsigned char *u = (const unsigned char *)c;
    int n = *u < 0x80 ? 1 : *u >= 0xc2 && *u < 0xe0 ? 2 : (*u & 0xf0) == 0xe0 ? 3 : *u >= 0xf0 && *u < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((u[i] & 0xc0) != 0x80) return 0;
    bool over = (*u == 0xe0 && u[1] < 0xa0) || (*u == 0xed && u[1] > 0x9f) || (*u == 0xf0 && u[1] < 0x90) ||
                (*u == 0xf4 && u[1] > 0x8f);
    return over ? 0 : n;
}

void json_text(FILE *f, const char *text, const char *instead)
{
    fputc('"', f);
    while (*text) {
        int n = utf8_bytes(text);
        if (!n) fputs(instead, f), n = 1;
        else if ((unsigned char)*text < ' ') fprintf(f, "\\u%04x", *text);
        else if (*text == '"' || *text == '\\') fprintf(f, "\\%c", *text);
        else fwrite(text, 1, (size_t)n, f);
        text += n;
    }
    fputc('"', f);
}
