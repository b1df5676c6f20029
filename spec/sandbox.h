/* sandbox.h: a Lua state that a hostile spec cannot leave, exhaust or hang. Private to spec/.
 *
 * What holds it in: an allocator that counts (SPEC_MEMORY_MAX in all, SPEC_STRING_MAX a string), a hook
 * that counts instructions and looks at the clock, and an environment made of listed functions only.
 * Once instructions or time are used up every further instruction fails, so pcall gains nothing.
 *
 * The hook sees Lua instructions only, so no C function in reach may run long by itself: pattern matching
 * (find, match, gmatch, gsub) and table.move are left out, string.rep is bounded, and table.insert,
 * table.remove and table.sort do their work in Lua.
 */
#ifndef STRIDEC_SPEC_SANDBOX_H
#define STRIDEC_SPEC_SANDBOX_H

#include "spec.h"
#include <lua.h>
#include <time.h>

#define SPEC_STRING_MAX ((size_t)1 << 20)
#define SPEC_SECONDS_MAX 10
#define SPEC_LIST_MAX ((lua_Integer)4 << 20)   /* numbers in one list; tree nodes that one type unfolds to */

struct sandbox {
    lua_State *L;
    size_t used;                /* bytes held by Lua and by the types made */
    long instructions;
    time_t deadline;            /* CLOCK_MONOTONIC seconds */
    int refused_line;           /* where memory was last refused; 0: nowhere */
    struct reason broken;       /* why nothing runs any more; empty while all is well */
    char file[LUA_IDSIZE];      /* the spec's path as Lua's own messages show it */
};

/* 0, or -1 with *why. Close with sandbox_close, also after -1. */
int sandbox_open(struct sandbox *s, const char *path, struct reason *why);
void sandbox_close(struct sandbox *s);
struct sandbox *sandbox_of(lua_State *L);

/* Pushes the environment that a spec sees, without the constructors. */
void sandbox_environment(lua_State *L);

/* Charges memory that is held outside Lua; raises an error when there is not enough left. */
void sandbox_charge(lua_State *L, size_t bytes);
void sandbox_discharge(lua_State *L, size_t bytes);

/* The line that the running chunk is at: of the nearest caller that has lines; 0 where there is none. */
int sandbox_line(lua_State *L);
/* Raises "FILE:LINE: message". */
int sandbox_raise(lua_State *L, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Message handler: puts "FILE:LINE: " before a message that lacks it. */
int sandbox_message(lua_State *L);
/* Turns the status and the message of a failed lua_pcall into *why. */
void sandbox_reason(struct sandbox *s, int status, struct reason *why);

/* signatures.c: returns true if the text is a list of signatures (spec.h). Reads one; NULL with "FILE:LINE: message". */
bool signatures_are(const char *text);
struct spec *signatures_load(const char *path, char *text, struct reason *why);

/* constructors.c: adds the constructors and the named types to the table on top. */
void spec_constructors(lua_State *L);

/* arguments.c: what a constructor was given. Each raises an error that names the constructor, the
 * argument, what was expected and what came. `arg` is an index on the stack, `name` the argument's name. */
struct spec_type {
    struct type *type;
    int line;             /* of the constructor call */
    int64_t nodes;        /* of the tree when shared subtrees are counted each time */
    size_t charge;        /* bytes charged to the sandbox */
};
struct spec_list {
    int64_t count;
    int64_t *number;      /* owned by a userdata on the stack */
};
#define SPEC_TYPE "stridec type"

int spec_fail(lua_State *L, const char *constructor, const char *format, ...) __attribute__((format(printf, 3, 4)));
int64_t spec_integer(lua_State *L, const char *constructor, int arg, const char *name);
int64_t spec_count(lua_State *L, const char *constructor, int arg, const char *name);   /* not negative */
const struct spec_type *spec_oldtype(lua_State *L, const char *constructor, int arg, const char *name);
struct spec_list spec_integers(lua_State *L, const char *constructor, int arg, const char *name);
/* The length of a list: a table with the keys 1 to n and no others. */
lua_Integer spec_list_length(lua_State *L, const char *constructor, int arg, const char *name);

#endif
