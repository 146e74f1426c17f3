"""The GPU to measure, or one line that says why there is none and what to do.

CUDA is asked through CuPy; ``CudaLibrary`` is the edge at which tests put a stand-in.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol, TypeVar

from mansard.core.errors import DeviceError
from mansard.core.hardware import sm_l1_bytes
from mansard.core.records import Gpu
from mansard.core.storage.files import check_descriptors
from mansard.core.text import printable
from mansard.microbench.cuda.nvrtc import prefer_nvrtc

_T = TypeVar("_T")
_LONGEST_WORDS = 300
_PACKAGES = ("numba", "numba-cuda", "llvmlite", "numpy")


class CudaLibrary(Protocol):
    """CUDA as a process sees it. Whatever cannot be asked raises DeviceError in CUDA's words."""

    def versions(self) -> dict[str, str]:
        """Of CuPy, Numba and cuBLAS, as far as they are there and can be used."""

    def unusable(self) -> tuple[str, ...]:
        """Installed packages that do not work, a line each."""

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
    prefer_nvrtc(library.runtime_version() // 1000)
    return library


class _Cupy:
    """Asks CuPy; imports happen where they are needed, for libraries may be missing."""

    def versions(self) -> dict[str, str]:
        import cupy

        installed = {"cupy": str(cupy.__version__)}
        for package in _PACKAGES:
            try:
                installed[package] = version(package)
            except PackageNotFoundError:
                continue
        if "numba" in installed and "numba-cuda" not in installed and _numba_has_nvvm():
            installed["numba-cuda"] = f"part of numba {installed['numba']}"
        if _why_no_numba_cuda():
            installed.pop("numba-cuda", None)
        cublas = _cublas_version()
        if cublas is not None:
            installed["cublas"] = cublas
        return installed

    def unusable(self) -> tuple[str, ...]:
        why = _why_no_numba_cuda()
        if not why:
            return ()
        return (
            f"numba-cuda {version('numba-cuda')} does not work with NumPy {version('numpy')}, so "
            f"no kernel of it is measured: {why}; the extras cuda12 and cuda13 install two that do",
        )

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
            return tuple(device["name"].decode(errors="replace") for device in properties)

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
    """The answer; errors of CUDA and of loading libraries become DeviceError."""
    try:
        return question()
    except (RuntimeError, ImportError, OSError, AttributeError) as error:
        raise DeviceError(" ".join(str(error).split())) from error


def _cublas_version() -> str | None:
    """cuBLAS as CuPy loads it; its version needs a handle and so a device."""
    try:
        from cupy_backends.cuda.libs import cublas  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:
        check_descriptors(error, "the GPU's libraries")
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


@cache
def _why_no_numba_cuda() -> str:
    """Why the package numba-cuda cannot compile; empty if it can.

    What it adds for NumPy's functions is imported with the first kernel, and fails where this NumPy
    has one of them no longer. Versions that have no such module do without.
    """
    try:
        version("numba-cuda")
        importlib.import_module("numba.cuda.np.arrayobj")
    except (PackageNotFoundError, ModuleNotFoundError):
        return ""
    except Exception as error:
        return printable(" ".join(str(error).split()) or type(error).__name__, _LONGEST_WORDS)
    return ""


_MIG = re.compile(r"\bMIG\s+(\S+)")
_KHZ = 1e3


@dataclass(frozen=True)
class GpuProbe:
    """The first visible GPU, or the reason why none can be measured."""

    gpu: Gpu | None
    reason: str  # empty where there is a GPU
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # other devices, a MIG slice, ECC: what a reader should know


def probe_gpu(open_library: Callable[[], CudaLibrary] = open_cupy) -> GpuProbe:
    """Look at the first visible GPU; never raises for what is missing or too old."""
    try:
        library = open_library()
    except DeviceError as error:
        return GpuProbe(
            None,
            f"{error}; install Mansard's extra cuda12 or cuda13, by the CUDA that the driver "
            "runs, or measure in the container",
        )
    versions = library.versions()
    try:
        versions |= _cuda_versions(library)
        names = _names(library)
        versions["nvrtc"] = _nvrtc(library, versions["CUDA driver"])
        gpu = _describe(library, names[0], versions)
    except DeviceError as error:
        return GpuProbe(None, str(error), versions)
    return GpuProbe(gpu, "", versions, (*_notes(gpu, names), *library.unusable()))


def version_text(number: int) -> str:
    """CUDA's number of a version: 12060 is 12.6."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _cuda_versions(library: CudaLibrary) -> dict[str, str]:
    """Driver and runtime; raises DeviceError where they cannot work together."""
    driver, runtime = library.driver_version(), library.runtime_version()
    if driver == 0:
        raise DeviceError(
            "no NVIDIA driver answers (libcuda.so)",
            fix="load the driver; a container must be started with access to the GPU",
        )
    # Within one major version any driver runs any minor one: CUDA's minor-version compatibility.
    if driver // 1000 < runtime // 1000:
        raise DeviceError(
            f"the driver runs CUDA {version_text(driver)} at most, and CuPy was built for "
            f"{version_text(runtime)}",
            fix=f"install CuPy for CUDA {driver // 1000} (cupy-cuda{driver // 1000}x), "
            "or a newer driver",
        )
    return {"CUDA driver": version_text(driver), "CUDA runtime": version_text(runtime)}


def _names(library: CudaLibrary) -> tuple[str, ...]:
    fix = "is CUDA_VISIBLE_DEVICES empty, or the container without access to the GPU?"
    try:
        names = library.names()
    except DeviceError as error:
        raise DeviceError(f"no GPU answers: {error.what}", fix=fix) from error
    if not names:
        raise DeviceError("CUDA shows no GPU", fix=fix)
    return tuple(printable(name, 100) for name in names)


def _nvrtc(library: CudaLibrary, driver: str) -> str:
    try:
        major, minor = library.nvrtc_version()
    except DeviceError as error:
        raise DeviceError(
            f"NVRTC, which compiles the kernels, is missing: {error.what}",
            fix="install nvidia-cuda-nvrtc of the CUDA that CuPy was built for",
        ) from error
    if major > int(driver.partition(".")[0]):
        raise DeviceError(
            f"NVRTC {major}.{minor} is newer than the driver's CUDA {driver}, which does not "
            "load its code",
            fix=f"uninstall nvidia-cuda-nvrtc {major}, or install a newer driver",
        )
    return f"{major}.{minor}"


def _describe(library: CudaLibrary, name: str, versions: dict[str, str]) -> Gpu:
    sm = library.compute_capability()
    is_integrated = library.attribute("Integrated") == 1
    slice_found = _MIG.search(name)
    values = {
        "l1_bytes": sm_l1_bytes(sm),
        "l2_bytes": _optional(library, "L2CacheSize") or None,
        "memory_bytes": library.memory_bytes() or None,
        "memory_bus_bits": _optional(library, "GlobalMemoryBusWidth") or None,
        # Of an integrated GPU CUDA repeats the clock of the SMs here, not that of the memory.
        "memory_hz": None if is_integrated else _hz(library, "MemoryClockRate"),
        "gpu_hz": _hz(library, "ClockRate"),
        "mig": slice_found[1] if slice_found else None,
    }
    reasons = {
        "l1_bytes": f"unknown for compute capability {sm / 10:.1f}",
        "memory_hz": "CUDA does not tell the memory clock of an integrated GPU"
        if is_integrated
        else "CUDA does not tell it",
        "mig": "the GPU is not sliced",
    }
    return Gpu(
        name=name,
        sm=sm,
        n_sms=library.attribute("MultiProcessorCount"),
        is_integrated=is_integrated,
        ecc=_optional(library, "EccEnabled") == 1,
        driver_cuda=versions["CUDA driver"],
        runtime_cuda=versions["CUDA runtime"],
        unknown={
            field: reasons.get(field, "CUDA does not tell it")
            for field, value in values.items()
            if value is None
        },
        **values,  # type: ignore[arg-type]  # each has the type of its field
    )


def _optional(library: CudaLibrary, name: str) -> int:
    """An attribute that a later CUDA may no longer have; then 0, as where it does not know."""
    try:
        return library.attribute(name)
    except DeviceError:
        return 0


def _hz(library: CudaLibrary, name: str) -> float | None:
    khz = _optional(library, name)
    return khz * _KHZ if khz > 0 else None


def _notes(gpu: Gpu, names: tuple[str, ...]) -> tuple[str, ...]:
    notes = []
    if len(names) > 1:
        notes.append(
            f"measured is {gpu.name}, the first of {len(names)} visible GPUs; not measured: "
            f"{', '.join(names[1:])} (CUDA_VISIBLE_DEVICES chooses)"
        )
    if gpu.mig is not None:
        notes.append(
            f"a MIG slice, {gpu.mig}: memory and L2 are shares of the card's, and its power "
            "is metered with the other slices'"
        )
    if gpu.ecc and not gpu.is_integrated:
        notes.append("error correction (ECC) is on: without HBM it costs some bandwidth")
    return tuple(notes)
