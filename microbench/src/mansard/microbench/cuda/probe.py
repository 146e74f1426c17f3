"""Which GPU there is to measure, and why not where there is none: one line that says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from mansard.core.errors import DeviceError
from mansard.core.hardware import sm_l1_bytes
from mansard.core.records import Gpu
from mansard.core.text import printable
from mansard.microbench.cuda.cuda_library import CudaLibrary, open_cupy

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
    return GpuProbe(gpu, "", versions, _notes(gpu, names))


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
        "l1_bytes": f"not known for compute capability {sm / 10:.1f}",
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
