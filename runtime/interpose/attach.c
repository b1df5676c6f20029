/* attach.c: memory that the MPI keeps using: windows, and buffers for MPI_Bsend. The MPI must be able to access it. */
#include "base/error.h"
#include "base/log.h"
#include "collective/window.h"
#include "large_count.h"
#include "pack/typed_buffer.h"

/* Returns true if the MPI can't access the window. Its loads and stores would fault later, in any process. */
static bool window_refused(const void *base, MPI_Aint size)
{
    return size > 0 && device_unmanaged(base) && !mpi_cuda_aware();
}

/* Returns true for device memory: even a CUDA-aware MPI writes its own lists into a buffer for MPI_Bsend. */
static bool buffer_refused(const void *buffer, MPI_Count size)
{
    return size > 0 && device_unmanaged(buffer);
}

#define WINDOW_REFUSED "a window over device memory that this MPI, which is not CUDA-aware, can't access, and no " \
                       "kernels: those need all ranks on one node, under stridec, each with memory from cudaMalloc, " \
                       "or none, that the others can open"
#define BUFFER_REFUSED "a buffer for MPI_Bsend must lie in host memory, where the MPI keeps lists of its own in it: " \
                       "device memory is not supported"

static int refuse_attach(MPI_Win win)
{
    log_write(LOG_ERROR, "%s", WINDOW_REFUSED);
    PMPI_Win_call_errhandler(win, MPI_ERR_BASE);
    return MPI_ERR_BASE;
}

/* Defines call_NAME, which ends with `refusal` if the memory is refused. */
#define CHECKED(name, parameters, refused, refusal, ...) \
    int call_##name parameters \
    { \
        return refused ? refusal : next->name(__VA_ARGS__); \
    }

/* Only if all ranks refuse it can the MPI's window be freed, which waits for all of them. */
static int refuse_window(const struct next *next, MPI_Comm comm, MPI_Win *win, bool all)
{
    int rc = raise_error(comm, MPI_ERR_BASE, WINDOW_REFUSED);
    if (all) next->Win_free(win);
    *win = MPI_WIN_NULL;
    return rc;
}

/* The MPI gets no memory that it can't access. All ranks have made its window before they decide whose it is. */
#define WIN_CREATE(name, number) \
    int call_##name(const struct next *next, void *base, MPI_Aint size, number disp_unit, MPI_Info info, \
                    MPI_Comm comm, MPI_Win *win) \
    { \
        struct window_ask ask = {comm, base, size, disp_unit, window_refused(base, size)}; \
        if (ask.refused && !window_possible(comm)) return raise_error(comm, MPI_ERR_BASE, WINDOW_REFUSED); \
        int rc = next->name(base, ask.refused ? 0 : size, disp_unit, info, comm, win); \
        enum window_owner owner = rc == MPI_SUCCESS ? window_decide(&ask, *win) : WINDOW_MPI; \
        bool unusable = owner == WINDOW_NOBODY || owner == WINDOW_REFUSED_HERE; \
        return unusable ? refuse_window(next, comm, win, owner == WINDOW_NOBODY) : rc; \
    }
WIN_CREATE(Win_create, int)
#ifdef HAVE_Win_create_c
WIN_CREATE(Win_create_c, MPI_Aint)
#endif
CHECKED(Win_attach, (const struct next *next, MPI_Win win, void *base, MPI_Aint size), window_refused(base, size),
        refuse_attach(win), win, base, size)

#define BUFFER_ATTACH(c, number) \
    CHECKED(Buffer_attach##c, (const struct next *next, void *buffer, number size), buffer_refused(buffer, size), \
            raise_error(MPI_COMM_SELF, MPI_ERR_BUFFER, BUFFER_REFUSED), buffer, size)
EACH_FORM(BUFFER_ATTACH)

#ifdef HAVE_Comm_attach_buffer
#define COMM_ATTACH(c, number) \
    CHECKED(Comm_attach_buffer##c, (const struct next *next, MPI_Comm comm, void *buffer, number size), \
            buffer_refused(buffer, size), raise_error(comm, MPI_ERR_BUFFER, BUFFER_REFUSED), comm, buffer, size)
EACH_FORM(COMM_ATTACH)
#endif

#ifdef HAVE_Session_attach_buffer
static int refuse_session(MPI_Session session)
{
    log_write(LOG_ERROR, "%s", BUFFER_REFUSED);
    PMPI_Session_call_errhandler(session, MPI_ERR_BUFFER);
    return MPI_ERR_BUFFER;
}
#define SESSION_ATTACH(c, number) \
    CHECKED(Session_attach_buffer##c, (const struct next *next, MPI_Session session, void *buffer, number size), \
            buffer_refused(buffer, size), refuse_session(session), session, buffer, size)
EACH_FORM(SESSION_ATTACH)
#endif
