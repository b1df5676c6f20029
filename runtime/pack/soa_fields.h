/* soa_fields.h: types that are many equal records of a few fields, each field in a memory of its own: the elements of a
 * structure of arrays, say. By fields such a message takes one launch a field, by ranges one a record. */
#ifndef STRIDEC_FIELDS_H
#define STRIDEC_FIELDS_H
#include "datatype/locate.h"

#define FIELDS_MAX 16

struct field {
    struct tree *tree;       /* canonical: this field in all the records of an element */
    struct device *device;   /* where all of it lies; NULL: the host */
    int64_t at, size;        /* in a packed record */
};
struct fields {
    int count;
    int64_t records;         /* of the message, one after another when packed */
    int64_t record;          /* packed bytes of one */
    struct field field[FIELDS_MAX];
};

/* The fields of count elements at buf; false where they are none, or not worth it: few records, or long ones. */
bool soa_fields_find(struct fields *f, const struct layout *l, const void *buf, int64_t count);
void soa_fields_free(struct fields *f);
/* How many bytes of a field are among the first `bytes` packed bytes of the message. */
int64_t soa_fields_bytes(const struct fields *f, const struct field *field, int64_t bytes);

#endif
