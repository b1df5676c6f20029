/* search_run.c: one layout: every variant checked byte for byte, then timed. */
#include "search.h"
#include "../gen/gen.h"
#include <stdlib.h>
#include <string.h>

#define SALT_USER 1u
#define SALT_PACKED 2u
#define COLD_BYTES ((int64_t)160 << 20)   /* touched in turn, so that no L2 keeps a buffer until it is used again */
#define ARENA_MAX ((int64_t)24 << 30)
#define PER_FILE 10
#define BEST 8

struct check_layout {
    int dims;
    long long count[4], step[4], length;
};

struct subject {
    struct variant v;        /* unless production */
    bool production;
    CUfunction kernel;
    unsigned grid, threads;
    double warm_us, cold_us, call_us;   /* GPU time; the same with every L2 line gone; launch and wait */
    double fetch_us[3];      /* warm, at most 32, 64, 128 bytes fetched into L2 a miss */
};

struct search {
    struct search_layout l;
    bool pack, small, plain;
    double deadline_us, launch_us, bytes_per_us;
    int buffers;
    int64_t user_step, packed_step;
    CUdeviceptr user, packed, wrong;
    CUmodule checkers;
    CUfunction span_words, packed_words;
    struct subject production;
    struct subject *s;
    int n, wrong_bytes, failed;
};

static void launch(struct search *w, const struct subject *s, int buffer)
{
    CUdeviceptr user = w->user + (CUdeviceptr)(buffer * w->user_step + w->l.offset);
    CUdeviceptr packed = w->packed + (CUdeviceptr)(buffer * w->packed_step);
    struct stridec_launch a = { .packed = packed, .user = user, .end = layout_bytes(&w->l) };
    struct { CUdeviceptr packed, user; unsigned zero; } b = { packed, user, 0 };
    void *arguments[] = { s->production ? (void *)&a : (void *)&b };
    CU(cuLaunchKernel(s->kernel, s->grid, 1, 1, s->threads, 1, 1, 0, gpu_stream(), arguments, NULL));
}

/* GPU time of one launch, by a graph of launches where the driver has graphs. */
static double gpu_us(struct search *w, const struct subject *s, int buffers, int launches, int samples)
{
    double us[64];
    CUevent from, to;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    float ms;
    CU(cuEventCreate(&from, 0));
    CU(cuEventCreate(&to, 0));
    if (cu.cuGraphLaunch) {
        CU(cuStreamBeginCapture(gpu_stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
        for (int i = 0; i < launches; i++) launch(w, s, i % buffers);
        CU(cuStreamEndCapture(gpu_stream(), &graph));
        CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    }
    for (int i = -1; i < samples; i++) {
        CU(cuEventRecord(from, gpu_stream()));
        if (exec) CU(cuGraphLaunch(exec, gpu_stream()));
        for (int k = 0; !exec && k < launches; k++) launch(w, s, k % buffers);
        CU(cuEventRecord(to, gpu_stream()));
        CU(cuEventSynchronize(to));
        CU(cuEventElapsedTime(&ms, from, to));
        if (i >= 0) us[i] = ms * 1e3 / launches;
    }
    if (exec) CU(cuGraphExecDestroy(exec));
    if (graph) CU(cuGraphDestroy(graph));
    CU(cuEventDestroy(from));
    CU(cuEventDestroy(to));
    return median_of(us, samples);
}

static double call_us(struct search *w, const struct subject *s)
{
    double us[300];
    for (int i = -20; i < 300; i++) {
        double t = now_us();
        launch(w, s, 0);
        CU(cuStreamSynchronize(gpu_stream()));
        if (i >= 0) us[i] = now_us() - t;
    }
    return median_of(us, 300);
}

static void run_span(struct search *w, int mode)
{
    CUdeviceptr p = w->user;
    unsigned long long words = (unsigned long long)w->user_step / 4;
    unsigned salt = SALT_USER;
    void *arguments[] = { &p, &words, &salt, &mode, &w->wrong };
    CU(cuLaunchKernel(w->span_words, w->small ? 1 : 1320, 1, 1, 512, 1, 1, 0, gpu_stream(), arguments, NULL));
}

static void run_packed(struct search *w, int mode)
{
    CUdeviceptr packed = w->packed, user = w->user + (CUdeviceptr)w->l.offset;
    unsigned long long words = (unsigned long long)layout_bytes(&w->l) / 4;
    struct check_layout l = { .dims = (int)w->l.dims, .length = w->l.length };
    /* The hash of a user's word counts from the arena's start; user points past it. */
    unsigned salts[] = { SALT_USER, SALT_PACKED };
    for (int d = 0; d < l.dims; d++) {
        l.count[d] = w->l.count[d];
        l.step[d] = w->l.step[d];
    }
    unsigned long long first = (unsigned long long)w->l.offset / 4;
    void *arguments[] = { &packed, &user, &words, &l, &first, &salts[0], &salts[1], &mode, &w->wrong };
    CU(cuLaunchKernel(w->packed_words, w->small ? 1 : 1320, 1, 1, 512, 1, 1, 0, gpu_stream(), arguments, NULL));
}

static bool counted_wrong(struct search *w)
{
    unsigned wrong = 1;
    CU(cuMemcpyDtoHAsync(&wrong, w->wrong, sizeof wrong, gpu_stream()));
    CU(cuStreamSynchronize(gpu_stream()));
    CU(cuMemsetD8Async(w->wrong, 0, sizeof wrong, gpu_stream()));
    return wrong != 0;
}

/* The packed side filled with the hash of each word's number, by the same kernel that fills the span. */
static void fill_packed(struct search *w)
{
    unsigned long long words = (unsigned long long)layout_bytes(&w->l) / 4;
    unsigned salt = SALT_PACKED;
    int mode = 0;
    void *arguments[] = { &w->packed, &words, &salt, &mode, &w->wrong };
    CU(cuLaunchKernel(w->span_words, w->small ? 1 : 1320, 1, 1, 512, 1, 1, 0, gpu_stream(), arguments, NULL));
}

/* The bytes of buffer 0, gaps included; leaves the user's side as it was. */
static bool right(struct search *w, const struct subject *s)
{
    if (w->pack) {
        CU(cuMemsetD8Async(w->packed, 0xa5, (size_t)layout_bytes(&w->l), gpu_stream()));
        launch(w, s, 0);
        run_packed(w, 0);
        return !counted_wrong(w);
    }
    fill_packed(w);
    launch(w, s, 0);
    run_packed(w, 1);
    run_packed(w, 2);
    run_span(w, 1);
    return !counted_wrong(w);
}

static void make_checkers(struct search *w)
{
    char *constants = layout_source(&w->l), *text;
    if (asprintf(&text, "%s%s#define CHECKERS\n%s", constants, w->plain ? "#define PLAIN\n" : "", search_kernels) < 0) abort();
    compile_all(1, &text, &w->checkers);
    if (!w->checkers) exit(1);
    CU(cuModuleGetFunction(&w->span_words, w->checkers, "span_words"));
    CU(cuModuleGetFunction(&w->packed_words, w->checkers, "packed_words"));
    free(text);
    free(constants);
}

static void make_production(struct search *w)
{
    struct reason why;
    struct gen *g = gen_open(&why);
    struct gen_kernel k;
    char *signature = layout_signature(&w->l), name[40];
    CUmodule module;
    if (!g || gen_kernel(g, signature, "cuda", NULL, &k, &why)) {
        fprintf(stderr, "search: %s: %s\n", signature, why.text);
        exit(1);
    }
    compile_all(1, &k.source, &module);
    if (!module) exit(1);
    const struct gen_way *way = &k.plan.way[w->pack ? GEN_PACK : GEN_UNPACK];
    snprintf(name, sizeof name, "stridec_%s_w%d", w->pack ? "pack" : "unpack", way->word);
    w->production = (struct subject){ .production = true, .threads = (unsigned)way->threads };
    CU(cuModuleGetFunction(&w->production.kernel, module, name));
    int64_t each = (int64_t)way->word * way->threads * way->words_per_thread;
    w->production.grid = (unsigned)((layout_bytes(&w->l) + each - 1) / each);
    if (!right(w, &w->production)) {
        fprintf(stderr, "search: %s: production %s makes wrong bytes\n", w->l.name, name);
        w->wrong_bytes++;
    }
    gen_kernel_free(&k);
    gen_close(g);
    free(signature);
}

static void make_buffers(struct search *w)
{
    int64_t touched = layout_moved(&w->l, true);
    int64_t unit = w->small ? 4096 : (int64_t)2 << 20;
    w->user_step = (layout_span(&w->l) + unit - 1) / unit * unit;
    w->packed_step = (layout_bytes(&w->l) + unit - 1) / unit * unit;
    w->buffers = w->small ? 1 : (int)(COLD_BYTES / touched + 1);
    if (w->buffers > 128) w->buffers = 128;
    while (w->buffers > 1 && w->buffers * (w->user_step + w->packed_step) > ARENA_MAX) w->buffers--;
    CU(cuMemAlloc(&w->user, (size_t)(w->buffers * w->user_step)));
    CU(cuMemAlloc(&w->packed, (size_t)(w->buffers * w->packed_step)));
    CU(cuMemAlloc(&w->wrong, 256));
    CU(cuMemsetD8Async(w->wrong, 0, 256, gpu_stream()));
    if (!w->small) {
        CU(cuMemsetD8Async(w->user, 1, (size_t)(w->buffers * w->user_step), gpu_stream()));
        CU(cuMemsetD8Async(w->packed, 1, (size_t)(w->buffers * w->packed_step), gpu_stream()));
    }
}

/* Compiles list[first..], in files of PER_FILE, and appends what checks out to w->s, roughly timed. */
static void try_variants(struct search *w, const struct variants *list, int first)
{
    int files = (list->n - first + PER_FILE - 1) / PER_FILE;
    char *constants = layout_source(&w->l), **source = calloc((size_t)files + 1, sizeof *source);
    CUmodule *module = calloc((size_t)files + 1, sizeof *module);
    if (!source || !module) abort();
    for (int f = 0; f < files; f++) {
        size_t bytes;
        FILE *to = open_memstream(&source[f], &bytes);
        fprintf(to, "%s%s%s", constants, w->plain ? "#define PLAIN\n" : "", search_kernels);
        for (int i = first + f * PER_FILE; i < list->n && i < first + (f + 1) * PER_FILE; i++) {
            char *line = variant_source(&list->v[i], w->pack, i);
            fputs(line, to);
            free(line);
        }
        fclose(to);
    }
    compile_all(files, source, module);
    w->s = realloc(w->s, (size_t)list->n * sizeof *w->s);
    if (!w->s) abort();
    for (int i = first; i < list->n; i++) {
        struct subject s = { .v = list->v[i], .threads = (unsigned)list->v[i].threads };
        char name[24], text[200];
        snprintf(name, sizeof name, "v%d", i);
        if (now_us() > w->deadline_us) break;
        if (!module[(i - first) / PER_FILE] || cu.cuModuleGetFunction(&s.kernel, module[(i - first) / PER_FILE], name)) {
            w->failed++;
            continue;
        }
        s.grid = variant_grid(&s.v, &w->l);
        if (!right(w, &s) && !variant_unsafe(&s.v)) {
            variant_name(&s.v, text, sizeof text);
            fprintf(stderr, "search: %s: wrong bytes: %s %s\n", w->l.name, w->pack ? "pack" : "unpack", text);
            w->wrong_bytes++;
            continue;
        }
        s.warm_us = w->small ? i : gpu_us(w, &s, 1, w->production.warm_us > 60 ? 4 : 20, 3);
        w->s[w->n++] = s;
    }
    for (int f = 0; f < files; f++) free(source[f]);
    free(constants);
    free(source);
    free(module);
}

static int faster(const void *a, const void *b)
{
    const struct subject *x = a, *y = b;
    return (x->warm_us > y->warm_us) - (x->warm_us < y->warm_us);
}

/* Times the leading variants again, longer, until the order of the first stands. */
static void rank(struct search *w, int many)
{
    qsort(w->s, (size_t)w->n, sizeof *w->s, faster);
    if (w->small) return;
    for (int i = 0; i < many && i < w->n; i++)
        w->s[i].warm_us = gpu_us(w, &w->s[i], 1, w->production.warm_us > 60 ? 8 : 40, 9);
    qsort(w->s, (size_t)(many < w->n ? many : w->n), sizeof *w->s, faster);
}

static void measure(struct search *w, struct subject *s)
{
    static const size_t fetch[] = { 32, 64, 128 };
    int launches = w->production.warm_us > 60 ? 8 : 40;
    size_t before = 0;
    s->warm_us = gpu_us(w, s, 1, launches, 15);
    s->cold_us = w->buffers > 1 ? gpu_us(w, s, w->buffers, launches > w->buffers ? launches : w->buffers, 5) : s->warm_us;
    s->call_us = call_us(w, s);
    if (!cu.cuCtxSetLimit || !cu.cuCtxGetLimit || cu.cuCtxGetLimit(&before, CU_LIMIT_MAX_L2_FETCH_GRANULARITY)) return;
    for (int i = 0; i < 3; i++)
        if (!cu.cuCtxSetLimit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, fetch[i]))
            s->fetch_us[i] = gpu_us(w, s, 1, launches, 5);
    cu.cuCtxSetLimit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, before);
}

static void leaders(struct search *w, struct variant *best, int *n, int most)
{
    *n = 0;
    for (int i = 0; i < w->n && *n < most; i++) best[(*n)++] = w->s[i].v;
}

static void print_subject(const struct subject *s, const char *name)
{
    printf("{\"variant\": \"%s\", \"warm_us\": %.3f, \"cold_us\": %.3f, \"call_us\": %.3f, "
           "\"fetch_32_64_128_us\": [%.3f, %.3f, %.3f], \"grid\": %u}", name, s->warm_us, s->cold_us, s->call_us,
           s->fetch_us[0], s->fetch_us[1], s->fetch_us[2], s->grid);
}

/* One JSON object to stdout, one line of the table to stderr. */
static void report(struct search *w, const struct subject *unfit)
{
    char name[200];
    double moving = (double)layout_moved(&w->l, w->pack) / w->bytes_per_us, floor = moving > 3 ? moving : 3;
    struct subject *call = w->s, *cold = w->s;
    int top = 0;
    printf("%s{\"case\": \"%s\", \"way\": \"%s\", \"bytes\": %lld, \"tried\": %d, \"wrong\": %d, \"not_compiled\": %d, "
           "\"floor_kernel_us\": %.3f, \"floor_call_us\": %.3f, \"buffers_cold\": %d,\n  \"production\": ", w->pack ? "" : ",\n", w->l.name,
           w->pack ? "pack" : "unpack", (long long)layout_bytes(&w->l), w->n, w->wrong_bytes, w->failed, floor,
           w->launch_us + floor, w->buffers);
    print_subject(&w->production, "production");
    if (unfit) {
        printf(",\n  \"rewriting_gaps\": ");
        variant_name(&unfit->v, name, sizeof name);
        print_subject(unfit, name);
    }
    printf(",\n  \"best\": [");
    for (; top < BEST && top < w->n; top++) {
        struct subject *s = &w->s[top];
        variant_name(&s->v, name, sizeof name);
        printf("%s\n    ", top ? "," : "");
        print_subject(s, name);
        if (s->call_us < call->call_us) call = s;
        if (s->cold_us < cold->cold_us) cold = s;
    }
    printf("],\n  \"others\": [");
    for (int i = top; i < w->n && i < top + 60; i++) {
        variant_name(&w->s[i].v, name, sizeof name);
        printf("%s\n    [%.3f, \"%s\"]", i > top ? "," : "", w->s[i].warm_us, name);
    }
    printf("]}");
    fflush(stdout);
    if (!w->n) return;
    variant_name(&w->s[0].v, name, sizeof name);
    fprintf(stderr, "%-41.41s %-6s %8.2f %8.2f %6.2f %8.2f %6.2f | %8.2f %8.2f | %7.2f %7.2f %7.2f | %4d %2d | %s\n",
            w->l.name, w->pack ? "pack" : "unpack", w->production.warm_us, w->s[0].warm_us,
            w->production.warm_us / w->s[0].warm_us, floor, w->s[0].warm_us / floor, w->production.cold_us,
            cold->cold_us, w->production.call_us, call->call_us, w->launch_us + floor, w->n, w->wrong_bytes, name);
}

/* Takes those that rewrite the gaps out of the ranking; the fastest of them is only told. */
static bool take_unfit(struct search *w, struct subject *unfit)
{
    int kept = 0;
    bool any = false;
    for (int i = 0; i < w->n; i++) {
        if (!variant_unsafe(&w->s[i].v)) {
            w->s[kept++] = w->s[i];
        } else if (!any) {
            *unfit = w->s[i];
            any = true;
        }
    }
    w->n = kept;
    return any;
}

static void search_way(struct search *w)
{
    struct variants list = { 0 };
    struct variant best[24];
    struct subject unfit;
    int n, first;
    make_production(w);
    if (!w->small) w->production.warm_us = gpu_us(w, &w->production, 1, 8, 3);
    variants_cores(&list, &w->l, w->pack, w->plain);
    try_variants(w, &list, 0);
    rank(w, 12);
    if (!w->plain) {
        leaders(w, best, &n, 4);
        first = list.n;
        variants_hints(&list, &w->l, w->pack, best, n);
        try_variants(w, &list, first);
        rank(w, 16);
        leaders(w, best, &n, 16);
        first = list.n;
        variants_mixes(&list, &w->l, w->pack, best, n);
        try_variants(w, &list, first);
        rank(w, 16);
    }
    bool any = take_unfit(w, &unfit);
    if (!w->small) {
        measure(w, &w->production);
        for (int i = 0; i < BEST && i < w->n; i++) measure(w, &w->s[i]);
        if (any) measure(w, &unfit);
        qsort(w->s, (size_t)(BEST < w->n ? BEST : w->n), sizeof *w->s, faster);
    }
    report(w, any ? &unfit : NULL);
    free(list.v);
}

int search_layout_main(int index, bool small, double launch_us, double bytes_per_us, double seconds)
{
    struct search w = { .l = search_layouts[index], .small = small, .plain = small, .launch_us = launch_us,
                        .bytes_per_us = bytes_per_us };
    double start = now_us();
    int wrong = 0;
    if (small) w.l = layout_small(&w.l);
    if (!gpu_open(-1)) return 1;
    make_buffers(&w);
    make_checkers(&w);
    run_span(&w, 0);
    for (int way = 0; way < 2; way++) {
        w.pack = !way;
        w.deadline_us = start + seconds * 1e6 * (way ? 0.95 : 0.5);
        w.n = w.wrong_bytes = w.failed = 0;
        search_way(&w);
        wrong += w.wrong_bytes;
    }
    printf("\n");
    return wrong ? 1 : 0;
}

/* Prints "launch_us bytes_per_us graph_us": an empty kernel and the wait; a 1 GiB copy's rate, bytes read plus
 * written; an empty kernel within a graph. */
int search_limits_main(void)
{
    const size_t bytes = (size_t)1 << 30;
    struct search w = { .l = search_layouts[0], .pack = true };
    struct subject s = { .grid = 1, .threads = 32 };
    double best = 0;
    if (!gpu_open(-1)) return 1;
    make_checkers(&w);
    CU(cuModuleGetFunction(&s.kernel, w.checkers, "nothing"));
    CU(cuMemAlloc(&w.user, bytes));
    CU(cuMemAlloc(&w.packed, bytes));
    call_us(&w, &s);
    for (int round = 0; round < 5; round++) {
        double t = now_us(), rate;
        for (int i = 0; i < 16; i++) CU(cuMemcpyAsync(w.packed, w.user, bytes, gpu_stream()));
        CU(cuStreamSynchronize(gpu_stream()));
        rate = 2.0 * (double)bytes * 16 / (now_us() - t);
        best = rate > best ? rate : best;
    }
    printf("%.3f %.1f %.3f %d %s\n", call_us(&w, &s), best, gpu_us(&w, &s, 1, 40, 15), cu.multiprocessors, cu.gpu);
    return 0;
}
