/* embed.h: the Lua and template files compiled into the binary by gen/embed.lua, which names the tables after its output:
 * embedded_ here, pages_ in the command. */
#ifndef STRIDEC_GEN_EMBED_H
#define STRIDEC_GEN_EMBED_H
#include <stddef.h>
struct embedded {
    const char *name;   /* "gen/plan.lua", "templates/strided.cu", ... */
    const char *text;   /* terminated */
    size_t size;
};
extern const struct embedded embedded_files[];   /* ends with name == NULL */
extern const char embedded_version[];            /* hex hash of all of them */
/* The file of that name, or NULL. */
const struct embedded *embedded_find(const char *name);
#endif
