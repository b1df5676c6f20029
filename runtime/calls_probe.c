/* calls_probe.c: probing: a descriptor is told of as its payload (aside.h). */
#include "aside.h"
#include "next.h"
#include "request.h"

static int end(int rc)
{
    record_poll();
    return rc;
}

int call_Probe(const struct next *next, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    if (aside_probe(source, tag, comm, s)) return end(MPI_SUCCESS);
    int rc = next->Probe(source, tag, comm, s);
    return end(rc == MPI_SUCCESS ? aside_look(comm, s) : rc);
}

int call_Iprobe(const struct next *next, int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    if (aside_probe(source, tag, comm, s)) return *flag = 1, end(MPI_SUCCESS);
    int rc = next->Iprobe(source, tag, comm, flag, s);
    return end(rc == MPI_SUCCESS && *flag ? aside_look(comm, s) : rc);
}

int call_Mprobe(const struct next *next, int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    if (aside_match(source, tag, comm, message, s, &rc)) return end(rc);
    rc = next->Mprobe(source, tag, comm, message, s);
    return end(rc == MPI_SUCCESS ? aside_look_matched(message, comm, s) : rc);
}

int call_Improbe(const struct next *next, int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                 MPI_Status *status)
{
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    if (aside_match(source, tag, comm, message, s, &rc)) return *flag = 1, end(rc);
    rc = next->Improbe(source, tag, comm, flag, message, s);
    return end(rc == MPI_SUCCESS && *flag ? aside_look_matched(message, comm, s) : rc);
}
