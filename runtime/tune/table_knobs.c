/* table_knobs.c: reads, writes and finds the lines `knobs` of tuned tables. */
#include "table_knobs.h"
#include <ctype.h>
#include <string.h>

static const char model[] = "model";
/* ORDER gen_direction */
static const char *const directions[] = {"pack", "unpack"};

const char *tune_direction_name(enum gen_direction direction)
{
    return directions[direction];
}

int tune_direction_of(const char *word, size_t length)
{
    for (int i = 0; i < 2; i++)
        if (strlen(directions[i]) == length && !strncmp(directions[i], word, length)) return i;
    return -1;
}

static int family_of(const char *word, size_t length)
{
    for (int f = GEN_CONTIGUOUS; f < GEN_GENERIC; f++) {
        const char *name = gen_family_name((enum gen_family)f);
        if (strlen(name) == length && !strncmp(name, word, length)) return f;
    }
    return -1;
}

/* Returns the word at *at and its length; moves *at to the next word. */
static const char *next_word(const char **at, size_t *length)
{
    const char *word = *at;
    *length = strcspn(word, " \t");
    *at = word + *length + strspn(word + *length, " \t");
    return word;
}

/* Reads a whole number of bytes; -1 if it is not one. */
static int64_t read_bytes(const char *word, size_t length)
{
    int64_t n = 0;
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)word[i]) || __builtin_mul_overflow(n, (int64_t)10, &n) ||
            __builtin_add_overflow(n, (int64_t)(word[i] - '0'), &n))
            return -1;
    return length ? n : -1;
}

/* Reads "name=value name=value" or `model`. The generator checks the names. */
static bool read_settings(const char *text, char to[TUNE_SETTINGS_MAX])
{
    to[0] = 0;
    if (!strcmp(text, model)) return true;
    if (!*text || strlen(text) >= TUNE_SETTINGS_MAX) return false;
    for (const char *at = text; *at;) {
        size_t length;
        const char *word = next_word(&at, &length), *equals = memchr(word, '=', length);
        if (!equals || equals == word || equals == word + length - 1) return false;
    }
    strcpy(to, text);
    return true;
}

static struct tune_knobs *find_same(struct tune_table *t, const struct tune_knobs *k)
{
    for (int i = 0; i < t->knob_rows; i++) {
        struct tune_knobs *o = &t->knobs[i];
        if (o->direction == k->direction && o->family == k->family && o->block == k->block && o->bytes == k->bytes)
            return o;
    }
    return NULL;
}

const char *tune_knobs_read(struct tune_table *t, const char *rest, int line)
{
    if (t->knob_rows == TUNE_KNOBS_MAX) return "more than 256 rows of knobs";
    struct tune_knobs *k = &t->knobs[t->knob_rows];
    size_t length;
    const char *word = next_word(&rest, &length);
    int direction = tune_direction_of(word, length);
    if (direction < 0) return "knobs are of `pack` or `unpack`";
    word = next_word(&rest, &length);
    int family = family_of(word, length);
    if (family < 0) return "knobs are of family contiguous, strided, struct, indexed or mixed";
    word = next_word(&rest, &length);
    k->block = read_bytes(word, length);
    word = next_word(&rest, &length);
    k->bytes = read_bytes(word, length);
    if (k->block < 0 || k->bytes < 0) return "a block length and an element's size are whole numbers of bytes";
    if (!read_settings(rest, k->settings)) return "knobs are name=value, less than 128 characters, or `model`";
    k->direction = (enum gen_direction)direction;
    k->family = (enum gen_family)family;
    k->line = line;
    if (find_same(t, k)) return "a second row of knobs for the same layouts";
    t->knob_rows++;
    return NULL;
}

void tune_knobs_write(const struct tune_table *t, FILE *f)
{
    if (!t->knob_rows) return;
    fprintf(f, "\n# Kernels: direction, family, least block length, least bytes of an element, settings.\n");
    for (int i = 0; i < t->knob_rows; i++) {
        const struct tune_knobs *k = &t->knobs[i];
        fprintf(f, "knobs %s %s %lld %lld %s\n", directions[k->direction], gen_family_name(k->family),
                (long long)k->block, (long long)k->bytes, *k->settings ? k->settings : model);
    }
}

static bool more_specific(const struct tune_knobs *a, const struct tune_knobs *b)
{
    return a->block != b->block ? a->block > b->block : a->bytes > b->bytes;
}

const struct tune_knobs *tune_knobs_find(const struct tune_table *t, enum gen_direction direction,
                                         enum gen_family family, int64_t block, int64_t bytes)
{
    const struct tune_knobs *best = NULL;
    for (int i = 0; i < t->knob_rows; i++) {
        const struct tune_knobs *k = &t->knobs[i];
        if (k->direction != direction || k->family != family || k->block > block || k->bytes > bytes) continue;
        if (!best || more_specific(k, best)) best = k;
    }
    return best;
}

/* Lists have no block length, so several measured layouts may share a row. If they disagree, the model chooses. */
bool tune_knobs_add(struct tune_table *t, const struct tune_knobs *k)
{
    struct tune_knobs *same = find_same(t, k);
    if (same) {
        if (strcmp(same->settings, k->settings)) same->settings[0] = 0;
        return true;
    }
    const struct tune_knobs *now = tune_knobs_find(t, k->direction, k->family, k->block, k->bytes);
    if (k->block && !strcmp(now ? now->settings : "", k->settings)) return true;
    if (t->knob_rows == TUNE_KNOBS_MAX) return false;
    t->knobs[t->knob_rows++] = *k;
    return true;
}
