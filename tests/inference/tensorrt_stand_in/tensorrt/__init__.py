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
Profiler = _running.Profiler
globals().update(_release.ENUMS)
globals().update(_release.CLASSES)
for _name in ("float32", "float16", "int8", "int32", "uint8", "fp8", "bfloat16", "int64", "int4"):
    _type = {"float32": "FLOAT", "float16": "HALF", "bfloat16": "BF16"}.get(_name, _name.upper())
    if _type in _release.ENUMS["DataType"].__members__:
        globals()[_name] = _release.ENUMS["DataType"][_type]


def nptype(trt_type):
    """The NumPy type; raises TypeError where NumPy has none."""
    import numpy as np

    names = {"FLOAT": "float32", "HALF": "float16", "BOOL": "bool"}
    for name in ("INT8", "INT32", "INT64", "UINT8"):
        names[name] = name.lower()
    if trt_type.name not in names:
        raise TypeError("Could not resolve TensorRT datatype to an equivalent numpy datatype.")
    return np.dtype(names[trt_type.name]).type


def volume(iterable):
    """The product of a shape."""
    result = 1
    for size in iterable:
        result *= size
    return result


def init_libnvinfer_plugins(logger, namespace):
    """Register the plugins that ship; there are none."""
    return True


def get_nv_onnx_parser_version():
    """The version of the parser as a number."""
    major, minor, patch = (int(part) for part in _release.VERSION.split("."))
    return major * 10000 + minor * 100 + patch
