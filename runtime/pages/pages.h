/* pages.h: what the command draws: layouts as SVG, and reports as HTML. Both are written by Lua (draw.lua, report.lua),
 * which is embedded in the command. */
#ifndef STRIDEC_PAGES_H
#define STRIDEC_PAGES_H

#include "../../gen/embed.h"
#include "../../gen/type.h"
#include <lua.h>
#include <stddef.h>

/* A type and what the rewrite rules made of it. */
struct drawing {
    const char *name;
    const struct type *type;
    const struct tree *canonical;
    const char *steps;   /* tree_canonical_explained's */
    const char *signature;
};

/* Return text of *bytes, which the caller frees, or NULL with *why. */
char *page_of_layout(const struct drawing *d, size_t *bytes, struct reason *why);
/* `json`, of `length` bytes, is what `stridec run --stats=json:FILE` writes. */
char *page_of_run(const char *json, size_t length, size_t *bytes, struct reason *why);

/* Returns the embedded file of that name, or NULL. Made by gen/embed.lua. */
const struct embedded *pages_find(const char *name);

/* lua_tree.c: defines the type of trees and the function tree(signature). */
void lua_open_tree(lua_State *L);
void lua_push_tree(lua_State *L, const struct tree *t);

#endif
