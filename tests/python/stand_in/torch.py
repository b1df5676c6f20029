"""torch.py: what the examples and stridec use of PyTorch, over NumPy and device_array.py: for machines without PyTorch.

A Tensor has the attributes of the real one by which stridec reads it. bfloat16 are held as the upper halves of floats.
"""
from types import SimpleNamespace

import device_array
import numpy as np

strided, sparse_coo = "torch.strided", "torch.sparse_coo"


class dtype:
    def __init__(self, name, numpy, complex_=False, floating=False, signed=True):
        self.name, self.numpy = name, np.dtype(numpy)
        self.is_complex, self.is_floating_point, self.is_signed = complex_, floating, signed


float32, float64 = dtype("float32", "f4", floating=True), dtype("float64", "f8", floating=True)
bfloat16, float16 = dtype("bfloat16", "u2", floating=True), dtype("float16", "f2", floating=True)
complex64, complex128 = dtype("complex64", "c8", complex_=True), dtype("complex128", "c16", complex_=True)
int8, int64, uint8 = dtype("int8", "i1"), dtype("int64", "i8"), dtype("uint8", "u1", signed=False)
bool = dtype("bool", "?", signed=False)
cuda = SimpleNamespace(is_available=lambda: True, device_count=device_array.device_count,
                       set_device=device_array.set_device, synchronize=lambda: None)


class Tensor:
    layout = strided

    def __init__(self, array, dtype, kind="cpu", whole=None):
        self.array, self.dtype, self.device = array, dtype, SimpleNamespace(type=kind)
        self.whole = self if whole is None else whole   # the tensor that this is a view of

    def _view(self, array):
        return Tensor(array, self.dtype, self.device.type, self.whole)

    def __getitem__(self, index):
        return self._view(self.array[index])

    def __setitem__(self, index, other):
        self.array[index] = other.array

    def t(self):
        return self._view(self.array.T)

    def expand(self, *shape):
        return self._view(np.broadcast_to(self.array, shape))

    def to(self, device):
        made = device_array.DeviceArray(self.array.shape, self.array.dtype)
        made.set(self.array)
        return Tensor(made, self.dtype, "cuda")

    def cpu(self):
        if self.device.type == "cpu":
            return self
        if self.whole is self:
            return Tensor(self.array.get(), self.dtype)
        whole, first = self.whole.array, self.array.__cuda_array_interface__["data"][0]
        offset = first - whole.__cuda_array_interface__["data"][0]
        array = np.ndarray(self.array.shape, self.array.dtype, whole.get(), offset, self.array.strides)
        return Tensor(array, self.dtype)

    def reshape(self, *shape):
        return Tensor(self.array.reshape(shape), self.dtype)

    def __add__(self, number):
        return Tensor(self.array + self.dtype.numpy.type(number), self.dtype)

    @property
    def shape(self):
        return self.array.shape

    def stride(self):
        return tuple(step // self.dtype.numpy.itemsize for step in self.array.strides)

    def data_ptr(self):
        if self.device.type == "cuda":
            return self.array.__cuda_array_interface__["data"][0]
        return self.array.__array_interface__["data"][0]

    def element_size(self):
        return self.dtype.numpy.itemsize

    def is_conj(self):
        return False

    is_neg = is_conj

    def __str__(self):
        return str(self.array)


def arange(n, dtype=float32):
    return Tensor(np.arange(n).astype(dtype.numpy), dtype)


def zeros(*shape, dtype=float32):
    return Tensor(np.zeros(shape, dtype.numpy), dtype)


def equal(a, b):
    return a.shape == b.shape and np.array_equal(a.array, b.array)
