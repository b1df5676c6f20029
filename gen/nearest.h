/* nearest.h: the known name that a mistyped one is meant for. */
#ifndef STRIDEC_GEN_NEAREST_H
#define STRIDEC_GEN_NEAREST_H

/* Set `wanted` to the mistyped name; `name` is then the nearest one tried so far, NULL if none is near. */
struct nearest {
    const char *wanted, *name;
    int far;
};
/* Tries a known name, which must live as long as `n`. */
void nearest_try(struct nearest *n, const char *name);

#endif
