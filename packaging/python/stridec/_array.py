"""_array.py: where an array lies, and how, as NumPy, CuPy, PyTorch and DLPack tell. Imports none of them."""
import ctypes
import sys
from typing import NamedTuple

from ._layout import simplify


class Array(NamedTuple):
    """An array as memory: its elements in C order are what MPI sends."""

    address: int     # of the element whose indices are all 0; others may lie before it
    kind: str        # b i u f c as in NumPy; V: bytes without a meaning to MPI
    itemsize: int    # bytes
    shape: tuple
    strides: tuple   # bytes
    readonly: bool
    owner: object    # what keeps the memory alive

    def dimensions(self):
        """Returns the fewest dimensions of the array; None if it has no bytes."""
        return simplify(self.shape, self.strides) if self.itemsize else None


MASKED = "a masked array: MPI can't leave elements out; send x.data and x.mask"


def describe(x):
    """Returns the Array of x. Raises TypeError where x is no array, or one that MPI can't take."""
    for name, read in (("torch", _from_torch), ("numpy", _from_numpy_scalar), ("numpy.ma", _from_masked)):
        if name in sys.modules:
            array = read(sys.modules[name], x)
            if array:
                return array
    for name in ("__cuda_array_interface__", "__array_interface__"):
        interface = getattr(x, name, None)
        if interface is not None:
            return _from_interface(x, interface)
    if hasattr(x, "__dlpack__"):
        return _from_dlpack(x)
    raise TypeError(f"{type(x).__name__} is no array: it has neither __cuda_array_interface__, __array_interface__ "
                    f"nor __dlpack__")


def compact(shape, itemsize):
    """Returns the strides of an array in C order without gaps."""
    strides = []
    for n in reversed(shape):
        strides.append(itemsize)
        itemsize *= n
    return tuple(reversed(strides))


def _from_numpy_scalar(numpy, x):
    """Refuses what looks like an array, and whose memory is gone with the next line."""
    generic = getattr(numpy, "generic", None)
    if generic and isinstance(x, generic):
        raise TypeError(f"{type(x).__name__} is a scalar without memory of its own: use numpy.array(x)")


def _from_masked(ma, x):
    """Refuses NumPy's masked arrays: their interface does not tell of the mask."""
    if isinstance(x, ma.MaskedArray):
        raise TypeError(MASKED)


def _from_interface(x, interface):
    """Reads the dictionary that both array interfaces share; a GPU's (version 2 and 3) and the host's (3)."""
    if interface.get("mask") is not None:
        raise TypeError(MASKED)
    data = interface.get("data")
    if not (isinstance(data, (tuple, list)) and len(data) == 2):   # none, or an object that holds the bytes
        raise TypeError(f"{type(x).__name__}.__array_interface__ does not tell an address")
    kind, itemsize = _parse(interface["typestr"])
    if kind == "O" or getattr(getattr(x, "dtype", None), "hasobject", False):
        raise TypeError("an array of Python objects: MPI sends memory, not objects; use comm.send")
    address, readonly = data
    shape = tuple(map(int, interface["shape"]))
    strides = interface.get("strides")
    strides = compact(shape, itemsize) if strides is None else tuple(map(int, strides))
    return Array(address or 0, kind, itemsize, shape, strides, bool(readonly), x)


def _parse(typestr):
    """Returns kind and bytes of an element, such as <f8, |V2, >i4, <U5, <M8[ns]."""
    order, kind, size = typestr[0], typestr[1], int(typestr[2:].partition("[")[0] or 0)
    if kind == "t":
        raise TypeError("an array of bits: MPI sends whole bytes")
    if kind == "U":
        size *= 4
    if kind in "mM":
        kind = "i"
    if order == {"little": ">", "big": "<"}[sys.byteorder] and kind != "O":
        kind = "V"
    return kind, size


def _from_torch(torch, x):
    """Reads a tensor's own attributes: its __cuda_array_interface__ knows no bfloat16 and refuses gradients."""
    tensor = getattr(torch, "Tensor", None)
    if not (tensor and isinstance(x, tensor)):
        return None
    if x.layout != torch.strided:
        raise TypeError(f"a tensor of layout {x.layout}: only strided ones are memory")
    if x.device.type not in ("cpu", "cuda"):
        raise TypeError(f"a tensor on device {x.device.type}: MPI takes host memory and CUDA's")
    for pending, resolve in (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg")):
        if getattr(x, pending)():
            raise TypeError(f"the tensor's memory does not hold its values yet: use x.{resolve}()")
    itemsize, dtype = x.element_size(), x.dtype
    if dtype == torch.bool:
        kind = "b"
    elif dtype.is_complex or dtype.is_floating_point:
        kind = "c" if dtype.is_complex else "f"
    else:
        kind = "i" if dtype.is_signed else "u"
    strides = tuple(step * itemsize for step in x.stride())
    return Array(x.data_ptr(), kind, itemsize, tuple(x.shape), strides, False, x)


# DLPack: dlpack.h of versions 0.6 to 1.x.
_HOST = {1: "CPU", 3: "CUDA host", 11: "ROCm host"}
_DEVICE = {2: "CUDA", 13: "CUDA managed"}
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}   # others (bfloat 4, float8 and less) have no name in MPI


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_READ_ONLY = 1   # of _Versioned.flags


def _capsule_pointer(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def _is_capsule(capsule, name):
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.restype, valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    return bool(valid(capsule, name))


def _from_dlpack(x):
    """Looks into the capsule without consuming it: the producer's memory lives as long as the capsule, the owner."""
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:   # a producer from before version 1
        capsule = x.__dlpack__()
    readonly = False
    if _is_capsule(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if versioned.major > 1:
            raise TypeError(f"a DLPack tensor of version {versioned.major}: versions up to 1 are known")
        readonly, tensor = bool(versioned.flags & _READ_ONLY), versioned.tensor
    elif _is_capsule(capsule, b"dltensor"):
        tensor = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    else:
        raise TypeError(f"{type(x).__name__}.__dlpack__() gives no DLPack tensor")
    if tensor.device_type not in _HOST and tensor.device_type not in _DEVICE:
        raise TypeError(f"a DLPack tensor on device type {tensor.device_type}: MPI takes host memory and CUDA's")
    bits = tensor.bits * tensor.lanes
    if bits % 8:
        raise TypeError(f"a DLPack tensor of elements of {bits} bits: MPI sends whole bytes")
    kind = _KINDS.get(tensor.code, "V") if tensor.lanes == 1 else "V"
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[i] * bits // 8 for i in range(tensor.ndim))
    else:
        strides = compact(shape, bits // 8)
    return Array((tensor.data or 0) + tensor.byte_offset, kind, bits // 8, shape, strides, readonly, (x, capsule))
