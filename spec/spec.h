/* spec.h: reads a type spec file: Lua in a sandbox that returns a table of named types; or a list of signatures.
 *
 * A list has a signature (gen/tree.h) in each line, behind a name and a tab or alone. Empty lines and those that begin
 * with # count for nothing. `stridec inspect --signature` prints such lists. A type without a name is named line_N. */
#ifndef STRIDEC_SPEC_SPEC_H
#define STRIDEC_SPEC_SPEC_H

#include "../gen/type.h"

struct spec_item {
    char *name;
    int line;            /* of the constructor call that made the type; 0 where unknown */
    struct type *type;
};
struct spec {
    size_t count;
    struct spec_item *item;   /* sorted by name */
};

/* Bounds of the sandbox. */
#define SPEC_INSTRUCTIONS_MAX 50000000L
#define SPEC_MEMORY_MAX ((size_t)256 << 20)

/* Loads a spec, or a list of signatures. Returns NULL with "FILE:LINE: message" in *why on failure, "FILE: message" where no line is to blame. Free with spec_free. */
struct spec *spec_load(const char *path, struct reason *why);
void spec_free(struct spec *s);
/* Returns the type of a signature, whose bounds are its first byte and past its last; NULL with *why. */
struct type *spec_signature(const char *text, struct reason *why);

#endif
