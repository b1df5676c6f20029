/* parts.h: the cases of parts.c: memories, and the pieces of them that a datatype has. */
#ifndef STRIDEC_TESTS_MPI_PARTS_H
#define STRIDEC_TESTS_MPI_PARTS_H
#include "check.h"

#define MEMORIES 4
#define PIECES 8

enum base { INTS, DOUBLES, BYTES };
enum make { STRUCT, HINDEXED, HVECTOR };

/* `n` base elements, `step` bytes apart (0: touching), from offset `at` of a memory. */
struct piece {
    int memory, at, n, step;
    enum base base;
};

struct memory {
    enum mem_kind kind;
    int device;
};

struct given {
    const char *name;
    struct memory memory[MEMORIES];
    int npieces;
    struct piece piece[PIECES];
    enum make make;      /* HINDEXED and HVECTOR: all pieces of one base; HVECTOR: two, of one length */
    int extent, count;   /* extent 0: as it comes */
    bool relative;       /* to the first memory's origin, not to MPI_BOTTOM */
    int blocks;          /* a vector of so many blocks of 2 every 3; 0: none */
};

#define DEV0 {MEM_DEVICE, 0}
#define DEV1 {MEM_DEVICE, 1}
#define HOST {MEM_HOST, 0}
#define PINNED {MEM_PINNED, 0}
#define MANAGED {MEM_MANAGED, 0}

static const struct given table[] = {
    {"host ints, device doubles", {HOST, DEV0}, 2,
     {{0, 4, 7, 0, INTS}, {1, 8, 5, 0, DOUBLES}}, STRUCT, 0, 1, false, 0},
    {"device doubles, host ints", {HOST, DEV0}, 2,
     {{1, 8, 5, 0, DOUBLES}, {0, 4, 7, 0, INTS}}, STRUCT, 0, 1, false, 0},
    {"strided in two devices", {DEV0, DEV1}, 2,
     {{0, 0, 300, 24, DOUBLES}, {1, 4, 500, 12, INTS}}, STRUCT, 0, 1, false, 0},
    {"two devices, host, managed", {DEV1, HOST, MANAGED, DEV0}, 4,
     {{2, 8, 30, 16, DOUBLES}, {0, 0, 31, 0, INTS}, {1, 1, 77, 3, BYTES}, {3, 16, 9, 40, DOUBLES}},
      STRUCT, 0, 1, false, 0},
    {"device, pinned, device", {DEV0, PINNED}, 3,
     {{0, 0, 8, 0, INTS}, {1, 0, 11, 8, INTS}, {0, 64, 9, 8, INTS}}, STRUCT, 0, 1, false, 0},
    {"resized, count 5", {HOST, DEV0}, 2,
     {{0, 0, 3, 0, INTS}, {1, 8, 4, 16, DOUBLES}}, STRUCT, 72, 5, false, 0},
    {"resized backwards, count 4", {DEV0, HOST, DEV1}, 3,
     {{0, 300, 9, 0, INTS}, {1, 300, 5, 12, INTS}, {2, 312, 3, 0, DOUBLES}}, STRUCT, -80, 4, false, 0},
    {"two equal blocks", {DEV0, HOST}, 2,
     {{0, 16, 40, 0, INTS}, {1, 32, 40, 0, INTS}}, HVECTOR, 0, 1, false, 0},
    {"two equal blocks on two devices, count 3", {DEV0, DEV1}, 2,
     {{0, 8, 5, 0, DOUBLES}, {1, 8, 5, 0, DOUBLES}}, HVECTOR, 64, 3, false, 0},
    {"indexed over two allocations of a device", {DEV0, DEV0}, 6,
     {{1, 80, 3, 0, INTS}, {0, 0, 1, 0, INTS}, {1, 8, 9, 0, INTS}, {0, 40, 2, 0, INTS}, {0, 60, 8, 0, INTS},
      {1, 0, 2, 0, INTS}}, HINDEXED, 0, 1, false, 0},
    {"indexed over host, device, host", {HOST, DEV1}, 6,
     {{0, 80, 3, 0, BYTES}, {0, 0, 1, 0, BYTES}, {1, 8, 9, 0, BYTES}, {1, 40, 2, 0, BYTES},
      {0, 60, 8, 0, BYTES}, {0, 90, 2, 0, BYTES}}, HINDEXED, 0, 1, false, 0},
    {"absolute addresses in one device", {DEV0}, 3,
     {{0, 1000, 50, 12, INTS}, {0, 0, 50, 8, INTS}, {0, 600, 7, 0, INTS}}, STRUCT, 0, 1, false, 0},
    {"absolute addresses in one device, a vector", {DEV1}, 1,
     {{0, 8, 500, 24, DOUBLES}}, STRUCT, 0, 1, false, 0},
    {"absolute addresses in one device, backwards", {DEV0}, 2,
     {{0, 900, 9, 12, INTS}, {0, 780, 5, 8, INTS}}, STRUCT, -300, 3, false, 0},
    {"absolute addresses in one device, contiguous", {DEV0}, 1,
     {{0, 8, 500, 0, DOUBLES}}, STRUCT, 0, 1, false, 0},
    {"absolute addresses on the host", {HOST}, 2,
     {{0, 9000, 50, 12, INTS}, {0, 0, 50, 80, INTS}}, STRUCT, 0, 1, false, 0},
    {"absolute addresses in two pieces of the host", {HOST, PINNED}, 2,
     {{0, 9000, 50, 12, INTS}, {1, 0, 50, 80, INTS}}, STRUCT, 0, 1, false, 0},
    {"an empty part first", {HOST, DEV0}, 3,
     {{0, 0, 0, 0, DOUBLES}, {1, 8, 4, 16, DOUBLES}, {0, 4, 9, 8, INTS}}, STRUCT, 0, 1, false, 0},
    {"an empty part on a device, all else on the host", {HOST, DEV0}, 3,
     {{1, 0, 0, 0, DOUBLES}, {0, 8, 4, 16, DOUBLES}, {0, 200, 9, 8, INTS}}, STRUCT, 0, 1, false, 0},
    {"an empty part first, all else on a device", {HOST, DEV0}, 3,
     {{0, 0, 0, 0, DOUBLES}, {1, 8, 4, 16, DOUBLES}, {1, 200, 9, 8, INTS}}, STRUCT, 0, 1, false, 0},
    {"relative, host first", {HOST, DEV0}, 2,
     {{0, 4, 7, 0, INTS}, {1, 8, 5, 0, DOUBLES}}, STRUCT, 0, 1, true, 0},
    {"relative, device first", {DEV0, HOST}, 2,
     {{1, 4, 7, 0, INTS}, {0, 8, 5, 0, DOUBLES}}, STRUCT, 0, 1, true, 0},
    {"relative, two devices, equal blocks", {DEV1, DEV0}, 2,
     {{0, 8, 5, 0, DOUBLES}, {1, 8, 5, 0, DOUBLES}}, HVECTOR, 0, 1, true, 0},
    {"long parts", {DEV0, HOST, DEV1, MANAGED}, 4,
     {{0, 0, 30000, 16, DOUBLES}, {1, 8, 20000, 8, INTS}, {2, 4, 50001, 0, INTS}, {3, 3, 40000, 2, BYTES}},
      STRUCT, 0, 1, false, 0},
    {"structure of arrays of one type", {HOST, DEV0}, 2,
     {{0, 0, 1, 0, INTS}, {1, 0, 1, 0, INTS}}, STRUCT, 4, 5000, false, 0},
    {"structure of four arrays", {HOST, DEV0, DEV1, MANAGED}, 4,
     {{2, 4, 1, 0, INTS}, {0, 0, 3, 0, BYTES}, {1, 0, 1, 0, DOUBLES}, {3, 1, 2, 5, BYTES}},
      STRUCT, 8, 3000, false, 0},
    {"structure of arrays, backwards", {DEV0, DEV1}, 2,
     {{0, 8000, 1, 0, INTS}, {1, 8000, 1, 0, DOUBLES}}, STRUCT, -8, 1000, false, 0},
    {"structure of arrays, every third left out", {DEV0, HOST, DEV0}, 3,
     {{0, 0, 1, 0, INTS}, {1, 0, 1, 0, DOUBLES}, {2, 4, 1, 0, INTS}}, STRUCT, 8, 1, false, 700},
    {"structure of arrays, relative", {DEV0, DEV1}, 2,
     {{0, 0, 1, 0, INTS}, {1, 0, 1, 0, INTS}}, HVECTOR, 4, 400, true, 0},
};

#endif
