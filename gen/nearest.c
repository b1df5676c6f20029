/* nearest.c: see nearest.h. */
#include "nearest.h"
#include <string.h>

#define WORD_MAX 32   /* longer words are not compared */

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Returns how many letters to insert, delete, change or swap with the next one to get from a to b. */
static int distance(const char *a, const char *b)
{
    int d[WORD_MAX + 1][WORD_MAX + 1], m = (int)strlen(a), n = (int)strlen(b);
    if (m > WORD_MAX || n > WORD_MAX)
        return WORD_MAX;
    for (int i = 0; i <= m; i++)
        for (int j = 0; j <= n; j++) {
            d[i][j] = i ? j ? d[i - 1][j - 1] + (a[i - 1] != b[j - 1]) : i : j;
            if (i && j)
                d[i][j] = least(d[i][j], least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[m][n];
}

void nearest_try(struct nearest *n, const char *name)
{
    int far = distance(n->wanted, name);
    if (far > 2 || 3 * far > (int)strlen(name) || (n->name && far >= n->far))
        return;
    n->name = name, n->far = far;
}
