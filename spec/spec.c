/* spec.c: loads a spec file and collects the named types that it returns. */
#include "sandbox.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((size_t)16 << 20)
#define NAME_BYTES_MAX 255

struct job {
    const char *path, *text;
    size_t bytes;
    struct spec *spec;
};

/* ---- reading ---- */

/* The file's text with a terminator, or NULL with *why. malloc'd. */
static char *read_file(const char *path, size_t *bytes, struct reason *why)
{
    struct stat st;
    char *text = NULL;
    size_t capacity = 0, n = 0;
    ssize_t got = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        goto failed;
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        goto failed;
    }
    while (got > 0 && n <= FILE_BYTES_MAX) {
        if (n == capacity) {
            capacity = capacity ? 2 * capacity : 64 << 10;
            char *larger = realloc(text, capacity + 1);   /* a terminator */
            if (!larger)
                goto failed;
            text = larger;
        }
        got = read(fd, text + n, capacity - n);
        n += got > 0 ? (size_t)got : 0;
    }
    if (got < 0)
        goto failed;
    if (n > FILE_BYTES_MAX) {
        errno = EFBIG;
        goto failed;
    }
    close(fd);
    *bytes = n;
    text[n] = '\0';
    return text;
failed:
    snprintf(why->text, sizeof why->text, "%.150s: %s", *path ? path : "''", strerror(errno));
    free(text);
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* ---- collecting ---- */

static bool good_name(const char *name, size_t n)
{
    if (n == 0 || n > NAME_BYTES_MAX || !(isalpha((unsigned char)name[0]) || name[0] == '_'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("_.-", name[i] ? name[i] : ' '))
            return false;
    return true;
}

/* Raises an error about what the chunk on stack place `chunk` returned, at its last line. */
static int bad_result(lua_State *L, int chunk, const char *message)
{
    lua_Debug ar;
    lua_Integer last = 0;
    lua_pushvalue(L, chunk);
    lua_getinfo(L, ">L", &ar);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        last = lua_tointeger(L, -2) > last ? lua_tointeger(L, -2) : last;
    return sandbox_raise(L, (int)last, "%s", message);
}

/* Checks the entry whose key and value are on top. */
static void check_entry(lua_State *L, int chunk)
{
    size_t n = 0;
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &n) : NULL;
    if (!name)
        bad_result(L, chunk, lua_pushfstring(L, "a type's name must be a string; the returned table has a %s as key",
                                             luaL_typename(L, -2)));
    if (!good_name(name, n))
        bad_result(L, chunk, "a type's name must be letters, digits, '_', '.' and '-', begin with a letter or '_' "
                             "and have at most 255 of them");
    if (!luaL_testudata(L, -1, SPEC_TYPE))
        bad_result(L, chunk, lua_pushfstring(L, "'%s' is a %s, not a type%s", name, luaL_typename(L, -1),
                                             lua_istable(L, -1) ? "; the returned table may not be nested" : ""));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct spec_item *)a)->name, ((const struct spec_item *)b)->name);
}

/* Adds the entry on top to spec, whose array has room. */
static bool add_entry(lua_State *L, struct spec *spec)
{
    const struct spec_type *t = lua_touserdata(L, -1);
    struct reason why;
    struct spec_item item = {strdup(lua_tostring(L, -2)), t->line, type_dup(t->type, &why)};
    if (!item.name || !item.type) {
        free(item.name);
        type_free(item.type);
        return false;
    }
    spec->item[spec->count++] = item;
    return true;
}

/* chunk and the table that it returned are on the stack at places 2 and 3. */
static void collect(lua_State *L, struct job *job)
{
    size_t n = 0;
    for (lua_pushnil(L); lua_next(L, 3); lua_pop(L, 1), n++)
        check_entry(L, 2);
    if (n == 0)
        bad_result(L, 2, "the returned table holds no types");
    job->spec = calloc(1, sizeof *job->spec);
    if (job->spec)
        job->spec->item = calloc(n, sizeof *job->spec->item);
    if (!job->spec || !job->spec->item)
        sandbox_raise(L, 0, "out of memory");
    for (lua_pushnil(L); lua_next(L, 3); lua_pop(L, 1))
        if (!add_entry(L, job->spec))
            sandbox_raise(L, 0, "out of memory");
    qsort(job->spec->item, n, sizeof *job->spec->item, by_name);
}

/* Everything that may raise an error. Argument: the job. */
static int load_protected(lua_State *L)
{
    struct job *job = lua_touserdata(L, 1);
    const char *text = job->text;
    size_t bytes = job->bytes;
    lua_settop(L, 1);
    while (bytes && job->text[0] == '#' && *text != '\n')   /* a first line for the shell */
        text++, bytes--;
    const char *chunk = lua_pushfstring(L, "@%s", job->path);
    int status = luaL_loadbufferx(L, text, bytes, chunk, "t");
    lua_remove(L, 2);
    if (status != LUA_OK)
        return lua_error(L);
    sandbox_environment(L);
    spec_constructors(L);
    lua_setupvalue(L, 2, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 0, 1);
    if (!lua_istable(L, 3))
        bad_result(L, 2, lua_pushfstring(L, "a spec must return a table of types, this one returns %s",
                                         luaL_testudata(L, 3, SPEC_TYPE) ? "a single type" : luaL_typename(L, 3)));
    collect(L, job);
    return 0;
}

struct spec *spec_load(const char *path, struct reason *why)
{
    struct sandbox sandbox;
    struct job job = {path, NULL, 0, NULL};
    char *text = read_file(path, &job.bytes, why);
    if (!text)
        return NULL;
    job.text = text;
    if (signatures_are(text)) {
        job.spec = signatures_load(path, text, why);
        free(text);
        return job.spec;
    }
    int status = -1;
    if (sandbox_open(&sandbox, path, why) == 0) {
        lua_State *L = sandbox.L;
        lua_pushcfunction(L, sandbox_message);
        lua_pushcfunction(L, load_protected);
        lua_pushlightuserdata(L, &job);
        status = lua_pcall(L, 1, 0, 1);
        if (status != LUA_OK || sandbox.broken.text[0]) {
            sandbox_reason(&sandbox, status, why);
            status = -1;
        }
    }
    sandbox_close(&sandbox);
    free(text);
    if (status != LUA_OK) {
        spec_free(job.spec);
        return NULL;
    }
    return job.spec;
}

void spec_free(struct spec *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        free(s->item[i].name);
        type_free(s->item[i].type);
    }
    free(s->item);
    free(s);
}
