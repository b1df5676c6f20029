/* search_variant.c: layouts and the kernel variants tried on them. */
#include "search.h"
#include <stdlib.h>
#include <string.h>

#define KiB (1024LL)
#define MiB (1024 * KiB)
#define VECTOR(bytes, block, pitch) block, 1, { (bytes) / (block) }, { pitch }, 0
#define MIDDLE4(m, start) (m) * 8, 3, { m, m, m }, { 2 * MiB, 32 * KiB, 512 }, (start) * (2 * MiB + 32 * KiB + 512 + 8)

const struct search_layout search_layouts[] = {
    { "vector 1 KiB, 8 B blocks", VECTOR(1 * KiB, 8, 512) },
    { "vector 1 MiB, 4 B blocks", VECTOR(1 * MiB, 4, 512) },
    { "vector 1 MiB, 8 B blocks", VECTOR(1 * MiB, 8, 512) },
    { "vector 1 MiB, 32 B blocks", VECTOR(1 * MiB, 32, 512) },
    { "vector 1 MiB, 128 B blocks", VECTOR(1 * MiB, 128, 512) },
    { "vector 1 MiB, 256 B blocks", VECTOR(1 * MiB, 256, 512) },
    { "vector 4 MiB, 4 B blocks", VECTOR(4 * MiB, 4, 512) },
    { "vector 4 MiB, 8 B blocks", VECTOR(4 * MiB, 8, 512) },
    { "vector 4 MiB, 32 B blocks", VECTOR(4 * MiB, 32, 512) },
    { "vector 4 MiB, 128 B blocks", VECTOR(4 * MiB, 128, 512) },
    { "y-z face of 512^3 doubles", VECTOR(2 * MiB, 8, 4096) },
    { "x-z face of 512^3 doubles", VECTOR(2 * MiB, 4096, 2 * MiB) },
    { "16^4 of 64^4 doubles", MIDDLE4(16, 24) },
    { "32^4 of 64^4 doubles", MIDDLE4(32, 16) },
    { "transpose type, 512^2 doubles", 8, 2, { 512, 512 }, { 8, 4096 }, 0 },
    { "vector 64 MiB, 4 B blocks", VECTOR(64 * MiB, 4, 512) },
    { "vector 64 MiB, 16 B blocks", VECTOR(64 * MiB, 16, 512) },
    { "vector 64 MiB, 32 B blocks", VECTOR(64 * MiB, 32, 512) },
    { "vector 64 MiB, 128 B blocks", VECTOR(64 * MiB, 128, 512) },
    { "vector 64 MiB, 256 B blocks", VECTOR(64 * MiB, 256, 512) },
    { "vector 64 MiB, 512 B blocks, pitch 1 KiB", VECTOR(64 * MiB, 512, 1024) },
};
const int search_layout_total = sizeof search_layouts / sizeof *search_layouts;

struct search_layout layout_small(const struct search_layout *l)
{
    struct search_layout s = *l;
    if (s.dims == 1 && s.count[0] * s.step[0] > 4 * MiB) s.count[0] = 4 * MiB / s.step[0];
    if (s.dims == 3) s.count[0] = 2;
    return s;
}

int64_t layout_blocks(const struct search_layout *l)
{
    int64_t n = 1;
    for (int d = 0; d < l->dims; d++) n *= l->count[d];
    return n;
}

int64_t layout_bytes(const struct search_layout *l)
{
    return l->length * layout_blocks(l);
}

int64_t layout_span(const struct search_layout *l)
{
    int64_t span = l->offset + l->length;
    for (int d = 0; d < l->dims; d++) span += (l->count[d] - 1) * l->step[d];
    return span;
}

/* Blocks lie at multiples of 64 bytes past the first one and share no granule, or cover all there is. */
int64_t layout_moved(const struct search_layout *l, bool pack)
{
    int64_t first = l->offset % 64, touched = (first + l->length + 63) / 64, part;
    for (int d = 0; d < l->dims; d++)
        if (l->step[d] % 64) return 2 * layout_bytes(l);
    part = (first != 0) + ((first + l->length) % 64 != 0);
    if (part > touched) part = touched;
    return layout_bytes(l) + 64 * layout_blocks(l) * (touched + (pack ? 0 : part));
}

char *layout_source(const struct search_layout *l)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    fprintf(f, "#define LEN %lld\n#define TOTAL %lldull\n", (long long)l->length, (long long)layout_bytes(l));
    if (l->step[0] == 8) fprintf(f, "#define SIDE %lld\n", (long long)l->count[0]);
    fprintf(f, "static __device__ __forceinline__ long long block_at(unsigned b)\n{\n    long long at = 0;\n");
    for (int64_t d = l->dims - 1; d >= 0; d--) {
        const char *digit = d ? "(b %% %lldu)" : "b";
        fprintf(f, "    at += (long long)(int)");
        fprintf(f, digit, (long long)l->count[d]);
        fprintf(f, " * %lldll;\n", (long long)l->step[d]);
        if (d) fprintf(f, "    b /= %lldu;\n", (long long)l->count[d]);
    }
    fprintf(f, "    return at;\n}\n");
    fclose(f);
    return text;
}

char *layout_signature(const struct search_layout *l)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    for (int d = 0; d < l->dims; d++) fprintf(f, "s(%lld,%lld,", (long long)l->count[d], (long long)l->step[d]);
    fprintf(f, "d(%lld)", (long long)l->length);
    for (int d = 0; d < l->dims; d++) putc(')', f);
    fclose(f);
    return text;
}

/* ORDER LOAD_HINT, STORE_HINT, FETCH, MAP of search_kernels.cu. */
static const char *const load_names[] = { "", "nc", "cs", "cg", "L2::64B", "L2::128B", "L2::256B", "evict_first",
                                          "evict_last", "nc.no_allocate", "nc.no_allocate.256B" };
static const char *const store_names[] = { "", "cs", "cg", "wt", "evict_first", "evict_last", "no_allocate", "exch" };
static const char *const fetch_names[] = { "", "prefetch", "read-first", "SECTOR (unfit: rewrites gaps)" };
static const char *const map_names[] = { "", "warp-run", "thread-run", "far" };
static const char *const family_names[] = { "linear", "staged", "bulk", "bulk-rows", "tile" };
#define LENGTH(a) (int)(sizeof(a) / sizeof *(a))
static const int bands[] = { 4, 8, 32, 64, 128, 256 };

bool variant_same(const struct variant *a, const struct variant *b)
{
    return !memcmp(a, b, sizeof *a);
}

bool variant_unsafe(const struct variant *v)
{
    return v->fetch == 3;
}

void variant_name(const struct variant *v, char *text, size_t room)
{
    size_t n = (size_t)snprintf(text, room, "%s w%d", family_names[v->family], v->word);
    if (v->item != v->word) n += (size_t)snprintf(text + n, room - n, "/%d", v->item);
    n += (size_t)snprintf(text + n, room - n, " u%d t%d", v->flight, v->threads);
    if (v->map) n += (size_t)snprintf(text + n, room - n, " %s", map_names[v->map]);
    if (v->grid) n += (size_t)snprintf(text + n, room - n, " %s%d", v->grid == 1 ? "stride" : "runs", v->ctas);
    if (v->bands) n += (size_t)snprintf(text + n, room - n, " bands%d", v->bands);
    if (v->load) n += (size_t)snprintf(text + n, room - n, " ld.%s", load_names[v->load]);
    if (v->store) n += (size_t)snprintf(text + n, room - n, " st.%s", store_names[v->store]);
    if (v->fetch) snprintf(text + n, room - n, " %s", fetch_names[v->fetch]);
}

char *variant_source(const struct variant *v, bool pack, int number)
{
    char *text = NULL;
    const char *way = pack ? "true" : "false";
    int n = -1;
    switch (v->family) {
    case LINEAR:
        n = asprintf(&text, "#define B%d linear<%s, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d>\nSEARCH_KERNEL(v%d, %d, B%d)\n",
                     number, way, v->word, v->item, v->flight, v->threads, v->map, v->load, v->store, v->fetch, v->grid,
                     v->bands ? v->bands : 1, number, v->threads, number);
        break;
    case STAGED:
        n = asprintf(&text, "#define B%d staged<%s, %d, %d, %d, %d, %d>\nSEARCH_KERNEL(v%d, %d, B%d)\n", number, way,
                     v->word, v->flight, v->threads, v->load, v->store, number, v->threads, number);
        break;
    case BULK:
    case BULK_ROWS:
        n = asprintf(&text, "#define B%d bulk<%s, %d, %d, %d, %d, %d, %d>\nSEARCH_KERNEL(v%d, %d, B%d)\n", number, way,
                     v->word, v->flight, v->threads, v->family == BULK_ROWS, v->load, v->store, number, v->threads,
                     number);
        break;
    case TILE:
        n = asprintf(&text, "#define B%d tile<%s, %d, %d, %d>\nSEARCH_KERNEL(v%d, %d, B%d)\n", number, way, v->threads,
                     v->load, v->store, number, v->threads, number);
        break;
    }
    if (n < 0) abort();
    return text;
}

static int64_t variant_chunks(const struct variant *v, const struct search_layout *l)
{
    int64_t chunk = v->family == TILE ? 32 * 32 * 8 : (int64_t)v->item * v->flight * v->threads;
    return (layout_bytes(l) + chunk - 1) / chunk;
}

unsigned variant_grid(const struct variant *v, const struct search_layout *l)
{
    int64_t chunks = variant_chunks(v, l), most = (int64_t)v->ctas * cu.multiprocessors;
    return (unsigned)(v->grid && chunks > most ? most : chunks);
}

/* Left out: what the kernels do not support, and grids too small to matter. */
static bool fits(const struct variant *v, const struct search_layout *l, bool pack)
{
    int64_t align = l->length | l->offset, bytes = (int64_t)v->item * v->flight * v->threads;
    for (int d = 0; d < l->dims; d++) align |= l->step[d];
    bool wide = v->family == BULK_ROWS ? v->word == l->length && align % 16 == 0 : l->length % v->word == 0 && align % v->word == 0;
    if (v->grid && variant_chunks(v, l) <= (int64_t)v->ctas * 132) return false;
    if (v->fetch && (pack || v->family != LINEAR)) return false;
    if (v->fetch == 3 && (v->word != l->length || l->length >= 32)) return false;
    if (v->store == 7 && (pack ? v->item > 8 || v->family != LINEAR : v->word > 8)) return false;
    if (v->family == BULK && (pack ? v->store : v->load)) return false;
    if (v->family == BULK_ROWS && (v->load || v->store)) return false;
    if (v->bands && (v->family != LINEAR || v->grid == 2 || variant_chunks(v, l) % v->bands)) return false;
    if (v->family == LINEAR && (v->item < v->word || layout_bytes(l) % v->item)) return false;
    if (v->family == LINEAR && v->flight * v->item > 256) return false;
    if (v->family == STAGED && (v->flight * v->word % 16 || v->flight * v->word > 64 || 1LL * v->threads * v->flight * v->word > 49152 ||
                                layout_bytes(l) % 16)) return false;
    if ((v->family == BULK || v->family == BULK_ROWS) && (bytes > 48000 || bytes % 16 || layout_bytes(l) % 16)) return false;
    if (v->family == TILE && (l->step[0] != 8 || v->threads > 1024)) return false;
    return wide;
}

static void add(struct variants *to, const struct search_layout *l, bool pack, struct variant v)
{
    if (!fits(&v, l, pack)) return;
    for (int i = 0; i < to->n; i++)
        if (variant_same(&to->v[i], &v)) return;
    if (to->n == to->room) {
        to->room = to->room ? 2 * to->room : 256;
        to->v = realloc(to->v, (size_t)to->room * sizeof *to->v);
        if (!to->v) abort();
    }
    to->v[to->n++] = v;
}

/* Every grid, map and item size for one word, flight and threads. */
static void add_linear(struct variants *to, const struct search_layout *l, bool pack, int word, int flight, int threads)
{
    for (int item = word; item <= 16; item *= 2) {
        struct variant v = { .family = LINEAR, .word = word, .item = item, .flight = flight, .threads = threads };
        add(to, l, pack, v);
        if (item != word && item != 16) continue;
        v.grid = 1;
        for (v.ctas = 2048 / threads; v.ctas >= 1 && v.ctas >= 256 / threads; v.ctas /= 4) add(to, l, pack, v);
        if (threads != 256 && threads != 1024) continue;
        v.grid = 2;
        v.ctas = 2048 / threads;
        add(to, l, pack, v);
        v.grid = v.ctas = 0;
        for (v.map = 1; v.map < LENGTH(map_names) && flight > 1; v.map++) add(to, l, pack, v);
    }
}

void variants_cores(struct variants *to, const struct search_layout *l, bool pack, bool plain)
{
    int widest = 4;
    while (widest < 16 && l->length % (2 * widest) == 0 && l->offset % (2 * widest) == 0) widest *= 2;
    for (int word = widest; word >= 4 && word >= widest / 2; word /= 2)
        for (int flight = 1; flight <= (word < 16 ? 16 : 8); flight *= 2)
            for (int threads = 128; threads <= 1024; threads *= 2) {
                if (word != widest && (threads != 256 || flight > 8)) continue;
                add_linear(to, l, pack, word, flight, threads);
                if (plain) continue;
                add(to, l, pack, (struct variant){ STAGED, word, word, flight, threads, 0, 0, 0, 0, 0, 0, 0 });
                add(to, l, pack, (struct variant){ BULK, word, word, flight, threads, 0, 0, 0, 0, 0, 0, 0 });
            }
    for (int threads = 32; threads <= 1024 && !plain; threads *= 2) {
        if (l->length <= 4096)
            for (int flight = 1; flight <= 4; flight *= 2)
                add(to, l, pack, (struct variant){ BULK_ROWS, (int)l->length, (int)l->length, flight, threads, 0, 0, 0, 0, 0, 0, 0 });
        if (threads >= 128)
            add(to, l, pack, (struct variant){ TILE, 8, 8, 1, threads, 0, 0, 0, 0, 0, 0, 0 });
    }
}

void variants_hints(struct variants *to, const struct search_layout *l, bool pack, const struct variant *best, int n)
{
    for (int i = 0; i < n; i++) {
        struct variant v = best[i];
        for (v.load = 1; v.load < LENGTH(load_names); v.load++) add(to, l, pack, v);
        v = best[i];
        for (v.store = 1; v.store < LENGTH(store_names); v.store++) add(to, l, pack, v);
        v = best[i];
        for (v.fetch = 1; v.fetch < LENGTH(fetch_names); v.fetch++) add(to, l, pack, v);
        for (int b = 0; b < LENGTH(bands); b++) {
            v = best[i];
            v.bands = bands[b];
            add(to, l, pack, v);
        }
        v = best[i];
        if (v.family != LINEAR || i) continue;
        v.grid = 1;
        for (v.ctas = 1; v.ctas * v.threads <= 2048; v.ctas++)
            if (v.ctas <= 8 || v.ctas % 4 == 0) add(to, l, pack, v);
    }
}

/* The hints of the fastest variants, crossed on the fastest cores. */
void variants_mixes(struct variants *to, const struct search_layout *l, bool pack, const struct variant *best, int n)
{
    int load[3] = { 0 }, store[3] = { 0 }, fetch[2] = { 0 }, band[2] = { 0 }, loads = 1, stores = 1, fetches = 1, banded = 1;
    for (int i = 0; i < n; i++) {
        if (best[i].load && loads < 3 && best[i].load != load[loads - 1]) load[loads++] = best[i].load;
        if (best[i].store && stores < 3 && best[i].store != store[stores - 1]) store[stores++] = best[i].store;
        if (best[i].fetch && !variant_unsafe(&best[i]) && fetches < 2) fetch[fetches++] = best[i].fetch;
        if (best[i].bands && banded < 2) band[banded++] = best[i].bands;
    }
    for (int core = 0; core < 2 && core < n; core++)
        for (int m = 0; m < loads * stores * fetches * banded; m++) {
            struct variant v = best[core];
            if (variant_unsafe(&v)) v.fetch = 0;
            v.load = load[m % loads];
            v.store = store[m / loads % stores];
            v.fetch = fetch[m / loads / stores % fetches];
            v.bands = band[m / loads / stores / fetches];
            add(to, l, pack, v);
        }
}
