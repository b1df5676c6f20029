/* short.c: collectives that bring more than the receiver has room for: the error class that this MPI gives on host
 * memory, and no byte outside of what the receiver named. A communicator of its own each time: what such a call
 * leaves in one is undefined. Nonblocking ones end the job in Open MPI 4.1, whatever the handler.
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 */
#include "check.h"
#include <stdlib.h>
#include <string.h>

#define SENT 3      /* elements, of which there is room for one */
#define LARGE 300   /* the same past what MPIs send at once */

struct side {
    struct buf out, in;
    MPI_Datatype type;
    int sent, room;
    MPI_Comm comm;
};
typedef int call(struct side *s);

/* Rank 0 is the root that has too much, or too little room. */
static int bcast(struct side *s)
{
    if (my_rank == 0) return MPI_Bcast(s->out.origin, s->sent, s->type, 0, s->comm);
    return MPI_Bcast(s->in.origin, s->room, s->type, 0, s->comm);
}

static int scatter(struct side *s)
{
    return MPI_Scatter(s->out.origin, s->sent, s->type, my_rank ? s->in.origin : MPI_IN_PLACE, s->room, s->type, 0,
                       s->comm);
}

static int alltoallv(struct side *s)
{
    int sent[2] = {0, 0}, room[2] = {0, 0}, displs[2] = {0, 0};
    sent[my_rank ^ 1] = s->sent, room[my_rank ^ 1] = s->room;
    return MPI_Alltoallv(s->out.origin, sent, displs, s->type, s->in.origin, room, displs, s->type, s->comm);
}

static const struct {
    const char *name;
    call *call;
} calls[] = {{"MPI_Bcast", bcast}, {"MPI_Scatter", scatter}, {"MPI_Alltoallv", alltoallv}};

/* What a rank's call gives with buffers in that memory. */
static int class_of(size_t i, enum mem_kind kind, int sent)
{
    struct layout many, few;
    struct side s = {.sent = sent, .room = 1};
    layout_number(&many, 1, 2 * sent);
    layout_number(&few, 1, 1);
    s.type = few.type;
    MPI_Comm_dup(MPI_COMM_WORLD, &s.comm);
    MPI_Comm_set_errhandler(s.comm, MPI_ERRORS_RETURN);
    buf_make(&s.out, kind, &many, 0, 1);
    buf_make(&s.in, kind, &few, 0, 2);
    int class = error_class(calls[i].call(&s));
    buf_check(&s.out, "what was sent");
    unsigned char *got = malloc(s.in.bytes), *named = calloc(1, s.in.bytes);
    mem_read(kind, got, s.in.base, s.in.bytes);
    for (int b = 0; b < few.bytes; b++) named[s.in.lead + (size_t)few.map[b]] = 1;
    for (size_t b = 0; b < s.in.bytes; b++)
        expect(named[b] || got[b] == s.in.shadow[b], "%s changes byte %zu, which it was not given", calls[i].name, b);
    free(got), free(named);
    buf_free(&s.in), buf_free(&s.out);
    MPI_Comm_free(&s.comm);
    layout_free(&few), layout_free(&many);
    return class;
}

int main(int argc, char **argv)
{
    static const int sizes[] = {SENT, LARGE};
    int truncated = 0;
    check_start(&argc, &argv, -1);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int k = 0; k < 2; k++) {
            int host = class_of(i, MEM_HOST, sizes[k]), device = class_of(i, MEM_DEVICE, sizes[k]);
            expect(host == device, "%s with a device buffer, %s with a host buffer", error_name(device),
                   error_name(host));
            report("%s of %d elements into one", calls[i].name, sizes[k]);
            truncated += host == MPI_ERR_TRUNCATE;
        }
    MPI_Allreduce(MPI_IN_PLACE, &truncated, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(truncated > 0, "no rank sees an error");
    report("an MPI that sees truncation in %d calls", truncated);
    return check_finish();
}
