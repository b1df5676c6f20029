/* offers.h: what offers.c and offers_rest.c share. */
#ifndef STRIDEC_TESTS_MPI_OFFERS_H
#define STRIDEC_TESTS_MPI_OFFERS_H
#include "check.h"

struct node_file;
/* The file of a rank in shared memory as this process has it mapped (runtime/node/segment.h); NULL where it has none. */
struct node_file *offers_file(int rank);
/* True if this file's owner reads the rank's memory. */
bool offers_accepted(const struct node_file *own, int rank);

/* True if this rank has offered anything. */
bool offers_used(void);
/* True if it has offered a message of so many packed bytes, of late: slots are used again. */
bool offers_sized(int64_t bytes);

struct offers {
    MPI_Comm comm;
    int peer;
    struct layout *layouts;   /* of LAYOUTS, two elements each */
    bool packed;              /* nothing may be offered */
    bool refused;             /* offers are accepted, but can't be read in place later */
};
void offers_rest(struct offers *o);

#endif
