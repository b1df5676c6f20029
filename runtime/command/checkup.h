/* checkup.h: what `stridec doctor` finds: lines with a level, a name, a text and what mends it. Those of several ranks
 * become one list. One thread. */
#ifndef STRIDEC_COMMAND_CHECKUP_H
#define STRIDEC_COMMAND_CHECKUP_H

#include <stdbool.h>

/* ORDER LEVEL. LEVEL_NONE: not possible here, and no fault. */
enum level { LEVEL_NONE, LEVEL_OK, LEVEL_WARN, LEVEL_BAD };

struct finding {
    enum level level;
    char check[16], name[24];   /* the row of doctor's table; what the line is about, often the same */
    char *text, *fix;           /* one line each; fix is "" if there is nothing to mend */
    unsigned char *ranks;       /* a byte for each rank: has it. NULL until lists are merged */
};
struct checkup {
    const char *check;          /* of findings that are added; set by the caller */
    struct finding *finding;    /* malloc'd */
    int count, ranks;           /* ranks: 0 until lists are merged */
};

/* Add a finding, named like the check or otherwise; then what mends the last one. Ends the process without memory. */
void checkup_add(struct checkup *c, enum level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
void checkup_add_named(struct checkup *c, enum level level, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void checkup_fix(struct checkup *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the gravest level; LEVEL_OK if none is graver. */
enum level checkup_worst(const struct checkup *c);

/* Returns all as text for checkup_merge, malloc'd. */
char *checkup_pack(const struct checkup *c);
/* Adds the findings of a rank; equal ones become one. Call it by ascending ranks on a list that is empty at first. */
void checkup_merge(struct checkup *c, const char *packed, int rank, int ranks);

/* Print to standard output: lines that fit the terminal, or one JSON object. Its members: "stridec" (the version),
 * "ranks" (how many were looked at), "worst" (a level), "findings": objects with "level" ("none", "ok", "warn", "bad"),
 * "check", "name", "text", "fix" ("" for none) and "ranks" ("0-3,5", "" for a process without a job or for all). */
void checkup_print(const struct checkup *c);
void checkup_print_json(const struct checkup *c, const char *version);
void checkup_free(struct checkup *c);

#endif
