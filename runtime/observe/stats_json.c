/* stats_json.c: the statistics as JSON, for STRIDEC_STATS=json:FILE. runtime/api/stats.schema.json describes it; a new
 * meaning of a member makes a new `format`. */
#include "base/json_text.h"
#include "base/output.h"
#include "stats_notes.h"
#include "stats_sums.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FORMAT 1

/* ---- values ---- */

/* Writes a string; NULL as null. Bytes that are no UTF-8 become the replacement character. */
static void put_text(FILE *f, const char *text)
{
    if (text) json_text(f, text, "\\ufffd");
    else fputs("null", f);
}

static void put_member(FILE *f, const char *name, const char *text)
{
    fprintf(f, "\"%s\": ", name);
    put_text(f, text);
}

/* Writes a number; a negative one, which is unknown, as null. */
static void put_count(FILE *f, const char *name, int64_t value)
{
    if (value < 0) fprintf(f, "\"%s\": null", name);
    else fprintf(f, "\"%s\": %lld", name, (long long)value);
}

static void put_real(FILE *f, const char *name, double value)
{
    if (value <= 0) fprintf(f, "\"%s\": null", name);
    else fprintf(f, "\"%s\": %.6g", name, value);
}

static void put_calls(FILE *f, int64_t calls, int64_t bytes)
{
    put_count(f, "calls", calls), fputs(", ", f), put_count(f, "bytes", bytes);
}

static void separate(FILE *f, bool first)
{
    fputs(first ? "\n    " : ",\n    ", f);
}

/* ---- members ---- */

static void put_head(FILE *f, const struct stats_job *job)
{
    char date[32] = "", mpi[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length = 0;
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    PMPI_Get_library_version(mpi, &length);
    mpi[strcspn(mpi, "\n")] = 0;
    struct stats_sums s = stats_job_sums(job);
    fputs("{\n  ", f);
    put_member(f, "stridec", stats_version);
    fprintf(f, ", \"format\": %d, ", FORMAT);
    put_member(f, "date", date), fputs(",\n  ", f);
    put_member(f, "program", stats_program()), fputs(",\n  ", f);
    put_member(f, "mpi", mpi);
    fprintf(f, ",\n  \"ranks\": %d, ", job->ranks);
    put_count(f, "hosts", job->hosts ? job->hosts : -1);
    fprintf(f, ", \"seconds\": %.6g,\n  \"gpu\": {", job->seconds);
    put_member(f, "name", job->gpu), fputs(", ", f), put_real(f, "copy_GB_s", job->copy_rate);
    fputs("},\n  ", f), put_member(f, "empty", job->empty);
    fputs(",\n  \"totals\": {", f), put_calls(f, s.calls, s.bytes);
    fprintf(f, ", \"left_calls\": %lld, \"left_bytes\": %lld}", (long long)s.left_calls, (long long)s.left_bytes);
}

static void put_protocols(FILE *f, const struct stats_job *job)
{
    struct stats_sums_list list = stats_by_protocol(job);
    struct stats_notes notes = stats_notes_of(job);
    fputs(",\n  \"protocols\": [", f);
    for (int i = 0; i < list.count; i++) {
        bool first = true;
        separate(f, i == 0);
        fputc('{', f), put_member(f, "name", list.sum[i].name), fputs(", ", f);
        put_calls(f, list.sum[i].calls, list.sum[i].bytes);
        fputs(", \"why\": [", f);
        for (int n = 0; n < notes.count; n++) {
            if (strcmp(notes.note[n].way->protocol, list.sum[i].name) != 0) continue;
            fputs(first ? "" : ", ", f), put_text(f, notes.note[n].way->why);
            first = false;
        }
        fputs("]}", f);
    }
    fputs("]", f);
    stats_notes_free(&notes);
    stats_sums_free(&list);
}

static void put_ways(FILE *f, const struct stats_total *t)
{
    fputs(",\n     \"ways\": [", f);
    for (int i = 0; i < t->ways; i++) {
        const struct stats_way *w = &t->way[i];
        fputs(i ? ",\n       {" : "\n       {", f);
        put_member(f, "protocol", w->protocol), fputs(", ", f);
        put_count(f, "message_bytes", w->message_bytes), fputs(", ", f);
        put_calls(f, w->calls, w->bytes);
        fputs(", ", f), put_member(f, "why", *w->why ? w->why : NULL), fputc('}', f);
    }
    fputs("]", f);
}

static void put_left(FILE *f, const struct stats_total *t)
{
    fputs(",\n     \"left\": [", f);
    for (int i = 0; i < STATS_REASONS && t->left[i].why; i++) {
        fputs(i ? ", {" : "{", f), put_member(f, "why", t->left[i].why), fputs(", ", f);
        put_calls(f, t->left[i].calls, t->left[i].bytes), fputc('}', f);
    }
    if (stats_uncounted(t)) {
        fputc('{', f), put_member(f, "why", stats_uncounted(t)), fputs(", ", f);
        put_calls(f, -1, -1), fputc('}', f);
    }
    fputs("]", f);
}

static void put_type(FILE *f, const struct stats_total *t)
{
    bool first = true;
    fputs("{\"names\": [", f);
    for (int i = 0; i < STATS_NAMES && t->names[i]; i++) fputs(i ? ", " : "", f), put_text(f, t->names[i]);
    fputs("], ", f), put_member(f, "reads", t->reads);
    fputs(",\n     ", f), put_member(f, "signature", t->signature);
    fputs(",\n     ", f), put_member(f, "form", t->form);
    fputs(", ", f), put_member(f, "family", t->family);
    fprintf(f, ",\n     \"size\": %lld, \"extent\": %lld, ", (long long)t->size, (long long)t->extent);
    put_calls(f, t->calls, t->bytes);
    fputs(", \"kernel\": {", f);
    for (int i = 0; i < STATS_STATES; i++) {
        if (!t->states[i]) continue;
        fprintf(f, "%s\"%s\": %lld", first ? "" : ", ", stats_state_names[i], (long long)t->states[i]);
        first = false;
    }
    fprintf(f, "}, \"launches\": %lld, ", (long long)t->launches);
    put_real(f, "GB_s", t->nanoseconds ? (double)t->timed / (double)t->nanoseconds : 0);
    put_ways(f, t), put_left(f, t);
    fputs(",\n     \"remarks\": [", f);
    for (const struct stats_line *l = t->lines; l; l = l->next) put_text(f, l->text), fputs(l->next ? ", " : "", f);
    fputs("]}", f);
}

static void put_types(FILE *f, const struct stats_job *job)
{
    fputs(",\n  \"types\": [", f);
    for (const struct stats_total *t = job->types; t; t = t->hh.next) {
        separate(f, t == job->types);
        put_type(f, t);
    }
    fputs("]", f);
}

static void put_reasons(FILE *f, const struct stats_job *job)
{
    struct stats_sums_list list = stats_by_reason(job);
    fputs(",\n  \"left\": [", f);
    for (int i = 0; i < list.count; i++) {
        const struct stats_sum *r = &list.sum[i];
        separate(f, i == 0);
        fputc('{', f), put_member(f, "why", r->name), fputs(", ", f);
        put_calls(f, r->counted ? r->calls : -1, r->counted ? r->bytes : -1), fputc('}', f);
    }
    if (job->unread) {
        separate(f, list.count == 0);
        fprintf(f, "{\"why\": \"" STATS_UNREAD "\", ", STATS_UNREAD_OF(job));
        put_calls(f, -1, -1), fputc('}', f);
    }
    fputs("]", f);
    stats_sums_free(&list);
}

static void put_pairs(FILE *f, const struct stats_job *job)
{
    fprintf(f, ",\n  \"pairs\": {\"ranks\": %d, \"bytes\": [", job->ranks);
    for (size_t i = 0; i < job->pairs; i++) {
        const struct stats_pair *p = &job->pair[i];
        fputs(i == 0 ? "\n    " : i % 4 ? ", " : ",\n    ", f);
        fprintf(f, "[%d, %d, %lld]", p->from, p->to, (long long)p->bytes);
    }
    fputs("]}\n}\n", f);
}

bool stats_json(const struct stats_job *job, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return false;
    put_head(f, job);
    put_protocols(f, job), put_types(f, job), put_reasons(f, job), put_pairs(f, job);
    bool good = fclose(f) == 0 && output_write(path, 0666, text, size);
    int error = errno;
    free(text);
    errno = error;
    return good;
}
