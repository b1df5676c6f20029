/* gen.c: runs the Lua half of the compiler (plan.lua, emit.lua) on a parsed tree. */
#include "embed.h"
#include "form.h"
#include "gen_inner.h"
#include "reason.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

struct gen {
    lua_State *L;
};

const char *gen_version(void)
{
    return embedded_version;
}

/*
 * What Lua sees of C. Everything from here to `Faces` runs inside lua_pcall.
 */

/* read(name): the text of an embedded file, or nil. */
static int lua_read(lua_State *L)
{
    const struct embedded *e = embedded_find(luaL_checkstring(L, 1));
    if (!e) return 0;
    lua_pushlstring(L, e->text, e->size);
    return 1;
}

/* require(name): runs gen/NAME.lua once and returns its value. */
static int lua_require(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, name) != LUA_TNIL) return 1;
    lua_pop(L, 1);
    const char *file = lua_pushfstring(L, "gen/%s.lua", name);
    const struct embedded *e = embedded_find(file);
    if (!e) return luaL_error(L, "%s is not embedded", file);
    if (luaL_loadbufferx(L, e->text, e->size, lua_pushfstring(L, "@%s", file), "t") != LUA_OK) return lua_error(L);
    lua_call(L, 0, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, 2, name);
    return 1;
}

static int open_libraries(lua_State *L)
{
    static const luaL_Reg libraries[] = {{LUA_GNAME, luaopen_base},
                                         {LUA_TABLIBNAME, luaopen_table},
                                         {LUA_STRLIBNAME, luaopen_string},
                                         {LUA_MATHLIBNAME, luaopen_math},
                                         {NULL, NULL}};
    for (const luaL_Reg *l = libraries; l->func; l++) {
        luaL_requiref(L, l->name, l->func, 1);
        lua_pop(L, 1);
    }
    lua_register(L, "require", lua_require);
    static const char *const modules[] = {"plan", "emit", "link", "reduce", "host"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        lua_getglobal(L, "require");
        lua_pushstring(L, modules[i]);
        lua_call(L, 1, 0);
    }
    return 0;
}

static char *copy_string(lua_State *L, int at)
{
    char *copy = strdup(luaL_checkstring(L, at));
    if (!copy) luaL_error(L, "out of memory");
    return copy;
}

struct job {
    const struct form *form; /* NULL: the interpreter, or the list of links */
    const struct form *to;   /* of a pair's link */
    const char *reduced;     /* the type of a reduction's elements */
    const char *target;
    const char *const *knobs; /* NULL, or by direction, of which either may be NULL */
    struct gen_kernel *out; /* what was set before an error is freed by the caller */
};

static void push_function(lua_State *L, const char *module, const char *name)
{
    lua_getglobal(L, "require");
    lua_pushstring(L, module);
    lua_call(L, 1, 1);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
}

/* {pack = text, unpack = text}, without those that are NULL. */
static void push_knobs(lua_State *L, const char *const *knobs)
{
    lua_newtable(L);
    for (int i = 0; i < 2 && knobs; i++) {
        lua_pushstring(L, knobs[i]);
        lua_setfield(L, -2, gen_directions[i]);
    }
}

static void push_plan(lua_State *L, const struct job *job)
{
    bool own = job->form && job->form->root;
    push_function(L, "plan", own ? "tree" : "generic");
    if (own) gen_push_form(L, job->form);
    lua_pushstring(L, job->target);
    if (!own) lua_pushboolean(L, job->form != NULL);
    push_knobs(L, job->knobs);
    lua_call(L, 3, 1);
}

/* The lines of plan.why, joined. */
static void push_why(lua_State *L, int plan)
{
    lua_getglobal(L, "table");
    lua_getfield(L, -1, "concat");
    lua_getfield(L, plan, "why");
    lua_pushliteral(L, "\n");
    lua_call(L, 2, 1);
}

/* Fills *out by the source function of a module, from the plan on top of the stack. */
static void emit_text(lua_State *L, const char *module, const char *title, struct gen_kernel *out)
{
    int plan = lua_gettop(L);
    push_function(L, module, "source");
    lua_pushvalue(L, plan);
    lua_pushstring(L, title);
    lua_pushcfunction(L, lua_read);
    lua_call(L, 3, 1);
    out->source = copy_string(L, -1);
    push_why(L, plan);
    out->why = copy_string(L, -1);
}

static void emit(lua_State *L, const char *module, const char *title, struct gen_kernel *out)
{
    gen_read_plan(L, lua_gettop(L), &out->plan);
    emit_text(L, module, title, out);
}

static int make_host(lua_State *L)
{
    struct job *job = lua_touserdata(L, 1);
    if (!job->form->root) return luaL_error(L, "the tree is too large for code of its own");
    push_function(L, "host", "plan");
    gen_push_form(L, job->form);
    lua_call(L, 1, 1);
    job->out->plan.family = job->form->family;
    emit_text(L, "host", job->form->signature, job->out);
    return 0;
}

static int make_kernel(lua_State *L)
{
    struct job *job = lua_touserdata(L, 1);
    push_plan(L, job);
    /* The interpreter's text must be the same for every tree. */
    emit(L, "emit", job->form && job->form->root ? job->form->signature : "any tree", job->out);
    return 0;
}

static int make_link(lua_State *L)
{
    struct job *job = lua_touserdata(L, 1);
    push_function(L, "link", job->form ? "pair" : "list");
    if (job->form) {
        gen_push_form(L, job->form);
        gen_push_form(L, job->to);
        lua_pushboolean(L, !strcmp(job->form->signature, job->to->signature));
    }
    lua_pushstring(L, job->target);
    lua_call(L, job->form ? 4 : 1, 1);
    emit(L, "link", job->form ? job->form->signature : "any chains of strides", job->out);
    return 0;
}

static int make_reduce(lua_State *L)
{
    struct job *job = lua_touserdata(L, 1);
    push_function(L, "reduce", "plan");
    lua_pushstring(L, job->reduced);
    lua_pushstring(L, job->target);
    lua_call(L, 2, 1);
    emit(L, "reduce", job->reduced, job->out);
    return 0;
}

struct knob_job {
    const struct form *form;
    const char *target;
    enum gen_direction direction;
    char **list; /* what was set before an error is freed by the caller */
    int count;
};

/* The interpreter has one setting, that of no words. */
static int list_knobs(lua_State *L)
{
    struct knob_job *job = lua_touserdata(L, 1);
    if (job->form->root) {
        push_function(L, "plan", "knob_list");
        gen_push_form(L, job->form);
        lua_pushstring(L, job->target);
        lua_pushstring(L, gen_directions[job->direction]);
        lua_call(L, 3, 1);
    } else {
        lua_newtable(L);
        lua_pushliteral(L, "");
        lua_rawseti(L, -2, 1);
    }
    int count = (int)luaL_len(L, -1);
    job->list = calloc((size_t)count + 1, sizeof *job->list);
    if (!job->list) luaL_error(L, "out of memory");
    for (; job->count < count; job->count++) {
        lua_geti(L, -1, job->count + 1);
        job->list[job->count] = copy_string(L, -1);
        lua_pop(L, 1);
    }
    return 0;
}

static int read_knobs(lua_State *L)
{
    push_function(L, "knobs", "read");
    lua_pushstring(L, lua_touserdata(L, 1));
    lua_call(L, 1, 0);
    return 0;
}

/*
 * Faces: what gen.h declares.
 */

/* Runs f, with `argument` as its only one, and leaves the stack as it was. */
static int run(lua_State *L, lua_CFunction f, void *argument, struct reason *why)
{
    lua_pushcfunction(L, f);
    lua_pushlightuserdata(L, argument);
    int status = lua_pcall(L, 1, 0, 0);
    if (status == LUA_OK) return 0;
    const char *message = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "the generator failed";
    reason_set(why, "%.*s", (int)strcspn(message, "\n"), message);
    lua_settop(L, 0);
    return -1;
}

struct gen *gen_open(struct reason *why)
{
    struct gen *g = malloc(sizeof *g);
    lua_State *L = luaL_newstate();
    if (!g || !L) {
        reason_memory(why);
        goto failed;
    }
    if (run(L, open_libraries, NULL, why)) goto failed;
    g->L = L;
    return g;
failed:
    if (L) lua_close(L);
    free(g);
    return NULL;
}

void gen_close(struct gen *g)
{
    if (!g) return;
    lua_close(g->L);
    free(g);
}

static int generate(struct gen *g, lua_CFunction make, struct job *job, struct reason *why)
{
    *job->out = (struct gen_kernel){0};
    int failed = run(g->L, make, job, why);
    if (failed) gen_kernel_free(job->out);
    lua_gc(g->L, LUA_GCCOLLECT);
    return failed;
}

int gen_kernel_form(struct gen *g, const struct form *f, const char *target, const char *const knobs[2],
                    struct gen_kernel *out, struct reason *why)
{
    struct job job = {.form = f, .target = target, .knobs = knobs, .out = out};
    return generate(g, strcmp(target, "host") ? make_kernel : make_host, &job, why);
}

int gen_kernel(struct gen *g, const char *signature, const char *target, const char *const knobs[2],
               struct gen_kernel *out, struct reason *why)
{
    *out = (struct gen_kernel){0};
    struct tree *t = tree_parse(signature, why);
    struct form *f = t ? form_of(t, why) : NULL;
    int failed = f ? gen_kernel_form(g, f, target, knobs, out, why) : -1;
    form_free(f);
    tree_unref(t);
    return failed;
}

int gen_generic(struct gen *g, const char *target, struct gen_kernel *out, struct reason *why)
{
    struct job job = {.target = target, .out = out};
    return generate(g, make_kernel, &job, why);
}

int gen_link(struct gen *g, const struct form *from, const struct form *to, const char *target, struct gen_kernel *out,
             struct reason *why)
{
    struct job job = {.form = from, .to = to, .target = target, .out = out};
    return generate(g, make_link, &job, why);
}

int gen_reduce(struct gen *g, enum gen_reduce_type type, const char *target, struct gen_kernel *out, struct reason *why)
{
    struct job job = {.reduced = gen_reduce_type_name(type), .target = target, .out = out};
    return generate(g, make_reduce, &job, why);
}

int gen_knob_list(struct gen *g, const struct form *f, const char *target, enum gen_direction direction, char ***list,
                  struct reason *why)
{
    struct knob_job job = {.form = f, .target = target, .direction = direction};
    int failed = run(g->L, list_knobs, &job, why);
    if (failed) gen_knob_list_free(job.list);
    *list = failed ? NULL : job.list;
    lua_gc(g->L, LUA_GCCOLLECT);
    return failed ? -1 : job.count;
}

void gen_knob_list_free(char **list)
{
    for (char **at = list; at && *at; at++) free(*at);
    free(list);
}

void gen_kernel_free(struct gen_kernel *k)
{
    if (!k) return;
    free(k->source);
    free(k->why);
    *k = (struct gen_kernel){0};
}

int gen_knobs_check(struct gen *g, const char *knobs, struct reason *why)
{
    return run(g->L, read_knobs, (char *)(uintptr_t)knobs, why);
}
