/* arguments.c: checks what a constructor was given, and says what is wrong with it. See sandbox.h. */
#include "sandbox.h"

#include <lauxlib.h>
#include <stdarg.h>
#include <stdio.h>

int spec_fail(lua_State *L, const char *constructor, const char *format, ...)
{
    char text[192];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sandbox_raise(L, sandbox_line(L), "%s: %s", constructor, text);
}

/* What came, in words: a number's value, anything else's type. */
static const char *given(lua_State *L, int at)
{
    if (lua_type(L, at) == LUA_TNUMBER) {
        lua_pushvalue(L, at);
        return lua_tostring(L, -1);
    }
    return luaL_testudata(L, at, SPEC_TYPE) ? "a type" : luaL_typename(L, at);
}

/* True for numbers that are whole and fit; strings that look like numbers are not numbers. */
static bool whole(lua_State *L, int at, int64_t *value)
{
    int exact = 0;
    if (lua_type(L, at) == LUA_TNUMBER)
        *value = lua_tointegerx(L, at, &exact);
    return exact;
}

int64_t spec_integer(lua_State *L, const char *constructor, int arg, const char *name)
{
    int64_t value = 0;
    if (!whole(L, arg, &value))
        spec_fail(L, constructor, "%s must be a whole number below 2^63, is %s", name, given(L, arg));
    return value;
}

int64_t spec_count(lua_State *L, const char *constructor, int arg, const char *name)
{
    int64_t value = spec_integer(L, constructor, arg, name);
    if (value < 0)
        spec_fail(L, constructor, "%s must not be negative, is %lld", name, (long long)value);
    return value;
}

const struct spec_type *spec_oldtype(lua_State *L, const char *constructor, int arg, const char *name)
{
    const struct spec_type *t = luaL_testudata(L, arg, SPEC_TYPE);
    if (!t || !t->type)
        spec_fail(L, constructor, "%s must be a type, is %s", name, given(L, arg));
    return t;
}

lua_Integer spec_list_length(lua_State *L, const char *constructor, int arg, const char *name)
{
    if (lua_type(L, arg) != LUA_TTABLE)
        spec_fail(L, constructor, "%s must be a list, is %s", name, given(L, arg));
    lua_Integer n = (lua_Integer)lua_rawlen(L, arg), keys = 0;
    if (n < 0 || n > SPEC_LIST_MAX)
        spec_fail(L, constructor, "%s must have at most %lld entries", name, (long long)SPEC_LIST_MAX);
    for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1))
        keys++;
    if (keys != n)
        spec_fail(L, constructor, "%s must be a list without gaps or named entries", name);
    return n;
}

struct spec_list spec_integers(lua_State *L, const char *constructor, int arg, const char *name)
{
    struct spec_list list = {spec_list_length(L, constructor, arg, name), NULL};
    luaL_checkstack(L, 4, "too many lists");
    list.number = lua_newuserdatauv(L, ((size_t)list.count + 1) * sizeof *list.number, 0);
    for (int64_t i = 0; i < list.count; i++) {
        lua_rawgeti(L, arg, i + 1);
        if (!whole(L, -1, &list.number[i]))
            spec_fail(L, constructor, "%s[%lld] must be a whole number below 2^63, is %s", name, (long long)i + 1,
                      given(L, -1));
        lua_pop(L, 1);
    }
    return list;
}
