"""The compute capability of the first card, as NVIDIA's driver says it: no library is needed."""

from __future__ import annotations

import ctypes

# CUDA Driver API, CUdevice_attribute
_MAJOR, _MINOR = 75, 76


def compute_capability() -> int | None:
    """87 is 8.7; None where no driver answers, or no card is there."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return None
    for value, attribute in ((major, _MAJOR), (minor, _MINOR)):
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
            return None
    return 10 * major.value + minor.value
