"""stridec: MPI datatypes for strided arrays, in host memory and on GPUs.

    comm.Send(stridec.message(x[:, 0]), dest=1)
    comm.Recv(stridec.message(y[:, 0], receive=True), source=0)

x may be a NumPy or CuPy array, a PyTorch tensor, or whatever offers __cuda_array_interface__, __array_interface__ or
DLPack. It is sent from where it lies, and nothing is copied here. In GPU memory that takes a CUDA-aware MPI, or a
program that was started by `stridec run`. MPI knows of no streams: before the call finish the work that writes x, or
that uses what is received into, by cupy.cuda.get_current_stream().synchronize() or torch.cuda.synchronize().

Persistent requests can go in the order of a CUDA stream instead, without waiting for it, and in CUDA graphs:

    requests = [comm.Send_init(stridec.message(x[:, 0]), dest=1), comm.Recv_init(...)]   # once
    stridec.start_on(requests, stream)
    stridec.wait_on(requests, stream)   # both: stridec.exchange_on(requests, stream)

mpi4py is imported where the first of these functions is taken, so that this package alone starts no MPI.
"""
_ORDER = ["start_on", "wait_on", "exchange_on"]
__all__ = ["datatype", "message", *_ORDER]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _ORDER:
        from . import _order as module
    else:
        from . import _datatype as module
    return getattr(module, name)


def __dir__():
    return sorted([*globals(), *__all__])
