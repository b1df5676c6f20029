/* constructors.c: MPI's type constructors and named types as the spec language has them. */
#include "sandbox.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

/* ---- types as userdata ---- */

/* Enough for a node and its allocation; what every number of a list may come to in a tree. */
#define NODE_BYTES 128

static int type_gc(lua_State *L)
{
    struct spec_type *t = luaL_checkudata(L, 1, SPEC_TYPE);
    type_free(t->type);
    t->type = NULL;
    sandbox_discharge(L, t->charge);
    t->charge = 0;
    return 0;
}

static int type_tostring(lua_State *L)
{
    const struct spec_type *t = luaL_checkudata(L, 1, SPEC_TYPE);
    char text[128];
    if (t->type)
        snprintf(text, sizeof text, "type of %lld bytes, lower bound %lld, upper bound %lld",
                 (long long)t->type->size, (long long)t->type->lb, (long long)t->type->ub);
    else
        snprintf(text, sizeof text, "type");
    lua_pushstring(L, text);
    return 1;
}

/* Pushes the userdata first, so that nothing can fail between building a type and owning it. `own` is the
 * number of nodes that the constructor adds. */
static struct spec_type *push_type(lua_State *L, const char *constructor, int64_t nodes, int64_t own)
{
    if (nodes > SPEC_LIST_MAX)
        spec_fail(L, constructor, "the type unfolds to more than %lld parts", (long long)SPEC_LIST_MAX);
    struct spec_type *t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = (struct spec_type){.line = sandbox_line(L), .nodes = nodes};
    luaL_setmetatable(L, SPEC_TYPE);
    size_t charge = (size_t)(own + 2) * NODE_BYTES;
    sandbox_charge(L, charge);
    t->charge = charge;
    return t;
}

/* Some reasons begin with the constructor's name, as spec_fail's do. */
static int pushed(lua_State *L, const char *constructor, struct spec_type *t, struct type *made,
                  const struct reason *why)
{
    size_t n = strlen(constructor);
    bool named = !strncmp(why->text, constructor, n) && !strncmp(why->text + n, ": ", 2);
    t->type = made;
    return made ? 1 : spec_fail(L, constructor, "%s", why->text + (named ? n + 2 : 0));
}

static void check_arguments(lua_State *L, const char *constructor, int expected)
{
    if (lua_gettop(L) > expected)
        spec_fail(L, constructor, "takes %d arguments, got %d", expected, lua_gettop(L));
    lua_settop(L, expected);
}

/* ---- regular constructors ---- */

static int contiguous(lua_State *L)
{
    check_arguments(L, "contiguous", 2);
    int64_t count = spec_count(L, "contiguous", 1, "count");
    const struct spec_type *old = spec_oldtype(L, "contiguous", 2, "oldtype");
    struct spec_type *t = push_type(L, "contiguous", old->nodes + 1, 1);
    struct reason why = {""};
    return pushed(L, "contiguous", t, type_contiguous(count, old->type, &why), &why);
}

typedef struct type *vector_constructor(int64_t, int64_t, int64_t, const struct type *, struct reason *);

static int make_vector(lua_State *L, const char *name, const char *stride_name, vector_constructor *make)
{
    check_arguments(L, name, 4);
    int64_t count = spec_count(L, name, 1, "count");
    int64_t blocklength = spec_count(L, name, 2, "blocklength");
    int64_t stride = spec_integer(L, name, 3, stride_name);
    const struct spec_type *old = spec_oldtype(L, name, 4, "oldtype");
    struct spec_type *t = push_type(L, name, old->nodes + 2, 2);
    struct reason why = {""};
    return pushed(L, name, t, make(count, blocklength, stride, old->type, &why), &why);
}

static int vector(lua_State *L)
{
    return make_vector(L, "vector", "stride", type_vector);
}

static int hvector(lua_State *L)
{
    return make_vector(L, "hvector", "stride_bytes", type_hvector);
}

static int resized(lua_State *L)
{
    check_arguments(L, "resized", 3);
    int64_t lb = spec_integer(L, "resized", 1, "lb");
    int64_t extent = spec_integer(L, "resized", 2, "extent");
    const struct spec_type *old = spec_oldtype(L, "resized", 3, "oldtype");
    struct spec_type *t = push_type(L, "resized", old->nodes, 1);
    struct reason why = {""};
    return pushed(L, "resized", t, type_resized(lb, extent, old->type, &why), &why);
}

static int dup(lua_State *L)
{
    check_arguments(L, "dup", 1);
    const struct spec_type *old = spec_oldtype(L, "dup", 1, "oldtype");
    struct spec_type *t = push_type(L, "dup", old->nodes, 1);
    struct reason why = {""};
    return pushed(L, "dup", t, type_dup(old->type, &why), &why);
}

/* ---- constructors that take lists ---- */

static void check_equal_lengths(lua_State *L, const char *name, int64_t blocklengths, int64_t others,
                                const char *others_name)
{
    if (blocklengths != others)
        spec_fail(L, name, "blocklengths has %lld entries, %s has %lld", (long long)blocklengths, others_name,
                  (long long)others);
}

static void check_blocklengths(lua_State *L, const char *name, const struct spec_list *list)
{
    for (int64_t i = 0; i < list->count; i++)
        if (list->number[i] < 0)
            spec_fail(L, name, "blocklengths[%lld] must not be negative, is %lld", (long long)i + 1,
                      (long long)list->number[i]);
}

/* Nodes that `count` parts of `each` nodes come to; more than fits is as much as is allowed and one. */
static int64_t unfolded(int64_t count, int64_t each)
{
    int64_t nodes;
    if (__builtin_mul_overflow(count, each, &nodes) || nodes > SPEC_LIST_MAX)
        return SPEC_LIST_MAX + 1;
    return nodes;
}

typedef struct type *indexed_constructor(int64_t, const int64_t[], const int64_t[], const struct type *,
                                         struct reason *);

static int make_indexed(lua_State *L, const char *name, indexed_constructor *make)
{
    check_arguments(L, name, 3);
    const struct spec_type *old = spec_oldtype(L, name, 3, "oldtype");
    struct spec_list blocklengths = spec_integers(L, name, 1, "blocklengths");
    struct spec_list displacements = spec_integers(L, name, 2, "displacements");
    check_equal_lengths(L, name, blocklengths.count, displacements.count, "displacements");
    check_blocklengths(L, name, &blocklengths);
    struct spec_type *t = push_type(L, name, 1 + unfolded(blocklengths.count, old->nodes + 1), blocklengths.count);
    struct reason why = {""};
    return pushed(L, name, t,
                  make(blocklengths.count, blocklengths.number, displacements.number, old->type, &why), &why);
}

static int indexed(lua_State *L)
{
    return make_indexed(L, "indexed", type_indexed);
}

static int hindexed(lua_State *L)
{
    return make_indexed(L, "hindexed", type_hindexed);
}

typedef struct type *indexed_block_constructor(int64_t, int64_t, const int64_t[], const struct type *,
                                               struct reason *);

static int make_indexed_block(lua_State *L, const char *name, indexed_block_constructor *make)
{
    check_arguments(L, name, 3);
    int64_t blocklength = spec_count(L, name, 1, "blocklength");
    const struct spec_type *old = spec_oldtype(L, name, 3, "oldtype");
    struct spec_list displacements = spec_integers(L, name, 2, "displacements");
    struct spec_type *t = push_type(L, name, 1 + unfolded(displacements.count, old->nodes + 1), displacements.count);
    struct reason why = {""};
    return pushed(L, name, t, make(displacements.count, blocklength, displacements.number, old->type, &why), &why);
}

static int indexed_block(lua_State *L)
{
    return make_indexed_block(L, "indexed_block", type_indexed_block);
}

static int hindexed_block(lua_State *L)
{
    return make_indexed_block(L, "hindexed_block", type_hindexed_block);
}

static int structure(lua_State *L)
{
    check_arguments(L, "struct", 3);
    struct spec_list blocklengths = spec_integers(L, "struct", 1, "blocklengths");
    struct spec_list displacements = spec_integers(L, "struct", 2, "displacements");
    int64_t count = spec_list_length(L, "struct", 3, "types");
    check_equal_lengths(L, "struct", blocklengths.count, displacements.count, "displacements");
    check_equal_lengths(L, "struct", blocklengths.count, count, "types");
    check_blocklengths(L, "struct", &blocklengths);
    const struct type **old = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *old, 0);
    int64_t nodes = 1;
    for (int64_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "types[%lld]", (long long)i + 1);
        lua_rawgeti(L, 3, i + 1);
        const struct spec_type *member = spec_oldtype(L, "struct", lua_gettop(L), name);
        old[i] = member->type;   /* kept alive by the list */
        nodes = unfolded(1, nodes + 1 + member->nodes);
        lua_pop(L, 1);
    }
    struct spec_type *t = push_type(L, "struct", nodes, count);
    struct reason why = {""};
    return pushed(L, "struct", t, type_struct(count, blocklengths.number, displacements.number, old, &why), &why);
}

/* ---- signatures ---- */

/* Returns the text of the argument, a string or a list of strings that are one text together; pushes it if needed. A
 * string of a spec is short (SPEC_STRING_MAX), a signature of a long list is not. */
static const char *signature_text(lua_State *L)
{
    if (lua_type(L, 1) == LUA_TSTRING)
        return lua_tostring(L, 1);
    if (lua_type(L, 1) != LUA_TTABLE)
        spec_fail(L, "signature", "takes a signature, or a list of its parts");
    lua_Integer parts = spec_list_length(L, "signature", 1, "signature");
    size_t bytes = 1, at = 0, n;
    for (lua_Integer i = 1; i <= parts; i++, lua_pop(L, 1), bytes += n) {
        n = 0;
        if (lua_rawgeti(L, 1, i) != LUA_TSTRING)
            spec_fail(L, "signature", "part %lld is no string", (long long)i);
        lua_tolstring(L, -1, &n);
    }
    char *text = lua_newuserdatauv(L, bytes, 0);
    for (lua_Integer i = 1; i <= parts; i++, lua_pop(L, 1), at += n) {
        lua_rawgeti(L, 1, i);
        const char *part = lua_tolstring(L, -1, &n);
        memcpy(text + at, part, n);
    }
    text[at] = '\0';
    return text;
}

static int signature(lua_State *L)
{
    check_arguments(L, "signature", 1);
    struct reason why = {""};
    const char *text = signature_text(L);
    int64_t nodes = 0, entries = 0;
    for (const char *c = text; *c; c++)
        nodes += *c == '(', entries += *c == ',';
    struct spec_type *t = push_type(L, "signature", unfolded(1, nodes), nodes + entries / 8);
    return pushed(L, "signature", t, spec_signature(text, &why), &why);
}

/* ---- subarray and darray ---- */

static const char *const SUBARRAY_KEYS[] = {"sizes", "subsizes", "starts", "order", "of", NULL};

static void check_keys(lua_State *L, const char *name, const char *const keys[])
{
    char fields[96] = "";
    for (int i = 0; keys[i]; i++)
        snprintf(fields + strlen(fields), sizeof fields - strlen(fields), "%s%s", i ? ", " : "", keys[i]);
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TTABLE)
        spec_fail(L, name, "takes one table with the fields %s", fields);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "[unnamed]";
        int i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (!keys[i])
            spec_fail(L, name, "unknown field %.40s; the fields are %s", key, fields);
    }
}

static enum type_order array_order(lua_State *L, const char *name)
{
    const char *order = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (lua_isnil(L, -1) || strcmp(order, "C") == 0)
        return TYPE_ORDER_C;
    if (strcmp(order, "Fortran") != 0)
        spec_fail(L, name, "order must be \"C\" or \"Fortran\"");
    return TYPE_ORDER_FORTRAN;
}

static void check_dimensions(lua_State *L, const struct spec_list dim[3])
{
    if (dim[0].count != dim[1].count || dim[0].count != dim[2].count)
        spec_fail(L, "subarray", "sizes, subsizes and starts must have equally many entries, have %lld, %lld, %lld",
                  (long long)dim[0].count, (long long)dim[1].count, (long long)dim[2].count);
    if (dim[0].count < 1 || dim[0].count > TREE_DEPTH_MAX)
        spec_fail(L, "subarray", "needs 1 to %d dimensions, has %lld", TREE_DEPTH_MAX, (long long)dim[0].count);
    for (int64_t i = 0; i < dim[0].count; i++) {
        int64_t size = dim[0].number[i], subsize = dim[1].number[i], start = dim[2].number[i];
        if (size < 1 || subsize < 1 || subsize > size || start < 0 || start > size - subsize)
            spec_fail(L, "subarray",
                      "dimension %lld: %lld elements from %lld on do not lie within an array of %lld",
                      (long long)i + 1, (long long)subsize, (long long)start, (long long)size);
    }
}

static int subarray(lua_State *L)
{
    check_keys(L, "subarray", SUBARRAY_KEYS);
    struct spec_list dim[3];
    for (int i = 0; i < 3; i++) {
        lua_getfield(L, 1, SUBARRAY_KEYS[i]);
        dim[i] = spec_integers(L, "subarray", lua_gettop(L), SUBARRAY_KEYS[i]);
    }
    check_dimensions(L, dim);
    lua_getfield(L, 1, "order");
    enum type_order order = array_order(L, "subarray");
    lua_getfield(L, 1, "of");
    const struct spec_type *old = spec_oldtype(L, "subarray", lua_gettop(L), "of");
    struct spec_type *t = push_type(L, "subarray", old->nodes + dim[0].count + 1, dim[0].count + 1);
    struct reason why = {""};
    return pushed(L, "subarray", t,
                  type_subarray((int)dim[0].count, dim[0].number, dim[1].number, dim[2].number, order, old->type,
                                &why),
                  &why);
}

static const char *const DARRAY_KEYS[] = {"size", "rank", "gsizes", "distribs", "dargs", "psizes", "order", "of", NULL};

/* One name of a list; the list's table is at stack index `list`. */
static enum type_distribution distribution(lua_State *L, int list, int64_t i)
{
    static const char *const names[] = {"none", "block", "cyclic"};   /* ORDER type_distribution */
    lua_rawgeti(L, list, i + 1);
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    int k = 0;
    while (k < 3 && strcmp(names[k], name) != 0)
        k++;
    if (k == 3)
        spec_fail(L, "darray", "distribs[%lld] must be \"block\", \"cyclic\" or \"none\"", (long long)i + 1);
    lua_pop(L, 1);
    return (enum type_distribution)k;
}

/* The list of the field `key`, as long as there are dimensions; 0 says how many there are. */
static struct spec_list dimension_list(lua_State *L, const char *key, int64_t ndims)
{
    lua_getfield(L, 1, key);
    struct spec_list list = spec_integers(L, "darray", lua_gettop(L), key);
    if (list.count < 1 || list.count > TREE_DEPTH_MAX || (ndims && list.count != ndims))
        spec_fail(L, "darray", "%s has %lld entries, not one for each of 1 to %d dimensions", key,
                  (long long)list.count, TREE_DEPTH_MAX);
    return list;
}

static int darray(lua_State *L)
{
    check_keys(L, "darray", DARRAY_KEYS);
    lua_getfield(L, 1, "size");
    int64_t size = spec_count(L, "darray", lua_gettop(L), "size");
    lua_getfield(L, 1, "rank");
    int64_t rank = spec_count(L, "darray", lua_gettop(L), "rank");
    struct spec_list gsizes = dimension_list(L, "gsizes", 0), dargs = gsizes;
    struct spec_list psizes = dimension_list(L, "psizes", gsizes.count);
    int64_t defaults[TREE_DEPTH_MAX] = {0};   /* TYPE_DARG_DEFAULT */
    dargs.number = defaults;
    lua_getfield(L, 1, "dargs");
    if (!lua_isnil(L, -1))
        dargs = dimension_list(L, "dargs", gsizes.count);
    lua_getfield(L, 1, "distribs");
    int list = lua_gettop(L);
    if (spec_list_length(L, "darray", list, "distribs") != gsizes.count)
        spec_fail(L, "darray", "distribs must have as many entries as gsizes, %lld", (long long)gsizes.count);
    enum type_distribution distribs[TREE_DEPTH_MAX];
    for (int64_t i = 0; i < gsizes.count; i++)
        distribs[i] = distribution(L, list, i);
    lua_getfield(L, 1, "order");
    enum type_order order = array_order(L, "darray");
    lua_getfield(L, 1, "of");
    const struct spec_type *old = spec_oldtype(L, "darray", lua_gettop(L), "of");
    int64_t nodes = old->nodes + 1;   /* a dimension has its full blocks and a part of one */
    for (int64_t i = 0; i < gsizes.count; i++)
        nodes = unfolded(2, nodes + 2);
    struct spec_type *t = push_type(L, "darray", nodes, 4 * gsizes.count + 1);
    struct reason why = {""};
    return pushed(L, "darray", t,
                  type_darray(size, rank, (int)gsizes.count, gsizes.number, distribs, dargs.number, psizes.number,
                              order, old->type, &why),
                  &why);
}

/* ---- the language ---- */

static const luaL_Reg CONSTRUCTORS[] = {
    {"contiguous", contiguous},
    {"vector", vector},
    {"hvector", hvector},
    {"indexed", indexed},
    {"hindexed", hindexed},
    {"indexed_block", indexed_block},
    {"hindexed_block", hindexed_block},
    {"struct", structure},
    {"subarray", subarray},
    {"darray", darray},
    {"resized", resized},
    {"dup", dup},
    {"signature", signature},
    {NULL, NULL},
};

#define NAMED(name, c_type) {name, sizeof(c_type), _Alignof(c_type)}
static const struct {
    const char *name;
    size_t size, align;
} NAMED_TYPES[] = {
    NAMED("byte", char), NAMED("char", char), NAMED("short", short), NAMED("int", int), NAMED("long", long),
    NAMED("long_long", long long), NAMED("float", float), NAMED("double", double),
    NAMED("long_double", long double), NAMED("float_complex", float _Complex),
    NAMED("double_complex", double _Complex), NAMED("int8", int8_t), NAMED("int16", int16_t),
    NAMED("int32", int32_t), NAMED("int64", int64_t), NAMED("uint8", uint8_t), NAMED("uint16", uint16_t),
    NAMED("uint32", uint32_t), NAMED("uint64", uint64_t),
};

void spec_constructors(lua_State *L)
{
    luaL_newmetatable(L, SPEC_TYPE);
    lua_pushcfunction(L, type_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, type_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
    luaL_setfuncs(L, CONSTRUCTORS, 0);
    for (size_t i = 0; i < sizeof NAMED_TYPES / sizeof *NAMED_TYPES; i++) {
        const char *name = NAMED_TYPES[i].name;
        struct reason why = {""};
        struct spec_type *t = push_type(L, name, 1, 1);
        pushed(L, name, t, type_named((int64_t)NAMED_TYPES[i].size, (int)NAMED_TYPES[i].align, &why), &why);
        lua_setfield(L, -2, name);
    }
}
