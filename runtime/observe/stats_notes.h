/* stats_notes.h: reasons of the statistics that differ in their figures alone, as one note. */
#ifndef STRIDEC_STATS_NOTES_H
#define STRIDEC_STATS_NOTES_H
#include "stats_job.h"

struct stats_note {
    const struct stats_way *way;   /* with most bytes of those that this note tells of */
    int64_t bytes;                 /* of all */
    int alike;                     /* how many */
};
struct stats_notes {
    struct stats_note *note;       /* most bytes first */
    int count;
};

/* Returns the notes of all ways that have a reason; free with stats_notes_free. */
struct stats_notes stats_notes_of(const struct stats_job *job);
/* Returns the note of a way; -1 if it has none. */
int stats_notes_find(const struct stats_notes *n, const struct stats_way *way);
void stats_notes_free(struct stats_notes *n);

#endif
