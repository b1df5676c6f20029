/* attach.c: memory that the MPI keeps using: windows, and buffers for MPI_Bsend. The MPI must be able to access it. */
#include "base/error.h"
#include "base/log.h"
#include "next.h"
#include "pack/typed_buffer.h"

/* Returns true if the MPI can't access the window. Its loads and stores would fault later, in any process. */
static bool window_refused(const void *base, MPI_Aint size)
{
    return size > 0 && device_unmanaged(base) && !mpi_cuda_aware();
}

#define WINDOW_REFUSED "a window over device memory needs a CUDA-aware MPI, and this one is not: only origin " \
                       "buffers of one-sided calls may lie on a device"

int call_Win_create(const struct next *next, void *base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm,
                    MPI_Win *win)
{
    if (window_refused(base, size)) return raise_error(comm, MPI_ERR_BASE, WINDOW_REFUSED);
    return next->Win_create(base, size, disp_unit, info, comm, win);
}

#ifdef HAVE_Win_create_c
int call_Win_create_c(const struct next *next, void *base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info,
                      MPI_Comm comm, MPI_Win *win)
{
    if (window_refused(base, size)) return raise_error(comm, MPI_ERR_BASE, WINDOW_REFUSED);
    return next->Win_create_c(base, size, disp_unit, info, comm, win);
}
#endif

int call_Win_attach(const struct next *next, MPI_Win win, void *base, MPI_Aint size)
{
    if (!window_refused(base, size)) return next->Win_attach(win, base, size);
    log_write(LOG_ERROR, "%s", WINDOW_REFUSED);
    PMPI_Win_call_errhandler(win, MPI_ERR_BASE);
    return MPI_ERR_BASE;
}

/* Returns true for device memory: even a CUDA-aware MPI writes its own lists into a buffer for MPI_Bsend. */
static bool buffer_refused(const void *buffer, MPI_Count size)
{
    return size > 0 && device_unmanaged(buffer);
}

#define BUFFER_REFUSED "a buffer for MPI_Bsend must lie in host memory, where the MPI keeps lists of its own in it: " \
                       "device memory is not supported"

int call_Buffer_attach(const struct next *next, void *buffer, int size)
{
    if (buffer_refused(buffer, size)) return raise_error(MPI_COMM_SELF, MPI_ERR_BUFFER, BUFFER_REFUSED);
    return next->Buffer_attach(buffer, size);
}

#ifdef HAVE_Buffer_attach_c
int call_Buffer_attach_c(const struct next *next, void *buffer, MPI_Count size)
{
    if (buffer_refused(buffer, size)) return raise_error(MPI_COMM_SELF, MPI_ERR_BUFFER, BUFFER_REFUSED);
    return next->Buffer_attach_c(buffer, size);
}
#endif

#ifdef HAVE_Comm_attach_buffer
int call_Comm_attach_buffer(const struct next *next, MPI_Comm comm, void *buffer, int size)
{
    if (buffer_refused(buffer, size)) return raise_error(comm, MPI_ERR_BUFFER, BUFFER_REFUSED);
    return next->Comm_attach_buffer(comm, buffer, size);
}
#endif

#ifdef HAVE_Comm_attach_buffer_c
int call_Comm_attach_buffer_c(const struct next *next, MPI_Comm comm, void *buffer, MPI_Count size)
{
    if (buffer_refused(buffer, size)) return raise_error(comm, MPI_ERR_BUFFER, BUFFER_REFUSED);
    return next->Comm_attach_buffer_c(comm, buffer, size);
}
#endif

#ifdef HAVE_Session_attach_buffer
int call_Session_attach_buffer(const struct next *next, MPI_Session session, void *buffer, int size)
{
    if (!buffer_refused(buffer, size)) return next->Session_attach_buffer(session, buffer, size);
    log_write(LOG_ERROR, "%s", BUFFER_REFUSED);
    PMPI_Session_call_errhandler(session, MPI_ERR_BUFFER);
    return MPI_ERR_BUFFER;
}
#endif

#ifdef HAVE_Session_attach_buffer_c
int call_Session_attach_buffer_c(const struct next *next, MPI_Session session, void *buffer, MPI_Count size)
{
    if (!buffer_refused(buffer, size)) return next->Session_attach_buffer_c(session, buffer, size);
    log_write(LOG_ERROR, "%s", BUFFER_REFUSED);
    PMPI_Session_call_errhandler(session, MPI_ERR_BUFFER);
    return MPI_ERR_BUFFER;
}
#endif
