/* lua_tree.c: stride trees as values of Lua, for the pictures that draw.lua makes. A tree is a userdata that holds a
 * reference. Fields: kind, count, off, step, size, low, high (gen/tree.h). Methods: child, granule, blocks, runs,
 * describe, equals. */
#include "../../gen/tree.h"
#include "pages.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#define TREE_TYPE "stridec tree"
static const char *const KINDS[] = {"dense", "stride", "seq", "index", "blocks"};   /* ORDER TREE_KIND */

static const struct tree *tree_at(lua_State *L, int at)
{
    return *(struct tree **)luaL_checkudata(L, at, TREE_TYPE);
}

void lua_push_tree(lua_State *L, const struct tree *t)
{
    struct tree **box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = NULL;
    luaL_setmetatable(L, TREE_TYPE);
    *box = tree_ref((struct tree *)(uintptr_t)t);
}

static int drop(lua_State *L)
{
    struct tree **box = luaL_checkudata(L, 1, TREE_TYPE);
    tree_unref(*box);
    *box = NULL;
    return 0;
}

/* ---- facts ---- */

static uint64_t magnitude(int64_t a)
{
    return a < 0 ? -(uint64_t)a : (uint64_t)a;
}

/* Returns the greatest common divisor; of those that only 2^63 divides, 2^62. */
static int64_t gcd(int64_t one, int64_t other)
{
    uint64_t a = magnitude(one), b = magnitude(other);
    while (b) {
        uint64_t rest = a % b;
        a = b, b = rest;
    }
    return a > INT64_MAX ? (int64_t)(a / 2) : (int64_t)a;
}

/* Returns a divisor of all lengths, steps and offsets below the root, and of `g`. */
static int64_t divisor(const struct tree *t, int64_t g)
{
    if (t->kind == TREE_DENSE)
        return gcd(g, t->count);
    if (t->kind == TREE_STRIDE)
        g = gcd(g, t->step);
    if (t->child)
        g = divisor(t->child, gcd(g, t->child->off));
    for (int64_t i = 0; t->part && i < t->count && g != 1; i++)
        g = divisor(t->part[i], gcd(g, t->part[i]->off));
    for (int64_t i = 0; t->at && i < t->count && g != 1; i++)
        g = gcd(g, t->at[i]);
    for (int64_t i = 0; t->block && i < t->count && g != 1; i++)
        g = gcd(gcd(g, t->block[i].off), t->block[i].len);
    return g;
}

/* granule(low): the largest unit of which all blocks are made, and in which all lie from address `low` on. */
static int granule(lua_State *L)
{
    const struct tree *t = tree_at(L, 1);
    lua_pushinteger(L, divisor(t, t->off - luaL_checkinteger(L, 2)));
    return 1;
}

/* Returns the number of contiguous blocks, INT64_MAX for more. */
static int64_t blocks_of(const struct tree *t)
{
    int64_t n = t->kind == TREE_BLOCKS ? t->count : t->kind == TREE_DENSE ? t->count > 0 : 0;
    if (t->child && __builtin_mul_overflow(t->count, blocks_of(t->child), &n))
        return INT64_MAX;
    for (int64_t i = 0; t->part && i < t->count; i++)
        if (__builtin_add_overflow(n, blocks_of(t->part[i]), &n))
            return INT64_MAX;
    return n;
}

static int blocks(lua_State *L)
{
    lua_pushinteger(L, blocks_of(tree_at(L, 1)));
    return 1;
}

static int describe(lua_State *L)
{
    struct reason why;
    char *text = tree_describe(tree_at(L, 1), &why);
    if (!text)
        return luaL_error(L, "%s", why.text);
    lua_pushstring(L, text);
    free(text);
    return 1;
}

static int equals(lua_State *L)
{
    lua_pushboolean(L, tree_equal(tree_at(L, 1), tree_at(L, 2)));
    return 1;
}

/* child(): what a stride or an index repeats, the first part of a seq; nil for leaves. */
static int child(lua_State *L)
{
    const struct tree *t = tree_at(L, 1), *c = t->child ? t->child : t->part && t->count ? t->part[0] : NULL;
    if (!c)
        return 0;
    lua_push_tree(L, c);
    return 1;
}

/* ---- the blocks in a piece of memory ---- */

/* So many nodes are visited at most, so that no layout keeps a person waiting. */
#define VISITS_MAX (4 << 20)

struct search {
    lua_State *L;
    int64_t low, high;   /* the piece of memory */
    int found, most;
    long visits;
    bool cut;            /* there may be more */
};

__extension__ typedef __int128 wide;

static bool misses(const struct search *s, int64_t at, int64_t low, int64_t high)
{
    return low == high || (wide)at + low >= s->high || (wide)at + high <= s->low;
}

static void add_run(struct search *s, int64_t off, int64_t len, int64_t packed, int64_t index)
{
    const int64_t number[] = {off, len, packed, index};
    if (misses(s, off, 0, len))
        return;
    if (s->found == s->most) {
        s->cut = true;
        return;
    }
    for (int i = 0; i < 4; i++) {
        lua_pushinteger(s->L, number[i]);
        lua_rawseti(s->L, -2, 4 * s->found + i + 1);
    }
    s->found++;
}

static void find_runs(struct search *s, const struct tree *t, int64_t at, int64_t packed, int64_t index);

/* Returns a/b rounded down, b being positive. */
static wide floor_div(wide a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Visits the copies that can meet the piece: base + i * step + [child's low, child's high). */
static void find_copies(struct search *s, const struct tree *t, int64_t base, int64_t packed, int64_t index)
{
    const struct tree *c = t->child;
    wide first = 0, last = t->count - 1, below = (wide)s->low - base - c->high,
             above = (wide)s->high - base - c->low;
    if (t->step > 0) {
        first = floor_div(below, t->step) + 1;
        last = floor_div(above - 1, t->step);
    } else if (t->step < 0 && t->step != INT64_MIN) {
        first = floor_div(-above, -t->step) + 1;
        last = floor_div(-below - 1, -t->step);
    }
    first = first < 0 ? 0 : first, last = last > t->count - 1 ? t->count - 1 : last;
    int64_t each = blocks_of(c);
    for (int64_t i = (int64_t)first; i <= last && !s->cut; i++)
        find_runs(s, c, base + i * t->step, packed + i * c->size, index + i * each);
}

static void find_parts(struct search *s, const struct tree *t, int64_t base, int64_t packed, int64_t index)
{
    for (int64_t i = 0; i < t->count && !s->cut; i++) {
        find_runs(s, t->part[i], base, packed, index);
        packed += t->part[i]->size, index += blocks_of(t->part[i]);
    }
}

static void find_listed(struct search *s, const struct tree *t, int64_t base, int64_t packed, int64_t index)
{
    int64_t each = blocks_of(t->child);
    for (int64_t i = 0; i < t->count && !s->cut; i++)
        if (!misses(s, base + t->at[i], t->child->low, t->child->high))
            find_runs(s, t->child, base + t->at[i], packed + i * t->child->size, index + i * each);
}

static void find_blocks(struct search *s, const struct tree *t, int64_t base, int64_t packed, int64_t index)
{
    for (int64_t i = 0; i < t->count && !s->cut; packed += t->block[i++].len)
        add_run(s, base + t->block[i].off, t->block[i].len, packed, index + i);
}

static void find_runs(struct search *s, const struct tree *t, int64_t at, int64_t packed, int64_t index)
{
    if (misses(s, at, t->low, t->high))
        return;
    if (++s->visits > VISITS_MAX)
        s->cut = true;
    else if (t->kind == TREE_DENSE)
        add_run(s, at + t->off, t->count, packed, index);
    else if (t->kind == TREE_STRIDE)
        find_copies(s, t, at + t->off, packed, index);
    else
        (t->kind == TREE_SEQ ? find_parts : t->kind == TREE_INDEX ? find_listed : find_blocks)(s, t, at + t->off,
                                                                                             packed, index);
}

/* runs(low, high, most): the blocks that meet the addresses [low, high), in packing order: a list of offset, length,
 * packed offset and number of the block (from 0) for each; and whether there may be more. */
static int runs(lua_State *L)
{
    struct search s = {L, luaL_checkinteger(L, 2), luaL_checkinteger(L, 3), 0, (int)luaL_checkinteger(L, 4), 0, false};
    const struct tree *t = tree_at(L, 1);
    lua_newtable(L);
    find_runs(&s, t, 0, 0, 0);
    lua_pushboolean(L, s.cut);
    return 2;
}

/* ---- the value ---- */

static int field(lua_State *L)
{
    const struct tree *t = tree_at(L, 1);
    const char *name = luaL_checkstring(L, 2);
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"count", t->count}, {"off", t->off}, {"step", t->step},
                   {"size", t->size},   {"low", t->low}, {"high", t->high}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0) {
            lua_pushinteger(L, numbers[i].value);
            return 1;
        }
    if (strcmp(name, "kind") == 0)
        lua_pushstring(L, KINDS[t->kind]);
    else
        lua_getfield(L, lua_upvalueindex(1), name);
    return 1;
}

/* tree(signature): the tree, or nil and why. */
static int parse(lua_State *L)
{
    struct reason why;
    struct tree *t = tree_parse(luaL_checkstring(L, 1), &why);
    if (!t) {
        lua_pushnil(L);
        lua_pushstring(L, why.text);
        return 2;
    }
    lua_push_tree(L, t);
    tree_unref(t);
    return 1;
}

void lua_open_tree(lua_State *L)
{
    static const luaL_Reg methods[] = {{"granule", granule}, {"blocks", blocks}, {"describe", describe},
                                       {"child", child},     {"runs", runs},     {"equals", equals},
                                       {NULL, NULL}};
    luaL_newmetatable(L, TREE_TYPE);
    lua_pushcfunction(L, drop);
    lua_setfield(L, -2, "__gc");
    luaL_newlib(L, methods);
    lua_pushcclosure(L, field, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_register(L, "tree", parse);
}
