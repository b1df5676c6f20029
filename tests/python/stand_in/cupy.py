"""cupy.py: what the examples use of CuPy, over device_array.py: for machines without CuPy. Not for use elsewhere."""
from types import SimpleNamespace

import device_array
import numpy as np

float32, float64 = np.float32, np.float64
_no_stream = SimpleNamespace(synchronize=lambda: None)   # device_array's copies end before they return
cuda = SimpleNamespace(
    Device=lambda device: SimpleNamespace(use=lambda: device_array.set_device(device)),
    get_current_stream=lambda: _no_stream,
    runtime=SimpleNamespace(getDeviceCount=device_array.device_count))


def asarray(array):
    made = device_array.DeviceArray(array.shape, array.dtype)
    made.set(np.asarray(array))
    return made


def zeros(shape, dtype=float64):
    return asarray(np.zeros(shape, dtype))
