"""datatype.py: stridec.datatype and stridec.message against NumPy's own packing, on any number of ranks.

Each rank sends random views to the next one, which receives them into other views: every byte of both arrays is
compared with what NumPy makes of it. Both lie in host memory, then in GPU memory. Run by tests/python/run.sh.
"""
import ctypes
import gc
import os
import random
import sys
import weakref
from types import SimpleNamespace

import device_array
import numpy as np
import stridec
from mpi4py import MPI
from stridec import _datatype, _layout

DTYPES = ["?", "i1", "u1", "i2", "u4", "i8", "f2", "f4", "f8", "g", "c8", "c16", ">f8", ">i2", "S3", "U2", "M8[s]",
          [("a", "i1"), ("b", "f8")]]
comm = MPI.COMM_WORLD
left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
seed = int(os.environ.get("TEST_SEED", "1"))
failed = 0
freed = []   # of each datatype that stridec freed: whether MPI was finalized


def check(name, right_):
    """Prints a line for all ranks."""
    global failed
    bad = comm.allreduce(0 if right_ else 1)
    failed += bool(bad)
    if comm.rank == 0:
        print(f"{'not ok' if bad else 'ok'} {name}", flush=True)


def refused(error, words, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except error as e:
        return words in str(e)
    return False


def random_view(rng, n):
    """Returns a function that gives a view of any array of a random shape of up to n dimensions, and that shape."""
    shape = tuple(rng.randint(1, 6) for _ in range(rng.randint(0, n)))
    index = []
    for size in shape:
        kind = rng.random()
        if kind < 0.1:
            index.append(rng.randrange(size))
        elif kind < 0.15:
            index += [None, slice(None)]
        elif kind < 0.2:
            index.append(slice(0, rng.randint(0, 1)))
        else:
            step = rng.choice([1, 1, 2, 3, -1, -2])
            index.append(slice(rng.randrange(size), None, step))
    index = tuple(index) + (...,)
    order, expand = rng.random(), rng.random()

    def view(array):
        array = array[index]
        axes = list(range(array.ndim))
        random.Random(order).shuffle(axes)
        array = array.transpose(axes)
        return np.broadcast_to(array, (3,) + array.shape) if expand < 0.1 else array

    return view, shape


def random_place(rng, shape):
    """Returns a function that gives a view of this shape without overlaps, and the shape of the array it is of."""
    axes = list(range(len(shape)))
    rng.shuffle(axes)
    steps = [rng.choice([1, 2, 3, -1, -2]) for _ in shape]
    sizes = tuple(shape[a] * abs(steps[a]) + rng.randint(0, 2) for a in axes)

    def view(array):
        array = array.transpose([axes.index(a) for a in range(len(shape))])
        return array[tuple(slice(0, n * s, s) if s > 0 or n == 0 else slice(n * -s - 1, None, s)
                           for n, s in zip(shape, steps)) + (...,)]

    return view, sizes


def filled(shape, dtype, number):
    """Returns an array of random bytes, the same ones on each rank that asks."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape)) * dtype.itemsize
    data = np.random.RandomState(number).randint(0, 2 if dtype == bool else 128, count).astype(np.uint8)
    if dtype == np.longdouble:   # a part of its bytes has no meaning, and MPICH does not send it
        numbers, data = data[::dtype.itemsize], np.zeros(count, np.uint8)
        np.ndarray(len(numbers), dtype, data)[...] = numbers
    return np.ndarray(shape, dtype, data)


def in_memory(device, array, view):
    """Returns a view, in the memory that is tested, and a function that reads the whole array back."""
    if not device:
        return view(array), lambda: array
    memory = device_array.DeviceArray(array.shape, array.dtype)
    memory.set(array)
    return memory._view(view(memory._layout)), memory.get


def travels(rng, device, number):
    """Sends a random view to the right, and compares all bytes of what comes, and of what it overwrites."""
    dtype = np.dtype(rng.choice(DTYPES))
    view, shape = random_view(rng, 4)
    source, read_source = in_memory(device, filled(shape, dtype, 2 * number + 1000 * comm.rank), view)
    theirs = view(filled(shape, dtype, 2 * number + 1000 * left))
    place, sizes = random_place(rng, theirs.shape)
    before = filled(sizes, dtype, 2 * number + 1)
    want = before.copy()
    place(want)[...] = theirs
    target, read_target = in_memory(device, before, place)

    request = comm.Isend(stridec.message(source), right, 0)
    comm.Recv(stridec.message(target, receive=True), left, 0)
    request.Wait()
    return (read_target().tobytes() == want.tobytes() and
            read_source().tobytes() == filled(shape, dtype, 2 * number + 1000 * comm.rank).tobytes())


def views(device, count, where):
    rng = random.Random(seed)
    bad = [n for n in range(count) if not travels(rng, device, n)]
    wrong = f": wrong are {bad[:9]} of TEST_SEED={seed}" if bad else ""
    check(f"{count} random views in {where} memory{wrong}", not bad)


def many_elements():
    """Lets _datatype believe that MPI counts to 7 only."""
    most, _datatype.INT_MAX = _datatype.INT_MAX, 7
    _datatype._cache.clear()
    try:
        views(False, 150, "host (numbers of elements past MPI's)")
    finally:
        _datatype.INT_MAX = most
        _datatype._cache.clear()


def constructors():
    a = np.zeros((4, 6, 8), np.float32)
    for name, array, combiner in (
            ("a whole array", a, MPI.COMBINER_CONTIGUOUS), ("a row", a[0, 0], MPI.COMBINER_CONTIGUOUS),
            ("a column", a[0, :, 0], MPI.COMBINER_VECTOR), ("a plane", a[:, :, 0], MPI.COMBINER_VECTOR),
            ("a plane of rows", a[:, 0], MPI.COMBINER_VECTOR), ("one element", a[0, 0, 0:1], MPI.COMBINER_NAMED),
            ("a cuboid", a[1:3, 1:3, 1:3], MPI.COMBINER_HVECTOR)):
        check(f"{name} is of the simplest constructor", stridec.datatype(array).Get_envelope()[-1] == combiner)
    check("elements of no bytes", stridec.datatype(np.zeros(3, "V0")).Get_size() == 0)
    column = stridec.datatype(a[0, :, 0], extent=4)
    check("an extent", column.Get_extent() == (0, 4))


def columns():
    """Scatters the columns of rank 0's matrix."""
    a = np.arange(5.0 * comm.size).reshape(5, comm.size)
    got = np.zeros(5)
    sent = [a, 1, stridec.datatype(a[:, 0], extent=a.strides[1])] if comm.rank == 0 else None
    comm.Scatter(sent, got, 0)
    check("Scatter of columns by their extent", np.array_equal(got, a[:, comm.rank]))


def cache():
    a = np.zeros((400, 400))
    first = stridec.datatype(a[:, 0])
    check("arrays of one layout share a datatype", first is stridec.datatype(a[:, 7]))
    second = weakref.ref(stridec.datatype(a[:, :2]))
    check("a datatype is kept from one call for the next", second() is not None)
    for n in range(1, _datatype.KEPT + 2):
        stridec.datatype(a[:n, ::3])
    gc.collect()
    check("of many datatypes those used last are kept", len(_datatype._cache) == _datatype.KEPT and second() is None)
    check("a datatype that somebody holds is not freed", first.Get_size() == 400 * 8)


def collected():
    """Describes an array in a __del__ that the collector runs while another datatype is made."""
    class Ring:
        def __init__(self):
            self.ring = self

        def __del__(self):
            found.append(stridec.datatype(a[:, 5]))

    a, found, make = np.zeros((3, 50)), [], _datatype._make

    def make_and_collect(*arguments):
        gc.collect()
        return make(*arguments)

    gc.disable()
    Ring()
    _datatype._make = make_and_collect
    stridec.datatype(a[:, ::7])
    _datatype._make = make
    gc.enable()
    check("a __del__ makes a datatype while another one is made", len(found) == 1)


def ownership():
    class Array(np.ndarray):
        pass

    a = np.arange(64.0).view(Array)
    alive, got = weakref.ref(a), np.zeros(32)
    request = comm.Isend(stridec.message(a[::2]), right, 1)
    del a
    gc.collect()
    kept = alive() is not None
    comm.Recv(got, left, 1)
    request.Wait()
    del request
    gc.collect()
    check("a request keeps its array alive, and no longer", kept and alive() is None)
    check("... and sends what was in it", np.array_equal(got, np.arange(0.0, 64, 2)))


def errors():
    a = np.zeros((4, 4))
    constant, shared = a.copy(), np.lib.stride_tricks.as_strided(a, (3, 4), (0, 8))
    constant.flags.writeable = False
    check("receive=True refuses read-only memory",
          refused(ValueError, "read-only", stridec.message, constant, receive=True))
    check("receive=True refuses shared elements",
          refused(ValueError, "share memory", stridec.message, shared, receive=True))
    for array, what in ((constant, "read-only memory"), (shared, "shared elements")):
        check(f"mpi4py refuses to receive into {what}",
              refused(BufferError, "writable", comm.Irecv, stridec.message(array), left, 2))
    hidden = np.ma.array(np.arange(3.0), mask=[0, 1, 0])
    held = SimpleNamespace(__array_interface__={"shape": (2,), "typestr": "<f8", "data": bytes(16), "version": 3})
    for bad, words in ((hidden, "masked"), (hidden[::2], "masked"), (held, "address"), (np.array([None]), "objects"), (np.zeros(1, [("a", "O")]), "objects"), (np.float64(1), "scalar"),
                       (3, "no array"), (b"bytes", "no array")):
        check(f"TypeError of {type(bad).__name__}: {words}", refused(TypeError, words, stridec.datatype, bad))


def overlapping():
    """Compares the search with all pairs of elements."""
    rng, bad = random.Random(seed), 0
    for _ in range(400):
        dims = [(rng.randint(2, 5), rng.randint(-9, 9)) for _ in range(rng.randint(0, 3))]
        size, at = rng.randint(1, 4), [0]
        for n, step in dims:
            at = [p + i * step for p in at for i in range(n)]
        at.sort()
        bad += _layout.overlaps(dims, size) != any(q - p < size for p, q in zip(at, at[1:]))
    check("overlaps of 400 random layouts", bad == 0)


class Exporter:
    """An array by DLPack alone, as an old or (with a version) a new library gives it."""

    def __init__(self, array, code=2, version=None, readonly=False, device=1):
        self.array, self.version = array, version
        kept = [(ctypes.c_int64 * array.ndim)(*array.shape),
                (ctypes.c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))]
        record = bytes([code, array.itemsize * 8, 1, 0])
        words = [array.__array_interface__["data"][0] - 16, device, array.ndim | int.from_bytes(record, "little") << 32,
                 ctypes.addressof(kept[0]), ctypes.addressof(kept[1]), 16]
        if version:
            words[:0] = [version, 0, 0, int(readonly)]
        self.words = (ctypes.c_uint64 * (len(words) + 2))(*words)   # and two pointers, of the manager
        self.kept = kept

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **named):
        if named and not self.version:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.name = b"dltensor_versioned" if self.version else b"dltensor"
        return new(ctypes.addressof(self.words), self.name, None)


def arrives(message, want):
    got = np.zeros(want.size, want.dtype)
    comm.Sendrecv(message, right, 3, [got, got.nbytes, MPI.BYTE], left, 3)
    return got.tobytes() == want.tobytes()


def dlpack():
    a = np.arange(24.0).reshape(4, 6)
    for version in (None, 1):
        x = Exporter(a[:, ::2], version=version)
        check(f"DLPack{' with a version' if version else ''}", arrives(stridec.message(x), a[:, ::2]))
    constant = Exporter(a, version=1, readonly=True)
    check("DLPack's read-only memory", refused(ValueError, "read-only", stridec.message, constant, receive=True))
    half = np.arange(12, dtype=np.uint16)
    check("DLPack's bfloat16", arrives(stridec.message(Exporter(half[::-3], code=4)), half[::-3]))
    check("DLPack of an unknown device", refused(TypeError, "device type 8", stridec.message, Exporter(a, device=8)))
    check("DLPack of an unknown version", refused(TypeError, "version 2", stridec.message, Exporter(a, version=2)))


def tensors(device, where):
    import torch   # tests/python/stand_in/torch.py

    for n, dtype in enumerate((torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int8)):
        x = torch.Tensor(filled((6, 8), dtype.numpy, n), dtype)
        view = (x.to("cuda") if device else x).t()[1:, ::2]
        check(f"a tensor of {dtype.name} in {where} memory", arrives(stridec.message(view), x.t()[1:, ::2].array))


def odd_tensors():
    import torch

    x = torch.zeros(1, 4, dtype=torch.float32)
    check("an expanded tensor is sent", arrives(stridec.message(x.expand(3, 4)), np.zeros((3, 4), np.float32)))
    check("... and not received", refused(ValueError, "share", stridec.message, x.expand(3, 4), receive=True))
    x.layout = torch.sparse_coo
    check("a sparse tensor", refused(TypeError, "strided", stridec.message, x))


def main():
    free = _datatype._free
    _datatype._free = lambda handle: (freed.append(MPI.Is_finalized()), free(handle))
    for device, where in ((False, "host"), (True, "device")):
        views(device, 200, where)
        tensors(device, where)
    odd_tensors()
    many_elements()
    constructors()
    columns()
    cache()
    collected()
    ownership()
    errors()
    overlapping()
    dlpack()
    kept = sum(not kept.is_predefined for kept in _datatype._cache.values())
    freed.clear()
    comm.Barrier()
    rank = comm.rank
    MPI.Finalize()
    right_ = kept > 0 and freed == [False] * kept and not _datatype._cache
    if rank == 0:
        print(f"{'ok' if right_ else 'not ok'} MPI.Finalize frees the datatypes, before MPI ends")
    return failed > 0 or not right_


sys.exit(main())
