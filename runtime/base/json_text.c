/* json_text.c: see json_text.h. */
#include "json_text.h"

int utf8_bytes(const char *text)
{
    const unsigned char *at = (const unsigned char *)text, first = at[0];
    unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4 || at[1] < least || at[1] > most) return 0;
    int n = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    for (int i = 2; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return n;
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
