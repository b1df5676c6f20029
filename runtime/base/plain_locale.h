/* plain_locale.h: the C locale for this thread: numbers in files have a decimal point wherever the program runs. */
#ifndef STRIDEC_PLAIN_LOCALE_H
#define STRIDEC_PLAIN_LOCALE_H
#include <locale.h>

struct plain_locale {
    locale_t plain, was;
};

/* Begins it, and returns what plain_locale_leave takes. Changes nothing without memory. */
static inline struct plain_locale plain_locale_enter(void)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);   /* cheap: glibc has it ready */
    return (struct plain_locale){plain, uselocale(plain)};
}

static inline void plain_locale_leave(struct plain_locale l)
{
    uselocale(l.was);
    if (l.plain) freelocale(l.plain);
}

#endif
