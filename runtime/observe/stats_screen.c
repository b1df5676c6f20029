/* stats_screen.c: one screen, for STRIDEC_STATS=1: at most WIDTH columns and some 40 lines. */
#include "stats_notes.h"
#include "stats_sums.h"
#include <string.h>

#define WIDTH 100
/* Most rows of a section. */
#define PROTOCOLS 6
#define TYPES 10
#define LEFT 5
#define NOTES 8

/* ---- texts ---- */

struct cell {
    char text[24];
};

/* Returns a number with four figures and a prefix at most: "12345", "1.235 M". */
static struct cell short_number(double value, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    struct cell c;
    int i = 0;
    double least = *unit ? 1e3 : 1e6;
    while (i < 5 && value >= (i ? 999.95 : least)) {
        if (!i) value /= least == 1e6 ? 1e6 : 1e3, i += least == 1e6 ? 2 : 1;
        else value /= 1e3, i++;
    }
    bool prefixed = *unit || i;
    snprintf(c.text, sizeof c.text, "%.*f%s%s%s", i ? 1 : 0, value, prefixed ? " " : "", prefixes[i], unit);
    return c;
}

static struct cell bytes_text(int64_t bytes)
{
    return short_number((double)bytes, "B");
}

static struct cell share(int64_t part, int64_t whole)
{
    struct cell c = {"-"};
    if (whole) snprintf(c.text, sizeof c.text, "%.0f%%", 100.0 * (double)part / (double)whole);
    return c;
}

/* Prints text on the rest of a line that begins in column `used`, cut to fit. */
static void print_cut(const char *text, int used)
{
    int room = WIDTH - used;
    if ((int)strlen(text) <= room) fprintf(stderr, "%s\n", text);
    else fprintf(stderr, "%.*s...\n", room - 3, text);
}

/* Adds the letter of a way's note to a text in order, without repeats. */
static void add_letter(char letters[NOTES + 1], const struct stats_notes *notes, const struct stats_way *way)
{
    int i = stats_notes_find(notes, way);
    size_t n = strlen(letters);
    if (i < 0 || i >= NOTES || strchr(letters, 'a' + i)) return;
    for (letters[n + 1] = 0; n && letters[n - 1] > 'a' + i; n--) letters[n] = letters[n - 1];
    letters[n] = (char)('a' + i);
}

/* ---- sections ---- */

static void print_head(const struct stats_job *job, const struct stats_sums *s)
{
    char line[256], hosts[32] = "";
    unsigned types = HASH_COUNT(job->types);
    if (job->hosts) snprintf(hosts, sizeof hosts, " on %d host%s", job->hosts, job->hosts == 1 ? "" : "s");
    snprintf(line, sizeof line, "stridec %s: %.60s, %d rank%s%s, %.2f s%s%s", stats_version, stats_program(),
             job->ranks, job->ranks == 1 ? "" : "s", hosts, job->seconds, job->gpu ? ", " : "",
             job->gpu ? job->gpu : "");
    print_cut(line, 0);
    if (job->empty) {
        snprintf(line, sizeof line, "  nothing was counted: %s", job->empty);
        print_cut(line, 0);
        return;
    }
    fprintf(stderr, "  %u datatype%s: by stridec %s calls, %s; left to the MPI %s calls, %s (%s of the bytes)\n", types,
            types == 1 ? "" : "s", short_number((double)s->calls, "").text, bytes_text(s->bytes).text,
            short_number((double)s->left_calls, "").text, bytes_text(s->left_bytes).text,
            share(s->left_bytes, s->bytes + s->left_bytes).text);
}

/* `all`: the bytes of all types, in this and the next section. */
static void print_protocols(const struct stats_job *job, const struct stats_notes *notes, int64_t all)
{
    struct stats_sums_list list = stats_by_protocol(job);
    if (list.count) fprintf(stderr, "\n  %-12s %8s %9s %5s  %s\n", "protocol", "calls", "bytes", "share", "why");
    for (int i = 0; i < list.count && i < PROTOCOLS; i++) {
        const struct stats_sum *p = &list.sum[i];
        char letters[NOTES + 1] = "";
        for (const struct stats_total *t = job->types; t; t = t->hh.next)
            for (int w = 0; w < t->ways; w++)
                if (!strcmp(t->way[w].protocol, p->name)) add_letter(letters, notes, &t->way[w]);
        fprintf(stderr, "  %-12s %8s %9s %5s  %s\n", p->name, short_number((double)p->calls, "").text,
                bytes_text(p->bytes).text, share(p->bytes, all).text, letters);
    }
    if (list.count > PROTOCOLS) fprintf(stderr, "  %d more\n", list.count - PROTOCOLS);
    stats_sums_free(&list);
}

/* Returns where the kernel came from: the state of most ranks, and the number of the others. */
static struct cell kernel_text(const int64_t states[STATS_STATES])
{
    struct cell c = {"-"};
    int most = 0;
    int64_t others = 0;
    for (int i = 0; i < STATS_STATES; i++) {
        if (states[i] > states[most]) most = i;
        others += states[i];
    }
    others -= states[most];
    if (!states[most]) return c;
    if (others) snprintf(c.text, sizeof c.text, "%s +%lld", stats_state_names[most], (long long)others);
    else snprintf(c.text, sizeof c.text, "%s", stats_state_names[most]);
    return c;
}

/* Writes the name that the program gave, then how the constructor reads, else the signature. */
static void type_words(const struct stats_sum *s, char *text, size_t size)
{
    const struct stats_total *t = s->most;
    const char *reads = t->reads ? t->reads : t->signature, *name = t->names[0];
    char many[24] = "";
    if (s->types > 1) snprintf(many, sizeof many, "%dx ", s->types);
    snprintf(text, size, "%s%s%s%s", many, name ? name : "", name ? ": " : "", reads);
}

static void print_type(const struct stats_job *job, const struct stats_notes *notes, const struct stats_sum *s,
                       int64_t all)
{
    char letters[NOTES + 1] = "", words[256], line[WIDTH + 1];
    struct cell rate = {"-"};
    for (const struct stats_total *t = job->types; t; t = t->hh.next)
        for (int w = 0; w < t->ways && !strcmp(t->form, s->name); w++) add_letter(letters, notes, &t->way[w]);
    if (s->nanoseconds) snprintf(rate.text, sizeof rate.text, "%.2g", (double)s->timed / (double)s->nanoseconds);
    type_words(s, words, sizeof words);
    int used = snprintf(line, sizeof line, "  %8s %9s %5s %7s %-9s %-4s ", short_number((double)s->calls, "").text,
                        bytes_text(s->bytes).text, share(s->bytes, all).text, rate.text,
                        kernel_text(s->states).text, letters);
    fputs(line, stderr);
    print_cut(words, used);
}

static void print_types(const struct stats_job *job, const struct stats_notes *notes, int64_t all)
{
    struct stats_sums_list list = stats_by_form(job);
    if (list.count)
        fprintf(stderr, "\n  %8s %9s %5s %7s %-9s %-4s %s\n", "calls", "bytes", "share", "GB/s", "kernel", "why",
                "type (4x: four types of one form)");
    for (int i = 0; i < list.count && i < TYPES; i++) print_type(job, notes, &list.sum[i], all);
    if (list.count > TYPES) fprintf(stderr, "  %d more forms\n", list.count - TYPES);
    stats_sums_free(&list);
}

static void print_left(const struct stats_job *job)
{
    struct stats_sums_list list = stats_by_reason(job);
    if (list.count || job->unread) fprintf(stderr, "\n  left to the MPI:\n");
    for (int i = 0; i < list.count && i < LEFT; i++) {
        const struct stats_sum *r = &list.sum[i];
        char words[256];
        snprintf(words, sizeof words, "%s (%d type%s)", r->name, r->types, r->types == 1 ? "" : "s");
        fprintf(stderr, "  %9s %9s  ", r->counted ? short_number((double)r->calls, "").text : "uncounted",
                r->counted ? bytes_text(r->bytes).text : "-");
        print_cut(words, 23);
    }
    if (list.count > LEFT) fprintf(stderr, "  %d more reasons\n", list.count - LEFT);
    if (job->unread)
        fprintf(stderr, "  %9s %9s  " STATS_UNREAD "\n", "uncounted", "-", STATS_UNREAD_OF(job));
    stats_sums_free(&list);
}

static void print_notes(const struct stats_notes *notes)
{
    if (notes->count) fputc('\n', stderr);
    for (int i = 0; i < notes->count && i < NOTES; i++) {
        const struct stats_note *n = &notes->note[i];
        char line[400], others[32] = "";
        if (n->alike > 1) snprintf(others, sizeof others, " and %d alike", n->alike - 1);
        if (n->way->message_bytes < 0)
            snprintf(line, sizeof line, "%s%s: %.280s", n->way->protocol, others, n->way->why);
        else
            snprintf(line, sizeof line, "%s, %lld bytes%s: %.280s", n->way->protocol, (long long)n->way->message_bytes,
                     others, n->way->why);
        fprintf(stderr, "  %c  ", 'a' + i);
        print_cut(line, 5);
    }
    if (notes->count > NOTES) fprintf(stderr, "  %d more\n", notes->count - NOTES);
}

void stats_screen(const struct stats_job *job)
{
    struct stats_notes notes = stats_notes_of(job);
    struct stats_sums sums = stats_job_sums(job);
    print_head(job, &sums);
    print_protocols(job, &notes, sums.bytes);
    print_types(job, &notes, sums.bytes);
    print_left(job);
    print_notes(&notes);
    if (job->types) fprintf(stderr, "\n  every type and signature: --stats=all\n");
    stats_notes_free(&notes);
}
