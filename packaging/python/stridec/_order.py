"""_order.py: persistent requests in the order of a CUDA stream: stridec_start_on and its kin of stridec.h."""
import ctypes
import operator
import os

from mpi4py import MPI

VERSION = 3   # of struct stridec_calls
OK, HOST = 0, 5
ERRORS = {
    2: (RuntimeError, "a captured stream can't take these requests: each must have been completed once outside of the "
                      "graph, in GPU memory, with a partner on the node. STRIDEC_LOG=warn (the default) says why"),
    3: (ValueError, "a request is started already, or receives from MPI.ANY_SOURCE or with MPI.ANY_TAG, or the "
                    "requests use memory of several GPUs"),
    4: (RuntimeError, "the driver or MPI failed, or memory is out. STRIDEC_LOG=info says more")}
NO_CONTEXT = 3, 201   # cuStreamSynchronize's results where there is no work to wait for


def start_on(requests, stream=None):
    """Starts persistent requests in the order of a CUDA stream: messages hold what earlier work of it has written.

    requests: a list of what comm.Send_init and comm.Recv_init return, or one. Both partners of a message start it by
    this call and complete it by wait_on, always: not by Start, Wait or Test.
    stream: None (CUDA's default stream, not the one that CuPy or PyTorch uses now), a cupy.cuda.Stream, a
    torch.cuda.Stream, an object with __cuda_stream__, or its address as an int. It is of the GPU whose memory the
    requests use.

    Make the requests after the process has chosen its GPU. The first start of a request waits for the stream, and its
    first wait_on for the partner's wait_on. Later calls enqueue work and return: the host waits for nothing. These may
    be captured into a CUDA graph. Then each launch is one message a request, and partners launch as many.

    Returns True where the stream carries the messages, else False: the host carries some, and has waited for the
    stream; wait_on waits for these messages. So it is without `stridec run`, for data in host memory and for a partner
    on another node. The first start may not know it yet and return True; wait_on knows.

    Keep the requests until the stream has done its work, and while a graph that holds them may be launched. mpi4py's
    request keeps the array that it was made of, MPI keeps the request itself until request.Free(). Until the stream has
    done it, let nothing but later work of the stream touch that memory.

    Raises ValueError where a request is started already, names MPI.ANY_SOURCE or MPI.ANY_TAG, or the requests use
    memory of several GPUs; RuntimeError where a captured stream can't take the requests (start and complete them once
    before), or where the driver or MPI fails; TypeError for other requests and streams.
    """
    requests, address, calls = _requests(requests), _address(stream), _calls()
    if calls:
        return _served(calls.start_on, requests, address)
    _synchronize(address)
    for request in requests:
        if request:
            request.Start()
    return False


def wait_on(requests, stream=None):
    """Completes persistent requests in the order of a CUDA stream: later work of it finds what was received, and may
    write what was sent.

    Takes what start_on takes, and returns and raises the same. Requests that were not started are ignored. True says
    that the work is enqueued, not that it is done: before the host reads what was received, wait for the stream.
    """
    requests, address, calls = _requests(requests), _address(stream), _calls()
    if calls:
        return _served(calls.wait_on, requests, address)
    MPI.Request.Waitall(requests)
    return False


def exchange_on(requests, stream=None):
    """Starts and completes persistent requests in the order of a CUDA stream: start_on, then wait_on, where nothing is
    to be enqueued between them. On a node that is a kernel fewer.

    Takes, returns and raises what start_on does.
    """
    requests, address, calls = _requests(requests), _address(stream), _calls()
    if calls:
        return _served(calls.exchange_on, requests, address)
    start_on(requests, address)
    return wait_on(requests, address)


_call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)   # without Python's global lock
_handle = {4: ctypes.c_uint32, 8: ctypes.c_uint64}[MPI._sizeof(MPI.Request)]


class _Calls(ctypes.Structure):
    """struct stridec_calls."""

    _fields_ = [("active", ctypes.CFUNCTYPE(ctypes.c_int)), ("register_types", ctypes.c_void_p),
                ("pack_on", ctypes.c_void_p), ("unpack_on", ctypes.c_void_p), ("query", ctypes.c_void_p),
                ("start_on", _call), ("wait_on", _call), ("exchange_on", _call)]


_process = ctypes.CDLL(None)
_found = None


def _calls():
    """Returns the functions of the library; None where it is not loaded, or does not serve this process."""
    global _found
    if _found is None:
        try:
            ask = _process.stridec_calls_of
        except AttributeError:
            return None
        ask.restype, ask.argtypes = ctypes.POINTER(_Calls), [ctypes.c_int]
        table = ask(VERSION)
        if not table:   # an older library
            return None
        _found = table.contents
    return _found if _found.active() else None


def _served(call, requests, address):
    """Calls the library with the handles of the requests, which it leaves as they are."""
    n = len(requests)
    handles = (_handle * n)(*(_handle.from_address(MPI._addressof(request)).value for request in requests))
    result = call(n, handles, address)
    if result in (OK, HOST):
        return result == OK
    error, text = ERRORS.get(result, (RuntimeError, f"the library returns {result}"))
    raise error(text)


def _requests(requests):
    """Returns a list of persistent requests and null ones."""
    requests = [requests] if isinstance(requests, MPI.Request) else list(requests)
    for request in requests:
        if not isinstance(request, MPI.Request):
            raise TypeError(f"{type(request).__name__} is no request of mpi4py's")
        if request and not isinstance(request, MPI.Prequest):
            raise TypeError(f"a {type(request).__name__} is not persistent: use comm.Send_init and comm.Recv_init")
    return requests


def _address(stream):
    """Returns the address of a stream as an int; 0 is the default stream."""
    if stream is None:
        return 0
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise TypeError(f"{type(stream).__name__}.__cuda_stream__ is of version {version}: 0 is known")
        return int(handle)
    for name in ("ptr", "cuda_stream"):   # CuPy's, PyTorch's
        handle = getattr(stream, name, None)
        if handle is not None:
            return int(handle)
    try:
        return operator.index(stream)
    except TypeError:
        raise TypeError(f"{type(stream).__name__} is no CUDA stream: it has neither __cuda_stream__, ptr nor "
                        f"cuda_stream, and is no int") from None


def _synchronize(address):
    """Waits for the stream by the driver that the process has loaded, as stridec.h does without the library."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:   # not loaded: there are no streams
        return
    result = driver.cuStreamSynchronize(ctypes.c_void_p(address))
    if result != 0 and result not in NO_CONTEXT:
        raise RuntimeError(f"cuStreamSynchronize fails with {result}")
