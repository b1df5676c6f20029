/* text.c: text that fits the terminal, and its colours. */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH 80         /* where the terminal does not tell */
#define WIDTH_LEAST 40

int text_width(void)
{
    const char *columns = getenv("COLUMNS");
    int width = columns ? atoi(columns) : 0;
    struct winsize size;
    if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    return width <= 0 ? WIDTH : width < WIDTH_LEAST ? WIDTH_LEAST : width;
}

/* Returns the columns that bytes of UTF-8 take. */
static int columns_of(const char *text, size_t bytes)
{
    int n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

void text_wrap(int column, int indent, const char *text)
{
    int width = text_width(), at = column;
    bool begun = false;   /* a word stands on this line */
    for (size_t bytes; *text; text += bytes) {
        if (*text == '\n' || *text == ' ') {
            bytes = 1;
            if (*text == '\n')
                printf("\n%*s", text[1] ? indent : 0, ""), at = indent, begun = false;
            continue;
        }
        bytes = strcspn(text, " \n");
        int word = columns_of(text, bytes);
        if (begun && at + 1 + word > width)
            printf("\n%*s", indent, ""), at = indent, begun = false;
        at += printf("%s%.*s", begun ? " " : "", (int)bytes, text) - (int)bytes + word;
        begun = true;
    }
    putchar('\n');
}

static bool coloured;

bool text_colours(const char *when)
{
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (strcmp(when, "auto") == 0)
        coloured = isatty(STDOUT_FILENO) && !(none && *none) && !(terminal && strcmp(terminal, "dumb") == 0);
    else if (strcmp(when, "always") == 0 || strcmp(when, "never") == 0)
        coloured = when[0] == 'a';
    else
        return false;
    return true;
}

const char *text_colour(enum colour colour)
{
    static const char *const codes[] = {"\033[m", "\033[32m", "\033[33m", "\033[1;31m", "\033[2m"};
    return coloured ? codes[colour] : "";
}
