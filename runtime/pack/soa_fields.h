/* soa_fields.h: splits types of many equal records with few fields, such as a structure of arrays. Each field lies in
 * one memory. By fields a message takes one launch a field, by ranges one a record. */
#ifndef STRIDEC_SOA_FIELDS_H
#define STRIDEC_SOA_FIELDS_H
#include "datatype/locate.h"

#define FIELDS_MAX 16

struct field {
    struct tree *tree;       /* canonical: the field in all records of an element */
    struct device *device;   /* its memory; NULL: the host */
    int64_t at, size;        /* place in a packed record, bytes */
};
struct fields {
    int count;
    int64_t records;         /* of the message, consecutive when packed */
    int64_t record;          /* packed bytes of one record */
    struct field field[FIELDS_MAX];
};

/* Finds the fields of count elements at buf; the caller frees them by soa_fields_free. Returns false if there are none,
 * or if records are few or long. */
bool soa_fields_find(struct fields *f, const struct layout *l, const void *buf, int64_t count);
void soa_fields_free(struct fields *f);
/* Returns how many of the first `bytes` packed bytes of the message belong to a field. */
int64_t soa_fields_bytes(const struct fields *f, const struct field *field, int64_t bytes);

#endif
