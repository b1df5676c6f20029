/* gen_tables.c: trees and plans as tables of Lua's. Runs inside lua_pcall. */
#include "form.h"
#include "gen_inner.h"
#include <lauxlib.h>

/* ORDER GEN_FAMILY; plan.lua uses the same names. */
static const char *const family_names[] = {"contiguous", "strided", "struct", "indexed", "mixed", "generic", "link",
                                           "reduce", NULL};

const char *const gen_directions[] = {"pack", "unpack"}; /* ORDER gen_direction */

#define NAME(name) #name,
static const char *const reduce_type_names[] = {GEN_REDUCE_TYPES(NAME)};

const char *gen_reduce_type_name(enum gen_reduce_type type)
{
    return reduce_type_names[type];
}

const char *gen_family_name(enum gen_family f)
{
    return family_names[f];
}

static void set_number(lua_State *L, const char *key, int64_t value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, key);
}

/* The offsets of a short index are constants of the source. */
static void push_offsets(lua_State *L, const struct tree *t)
{
    lua_newtable(L);
    for (int64_t i = 0; i < t->count; i++) {
        lua_pushinteger(L, t->at[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "at");
}

/* Pushes {kind=, off=, size=, count=, step=, child=, part=, at=}; no field that the kind does not have. Of lists also
 * unit, base, entry, group, scale (form_code.h), start, long (form.h), number; number counts the launch's numbers, and
 * so does size_number, where size is not known. */
static void push_node(lua_State *L, const struct form_node *n)
{
    static const char *const kinds[] = {"dense", "stride", "seq", "index", "table", "blocks"}; /* ORDER FORM_KIND */
    luaL_checkstack(L, 4, "tree too deep");
    lua_createtable(L, 0, 8);
    lua_pushstring(L, kinds[n->kind]);
    lua_setfield(L, -2, "kind");
    set_number(L, "off", n->off);
    if (n->kind == FORM_DENSE || n->kind == FORM_STRIDE) set_number(L, "count", n->tree->count);
    if (n->kind == FORM_STRIDE) set_number(L, "step", n->tree->step);
    if (n->size_number >= 0)
        set_number(L, "size_number", n->size_number);
    else
        set_number(L, "size", n->size);
    if (n->kind == FORM_INDEX) push_offsets(L, n->tree);
    if (n->code) {
        set_number(L, "unit", n->unit);
        set_number(L, "base", n->code->base);
        set_number(L, "entry", n->code->entry);
        set_number(L, "group", n->code->group);
        set_number(L, "scale", n->code->scale);
        if (n->start) set_number(L, "start", form_start_bytes(n));
        if (n->kind == FORM_BLOCKS) {
            lua_pushboolean(L, form_blocks_long(n));
            lua_setfield(L, -2, "long");
        }
        set_number(L, "number", n->number);
    }
    if (n->kind == FORM_SEQ) lua_newtable(L);
    for (int i = 0; i < n->count; i++) {
        push_node(L, n->child[i]);
        if (n->kind == FORM_SEQ)
            lua_rawseti(L, -2, i + 1);
        else
            lua_setfield(L, -2, "child");
    }
    if (n->kind == FORM_SEQ) lua_setfield(L, -2, "part");
}

void gen_push_form(lua_State *L, const struct form *f)
{
    push_node(L, f->root);
    lua_pushstring(L, family_names[f->family]);
    lua_setfield(L, -2, "family");
    set_number(L, "word", f->word);
    set_number(L, "bytes", f->plan_bytes);
    set_number(L, "numbers", f->numbers);
}

static int plan_number(lua_State *L, int plan, const char *key)
{
    lua_getfield(L, plan, key);
    lua_Integer n = luaL_checkinteger(L, -1);
    luaL_argcheck(L, n > 0 && n <= 65536, 1, key);
    lua_pop(L, 1);
    return (int)n;
}

static void read_way(lua_State *L, int plan, int direction, struct gen_way *out)
{
    lua_getfield(L, plan, "way");
    lua_getfield(L, -1, gen_directions[direction]);
    int way = lua_gettop(L);
    out->word = plan_number(L, way, "word");
    out->threads = plan_number(L, way, "threads");
    out->words_per_thread = plan_number(L, way, "each");
    out->narrow_words_per_thread = plan_number(L, way, "narrow_each");
    lua_pop(L, 2);
}

void gen_read_plan(lua_State *L, int plan, struct gen_plan *out)
{
    lua_getfield(L, plan, "family");
    out->family = (enum gen_family)luaL_checkoption(L, -1, NULL, family_names);
    lua_getfield(L, plan, "words");
    out->nwords = (int)luaL_len(L, -1);
    if (out->nwords < 1 || out->nwords > GEN_WORDS_MAX) luaL_error(L, "a plan has %d word widths", out->nwords);
    for (int i = 0; i < out->nwords; i++) {
        lua_geti(L, -1, i + 1);
        out->words[i] = (int)luaL_checkinteger(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
    for (int i = 0; i < 2; i++) read_way(L, plan, i, &out->way[i]);
    out->index_bits = plan_number(L, plan, "index_bits");
    lua_getfield(L, plan, "marked");
    if (lua_istable(L, -1)) {
        out->marked.threads = plan_number(L, lua_gettop(L), "threads");
        out->marked.words_per_thread = plan_number(L, lua_gettop(L), "each");
        out->marked.word[GEN_PACK] = plan_number(L, lua_gettop(L), "pack");
        out->marked.word[GEN_UNPACK] = plan_number(L, lua_gettop(L), "unpack");
    }
    lua_pop(L, 1);
}
