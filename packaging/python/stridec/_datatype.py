"""_datatype.py: MPI datatypes for strided arrays, and messages of them."""
import threading
import weakref
from collections import OrderedDict

from mpi4py import MPI

from ._array import describe
from ._layout import overlaps, simplify, span

NAMED = {("b", 1): "C_BOOL", ("i", 1): "INT8_T", ("i", 2): "INT16_T", ("i", 4): "INT32_T", ("i", 8): "INT64_T",
         ("u", 1): "UINT8_T", ("u", 2): "UINT16_T", ("u", 4): "UINT32_T", ("u", 8): "UINT64_T",
         ("f", 4): "FLOAT", ("f", 8): "DOUBLE", ("f", 16): "LONG_DOUBLE",
         ("c", 8): "C_FLOAT_COMPLEX", ("c", 16): "C_DOUBLE_COMPLEX", ("c", 32): "C_LONG_DOUBLE_COMPLEX"}
INT_MAX = 2**31 - 1
KEPT = 256   # datatypes that are kept from one call for the next, those used last


def datatype(x, extent=None):
    """Returns a committed MPI datatype: one of it is the array x, its elements in C order.

    x: any strided array (see the package). It may be a transposed, a reversed, an expanded or an empty view.
    extent: bytes from one of the datatype to the next where several are sent, as columns are:
    `comm.Scatter([a, 1, stridec.datatype(a[:, 0], extent=a.strides[1])], …)`. Left out: as MPI computes it.

    It begins at the element whose indices are all 0, whose address `message` gives MPI, and reaches below it where
    strides are negative. Elements of a kind that MPI has a name for are of that datatype, others (float16, bfloat16,
    structures, bytes in the other order) are bytes.

    The datatype is shared by all arrays of one layout: do not free it. It lives as long as somebody holds it, at most
    until MPI_Finalize. Raises TypeError where x is no such array.
    """
    array = describe(x)
    return _cached(array.kind, array.itemsize, array.dimensions(), extent)


def message(x, receive=False):
    """Returns [buffer, 1, datatype], which all of mpi4py's calls take, to send the array x or to receive into it.

    receive: refuse, with ValueError, an array that can't be received into: it is read-only, or some of its elements
    share memory, as those of an expanded tensor do. Without it mpi4py refuses such an array itself where it is received
    into ("not writable").

    The message, and each request of mpi4py's that was made from it, keep x alive. Until the request is complete the
    memory must not be changed (on receive: nor read), and x not be resized in place.
    """
    array = describe(x)
    dims = array.dimensions()
    shared = dims is not None and overlaps(dims, array.itemsize)
    if receive and shared:
        raise ValueError(f"can't receive into an array some of whose elements share memory "
                         f"(shape {array.shape}, strides {array.strides} bytes)")
    if receive and array.readonly:
        raise ValueError("can't receive into a read-only array")
    nbytes = 0 if dims is None else span(dims, array.itemsize)
    count = 0 if dims is None else 1
    return [_Buffer(array, nbytes, array.readonly or shared), count,
            _cached(array.kind, array.itemsize, dims, None)]


class _Buffer:
    """Memory as mpi4py takes it, of any device, whose owner it holds.

    mpi4py refuses strided arrays themselves, and memory made from an address has no owner. This interface only tells
    the address: what memory it is, MPI finds out.
    """

    __slots__ = ("address", "nbytes", "readonly", "owner")

    def __init__(self, array, nbytes, readonly):
        self.address, self.nbytes, self.readonly, self.owner = array.address, nbytes, readonly, array.owner

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, self.readonly), "version": 3}


_lock = threading.RLock()   # the collector may run, within, a __del__ that calls stridec
_cache = OrderedDict()
_at_finalize = None   # the attribute of COMM_SELF by which MPI_Finalize empties the cache


def _cached(kind, itemsize, dims, extent):
    """Returns the datatype of these dimensions, new or kept."""
    key = kind, itemsize, dims if dims is None else tuple(dims), extent
    with _lock:
        _watch_finalize()
        found = _cache.pop(key, None)
        if found is None:
            found = _make(*_unit(kind, itemsize), itemsize, dims, extent)
        _cache[key] = found
        if len(_cache) > KEPT:
            _cache.popitem(last=False)
    return found


def _watch_finalize():
    """Has MPI.Finalize() free what is kept: MPI deletes the attributes of COMM_SELF first."""
    global _at_finalize
    if _at_finalize is None and MPI.Is_initialized() and not MPI.Is_finalized():
        _at_finalize = MPI.Comm.Create_keyval(delete_fn=lambda *_: _cache.clear())
        MPI.COMM_SELF.Set_attr(_at_finalize, True)


def _unit(kind, itemsize):
    """Returns the named datatype that elements consist of, and its bytes."""
    named = getattr(MPI, NAMED.get((kind, itemsize), "BYTE"), MPI.DATATYPE_NULL)
    if named == MPI.DATATYPE_NULL or named.Get_size() != itemsize:
        return MPI.BYTE, 1
    return named, itemsize


def _make(unit, size, itemsize, dims, extent):
    """Commits a datatype. It is freed when nobody holds it any more; a named one never."""
    made = []
    if dims is None:
        made.append(unit.Create_contiguous(0))
    else:
        if itemsize != size:   # an element is a run of bytes
            dims = simplify([n for n, _ in dims] + [itemsize // size], [step for _, step in dims] + [size])
        _build(made, unit, size, list(dims or []))
    if extent is not None:
        made.append((made[-1] if made else unit).Create_resized(0, extent))
    if not made:
        return unit
    result = made.pop().Commit()
    for step in made:
        step.Free()
    weakref.finalize(result, _free, MPI.Datatype(result))
    return result


def _build(made, unit, size, dims):
    """Appends the datatypes on the way to that of `dims`, and that, to made: nothing where it is the unit itself."""
    run = dims.pop()[0] if dims and dims[-1][1] == size else 1
    n, step = dims.pop() if dims else (1, 0)
    alone = n > INT_MAX or step == -1   # left to _repeat, which takes no runs
    if run > INT_MAX or (alone and run > 1):
        _repeat(made, run, size, unit)
        unit, run = made[-1], 1
    if alone:
        _repeat(made, n, step, unit)
    elif n > 1 and step % size == 0 and abs(step // size) <= INT_MAX and unit.is_predefined:
        made.append(unit.Create_vector(n, run, step // size))
    elif n > 1:
        made.append(unit.Create_hvector(n, run, step))
    elif run > 1:
        made.append(unit.Create_contiguous(run))
    for n, step in reversed(dims):
        _repeat(made, n, step, made[-1])


def _repeat(made, n, step, inner):
    """Appends n of inner, every `step` bytes: by several datatypes where n is more than MPI counts."""
    if n <= INT_MAX and step == -1:   # Workaround (Open MPI 4.1): its vectors take a step of -1 byte for none
        made.append(inner.Create_resized(0, -1))
        made.append(made[-1].Create_contiguous(n))
        return
    if n <= INT_MAX:
        made.append(inner.Create_hvector(n, 1, step))
        return
    chunk = (INT_MAX + 1) // 2
    _repeat(made, chunk, step, inner)
    _repeat(made, n // chunk, chunk * step, made[-1])
    whole, rest = made[-1], n % chunk
    if rest:
        _repeat(made, rest, step, inner)
        made.append(MPI.Datatype.Create_struct([1, 1], [0, (n - rest) * step], [whole, made[-1]]))


def _free(handle):
    # In a program that has sessions alone, nobody tells whether one is left: its datatypes end with the process.
    if MPI.Is_initialized() and not MPI.Is_finalized():
        handle.Free()
