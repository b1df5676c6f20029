/* report.c: stridec report: makes an HTML page of what `stridec run --stats=json:FILE` wrote (report.lua). */
#include "base/file.h"
#include "command.h"
#include "pages/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_MAX ((size_t)64 << 20)   /* bytes: some hundred thousand types */

/* Returns the page's name, malloc'd: "job.html" for "job.json". */
static char *output_name(const char *path)
{
    static const char END[] = ".json";
    size_t n = strlen(path), end = strlen(END);
    char *name;
    if (n > end && strcmp(path + n - end, END) == 0)
        n -= end;
    return asprintf(&name, "%.*s.html", (int)n, path) < 0 ? NULL : name;
}

static int write_report(const char *path, const char *output, const char *json, size_t length)
{
    size_t bytes;
    struct reason why;
    char *html = page_of_run(json, length, &bytes, &why);
    if (!html)
        return failure("report", "%s: %s", path, why.text);
    int status = save_file(output, html, bytes, &why);
    free(html);
    if (status != 0)
        return failure("report", "%s", why.text);
    fprintf(tell_of(output), "%s\n", output);
    return 0;
}

int report_main(const struct args *a)
{
    if (a->words != 1)
        return usage_error("report", a->words ? "one file at a time" : "which file?");
    const char *path = a->word[0], *output = option(a, "-o"), *why;
    bool stdin_asked = strcmp(path, "-") == 0;
    if (stdin_asked && !output)
        return usage_error("report", "standard input needs -o FILE");
    size_t length;
    char *json = file_read_input(stdin_asked ? "/dev/stdin" : path, JSON_MAX, &length, &why);
    if (!json)
        return failure("report", "%s: %s", path, why);
    char *name = output ? NULL : output_name(path);
    int status = output || name ? write_report(path, output ? output : name, json, length)
                                : failure("report", "out of memory");
    free(name);
    free(json);
    return status;
}
