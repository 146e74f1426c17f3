"""Made-up builds of ONNX Runtime: its own Python code over providers that cannot be used.

A build is a folder of links to the installed package. Only the module between its Python code and
its C++ code differs: it says that there are more providers, and what becomes of them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import onnxruntime

# ``NOISE`` is printed on standard output by C++ code; ``RAISED`` by provider; providers that do
# not raise are left out without a word, as CUDA's is where its libraries are not there.
_BINDING = """
from onnxruntime.capi.onnxruntime_pybind11_state import *
from onnxruntime.capi import onnxruntime_pybind11_state as _real
import os

_ABSENT = ("TensorrtExecutionProvider", "CUDAExecutionProvider")
_RAISED = {raised!r}


def get_available_providers():
    return [*_ABSENT, *_real.get_available_providers()]


def register_tensorrt_plugins_as_custom_ops(options, provider_options):
    pass


class InferenceSession(_real.InferenceSession):
    def initialize_session(self, providers, options, disabled):
        os.write(1, {noise!r})
        for name in providers:
            if name in _RAISED:
                raise RuntimeError(_RAISED[name])
        there = [name for name in providers if name not in _ABSENT]
        super().initialize_session(there, options[:len(there)], disabled)
"""


def make_build(folder: Path, *, raised: dict[str, str] | None = None, noise: bytes = b"") -> Path:
    """A build with providers for CUDA and TensorRT; the folder for PYTHONPATH.

    ``raised``: what providers raise; the library of one that does not cannot be loaded.
    """
    real, made = Path(onnxruntime.__file__).parent, folder / "onnxruntime"
    (made / "capi").mkdir(parents=True)
    for place in (real, real / "capi"):
        for path in place.iterdir():
            target = made / path.relative_to(real)
            if path.name not in {"capi", "__pycache__"}:
                target.symlink_to(path)
    binding = made / "capi/_pybind_state.py"
    binding.unlink()
    binding.write_text(_BINDING.format(raised=raised or {}, noise=noise))
    _build_library(made / "capi/libonnxruntime_providers_cuda.so")
    return folder


def _build_library(path: Path) -> None:
    """A library that needs another one, which is gone when it is to be loaded."""
    needed = path.with_name("libcublasLt.so.13")
    build = ["gcc", "-shared", "-fPIC", "-x", "c", os.devnull]
    subprocess.run([*build, f"-Wl,-soname,{needed.name}", "-o", needed], check=True)
    subprocess.run([*build, "-Wl,--no-as-needed", "-x", "none", needed, "-o", path], check=True)
    needed.unlink()
