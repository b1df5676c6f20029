/* gen_inner.h: what gen.c and gen_tables.c share. */
#ifndef STRIDEC_GEN_INNER_H
#define STRIDEC_GEN_INNER_H
#include "gen.h"
#include <lua.h>

/* Pushes a form's tree, as push_node says, with what is known of the whole: family, word, bytes (which lists make a class),
 * numbers. */
void gen_push_form(lua_State *L, const struct form *f);
/* By enum gen_direction. */
extern const char *const gen_directions[];
/* The plan at a place of the stack. */
void gen_read_plan(lua_State *L, int plan, struct gen_plan *out);

#endif
