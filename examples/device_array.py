"""device_array.py: a NumPy-like block of GPU memory over libcudart alone, for machines without CuPy.

A DeviceArray offers __cuda_array_interface__, which is all that mpi4py asks of a GPU buffer.
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
    """A C-ordered array in GPU memory, filled from and read back to NumPy arrays of its shape."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.nbytes = int(np.prod(self.shape)) * self.dtype.itemsize
        self._pointer = ctypes.c_void_p()
        _call("cudaMalloc", ctypes.byref(self._pointer), ctypes.c_size_t(self.nbytes))

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self._pointer.value, False), "version": 2}

    def _copy(self, to, source, kind):
        _call("cudaMemcpy", ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(self.nbytes), kind)
        _call("cudaDeviceSynchronize")   # MPI may look at the array from another stream

    def set(self, array):
        array = np.ascontiguousarray(array, self.dtype)
        assert array.shape == self.shape
        self._copy(self._pointer.value, array.ctypes.data, HOST_TO_DEVICE)

    def get(self):
        array = np.empty(self.shape, self.dtype)
        self._copy(array.ctypes.data, self._pointer.value, DEVICE_TO_HOST)
        return array

    def free(self):
        _call("cudaFree", self._pointer)
        self._pointer = ctypes.c_void_p()
