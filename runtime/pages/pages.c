/* pages.c: runs the Lua that draws layouts and writes reports. */
#include "pages.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* read(name): the text of an embedded file. */
static int read_embedded(lua_State *L)
{
    const char *file = lua_pushfstring(L, "runtime/pages/%s", luaL_checkstring(L, 1));
    const struct embedded *e = pages_find(file);
    if (!e)
        return luaL_error(L, "%s is not embedded", file);
    lua_pushlstring(L, e->text, e->size);
    return 1;
}

/* require(name): runs NAME.lua once and returns its value. */
static int require(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, name) != LUA_TNIL)
        return 1;
    lua_pop(L, 1);
    const char *file = lua_pushfstring(L, "runtime/pages/%s.lua", name);
    const struct embedded *e = pages_find(file);
    if (!e)
        return luaL_error(L, "%s is not embedded", file);
    if (luaL_loadbufferx(L, e->text, e->size, lua_pushfstring(L, "@%s", file), "t") != LUA_OK)
        return lua_error(L);
    lua_call(L, 0, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, 2, name);
    return 1;
}

static void open_libraries(lua_State *L)
{
    static const luaL_Reg libraries[] = {{LUA_GNAME, luaopen_base},       {LUA_TABLIBNAME, luaopen_table},
                                         {LUA_STRLIBNAME, luaopen_string}, {LUA_MATHLIBNAME, luaopen_math},
                                         {LUA_UTF8LIBNAME, luaopen_utf8},  {NULL, NULL}};
    for (const luaL_Reg *l = libraries; l->func; l++) {
        luaL_requiref(L, l->name, l->func, 1);
        lua_pop(L, 1);
    }
    lua_register(L, "require", require);
    lua_register(L, "read", read_embedded);
    lua_open_tree(L);
}

/* ---- the pages: each function leaves a text on the stack, or raises an error ---- */

struct json {
    const char *text;
    size_t length;
};

static void set_integer(lua_State *L, const char *name, int64_t value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

static void set_string(lua_State *L, const char *name, const char *value)
{
    lua_pushstring(L, value);
    lua_setfield(L, -2, name);
}

static void call(lua_State *L, const char *module, const char *name)
{
    lua_getglobal(L, "require");
    lua_pushstring(L, module);
    lua_call(L, 1, 1);
    lua_getfield(L, -1, name);
    lua_pushvalue(L, 2);
    lua_call(L, 1, 1);
}

static int draw_layout(lua_State *L)
{
    const struct drawing *d = lua_touserdata(L, 1);
    open_libraries(L);
    lua_newtable(L);
    set_string(L, "name", d->name);
    set_string(L, "steps", d->steps);
    set_string(L, "signature", d->signature);
    set_integer(L, "lb", d->type->lb);
    set_integer(L, "ub", d->type->ub);
    lua_push_tree(L, d->type->tree);
    lua_setfield(L, -2, "built");
    lua_push_tree(L, d->canonical);
    lua_setfield(L, -2, "canonical");
    call(L, "draw", "page");
    return 1;
}

static int write_report(lua_State *L)
{
    const struct json *j = lua_touserdata(L, 1);
    open_libraries(L);
    lua_pushlstring(L, j->text, j->length);
    call(L, "report", "page");
    return 1;
}

/* Errors that are not raised by error({text}) are faults of stridec's own: they keep their place. */
static void explain(lua_State *L, struct reason *why)
{
    if (lua_istable(L, -1))
        lua_geti(L, -1, 1);
    const char *message = lua_tostring(L, -1);
    snprintf(why->text, sizeof why->text, "%s", message ? message : "the page can't be written");
}

static char *page(lua_CFunction make, const void *argument, size_t *bytes, struct reason *why)
{
    lua_State *L = luaL_newstate();
    if (!L) {
        snprintf(why->text, sizeof why->text, "out of memory");
        return NULL;
    }
    char *copy = NULL;
    lua_pushcfunction(L, make);
    lua_pushlightuserdata(L, (void *)(uintptr_t)argument);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
        explain(L, why);
    } else {
        const char *text = lua_tolstring(L, -1, bytes);
        copy = malloc(*bytes + 1);
        if (copy)
            memcpy(copy, text, *bytes + 1);
        else
            snprintf(why->text, sizeof why->text, "out of memory");
    }
    lua_close(L);
    return copy;
}

char *page_of_layout(const struct drawing *d, size_t *bytes, struct reason *why)
{
    return page(draw_layout, d, bytes, why);
}

char *page_of_run(const char *json, size_t length, size_t *bytes, struct reason *why)
{
    const struct json j = {json, length};
    return page(write_report, &j, bytes, why);
}
