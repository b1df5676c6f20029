/* chunk_settings.c: reads and writes the settings of pipelined messages. */
#include "chunk_settings.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t field;
    int64_t least, most;
} chunk_fields[] = {
    {"chunk", offsetof(struct chunk_params, chunk), 256, (int64_t)1 << 30},
    {"depth", offsetof(struct chunk_params, depth), 1, CHUNK_DEPTH_MAX},
    {"least", offsetof(struct chunk_params, least), 0, INT64_MAX},
    {"device", offsetof(struct chunk_params, device), 0, 1},
};
#define GAPS " \t,"
#define SETTINGS (sizeof chunk_fields / sizeof *chunk_fields)

/* Reads one NAME=NUMBER. Returns the text behind it, NULL if it is not allowed. */
static const char *read_one(struct chunk_params *p, const char *at)
{
    size_t name = strcspn(at, "=" GAPS);
    for (size_t i = 0; i < SETTINGS; i++) {
        if (strlen(chunk_fields[i].name) != name || strncmp(chunk_fields[i].name, at, name) || at[name] != '=')
            continue;
        char *end;
        const char *digits = at + name + 1;
        errno = 0;
        int64_t value = strtoll(digits, &end, 10);
        if (*digits < '0' || *digits > '9' || errno || (*end && !strchr(GAPS, *end))) return NULL;
        if (value < chunk_fields[i].least || value > chunk_fields[i].most) return NULL;
        *(int64_t *)(void *)((char *)p + chunk_fields[i].field) = value;
        return end;
    }
    return NULL;
}

const char *chunk_settings_read(struct chunk_params *p, const char *settings)
{
    struct chunk_params read = *p;
    const char *at = settings + strspn(settings, GAPS);
    if (!*at) return "a pipeline is of chunk=, depth=, least= and device=";
    for (; *at; at += strspn(at, GAPS))
        if (!(at = read_one(&read, at)))
            return "a pipeline is chunk= 256 to 2^30 bytes, depth= 1 to 16 chunks, least= any number of bytes, "
                   "device= 0 or 1";
    *p = read;
    return NULL;
}

void chunk_settings_write(const struct chunk_params *p, FILE *f)
{
    fprintf(f, "\n# Messages of `least` bytes and more go between nodes in chunks, `depth` of them at the same time; "
               "device: 1\n"
               "# where these may be device memory.\npipeline");
    for (size_t i = 0; i < SETTINGS; i++)
        fprintf(f, " %s=%lld", chunk_fields[i].name,
                (long long)*(const int64_t *)(const void *)((const char *)p + chunk_fields[i].field));
    fputc('\n', f);
}
