/* test_cache.c: the folder of compiled modules: what is stored comes back, and nothing else ever does. */
#include "../../runtime/kernel/module_cache.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static char base[] = "/tmp/stridec-cache-XXXXXX", folder[64];

/* The only file there, in the folder; "" if there is none. Anything beside modules fails. */
static const char *only_file(void)
{
    static char path[512];
    DIR *d = opendir(folder);
    path[0] = '\0';
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (e->d_name[0] == '.') continue;
        assert_string_equal(path, "");
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    }
    if (d) closedir(d);
    return path;
}

static void empty_folder(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
}

static bool loads(const char *key, const char *expected, size_t size)
{
    void *data = NULL;
    size_t bytes = 0;
    if (module_cache_load(key, &data, &bytes)) return false;
    assert_int_equal(bytes, size);
    assert_memory_equal(data, expected, size);
    free(data);
    return true;
}

static void stored_and_loaded(void **state)
{
    (void)state;
    char *key = module_cache_key("s(4,16,d(8))", "", "sm_90", 13, 0), *other = module_cache_key("s(4,16,d(8))", "", "sm_80", 13, 0);
    char *newer = module_cache_key("s(4,16,d(8))", "", "sm_90", 13, 1);
    assert_string_not_equal(key, other);
    assert_false(loads(key, "", 0));
    module_cache_store(key, "module\0text", 11);
    assert_true(loads(key, "module\0text", 11));
    assert_false(loads(other, "", 0));
    assert_false(loads(newer, "", 0));
    module_cache_store(key, "", 0);
    assert_true(loads(key, "", 0));
    assert_string_not_equal(only_file(), "");
    module_cache_remove(key);
    assert_false(loads(key, "", 0));
    free(key);
    free(other);
    free(newer);
}

static void write_bytes(const char *path, const char *bytes, size_t size)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

/* A bit turned in each byte, and every shorter length: never loaded, removed, and stored again without ado. */
static void damaged(void **state)
{
    (void)state;
    char whole[512], bad[512], path[512];
    empty_folder();
    module_cache_store("key", "payload", 7);
    snprintf(path, sizeof path, "%s", only_file());
    FILE *f = fopen(path, "r");
    size_t size = fread(whole, 1, sizeof whole, f);
    fclose(f);
    assert_int_equal(size, 16 + 16 + 3 + 7 + 8);
    for (size_t i = 0; i < size; i++) {
        memcpy(bad, whole, size);
        bad[i] ^= (char)(1 << i % 8);
        write_bytes(path, bad, size);
        assert_false(loads("key", "", 0));
        assert_int_not_equal(access(path, F_OK), 0);
        write_bytes(path, whole, i);
        assert_false(loads("key", "", 0));
        assert_int_not_equal(access(path, F_OK), 0);
    }
    memcpy(bad, whole, size);
    bad[size] = 'x';
    write_bytes(path, bad, size + 1);
    assert_false(loads("key", "", 0));
    module_cache_store("key", "payload", 7);
    assert_true(loads("key", "payload", 7));
}

/* A whole file under another key's name (two keys of one hash) is not that key's. */
static void foreign(void **state)
{
    (void)state;
    char first[512], second[512];
    empty_folder();
    module_cache_store("one", "1", 1);
    snprintf(first, sizeof first, "%s", only_file());
    empty_folder();
    module_cache_store("two", "2", 1);
    snprintf(second, sizeof second, "%s", only_file());
    assert_int_equal(rename(second, first), 0);
    assert_false(loads("one", "", 0));
    module_cache_store("one", "1", 1);
    assert_true(loads("one", "1", 1));
    unlink(first);
    assert_int_equal(mkdir(first, 0777), 0);
    assert_false(loads("one", "", 0));
    module_cache_store("one", "1", 1);
    assert_false(loads("one", "", 0));
    rmdir(first);
}

struct listed {
    int whole, damaged;
    size_t bytes;
};

static void list_one(void *arg, const char *file, const char *key, size_t bytes)
{
    struct listed *l = arg;
    assert_non_null(file);
    l->whole += key != NULL;
    l->damaged += key == NULL;
    if (key) l->bytes += bytes;
}

static void listing(void **state)
{
    (void)state;
    struct listed l = {0};
    char path[512];
    empty_folder();
    module_cache_store("one", "12", 2);
    snprintf(path, sizeof path, "%s/0123.cubin", module_cache_dir());
    write_bytes(path, "rubbish", 7);
    snprintf(path, sizeof path, "%s/0123.cubin.a8d7f6", module_cache_dir());
    write_bytes(path, "unfinished", 10);
    module_cache_store("two", "345", 3);
    assert_int_equal(module_cache_list(list_one, &l), 3);
    assert_true(l.whole == 2 && l.damaged == 1 && l.bytes == 5);
    empty_folder();
}

/* A file's name tells what it is; all kinds are listed, and bounded. */
static void named_by_kind(void **state)
{
    (void)state;
    static const char *const keys[] = {"sm_90 1 d(4)", "sm_90-ptx 1 d(4)", "host-0123456789abcdef 1 d(4)"};
    static const char *const endings[] = {".cubin", ".ptx", ".so"};
    for (int i = 0; i < 3; i++) {
        struct listed l = {0};
        empty_folder();
        module_cache_store(keys[i], "12", 2);
        const char *name = only_file();
        assert_string_equal(name + strlen(name) - strlen(endings[i]), endings[i]);
        assert_int_equal(module_cache_list(list_one, &l), 1);
        assert_true(loads(keys[i], "12", 2));
        module_cache_trim(1);
        assert_string_equal(only_file(), "");
    }
}

/* Writers and readers of one key at once: a reader sees one whole payload or none, at any moment. */
static void concurrent(void **state)
{
    (void)state;
    enum { WRITERS = 4, ROUNDS = 60, BYTES = 50000 };
    char *text = malloc(BYTES);
    int failures = 0, status;
    empty_folder();
    for (int w = 0; w < WRITERS; w++) {
        if (fork()) continue;
        memset(text, 'a' + w, BYTES);
        for (int i = 0; i < ROUNDS; i++) {
            void *data;
            size_t bytes;
            module_cache_store("shared", text, BYTES);
            if (module_cache_load("shared", &data, &bytes)) _exit(1);
            for (size_t n = 0; n < bytes; n++)
                if (((char *)data)[n] != ((char *)data)[0] || bytes != BYTES) _exit(1);
            free(data);
        }
        _exit(0);
    }
    while (wait(&status) > 0) failures += status != 0;
    assert_int_equal(failures, 0);
    assert_string_not_equal(only_file(), ""); /* no temporary file is left */
    free(text);
}

/* Settings are read once a process: a folder that can't be made is tried in a new one. */
/* One of many makes a module, the others find it. */
static void one_makes_it(void **state)
{
    (void)state;
    enum { RANKS = 6 };
    char *key = module_cache_key("s(7,16,d(8))", "", "sm_90", 13, 0);
    int made[2], status;
    empty_folder();
    module_cache_store("another", "x", 1);   /* makes the folder */
    assert_int_equal(pipe(made), 0);
    for (int i = 0; i < RANKS; i++) {
        if (fork()) continue;
        void *data;
        size_t bytes;
        int lock = module_cache_lock(key, NULL);
        if (lock < 0) _exit(1);
        if (module_cache_load(key, &data, &bytes) != 0) {
            if (write(made[1], "m", 1) != 1) _exit(1);
            module_cache_store(key, "module", 6);
        }
        module_cache_unlock(lock, key);
        _exit(0);
    }
    close(made[1]);
    for (int i = 0; i < RANKS; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    char makers[RANKS + 1];
    assert_int_equal(read(made[0], makers, sizeof makers), 1);
    close(made[0]);
    free(key);
}

/* A child that was forked meanwhile, and goes on without exec, keeps nobody waiting. */
static void forked_while_locked(void **state)
{
    (void)state;
    char *key = module_cache_key("s(8,16,d(8))", "", "sm_90", 13, 0), byte;
    int goes_on[2];
    empty_folder();
    assert_int_equal(pipe(goes_on), 0);
    int lock = module_cache_lock(key, NULL), waiting = open(only_file(), O_RDWR | O_CLOEXEC);
    assert_true(lock >= 0 && waiting >= 0);
    pid_t child = fork();
    if (!child) {
        close(goes_on[1]);
        _exit(read(goes_on[0], &byte, 1) != 0);
    }
    module_cache_unlock(lock, key);
    assert_int_equal(flock(waiting, LOCK_EX | LOCK_NB), 0);
    close(waiting), close(goes_on[0]), close(goes_on[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    free(key);
}

/* The least used modules go first; one that was read counts as used. */
static void bounded(void **state)
{
    (void)state;
    static const char payload[1000];
    const char *const keys[] = {"first", "second", "third", "fourth"};
    void *data;
    size_t bytes;
    empty_folder();
    for (int i = 0; i < 4; i++) {
        module_cache_store(keys[i], payload, sizeof payload);
        char *path = module_cache_path(keys[i], ".cubin");
        assert_non_null(path);
        const struct timespec used[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        assert_int_equal(utimensat(AT_FDCWD, path, used, 0), 0);
        free(path);
    }
    assert_int_equal(module_cache_load("first", &data, &bytes), 0);
    free(data);
    module_cache_trim(100000);
    assert_int_equal(module_cache_load("second", &data, &bytes), 0);   /* within the bound nothing goes */
    free(data);
    module_cache_trim(3500);   /* down to 2625: two of them */
    assert_int_equal(module_cache_load("third", &data, &bytes), -1);
    assert_int_equal(module_cache_load("fourth", &data, &bytes), -1);
    assert_int_equal(module_cache_load("first", &data, &bytes), 0);
    free(data);
    assert_int_equal(module_cache_load("second", &data, &bytes), 0);
    free(data);
}

/* A file of the folder, last written so many days ago. */
static char *lies_there(const char *name, int days)
{
    static char path[600];
    const time_t then = time(NULL) - days * 86400 - (days ? 60 : 0);
    const struct timespec when[2] = {{.tv_sec = then}, {.tv_sec = then}};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_bytes(path, "x", 1);
    assert_int_equal(utimensat(AT_FDCWD, path, when, 0), 0);
    return path;
}

/* Of processes that were killed; what is another's stays, and what may still be in use. */
static void owner_is_dead(void **state)
{
    (void)state;
#define NAME "0123456789abcdef0123456789abcdef"
    static const char *const left[] = {NAME ".lock", NAME ".cubin.a1B2c3", NAME ".so.a1B2c3", NAME ".ptx.a1B2c3", "nvrtc.a1B2c3"};
    static const char *const kept[] = {NAME ".cubin", "nvrtc", "notes.a1B2c3", NAME ".text.a1B2c3", "abc.lock", "my.cubin.a1B2c3",
                                       NAME ".cubin.backup-1"};
    struct stat st;
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        empty_folder();
        char *path = lies_there(left[i], 0);
        module_cache_trim(CACHE_BYTES_MAX);
        assert_int_equal(stat(path, &st), 0);
        lies_there(left[i], 1);
        module_cache_trim(CACHE_BYTES_MAX);
        assert_int_equal(stat(path, &st), -1);
    }
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        empty_folder();
        char *path = lies_there(kept[i], 300);
        module_cache_trim(CACHE_BYTES_MAX);
        assert_int_equal(stat(path, &st), 0);
    }
    empty_folder();
}

static void unwritable(void **state)
{
    (void)state;
    char path[600], said[4096] = "";
    int out[2], status;
    snprintf(path, sizeof path, "%s/file", base);
    write_bytes(path, "", 0);
    strcat(path, "/cache");
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(out[1], STDERR_FILENO);
        setenv("STRIDEC_CACHE_DIR", path, 1);
        execl("/proc/self/exe", "test_cache", "store", NULL);
        _exit(9);
    }
    close(out[1]);
    waitpid(child, &status, 0);
    assert_true(read(out[0], said, sizeof said - 1) > 0);
    close(out[0]);
    assert_int_equal(status, 0);
    assert_non_null(strstr(said, "warn: compiled modules can't be kept in"));
    assert_true(strchr(said, '\n') == said + strlen(said) - 1); /* one line, for two stores */
}

static int store_twice(void)
{
    void *data;
    size_t bytes;
    module_cache_store("a", "1", 1);
    module_cache_store("b", "1", 1);
    return module_cache_load("a", &data, &bytes) == -1 && module_cache_list(list_one, NULL) == -1 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "store")) return store_twice();
    if (!mkdtemp(base)) return 1;
    snprintf(folder, sizeof folder, "%s/a/b", base); /* made by the first store */
    setenv("STRIDEC_CACHE_DIR", folder, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_and_loaded), cmocka_unit_test(damaged),    cmocka_unit_test(foreign),
        cmocka_unit_test(listing),           cmocka_unit_test(concurrent), cmocka_unit_test(one_makes_it),
        cmocka_unit_test(bounded),           cmocka_unit_test(unwritable), cmocka_unit_test(named_by_kind),
        cmocka_unit_test(owner_is_dead),       cmocka_unit_test(forked_while_locked),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command) || failed;
}
