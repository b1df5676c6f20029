/* file_split.c: split collectives on files. Arguments bounced at the begin call stay until the end call; a file has
 * one such operation at a time. */
#include "args.h"
#include "base/log.h"
#include "base/reserve.h"
#include "next.h"
#include <pthread.h>
#include <stdlib.h>

struct split {
    MPI_File file;
    struct args_set args;
    struct split *next;
};

static struct split *splits;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Removes the file's entry from the list and returns it; NULL if there is none. */
static struct split *split_take(MPI_File file)
{
    struct split *found = NULL;
    pthread_mutex_lock(&lock);
    for (struct split **at = &splits; *at && !found;) {
        if ((*at)->file == file) found = *at, *at = found->next;
        else at = &(*at)->next;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void split_add(struct split *s)
{
    pthread_mutex_lock(&lock);
    s->next = splits;
    splits = s;
    pthread_mutex_unlock(&lock);
}

static void split_free(struct split *s)
{
    if (!s) return;
    args_free(&s->args);
    reserve_put(s);
}

int args_keep_file(struct args_set *o, int rc, MPI_File file)
{
    if (rc != MPI_SUCCESS) {
        args_free(o);
        return rc;
    }
    split_free(split_take(file));   /* the file was closed before the end call */
    struct split *s = reserve_get(sizeof *s);
    s->args = *o, s->file = file;
    split_add(s);
    return rc;
}

static int finish(struct split *s, int rc, const MPI_Status *status)
{
    rc = args_close(&s->args, rc, status);
    split_free(s);
    return rc;
}

/* The end call passes the buffer that the begin call passed. */
#define END(name, buffer) \
    int call_##name(const struct next *next, MPI_File fh, buffer *buf, MPI_Status *status) \
    { \
        struct split *s = split_take(fh); \
        MPI_Status own, *st = status == MPI_STATUS_IGNORE ? &own : status; \
        if (!s) return next->name(fh, buf, status); \
        return finish(s, next->name(fh, s->args.of[0].use, st), st); \
    }
END(File_read_all_end, void)
END(File_read_at_all_end, void)
END(File_read_ordered_end, void)
END(File_write_all_end, const void)
END(File_write_at_all_end, const void)
END(File_write_ordered_end, const void)
