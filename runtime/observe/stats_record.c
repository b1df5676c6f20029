/* stats_record.c: the types of a run as a spec for `stridec gen`, for STRIDEC_RECORD.
 *
 * All derived types that the ranks committed, used or not: with STRIDEC_AOT each has its kernel asked for at commit.
 * Each is a signature under the name that the program gave it, else t1, t2, ... */
#include "base/output.h"
#include "stats_job.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 200
#define PART_MAX ((size_t)256 << 10)    /* bytes of a string in a spec: SPEC_STRING_MAX is larger */

struct name {
    char text[NAME_MAX_BYTES + 24];
    int next;   /* the number of the next type that wants this name */
    UT_hash_handle hh;
};

/* Copies a name with letters, digits, '_', '.' and '-' only, beginning with a letter or '_'. */
static void clean_name(char *to, const char *from)
{
    size_t n = 0;
    if (!isalpha((unsigned char)*from) && *from != '_') to[n++] = '_';
    for (; *from && n < NAME_MAX_BYTES; from++)
        to[n++] = (char)(isalnum((unsigned char)*from) || strchr("_.-", *from) ? *from : '_');
    to[n] = 0;
}

/* Returns a name that no other type has: `wanted`, else with a number; t1, t2, ... without one. NULL without memory. */
static const char *new_name(struct name **all, const char *wanted, int *unnamed)
{
    struct name *n = calloc(1, sizeof *n), *first, *other;
    char clean[NAME_MAX_BYTES + 1] = "";
    if (!n) return NULL;
    if (wanted) clean_name(clean, wanted), snprintf(n->text, sizeof n->text, "%s", clean);
    else snprintf(n->text, sizeof n->text, "t%d", ++*unnamed);
    HASH_FIND_STR(*all, n->text, first);
    for (other = first; other;) {
        if (wanted) snprintf(n->text, sizeof n->text, "%s_%d", clean, first->next++);
        else snprintf(n->text, sizeof n->text, "t%d", ++*unnamed);
        HASH_FIND_STR(*all, n->text, other);
    }
    n->next = 2;
    HASH_ADD_STR(*all, text, n);
    return n->text;
}

static void put_signature(FILE *f, const char *text)
{
    size_t n = strlen(text);
    if (n <= PART_MAX) {
        fprintf(f, "signature \"%s\"", text);
        return;
    }
    fputs("signature{", f);
    for (size_t at = 0; at < n; at += PART_MAX) fprintf(f, "\n        \"%.*s\",", (int)PART_MAX, text + at);
    fputs("}", f);
}

static void put_type(FILE *f, const struct stats_total *t, const char *name)
{
    fprintf(f, "    [\"%s\"] = ", name);
    put_signature(f, t->whole);
    fprintf(f, ",%s%s\n", t->reads ? "   -- " : "", t->reads ? t->reads : "");
}

static void put_types(FILE *f, const struct stats_job *job)
{
    struct name *names = NULL, *n, *next;
    size_t bytes = 0;
    int unnamed = 0;
    for (const struct stats_total *t = job->types; t; t = t->hh.next) {
        if (!t->whole) continue;
        const char *name = new_name(&names, t->names[0], &unnamed);
        size_t more = strlen(t->whole);
        if (name && more && bytes + more <= STATS_WHOLE_MAX) put_type(f, t, name), bytes += more;
        else fprintf(f, "    -- left out, too long a list: %s\n", t->signature);
    }
    HASH_END_ALL(names, n, next, free);
}

bool stats_record(const struct stats_job *job, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return false;
    fprintf(f, "-- Types of %.200s, %d rank%s, recorded by stridec %s%s%s.\n"
               "-- stridec gen THIS_FILE -o DIR compiles them; STRIDEC_AOT=DIR uses what it made.\nreturn {\n",
            stats_program(), job->ranks, job->ranks == 1 ? "" : "s", stats_version, job->gpu ? " on " : "",
            job->gpu ? job->gpu : "");
    put_types(f, job);
    if (!HASH_COUNT(job->types)) fprintf(f, "    -- no types: %s\n", job->empty);
    fputs("}\n", f);
    bool good = fclose(f) == 0 && output_write(path, 0666, text, size);
    int error = errno;
    free(text);
    errno = error;
    return good;
}
