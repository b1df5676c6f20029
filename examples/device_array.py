"""device_array.py: a NumPy-like block of GPU memory over libcudart alone, for machines without CuPy.

A DeviceArray offers __cuda_array_interface__, which is all that mpi4py and stridec.message ask of a GPU buffer. This
is no program: halo3d.py uses it where CuPy is missing.
"""
import ctypes
import ctypes.util
import glob
import os

import numpy as np

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


def _load():
    names = ["libcudart.so", "libcudart.so.13", "libcudart.so.12"]
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    for home in filter(None, homes):
        names += sorted(glob.glob(home + "/lib*/libcudart.so*"))
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    raise OSError("no libcudart.so found: install the CUDA runtime, or CuPy")


_cudart = _load()
_cudart.cudaGetErrorString.restype = ctypes.c_char_p


def _call(name, *arguments):
    status = getattr(_cudart, name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name}: {_cudart.cudaGetErrorString(status).decode()}")


def device_count():
    count = ctypes.c_int()
    _call("cudaGetDeviceCount", ctypes.byref(count))
    return count.value


def set_device(device):
    _call("cudaSetDevice", ctypes.c_int(device))


class DeviceArray:
    """An array in GPU memory. As in CuPy, indices and T give views of it; set and get copy from and to NumPy arrays."""

    def __init__(self, shape, dtype):
        self.dtype, self._owner, self._pointer = np.dtype(dtype), None, ctypes.c_void_p()
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize
        _call("cudaMalloc", ctypes.byref(self._pointer), ctypes.c_size_t(self.nbytes))
        self._address = self._pointer.value or 0
        # NumPy finds out shapes, strides and offsets of views; the memory is not its own, and it touches none.
        self._layout = np.lib.stride_tricks.as_strided(np.empty((), self.dtype), shape, self._strides(shape))

    def _strides(self, shape):
        steps = [self.dtype.itemsize * int(np.prod(shape[i + 1:])) for i in range(len(shape))]
        return tuple(steps)

    def _view(self, layout):
        view = DeviceArray.__new__(DeviceArray)
        view.dtype, view._owner, view._pointer = self.dtype, self, None
        view._layout, view.nbytes = layout, layout.nbytes
        view._address = self._address + layout.ctypes.data - self._layout.ctypes.data
        return view

    @property
    def shape(self):
        return self._layout.shape

    @property
    def strides(self):
        return self._layout.strides

    @property
    def T(self):
        return self._view(self._layout.T)

    def __getitem__(self, index):
        """Returns the view that slices, numbers, ... and None give."""
        index = index if isinstance(index, tuple) else (index,)
        if not any(i is Ellipsis for i in index):
            index += (...,)   # a view even where every index is a number
        return self._view(self._layout[index])

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "strides": self.strides, "typestr": self.dtype.str,
                "data": (self._address, False), "version": 2}

    def _copy(self, to, source, kind):
        assert self._owner is None, "views are not copied: use the array that they are of"
        _call("cudaMemcpy", ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(self.nbytes), kind)
        _call("cudaDeviceSynchronize")   # MPI may look at the array from another stream

    def set(self, array):
        array = np.asarray(array, self.dtype, order="C")
        assert array.shape == self.shape
        self._copy(self._address, array.ctypes.data, HOST_TO_DEVICE)

    def get(self):
        array = np.empty(self.shape, self.dtype)
        self._copy(array.ctypes.data, self._address, DEVICE_TO_HOST)
        return array

    def free(self):
        _call("cudaFree", self._pointer)
        self._pointer = ctypes.c_void_p()
