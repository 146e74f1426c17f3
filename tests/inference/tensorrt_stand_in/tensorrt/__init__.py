"""Stands in for the Python bindings of TensorRT 8.6 and 10.3.

A folder to be put on PYTHONPATH. It has the published members of those versions and no others
(``_symbols``). "Building" keeps the ONNX file with its settings, "running" runs it with ONNX
Runtime on the CPU. The environment says what is played: STAND_IN_TENSORRT the version,
STAND_IN_DEVICE the machine (``stand_in_device``), STAND_IN_CUDA=cudart an older cuda-python. Needs
numpy, onnx to build, and onnxruntime to run.
"""

from tensorrt import _building, _network, _release, _running

_PARTS = (_building, _network, _running)  # each enters its classes
__version__ = f"{_release.VERSION}+stand-in"
ILogger, Logger = _release.ILogger, _release.Logger
Dims, IHostMemory = _release.Dims, _release.IHostMemory
globals().update(_release.ENUMS)
globals().update(_release.CLASSES)


def volume(iterable):
    """The product of a shape."""
    result = 1
    for size in iterable:
        result *= size
    return result
