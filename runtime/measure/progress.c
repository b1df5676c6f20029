/* progress.c: see progress.h. */
#include "progress.h"
#include "observe/stats.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR 24              /* characters */
#define REDRAW_S 0.1

static struct {
    int64_t start;          /* ns */
    double seconds, until;  /* of all; the stage's end, since start */
    double stage, drawn;    /* when the stage began, and when the bar was drawn last */
    bool tells, bar;
    int parts;              /* of work without a time to keep to; 0: it has one */
    char what[64];
} now;

double progress_elapsed(void)
{
    return (double)(stats_now() - now.start) / 1e9;
}

bool progress_time_for(double seconds)
{
    return progress_elapsed() + seconds <= now.until;
}

double progress_mean(int done)
{
    return (progress_elapsed() - now.stage) / done;
}

/* Returns the most that is left: what the stage still needs, and what the stages behind it may take. */
static double left(int done, int total)
{
    double at = progress_elapsed(), stage = now.until - at;
    double needs = done ? progress_mean(done) * (total - done) : stage;
    double sum = (needs < stage ? needs : stage) + now.seconds - now.until;
    return sum > 0 ? sum : 0;
}

/* Draws `part` of the bar, and what is done. The caller ends the line and flushes it. */
static void draw_bar(double part)
{
    int full = part < 1 ? (int)(part * BAR) : BAR;
    fprintf(stderr, "\r[%.*s%.*s] %s", full, "########################", BAR - full, "........................",
            now.what);
    now.drawn = progress_elapsed();
}

static void draw(int done, int total)
{
    draw_bar(progress_elapsed() / now.seconds);
    if (total) fprintf(stderr, " %d of %d", done, total);
    fprintf(stderr, ", at most %.0f s left\033[K", left(done, total));
    fflush(stderr);
}

void progress_begin(double seconds, bool tells)
{
    memset(&now, 0, sizeof now);
    now.start = stats_now(), now.seconds = now.until = seconds;
    now.tells = tells, now.bar = tells && isatty(STDERR_FILENO);
}

void progress_stage(const char *what, double until)
{
    snprintf(now.what, sizeof now.what, "%s", what);
    now.stage = progress_elapsed(), now.until = until * now.seconds;
    if (now.bar) draw(0, 0);
    else progress_say("%s, at most %.0f s left", what, left(0, 0));
}

void progress_step(int done, int total)
{
    if (now.bar && progress_elapsed() - now.drawn >= REDRAW_S) draw(done, total);
}

void progress_parts(int total)
{
    memset(&now, 0, sizeof now);
    now.start = stats_now(), now.parts = total;
    now.bar = total > 0 && isatty(STDERR_FILENO);
}

void progress_part(int done, const char *what)
{
    if (!now.bar || (done && done < now.parts && progress_elapsed() - now.drawn < REDRAW_S)) return;
    snprintf(now.what, sizeof now.what, "%s", what);
    draw_bar((double)done / now.parts);
    fprintf(stderr, ", %d of %d", done, now.parts);
    if (done) fprintf(stderr, ", about %.0f s left", progress_mean(done) * (now.parts - done));
    fputs("\033[K", stderr);
    fflush(stderr);
}

void progress_say(const char *format, ...)
{
    char text[512];
    va_list args;
    if (!now.tells) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* In one piece: mpirun puts what the ranks write together. */
    fprintf(stderr, "%sstridec tune: %s\n", now.bar ? "\r\033[K" : "", text);
}

void progress_end(void)
{
    if (now.bar) fputs("\r\033[K", stderr);
    now.bar = false;
}
