/* test_aot.c: manifests of modules compiled ahead of time, good and damaged. */
#include "../../gen/gen.h"
#include "../../runtime/kernel/module_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static char folder[] = "/tmp/stridec-aot-XXXXXX";
static const char MODULE[] = "the bytes of a module";

static char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder) || setenv("STRIDEC_AOT", folder, 1) != 0)
        return -1;
    write_file("a.cubin", MODULE, sizeof MODULE);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path_of("a.cubin"));
    unlink(path_of("manifest"));
    return rmdir(folder);
}

/* A manifest of one line, which %s of `format` stand for: the file's hash and the generator's version. */
static void write_manifest(const char *header, const char *format)
{
    char text[512], hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)XXH64(MODULE, sizeof MODULE, 0));
    int n = snprintf(text, sizeof text, "%s\n", header);
    n += snprintf(text + n, sizeof text - (size_t)n, format, hash, gen_version());
    write_file("manifest", text, (size_t)n);
}

/* What a fresh process finds, since a manifest is read once: 0 the module, 1 nothing, 2 other bytes.
 * *warnings: lines on standard error. */
static int load_in_child(const char *signature, const char *arch, int *warnings)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        void *data = NULL;
        size_t bytes = 0;
        dup2(ends[1], 2);
        int first = aot_load(signature, arch, &data, &bytes);
        free(data);
        data = NULL;
        int second = aot_load(signature, arch, &data, &bytes);
        int result = first != second ? 3 : first ? 1 : bytes != sizeof MODULE || memcmp(data, MODULE, bytes) ? 2 : 0;
        free(data);
        _exit(result);
    }
    close(ends[1]);
    *warnings = 0;
    for (char c; read(ends[0], &c, 1) == 1;)
        *warnings += c == '\n';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define HEADER "stridec manifest 2"

static void finds_modules(void **state)
{
    (void)state;
    int warnings;
    write_manifest(HEADER, "s(2,8,d(4))\tsm_90\ta.cubin\t%s\t%s\n");
    assert_int_equal(load_in_child("s(2,8,d(4))", "sm_90", &warnings), 0);
    assert_int_equal(warnings, 0);
    assert_int_equal(load_in_child("s(2,8,d(5))", "sm_90", &warnings), 1);
    assert_int_equal(warnings, 0);
    assert_int_equal(load_in_child("s(2,8,d(4))", "host-0123456789abcdef", &warnings), 1);
    assert_int_equal(warnings, 0);
    assert_int_equal(load_in_child("s(2,8,d(4))", "sm_80", &warnings), 1);
    assert_int_equal(warnings, 1);   /* once: the folder is for another GPU */
    write_manifest(HEADER, "d(4)\thost-1\ta.cubin\t%s\t%s\n");
    assert_int_equal(load_in_child("d(4)", "host-2", &warnings), 1);
    assert_int_equal(warnings, 1);
    assert_int_equal(load_in_child("d(4)", "sm_80", &warnings), 1);
    assert_int_equal(warnings, 0);
    write_manifest(HEADER, "d(4)\tsm_90\ta.cubin\t%s\t%s");   /* no end of line */
    assert_int_equal(load_in_child("d(4)", "sm_90", &warnings), 0);
}

static void refuses_bad_manifests(void **state)
{
    (void)state;
    static const struct {
        const char *header, *format;
    } bad[] = {
        {"stridec manifest 1", "d(4)\tsm_90\ta.cubin\t%s\t%s\n"},
        {"", "d(4)\tsm_90\ta.cubin\t%s\t%s\n"},
        {HEADER, "d(4)\tsm_90\ta.cubin\t%s\tx%s\n"},
        {HEADER, "d(4)\tsm_90\ta.cubin\t0%s\t%s\n"},
        {HEADER, "d(4)\tsm_90\ta.cubin\t%.15s\t%s\n"},
        {HEADER, "d(4)\tsm_90\ta.cubin\t%s\t%s\tmore\n"},
        {HEADER, "d(4)\tsm_90\t../a.cubin\t%s\t%s\n"},
        {HEADER, "d(4)\tsm_90\tgone.cubin\t%s\t%s\n"},
        {HEADER, "d(4)\tsm_90\t\t%s\t%s\n"},
        {HEADER, "d(4)\tsm_90\t.\t%s\t%s\n"},
        {HEADER, "d(4) sm_90 a.cubin %s %s\n"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int warnings;
        write_manifest(bad[i].header, bad[i].format);
        assert_int_equal(load_in_child("d(4)", "sm_90", &warnings), 1);
        assert_int_equal(warnings, 1);
    }
}

static void refuses_damaged_files(void **state)
{
    (void)state;
    int warnings;
    char other[sizeof MODULE];
    memcpy(other, MODULE, sizeof MODULE);
    other[3] ^= 1;
    write_manifest(HEADER, "d(4)\tsm_90\ta.cubin\t%s\t%s\n");
    write_file("a.cubin", other, sizeof other);
    assert_int_equal(load_in_child("d(4)", "sm_90", &warnings), 1);
    assert_int_equal(warnings, 1);
    write_file("a.cubin", MODULE, sizeof MODULE - 1);
    assert_int_equal(load_in_child("d(4)", "sm_90", &warnings), 1);
    write_file("a.cubin", "", 0);
    assert_int_equal(load_in_child("d(4)", "sm_90", &warnings), 1);
    write_file("a.cubin", MODULE, sizeof MODULE);
}

static void no_manifest(void **state)
{
    (void)state;
    int warnings;
    unlink(path_of("manifest"));
    assert_int_equal(load_in_child("d(4)", "sm_90", &warnings), 1);
    assert_int_equal(warnings, 1);
    write_file("manifest", "", 0);
    assert_int_equal(load_in_child("d(4)", "sm_90", &warnings), 1);
    unsetenv("STRIDEC_AOT");
    assert_int_equal(load_in_child("d(4)", "sm_90", &warnings), 1);
    assert_int_equal(warnings, 0);
    setenv("STRIDEC_AOT", folder, 1);
}

static void may_be_written(const char *path, mode_t mode)
{
    int warnings;
    assert_int_equal(chmod(path, mode | S_IWGRP), 0);
    assert_int_equal(load_in_child("d(4)", "sm_90", &warnings), 1);
    assert_int_equal(warnings, 1);
    assert_int_equal(chmod(path, mode), 0);
    assert_int_equal(load_in_child("d(4)", "sm_90", &warnings), 0);
    assert_int_equal(warnings, 0);
}

/* Modules, manifests and folders that others may write to. */
static void not_from_others(void **state)
{
    (void)state;
    write_manifest(HEADER, "d(4)\tsm_90\ta.cubin\t%s\t%s\n");
    may_be_written(path_of("a.cubin"), 0644);
    may_be_written(path_of("manifest"), 0644);
    may_be_written(folder, 0755);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_modules),
        cmocka_unit_test(refuses_bad_manifests),
        cmocka_unit_test(refuses_damaged_files),
        cmocka_unit_test(no_manifest),
        cmocka_unit_test(not_from_others),
    };
    return cmocka_run_group_tests_name("aot", tests, make_folder, remove_folder);
}
