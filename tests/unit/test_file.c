/* test_file.c: files that others could have made are not used: links, pipes, other users' files, files and folders that others
 * may write to. Files of other users are tried as root alone. */
#include "../../runtime/kernel/module_cache.h"
#include "../../runtime/base/file.h"
#include "../../runtime/base/thread.h"
#include "../../runtime/node/sigbus_guard.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include "child.h"

#define USER 65534
#define STRANGER 65533

static char folder[] = "/tmp/stridec-file-XXXXXX";

static char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Makes a file of one letter, with this mode and owner. */
static void put(const char *name, mode_t mode, uid_t owner)
{
    const char *path = path_of(name);
    unlink(path);
    FILE *f = fopen(path, "w");
    assert_true(f && fputc('x', f) == 'x' && fclose(f) == 0);
    assert_int_equal(chmod(path, mode), 0);
    if (owner != geteuid()) assert_int_equal(chown(path, owner, (gid_t)-1), 0);
}

/* Returns NULL where the file can be opened and read, else the reason, the same for both. */
static const char *refused(const char *name, enum file_from from)
{
    const char *why, *too;
    size_t bytes;
    int fd = file_open(path_of(name), O_RDWR, from, &why);
    char *text = file_read(path_of(name), from, 100, &bytes, &too);
    if (fd >= 0) {
        assert_true(text && bytes == 1 && !strcmp(text, "x"));
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        close(fd), free(text);
        return NULL;
    }
    assert_null(text);
    assert_string_equal(why, too);
    return why;
}

static void own_files(void **state)
{
    (void)state;
    static const mode_t writable[] = {0620, 0602, 0666, 0770, 01777};
    put("file", 0600, geteuid());
    assert_null(refused("file", FILE_OWN));
    put("file", 0755, geteuid());
    assert_null(refused("file", FILE_INSTALLED));
    for (size_t i = 0; i < sizeof writable / sizeof *writable; i++) {
        put("file", writable[i], geteuid());
        assert_non_null(strstr(refused("file", FILE_OWN), "others may write to it"));
        assert_int_equal(errno, EPERM);
        assert_non_null(refused("file", FILE_INSTALLED));
    }
    assert_non_null(refused("gone", FILE_OWN));
    assert_int_equal(errno, ENOENT);
}

/* A pipe has no other end here: who waited for one would end by the alarm. */
static void other_kinds(void **state)
{
    (void)state;
    put("file", 0600, geteuid());
    assert_int_equal(symlink("file", path_of("link")), 0);
    assert_string_equal(refused("link", FILE_OWN), "it is a link");
    assert_string_equal(refused("link", FILE_INSTALLED), "it is a link");
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    alarm(20);
    assert_string_equal(refused("pipe", FILE_OWN), "it is no regular file");
    alarm(0);
    assert_int_equal(mkdir(path_of("folder"), 0700), 0);
    const char *why;
    size_t bytes;
    assert_null(file_read(path_of("folder"), FILE_OWN, 100, &bytes, &why));
    assert_string_equal(why, "it is no regular file");
    unlink(path_of("link")), unlink(path_of("pipe")), rmdir(path_of("folder"));
}

static void too_long(void **state)
{
    (void)state;
    const char *why;
    size_t bytes;
    put("file", 0600, geteuid());
    assert_null(file_read(path_of("file"), FILE_OWN, 0, &bytes, &why));
    assert_int_equal(errno, EFBIG);
}

static void made_files(void **state)
{
    (void)state;
    struct stat st;
    const char *why;
    mode_t before = umask(0);
    for (int again = 0; again < 2; again++) {
        int fd = file_make(path_of("made"), &why);
        assert_true(fd > STDERR_FILENO && write(fd, "y", 1) == 1);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(st.st_size, 1);   /* another file, not the one before */
        close(fd);
    }
    umask(before);
    /* A link is replaced, not followed. */
    put("file", 0600, geteuid());
    unlink(path_of("made"));
    assert_int_equal(symlink("file", path_of("made")), 0);
    int fd = file_make(path_of("made"), &why);
    assert_true(fd >= 0 && write(fd, "yy", 2) == 2);
    close(fd);
    assert_null(refused("file", FILE_OWN));
    unlink(path_of("made"));
}

static void drafts(void **state)
{
    (void)state;
    struct stat st;
    char *draft, name[256];
    mode_t before = umask(0);
    put("file", 0600, geteuid());
    assert_int_equal(symlink("file", path_of("link")), 0);
    snprintf(name, sizeof name, "%s", path_of("link"));
    int fd = file_draft(name, 0644, &draft);
    assert_true(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
    assert_true(file_publish(draft, name, true));
    assert_int_equal(lstat(name, &st), 0);
    assert_true(S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0644);
    fd = file_draft(name, 0644, &draft);
    assert_true(fd >= 0 && close(fd) == 0);
    assert_false(file_publish(draft, name, false));
    assert_null(refused("link", FILE_OWN));
    umask(before);
    unlink(name);
}

static void folders(void **state)
{
    (void)state;
    struct stat st;
    const char *why;
    char in[256], target[256];
    mode_t before = umask(0);
    snprintf(in, sizeof in, "%s/a/b", folder);
    assert_true(file_make_folder(in, 0700));
    umask(before);
    for (int i = 0; i < 2; i++, *strrchr(in, '/') = '\0') {
        assert_int_equal(stat(in, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);
    }
    snprintf(in, sizeof in, "%s/a", folder);
    assert_true(file_folder(in, FILE_OWN, &why));
    static const mode_t writable[] = {0770, 0775, 0777, 01777};
    for (size_t i = 0; i < sizeof writable / sizeof *writable; i++) {
        assert_int_equal(chmod(in, writable[i]), 0);
        assert_false(file_folder(in, FILE_OWN, &why) || file_folder(in, FILE_INSTALLED, &why));
        assert_non_null(strstr(why, "others may write to it"));
    }
    assert_int_equal(chmod(in, 0755), 0);
    snprintf(target, sizeof target, "%s/b", folder);
    assert_int_equal(symlink("a", target), 0);
    assert_true(file_folder(target, FILE_OWN, &why));   /* an own link */
    put("file", 0600, geteuid());
    assert_false(file_folder(path_of("file"), FILE_OWN, &why));
    unlink(target);
    assert_false(file_folder(target, FILE_OWN, &why));
    assert_int_equal(errno, ENOENT);
}

/* A file is in the folder's place, or nothing can be made there: errno says so. */
static void no_folders(void **state)
{
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/some//where/", folder);
    assert_true(file_make_folder(path, 0700) && file_make_folder(path, 0700) && file_make_folder("/", 0700));
    assert_true(file_make_folder(".", 0700));
    put("file", 0600, geteuid());
    snprintf(path, sizeof path, "%s/file", folder);
    assert_false(file_make_folder(path, 0700));
    assert_int_equal(errno, ENOTDIR);
    strcat(path, "/a/b");
    assert_false(file_make_folder(path, 0700));
    assert_int_equal(errno, ENOTDIR);
    snprintf(path, sizeof path, "%s/%0300d/a", folder, 0);
    assert_false(file_make_folder(path, 0700));
    assert_int_equal(errno, ENAMETOOLONG);
    assert_false(file_make_folder("", 0700));
    assert_int_equal(errno, ENOENT);
}

/* A cache takes files from its folder, and puts them there. */
static bool caches(void)
{
    void *data;
    size_t bytes;
    if (module_cache_load("sm_90 key", &data, &bytes)) return false;
    free(data);
    return true;
}

static bool caches_nothing(void)
{
    char command[300];
    if (caches()) return false;
    module_cache_store("sm_90 other", "y", 1);
    int lock = module_cache_lock("sm_90 other", NULL);
    module_cache_unlock(lock, "sm_90 other");
    snprintf(command, sizeof command, "test $(ls %s/cache | wc -l) = 1", folder);
    return lock < 0 && !system(command);
}

static bool not_cached(void)
{
    return !caches();
}

static bool caches_store(void)
{
    umask(0);
    module_cache_store("sm_90 key", "x", 1);
    return caches();
}

static char *module(void)
{
    static char path[512];
    char *made = module_cache_path("sm_90 key", ".cubin");
    snprintf(path, sizeof path, "%s", made);
    free(made);
    return path;
}

static int lines(const char *text)
{
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static void modules(void **state)
{
    (void)state;
    const char *const none[] = {NULL};
    char cache[256];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    in_child(false, none, caches_store);
    in_child(false, none, caches);
    assert_string_equal(said, "");
    static const mode_t writable[] = {0770, 01777};
    for (size_t i = 0; i < sizeof writable / sizeof *writable; i++) {
        assert_int_equal(chmod(cache, writable[i]), 0);
        in_child(false, none, caches_nothing);
        assert_int_equal(lines(said), 1);
        assert_non_null(strstr(said, "others may write to it"));
    }
    assert_int_equal(chmod(cache, 0700), 0);
    assert_int_equal(chmod(module(), 0660), 0);
    in_child(false, none, not_cached);
    assert_int_equal(lines(said), 1);
    assert_non_null(strstr(said, "others may write to it"));
    assert_int_equal(chmod(module(), 0600), 0);
    in_child(false, none, caches);
    if (geteuid()) return;
    assert_int_equal(chown(module(), STRANGER, (gid_t)-1), 0);
    in_child(false, none, not_cached);
    assert_int_equal(lines(said), 1);
    assert_non_null(strstr(said, "belongs to another user"));
}

/* Runs as another user than root, among a stranger's files. */
static bool as_user(void)
{
    const char *why;
    struct stat st;
    if (seteuid(USER)) return false;
    assert_null(refused("own", FILE_OWN));
    assert_string_equal(refused("strange", FILE_OWN), "it belongs to another user");
    assert_string_equal(refused("strange", FILE_INSTALLED), "it belongs to another user");
    size_t bytes;
    char *text = file_read(path_of("root"), FILE_INSTALLED, 100, &bytes, &why);
    assert_non_null(text);
    free(text);
    assert_null(file_read(path_of("root"), FILE_OWN, 100, &bytes, &why));
    assert_string_equal(why, "it belongs to another user");
    assert_true(file_folder("/", FILE_INSTALLED, &why));
    assert_false(file_folder("/", FILE_OWN, &why));
    assert_false(file_folder(path_of("strange folder"), FILE_INSTALLED, &why));
    assert_false(file_folder(path_of("strange link"), FILE_OWN, &why));
    /* The name is a stranger's in a folder where only owners remove. */
    assert_int_equal(file_make(path_of("strange"), &why), -1);
    assert_string_equal(why, "another user has taken its name");
    assert_int_equal(lstat(path_of("strange"), &st), 0);
    assert_int_equal(st.st_uid, STRANGER);
    return true;
}

static void strangers(void **state)
{
    (void)state;
    const char *const none[] = {NULL};
    char target[256];
    if (geteuid()) skip();
    put("own", 0600, USER), put("strange", 0666, STRANGER), put("root", 0644, 0);
    assert_int_equal(mkdir(path_of("strange folder"), 0755), 0);
    assert_int_equal(chown(path_of("strange folder"), STRANGER, STRANGER), 0);
    assert_int_equal(mkdir(path_of("user"), 0700), 0);
    assert_int_equal(chown(path_of("user"), USER, USER), 0);
    snprintf(target, sizeof target, "%s", path_of("user"));
    assert_int_equal(symlink(target, path_of("strange link")), 0);
    assert_int_equal(lchown(path_of("strange link"), STRANGER, STRANGER), 0);
    assert_int_equal(chmod(folder, 01777), 0);
    in_child(false, none, as_user);
}

/*
 * Files that are cut while they are mapped.
 */

#define BYTES ((size_t)1 << 16)

static bool is(const char *memory, char byte)
{
    for (size_t i = 0; i < BYTES; i++)
        if (memory[i] != byte) return false;
    return true;
}

static bool cut(void)
{
    static atomic_bool lost[2];
    const char *why;
    char *memory[2];
    int fd[2];
    for (int i = 0; i < 2; i++) {
        fd[i] = file_make(path_of(i ? "one" : "other"), &why);
        memory[i] = fd[i] >= 0 && !ftruncate(fd[i], BYTES) ? sigbus_guard_map(fd[i], BYTES, PROT_READ | PROT_WRITE, 0, &lost[i]) : NULL;
        if (!memory[i]) return false;
        memset(memory[i], 'x', BYTES);
    }
    if (ftruncate(fd[0], 0)) return false;
    bool right = is(memory[0], 0) && lost[0] && is(memory[1], 'x') && !lost[1];
    memset(memory[0], 'y', BYTES);
    right = right && is(memory[0], 'y');
    sigbus_guard_unmap(memory[0]);
    /* The entry serves the next file. */
    lost[0] = false;
    if (ftruncate(fd[0], BYTES) || !(memory[0] = sigbus_guard_map(fd[0], BYTES, PROT_READ, 0, &lost[0]))) return false;
    right = right && is(memory[0], 0) && !lost[0];
    if (ftruncate(fd[0], 0) || ftruncate(fd[1], 0)) return false;
    memset(memory[1], 'z', BYTES);
    right = right && is(memory[0], 0) && lost[0] && is(memory[1], 'z') && lost[1];
    sigbus_guard_unmap(memory[0]), sigbus_guard_unmap(memory[1]);
    return right;
}

static void *reads_zeros(void *memory)
{
    return is(memory, 0) ? memory : NULL;
}

/* The library's own threads meet such files, too. */
static bool by_thread(void)
{
    static atomic_bool lost;
    const char *why;
    pthread_t thread;
    void *read = NULL;
    int fd = file_make(path_of("other"), &why);
    char *memory = fd < 0 || ftruncate(fd, BYTES) ? NULL : sigbus_guard_map(fd, BYTES, PROT_READ, 0, &lost);
    if (!memory || ftruncate(fd, 0) || thread_start(&thread, 0, reads_zeros, memory)) return false;
    pthread_join(thread, &read);
    return read == memory && lost;
}

static volatile sig_atomic_t handed;
static char *unguarded;

static void on_bus(int signal)
{
    (void)signal;
    handed = 1;
    mmap(unguarded, BYTES, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* A fault elsewhere than in the library's files is the earlier handler's. */
static bool others(void)
{
    static atomic_bool lost;
    const char *why;
    int fd = file_make(path_of("other"), &why);
    signal(SIGBUS, on_bus);
    if (fd < 0 || ftruncate(fd, BYTES) || !sigbus_guard_map(fd, BYTES, PROT_READ, 0, &lost)) return false;
    unguarded = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return unguarded != MAP_FAILED && !ftruncate(fd, 0) && is(unguarded, 0) && handed && !lost;
}

static void cut_files(void **state)
{
    (void)state;
    const char *const none[] = {NULL};
    in_child(false, none, cut);
    in_child(false, none, by_thread);
    in_child(false, none, others);
}

int main(void)
{
    char command[128], cache[256];
    if (!mkdtemp(folder)) return 1;
    snprintf(cache, sizeof cache, "%s/cache", folder);
    setenv("STRIDEC_CACHE_DIR", cache, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_files),  cmocka_unit_test(other_kinds), cmocka_unit_test(too_long),
        cmocka_unit_test(made_files), cmocka_unit_test(drafts),      cmocka_unit_test(folders),
        cmocka_unit_test(no_folders), cmocka_unit_test(cut_files), cmocka_unit_test(modules),     cmocka_unit_test(strangers),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failures;
}
