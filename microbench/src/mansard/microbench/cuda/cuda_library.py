"""What CUDA says of itself and of its devices, through CuPy: the probe's lowest edge."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol, TypeVar

from mansard.core.errors import DeviceError

_T = TypeVar("_T")
# Where NVIDIA's wheels have it, by the major version of CUDA.
_NVRTC_WHEELS = {12: "cuda_nvrtc/lib/libnvrtc.so.12", 13: "cu13/lib/libnvrtc.so.13"}
_PACKAGES = ("numba", "numba-cuda", "llvmlite", "numpy")


class CudaLibrary(Protocol):
    """CUDA as a process sees it. Whatever cannot be asked raises DeviceError in CUDA's words."""

    def versions(self) -> dict[str, str]:
        """Of CuPy, Numba and cuBLAS, as far as they are there and can be used."""

    def driver_version(self) -> int:
        """The newest CUDA that the driver runs: 12060 is 12.6; 0: there is no driver."""

    def runtime_version(self) -> int:
        """The CUDA that CuPy works with, in the same form."""

    def nvrtc_version(self) -> tuple[int, int]:
        """The compiler's."""

    def names(self) -> tuple[str, ...]:
        """The visible devices, in CUDA's order."""

    def compute_capability(self) -> int:
        """Of the first device: 87 is 8.7."""

    def memory_bytes(self) -> int:
        """Of the first device."""

    def attribute(self, name: str) -> int:
        """An attribute of the first device, by CUDA's name without cudaDevAttr."""


def open_cupy() -> CudaLibrary:
    """CUDA through CuPy; raises DeviceError where it is not installed or does not load."""
    try:
        import cupy  # noqa: F401
    except ImportError as error:
        words = " ".join(str(error).split())
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            words = "it is not installed in this Python"
        raise DeviceError(f"no CuPy: {words}") from error
    library = _Cupy()
    _prefer_nvrtc(library.runtime_version() // 1000)
    return library


def _prefer_nvrtc(major: int) -> None:
    """Load the NVRTC of CuPy's own CUDA from its wheel, where more than one is installed.

    CuPy (through cuda-pathfinder) takes one that is loaded already, else the newest; and what
    NVRTC 13 makes, a driver for CUDA 12 need not load.
    """
    nvidia = importlib.util.find_spec("nvidia")
    folders = (nvidia.submodule_search_locations or ()) if nvidia is not None else ()
    for folder in folders:
        path = Path(folder) / _NVRTC_WHEELS.get(major, "")
        if path.is_file():
            with suppress(OSError):
                ctypes.CDLL(str(path))
            return


class _Cupy:
    """Asks CuPy; imports happen where they are needed, for libraries may be missing."""

    def versions(self) -> dict[str, str]:
        import cupy

        found = {"cupy": str(cupy.__version__)}
        for package in _PACKAGES:
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                continue
        if "numba" in found and "numba-cuda" not in found and _numba_has_nvvm():
            found["numba-cuda"] = f"part of numba {found['numba']}"
        cublas = _cublas_version()
        if cublas is not None:
            found["cublas"] = cublas
        return found

    def driver_version(self) -> int:
        from cupy.cuda import runtime

        return _ask(lambda: int(runtime.driverGetVersion()))

    def runtime_version(self) -> int:
        from cupy.cuda import runtime

        return _ask(lambda: int(runtime.runtimeGetVersion()))

    def nvrtc_version(self) -> tuple[int, int]:
        def read() -> tuple[int, int]:
            from cupy_backends.cuda.libs import nvrtc

            major, minor = nvrtc.getVersion()
            return int(major), int(minor)

        return _ask(read)

    def names(self) -> tuple[str, ...]:
        from cupy.cuda import runtime

        def read() -> tuple[str, ...]:
            properties = map(runtime.getDeviceProperties, range(runtime.getDeviceCount()))
            return tuple(one["name"].decode(errors="replace") for one in properties)

        return _ask(read)

    def compute_capability(self) -> int:
        from cupy.cuda import runtime

        def read() -> int:
            properties = runtime.getDeviceProperties(0)
            return 10 * int(properties["major"]) + int(properties["minor"])

        return _ask(read)

    def memory_bytes(self) -> int:
        from cupy.cuda import runtime

        return _ask(lambda: int(runtime.getDeviceProperties(0)["totalGlobalMem"]))

    def attribute(self, name: str) -> int:
        from cupy.cuda import runtime

        return _ask(
            lambda: int(runtime.deviceGetAttribute(getattr(runtime, f"cudaDevAttr{name}"), 0))
        )


def _ask(question: Callable[[], _T]) -> _T:
    """The answer; CUDA's errors, and libraries that do not load, in their own words."""
    try:
        return question()
    except (RuntimeError, ImportError, OSError, AttributeError) as error:
        raise DeviceError(" ".join(str(error).split())) from error


def _cublas_version() -> str | None:
    """cuBLAS as CuPy loads it; its version needs a handle and so a device."""
    try:
        from cupy_backends.cuda.libs import cublas  # noqa: F401
    except (ImportError, OSError, RuntimeError):
        return None
    for package in ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "of the CUDA toolkit"


def _numba_has_nvvm() -> bool:
    """Whether the CUDA target inside Numba itself can compile: it needs the toolkit's NVVM."""
    try:
        from numba.cuda.cudadrv import nvvm

        nvvm.NVVM()  # type: ignore[no-untyped-call]
    except Exception:  # it fails in many ways where the toolkit is missing
        return False
    return True
