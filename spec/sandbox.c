/* sandbox.c: the Lua state that specs run in: memory, instructions, time, environment. See sandbox.h. */
#include "sandbox.h"
#include "../gen/nearest.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines and messages ---- */

struct sandbox *sandbox_of(lua_State *L)
{
    void *ud;
    lua_getallocf(L, &ud);
    return ud;
}

int sandbox_line(lua_State *L)
{
    lua_Debug ar;
    const struct sandbox *s = sandbox_of(L);
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline > 0 && strcmp(ar.short_src, s->file) == 0)
            return ar.currentline;
    }
    return 0;
}

/* FILE:LINE, or FILE where no line is known. */
struct place {
    char text[LUA_IDSIZE + 16];
};

static struct place place_of(const struct sandbox *s, int line)
{
    struct place p;
    int n = snprintf(p.text, sizeof p.text, "%s", s->file);
    if (line > 0)
        snprintf(p.text + n, sizeof p.text - (size_t)n, ":%d", line);
    return p;
}

int sandbox_raise(lua_State *L, int line, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lua_pushfstring(L, "%s: %s", place_of(sandbox_of(L), line).text, text);
    return lua_error(L);
}

int sandbox_message(lua_State *L)
{
    const struct sandbox *s = sandbox_of(L);
    const char *text = lua_isstring(L, 1) ? lua_tostring(L, 1) : NULL;
    size_t n = strlen(s->file);
    if (text && strncmp(text, s->file, n) == 0 && text[n] == ':')
        return 1;
    if (text)
        lua_pushfstring(L, "%s: %s", place_of(s, sandbox_line(L)).text, text);
    else
        lua_pushfstring(L, "%s: the error raised is a %s, not a message", place_of(s, sandbox_line(L)).text,
                        luaL_typename(L, 1));
    return 1;
}

void sandbox_reason(struct sandbox *s, int status, struct reason *why)
{
    const char *text = s->L ? lua_tostring(s->L, -1) : NULL;
    if (s->broken.text[0])
        *why = s->broken;
    else if (status == LUA_ERRMEM)
        snprintf(why->text, sizeof why->text, "%s: out of memory: a spec may use %zu MiB, a string in it %zu MiB",
                 place_of(s, s->refused_line).text, SPEC_MEMORY_MAX >> 20, SPEC_STRING_MAX >> 20);
    else
        snprintf(why->text, sizeof why->text, "%s", text ? text : "unknown error");
}

/* ---- memory ---- */

/* For a new object Lua passes its type as `osize`. */
static void *allocate(void *ud, void *old, size_t osize, size_t nsize)
{
    struct sandbox *s = ud;
    size_t held = old ? osize : 0;
    if (nsize == 0) {
        free(old);
        s->used -= held;
        return NULL;
    }
    bool long_string = !old && osize == LUA_TSTRING && nsize > SPEC_STRING_MAX;
    bool fits = nsize <= held || nsize - held <= SPEC_MEMORY_MAX - s->used;
    void *p = fits && !long_string ? realloc(old, nsize) : NULL;
    if (p)
        s->used = s->used - held + nsize;
    else if (s->L)
        s->refused_line = sandbox_line(s->L);   /* there is no message handler for memory errors */
    return p;
}

void sandbox_charge(lua_State *L, size_t bytes)
{
    struct sandbox *s = sandbox_of(L);
    if (bytes > SPEC_MEMORY_MAX - s->used)
        lua_gc(L, LUA_GCCOLLECT);
    if (bytes > SPEC_MEMORY_MAX - s->used)
        sandbox_raise(L, sandbox_line(L), "out of memory: a spec's types may use %zu MiB", SPEC_MEMORY_MAX >> 20);
    s->used += bytes;
}

void sandbox_discharge(lua_State *L, size_t bytes)
{
    sandbox_of(L)->used -= bytes;
}

/* ---- instructions and time ---- */

#define HOOK_INTERVAL 100

static time_t seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void hook(lua_State *L, lua_Debug *ar)
{
    struct sandbox *s = sandbox_of(L);
    (void)ar;
    if (!s->broken.text[0]) {
        s->instructions += HOOK_INTERVAL;
        bool late = seconds() > s->deadline;
        if (s->instructions <= SPEC_INSTRUCTIONS_MAX && !late)
            return;
        int n = snprintf(s->broken.text, sizeof s->broken.text, "%s: ", place_of(s, sandbox_line(L)).text);
        snprintf(s->broken.text + n, sizeof s->broken.text - (size_t)n,
                 late ? "still running after %ld seconds" : "still running after %ld instructions; an endless loop?",
                 late ? (long)SPEC_SECONDS_MAX : SPEC_INSTRUCTIONS_MAX);
        lua_sethook(L, hook, LUA_MASKCOUNT, 1);
    }
    lua_pushstring(L, s->broken.text);
    lua_error(L);
}

/* ---- environment ---- */

/* string.rep, refused before it begins when the result is too long. */
static int bounded_rep(lua_State *L)
{
    size_t length, gap;
    const char *text = luaL_checklstring(L, 1, &length);
    lua_Integer copies = luaL_checkinteger(L, 2);
    const char *separator = luaL_optlstring(L, 3, "", &gap);
    if (copies <= 0 || length + gap == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if ((uint64_t)copies > SPEC_STRING_MAX / (length + gap))
        return luaL_error(L, "string.rep: the result would be longer than %d MiB", (int)(SPEC_STRING_MAX >> 20));
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (lua_Integer i = 0; i < copies; i++) {
        luaL_addlstring(&b, text, length);
        if (i + 1 < copies)
            luaL_addlstring(&b, separator, gap);
    }
    luaL_pushresult(&b);
    return 1;
}

/* The functions of the table library whose C code would loop over a length that a spec can forge. */
static const char TABLE_LIBRARY[] =
    "local table, sort, error, select = ...\n"
    "local function less(a, b) return a < b end\n"
    "function table.sort(t, compare) return sort(t, compare or less) end\n"
    "function table.insert(t, ...)\n"
    "    local at, value = #t + 1, ...\n"
    "    if select('#', ...) == 2 then\n"
    "        local last = at\n"
    "        at, value = ...\n"
    "        if at < 1 or at > last then error('table.insert: position out of bounds', 2) end\n"
    "        for i = last, at + 1, -1 do t[i] = t[i - 1] end\n"
    "    elseif select('#', ...) ~= 1 then error('table.insert: wrong number of arguments', 2) end\n"
    "    t[at] = value\n"
    "end\n"
    "function table.remove(t, at)\n"
    "    local last = #t\n"
    "    at = at or last\n"
    "    local value = t[at]\n"
    "    for i = at, last - 1 do t[i] = t[i + 1] end\n"
    "    if at <= last then t[last] = nil end\n"
    "    return value\n"
    "end\n";

/* Everything of Lua's own that a spec may call. random is left out: a spec yields the same types each time. */
static const char *const BASE[] = {"ipairs", "pairs", "next", "select", "type", "tostring", "tonumber", "error",
                                   "assert", "pcall", NULL};
static const char *const MATH[] = {"abs", "ceil", "floor", "fmod", "huge", "max", "maxinteger", "min", "mininteger",
                                   "modf", "pi", "sqrt", "tointeger", "type", "ult", "exp", "log", "sin", "cos",
                                   "tan", "asin", "acos", "atan", "deg", "rad", NULL};
static const char *const STRING[] = {"byte", "char", "format", "len", "lower", "upper", "reverse", "sub", NULL};
static const char *const TABLE[] = {"concat", "pack", "unpack", "sort", NULL};

/* Opens a library outside the spec's reach and copies the listed fields to the table on top. */
static void copy_fields(lua_State *L, const char *library, lua_CFunction open, const char *const names[])
{
    luaL_requiref(L, library, open, 0);
    for (int i = 0; names[i]; i++) {
        lua_getfield(L, -1, names[i]);
        lua_setfield(L, -3, names[i]);
    }
    lua_pop(L, 1);
}

static void table_library(lua_State *L)
{
    lua_newtable(L);
    copy_fields(L, LUA_TABLIBNAME, luaopen_table, TABLE);
    if (luaL_loadbufferx(L, TABLE_LIBRARY, sizeof TABLE_LIBRARY - 1, "=table library", "t") != LUA_OK)
        lua_error(L);
    lua_pushvalue(L, -2);
    lua_getfield(L, -1, "sort");
    lua_getfield(L, -5, "error");
    lua_getfield(L, -6, "select");
    lua_call(L, 4, 0);
}

static void string_library(lua_State *L)
{
    lua_newtable(L);
    copy_fields(L, LUA_STRLIBNAME, luaopen_string, STRING);
    lua_pushcfunction(L, bounded_rep);
    lua_setfield(L, -2, "rep");
    /* ("x"):find would else reach the whole library through the strings' metatable. */
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 2);
}

/* Raises an error for a name that Lua, the constructors and the spec do not know: as nil it would vanish silently. */
static int unknown_name(lua_State *L)
{
    const char *name = lua_tostring(L, 2);
    struct nearest n = {.wanted = name ? name : "?"};
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))   /* the environment keeps the keys */
        if (lua_type(L, -2) == LUA_TSTRING)
            nearest_try(&n, lua_tostring(L, -2));
    if (n.name)
        return sandbox_raise(L, sandbox_line(L), "there is no `%.100s`: did you mean `%s`?", n.wanted, n.name);
    return sandbox_raise(L, sandbox_line(L), "there is no `%.100s`: spec/README.md lists the types and constructors",
                         n.wanted);
}

void sandbox_environment(lua_State *L)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushcfunction(L, unknown_name);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    copy_fields(L, LUA_GNAME, luaopen_base, BASE);
    table_library(L);
    lua_setfield(L, -2, "table");
    string_library(L);
    lua_setfield(L, -2, "string");
    lua_newtable(L);
    copy_fields(L, LUA_MATHLIBNAME, luaopen_math, MATH);
    lua_setfield(L, -2, "math");
}

/* ---- life ---- */

int sandbox_open(struct sandbox *s, const char *path, struct reason *why)
{
    memset(s, 0, sizeof *s);
    size_t n = strlen(path);
    bool fits = n < sizeof s->file;
    snprintf(s->file, sizeof s->file, "%s%s", fits ? "" : "...", fits ? path : path + n - (sizeof s->file - 4));
    s->deadline = seconds() + SPEC_SECONDS_MAX;
    s->L = lua_newstate(allocate, s);
    if (!s->L) {
        snprintf(why->text, sizeof why->text, "%s: out of memory", s->file);
        return -1;
    }
    lua_sethook(s->L, hook, LUA_MASKCOUNT, HOOK_INTERVAL);
    return 0;
}

void sandbox_close(struct sandbox *s)
{
    if (s->L)
        lua_close(s->L);
    s->L = NULL;
}
