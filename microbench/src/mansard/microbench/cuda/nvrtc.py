"""NVIDIA's runtime compiler: which wheel of it is loaded, and code for an architecture by name."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

# Below the package nvidia, by the major version of CUDA.
_PLACES = {12: "cuda_nvrtc/lib/libnvrtc.so.12", 13: "cu13/lib/libnvrtc.so.13"}


def find_nvrtc(major: int) -> Path | None:
    """NVRTC of CUDA ``major`` in NVIDIA's wheel; None where that is not installed."""
    if major not in _PLACES:
        return None
    nvidia = importlib.util.find_spec("nvidia")
    folders = (nvidia.submodule_search_locations or ()) if nvidia is not None else ()
    paths = (Path(folder) / _PLACES[major] for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def load_nvrtc(path: Path) -> ctypes.CDLL:
    """NVRTC, able to compile; raises OSError where it does not load.

    It opens its library of built-in functions by name with the first program. The wheel of CUDA
    13.0 has no RPATH, so the loader does not look beside NVRTC. A library that is loaded already
    is the one that the name means.
    """
    for builtins in sorted(path.parent.glob("libnvrtc-builtins.so.*")):
        with suppress(OSError):  # NVRTC names what it misses when it compiles
            ctypes.CDLL(str(builtins))
    return ctypes.CDLL(str(path))


def prefer_nvrtc(major: int) -> None:
    """Load the NVRTC of CuPy's own CUDA from its wheel, before CuPy looks for one.

    CuPy asks cuda.pathfinder, which knows no version: it answers with one that is loaded
    already, else with the newest. What NVRTC 13 makes, a driver for CUDA 12 need not load. Where
    there is no wheel, CuPy finds the toolkit's.
    """
    path = find_nvrtc(major)
    if path is not None:
        with suppress(OSError):  # CuPy says what is wrong with it
            load_nvrtc(path)


@contextmanager
def module_for(architecture: str, source: str, options: tuple[str, ...]) -> Iterator[Any]:
    """A module of CuPy with code for sm_``architecture``, whose functions are loaded in this block.

    CuPy compiles for the card's compute capability, a number: "90a" it cannot name. Raises CuPy's
    CompileException with NVRTC's log, as CuPy does.
    """
    import cupy

    with NamedTemporaryFile(suffix=".cubin") as file:  # CuPy loads machine code from files alone
        file.write(compile_for(architecture, source, options))
        file.flush()
        yield cupy.RawModule(path=file.name)


def compile_for(architecture: str, source: str, options: tuple[str, ...]) -> bytes:
    """Machine code (CUBIN) for sm_``architecture``; raises as ``module_for``."""
    from cupy.cuda.compiler import CompileException
    from cupy_backends.cuda.libs import nvrtc

    options = (f"--gpu-architecture=sm_{architecture}", *options)
    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return bytes(nvrtc.getCUBIN(program))
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program) or str(error)
        raise CompileException(log, source, "kernel.cu", options, "nvrtc") from error
    finally:
        nvrtc.destroyProgram(program)
