/* progress.h: how far a command is, on standard error: `stridec tune`, which has a time to keep to, and work that
 * consists of parts (`stridec gen`). One a process; only ranks that tell print. */
#ifndef STRIDEC_MEASURE_PROGRESS_H
#define STRIDEC_MEASURE_PROGRESS_H
#include <stdbool.h>

/* Starts the clock. `tells`: this rank prints, on standard error: a bar on a terminal, else a line a stage. */
void progress_begin(double seconds, bool tells);
/* Begins a stage that may last until a share (0 to 1) of the whole time has passed. */
void progress_stage(const char *what, double until);
/* Tells that `done` of the stage's `total` parts are done. */
void progress_step(int done, int total);
/* Returns true if the stage has time for so many seconds more. */
bool progress_time_for(double seconds);
/* Returns the mean seconds of the stage's first `done` parts. */
double progress_mean(int done);
/* Returns the seconds since progress_begin. */
double progress_elapsed(void);
/* Prints a line, beside the bar. A rank that does not tell prints nothing. */
void progress_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Starts the clock of `total` parts without a time to keep to: a bar on a terminal, else nothing. progress_part tells
 * how many are done, and what comes next. */
void progress_parts(int total);
void progress_part(int done, const char *what);
/* Ends the bar. */
void progress_end(void);

#endif
