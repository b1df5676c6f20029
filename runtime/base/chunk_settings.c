/* chunk_settings.c: reading and writing how messages are cut into chunks. */
#include "chunk_settings.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t field;
    int64_t least, most;
} settings_of[] = {
    {"chunk", offsetof(struct tune_pipeline, chunk), 256, (int64_t)1 << 30},
    {"depth", offsetof(struct tune_pipeline, depth), 1, PIPELINE_DEPTH_MOST},
    {"least", offsetof(struct tune_pipeline, least), 0, INT64_MAX},
    {"device", offsetof(struct tune_pipeline, device), 0, 1},
};
#define GAPS " \t,"
#define SETTINGS (sizeof settings_of / sizeof *settings_of)

/* One NAME=NUMBER; what follows it, or NULL. */
static const char *read_one(struct tune_pipeline *p, const char *at)
{
    size_t name = strcspn(at, "=" GAPS);
    for (size_t i = 0; i < SETTINGS; i++) {
        if (strlen(settings_of[i].name) != name || strncmp(settings_of[i].name, at, name) || at[name] != '=') continue;
        char *end;
        const char *digits = at + name + 1;
        errno = 0;
        int64_t value = strtoll(digits, &end, 10);
        if (*digits < '0' || *digits > '9' || errno || (*end && !strchr(GAPS, *end))) return NULL;
        if (value < settings_of[i].least || value > settings_of[i].most) return NULL;
        *(int64_t *)(void *)((char *)p + settings_of[i].field) = value;
        return end;
    }
    return NULL;
}

const char *tune_pipeline_read(struct tune_pipeline *p, const char *settings)
{
    struct tune_pipeline read = *p;
    const char *at = settings + strspn(settings, GAPS);
    if (!*at) return "a pipeline is of chunk=, depth=, least= and device=";
    for (; *at; at += strspn(at, GAPS))
        if (!(at = read_one(&read, at)))
            return "a pipeline is chunk= 256 to 2^30 bytes, depth= 1 to 16 chunks, least= any number of bytes, "
                   "device= 0 or 1";
    *p = read;
    return NULL;
}

void tune_pipeline_write(const struct tune_pipeline *p, FILE *f)
{
    fprintf(f, "\n# Messages of `least` bytes and more go between nodes in chunks, `depth` of them at the same time; "
               "device: 1\n"
               "# where these may be device memory.\npipeline");
    for (size_t i = 0; i < SETTINGS; i++)
        fprintf(f, " %s=%lld", settings_of[i].name,
                (long long)*(const int64_t *)(const void *)((const char *)p + settings_of[i].field));
    fputc('\n', f);
}
