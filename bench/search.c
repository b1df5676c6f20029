/* search.c: exhaustive search over packing kernels on the GPU present, beside the kernel that gen/ makes.
 *
 * usage: search [--seconds S] [--only TEXT] [OUT.json]     default 200 s, all layouts; JSON after the table
 *        search --small               bytes only, a few rows of each layout: for a machine without a GPU
 *        search --scatter             what words far apart cost, in any order (search_scatter.c)
 *        search --compile-all ARCH    compiles every core variant for sm_ARCH and nothing more
 *
 * For each layout, packing and unpacking: every core (word, item, loads in flight, threads, map, grid), then
 * cache hints and orders on the fastest four, then mixes of what helped. Every variant's bytes are checked before
 * it is timed. Times are microseconds: warm, the GPU time of one launch in a graph of many over one buffer;
 * cold, the same over so many buffers that L2 holds none of the next; call, launch and cuStreamSynchronize.
 * Each layout and study runs in a process of its own, so that a fault in one leaves the others alone. */
#include "search.h"
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct limits {
    double launch_us, bytes_per_us, graph_us;
    int multiprocessors;
    char gpu[128];
};

/* Runs this program with arguments; its standard output becomes *text (malloc'd). */
static int run_self(char **text, const char *const arguments[])
{
    const char *argv[10] = { search_self };
    char piece[4096];
    size_t bytes;
    int ends[2], status = -1, n = 1;
    ssize_t got;
    pid_t child;
    posix_spawn_file_actions_t actions;
    while (arguments[n - 1] && n < 9) {
        argv[n] = arguments[n - 1];
        n++;
    }
    if (pipe(ends)) return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    if (posix_spawn(&child, search_self, &actions, NULL, (char *const *)(uintptr_t)argv, environ)) return -1;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *to = open_memstream(text, &bytes);
    while ((got = read(ends[0], piece, sizeof piece)) > 0) fwrite(piece, 1, (size_t)got, to);
    fclose(to);
    close(ends[0]);
    waitpid(child, &status, 0);
    return status;
}

static bool measure_limits(struct limits *m)
{
    char *text = NULL;
    int status = run_self(&text, (const char *const[]){ "--limits", NULL });
    bool ok = !status && sscanf(text, "%lf %lf %lf %d %127[^\n]", &m->launch_us, &m->bytes_per_us, &m->graph_us,
                                &m->multiprocessors, m->gpu) == 5;
    free(text);
    return ok;
}

static void table_head(const struct limits *m)
{
    fprintf(stderr, "%s, %d SMs; launch + synchronise %.2f us; copy %.0f GB/s; empty kernel in a graph %.2f us\n", m->gpu,
            m->multiprocessors, m->launch_us, m->bytes_per_us / 1000, m->graph_us);
    fprintf(stderr, "%-41s %-6s %8s %8s %6s %8s %6s | %8s %8s | %7s %7s %7s | %4s %2s | %s\n", "case", "way", "prod.us",
            "best.us", "ratio", "floor", "b/fl", "prodcold", "bestcold", "pr.call", "be.call", "fl.call", "n", "x",
            "best variant");
}

/* One layout in its own process: its two objects, or NULL. */
static char *search_one(int index, const struct limits *m, double seconds, int *wrong)
{
    char number[16], launch[32], rate[32], budget[32], *text = NULL;
    snprintf(number, sizeof number, "%d", index);
    snprintf(launch, sizeof launch, "%.4f", m->launch_us);
    snprintf(rate, sizeof rate, "%.2f", m->bytes_per_us);
    snprintf(budget, sizeof budget, "%.2f", seconds);
    int status = run_self(&text, (const char *const[]){ "--layout", number, launch, rate, budget, NULL });
    if (status) {
        fprintf(stderr, "search: %s: failed, status 0x%x\n", search_layouts[index].name, (unsigned)status);
        *wrong += 1;
    }
    if (text && strlen(text) < 3) {
        free(text);
        text = NULL;
    }
    return text;
}

static void study(FILE *f, const char *name, const char *mode, const char *const flags[])
{
    bool any = false;
    fprintf(f, ",\n\"%s\": [", name);
    fprintf(stderr, "%s\n", name);
    for (int i = 0; flags[i]; i++) {
        char *text = NULL;
        int status = run_self(&text, (const char *const[]){ mode, flags[i], NULL });
        if (status) fprintf(stderr, "search: %s %s: failed, status 0x%x\n", mode, flags[i], (unsigned)status);
        if (text && *text) {
            fprintf(f, "%s%s", any ? ",\n" : "\n", text);
            any = true;
        }
        free(text);
    }
    fprintf(f, "]");
}

static int search_all(const char *only, const char *out, double seconds)
{
    struct limits m = { 0 };
    double end = now_us() + seconds * 1e6;
    int wrong = 0, left = 0;
    const char *head = "";
    char *text = NULL;
    size_t bytes;
    if (out) dup2(1, 2);   /* the children's tables go to standard output */
    if (!measure_limits(&m)) {
        printf("search: no GPU found: nothing to measure\n");
        return 0;
    }
    FILE *f = out ? fopen(out, "w") : open_memstream(&text, &bytes);
    if (!f) {
        perror(out);
        return 1;
    }
    fprintf(f, "{\"gpu\": \"%s\", \"multiprocessors\": %d, \"launch_us\": %.3f, \"copy_GB_s\": %.0f, "
            "\"empty_in_graph_us\": %.3f", m.gpu, m.multiprocessors, m.launch_us, m.bytes_per_us / 1000, m.graph_us);
    /* CU_CTX_SCHED_AUTO, SPIN, YIELD, BLOCKING_SYNC */
    study(f, "completion", "--wait", (const char *const[]){ "0", "1", "2", "4", NULL });
    table_head(&m);
    fprintf(f, ",\n\"cases\": [\n");
    for (int i = 0; i < search_layout_total; i++) left += !only || strstr(search_layouts[i].name, only);
    for (int i = 0; i < search_layout_total; i++) {
        if (only && !strstr(search_layouts[i].name, only)) continue;
        char *objects = search_one(i, &m, (end - now_us()) * 1e-6 / left-- - 1.5, &wrong);
        if (objects) fprintf(f, "%s%s", head, objects);
        if (objects) head = ",\n";
        fflush(f);
        free(objects);
    }
    fprintf(f, "]}\n");
    fclose(f);
    if (text) fputs(text, stdout);
    free(text);
    return wrong != 0;
}

static int compile_everything(int arch)
{
    int failed = 0, total = 0;
    CUmodule module;
    cu.arch = arch;
    for (int i = 0; i < search_layout_total; i++)
        for (int way = 0; way < 2; way++) {
            const struct search_layout *l = &search_layouts[i];
            struct variants list = { 0 };
            char *text = NULL, *constants = layout_source(l);
            size_t bytes;
            variants_cores(&list, l, !way, false);
            int cores = list.n;
            variants_hints(&list, l, !way, list.v, 1);
            for (int k = 1, seen = 1; k < cores; k++) {
                if (!(seen & 1 << list.v[k].family)) variants_hints(&list, l, !way, &list.v[k], 1);
                seen |= 1 << list.v[k].family;
            }
            FILE *f = open_memstream(&text, &bytes);
            fprintf(f, "%s#define CHECKERS\n%s", constants, search_kernels);
            for (int k = 0; k < list.n; k += k < cores ? 17 : 1) {
                char *line = variant_source(&list.v[k], !way, k);
                fputs(line, f);
                free(line);
            }
            fclose(f);
            double t = now_us();
            compile_all(1, &text, &module);
            total += list.n;
            fprintf(stderr, "%s %s: %d cores, %d in all, %.1f s\n", l->name, way ? "unpack" : "pack", cores, list.n,
                    (now_us() - t) * 1e-6);
            free(text);
            free(constants);
            free(list.v);
        }
    char *scatter = scatter_source();
    compile_all(1, &scatter, &module);
    free(scatter);
    fprintf(stderr, "%d variants\n", total);
    return failed;
}

int main(int argc, char **argv)
{
    const char *only = NULL, *out = NULL;
    double seconds = 200;
    static char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    int wrong = 0;
    search_self = n > 0 ? self : argv[0];
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "--compile") && argc == 5) return compile_main(argv[2], argv[3], argv[4]);
    if (!strcmp(mode, "--wait") || !strcmp(mode, "--limits")) alarm(25);
    if (!strcmp(mode, "--limits")) return search_limits_main();
    if (!strcmp(mode, "--wait") && argc == 3) return search_wait_main(atoi(argv[2]));
    if (!strcmp(mode, "--scatter")) return search_scatter_main();
    if (!strcmp(mode, "--compile-all") && argc == 3) return compile_everything(atoi(argv[2]));
    if (!strcmp(mode, "--layout") && argc == 6) {
        alarm((unsigned)(atof(argv[5]) > 0 ? atof(argv[5]) : 0) + 20);
        return search_layout_main(atoi(argv[2]), false, atof(argv[3]), atof(argv[4]), atof(argv[5]));
    }
    if (!strcmp(mode, "--small")) {
        for (int i = 0; i < search_layout_total; i++)
            if (argc < 3 || strstr(search_layouts[i].name, argv[2])) {
                fflush(stdout);
                pid_t child = fork();
                if (child == 0) exit(search_layout_main(i, true, 8, 4e6, 600));
                int status = 1;
                waitpid(child, &status, 0);
                wrong += status != 0;
            }
        return wrong != 0;
    }
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seconds") && i + 1 < argc) seconds = atof(argv[++i]);
        else if (!strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
        else out = argv[i];
    }
    return search_all(only, out, seconds);
}
