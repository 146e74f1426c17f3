"""What the probe says of GPUs, and of all the ways in which there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from mansard.core.errors import DeviceError
from mansard.microbench.cuda.probe import CudaLibrary, GpuProbe, probe_gpu, version_text

_T = TypeVar("_T")
CARD = {
    "Integrated": 0,
    "MultiProcessorCount": 132,
    "L2CacheSize": 50 << 20,
    "GlobalMemoryBusWidth": 5120,
    "MemoryClockRate": 2619000,
    "ClockRate": 1980000,
    "EccEnabled": 1,
}
ORIN = {
    **CARD,
    "Integrated": 1,
    "MultiProcessorCount": 16,
    "L2CacheSize": 4 << 20,
    "GlobalMemoryBusWidth": 256,
    "MemoryClockRate": 1300500,  # CUDA repeats the SMs' clock
    "ClockRate": 1300500,
    "EccEnabled": 0,
}


@dataclass
class Library:
    """A `CudaLibrary` that answers what a test says; an exception is raised."""

    driver: int = 12060
    runtime: int = 12020
    nvrtc: tuple[int, int] | DeviceError = (12, 6)
    visible: tuple[str, ...] | DeviceError = ("NVIDIA H100 80GB HBM3",)
    sm: int = 90
    attributes: dict[str, int] = field(default_factory=lambda: dict(CARD))
    broken: tuple[str, ...] = ()

    def versions(self) -> dict[str, str]:
        return {"cupy": "14.0", "numba": "0.63"}

    def unusable(self) -> tuple[str, ...]:
        return self.broken

    def driver_version(self) -> int:
        return self.driver

    def runtime_version(self) -> int:
        return self.runtime

    def nvrtc_version(self) -> tuple[int, int]:
        return _answer(self.nvrtc)

    def names(self) -> tuple[str, ...]:
        return _answer(self.visible)

    def compute_capability(self) -> int:
        return self.sm

    def memory_bytes(self) -> int:
        return 80 << 30

    def attribute(self, name: str) -> int:
        if name not in self.attributes:
            raise DeviceError(f"no attribute cudaDevAttr{name}")
        return self.attributes[name]


def _answer(value: _T | DeviceError) -> _T:
    if isinstance(value, DeviceError):
        raise value
    return value


def probe(library: CudaLibrary) -> GpuProbe:
    return probe_gpu(lambda: library)


def test_a_card() -> None:
    found = probe(Library())
    assert found.reason == ""
    gpu = found.gpu
    assert gpu is not None
    assert (gpu.name, gpu.sm, gpu.n_sms) == ("NVIDIA H100 80GB HBM3", 90, 132)
    assert (gpu.l1_bytes, gpu.l2_bytes) == (256 * 1024, 50 << 20)
    assert (gpu.memory_hz, gpu.gpu_hz, gpu.memory_bus_bits) == (2619e6, 1980e6, 5120)
    assert (gpu.is_integrated, gpu.ecc, gpu.mig) == (False, True, None)
    assert (gpu.driver_cuda, gpu.runtime_cuda) == ("12.6", "12.2")
    assert gpu.unknown == {"mig": "the GPU is not sliced"}
    assert found.versions == {
        "cupy": "14.0",
        "numba": "0.63",
        "CUDA driver": "12.6",
        "CUDA runtime": "12.2",
        "nvrtc": "12.6",
    }
    assert found.notes == ("error correction (ECC) is on: without HBM it costs some bandwidth",)


def test_a_board_keeps_the_memory_clock_unknown() -> None:
    gpu = probe(Library(visible=("Orin",), sm=87, attributes=ORIN)).gpu
    assert gpu is not None
    assert gpu.is_integrated
    assert gpu.memory_hz is None
    assert gpu.unknown["memory_hz"].startswith("CUDA does not tell the memory clock of an")
    assert gpu.gpu_hz == 1300.5e6


def test_a_slice_and_other_devices_are_named() -> None:
    names = ("NVIDIA H100 80GB HBM3 MIG 1g.12gb", "NVIDIA T4")
    found = probe(Library(visible=names))
    assert found.gpu is not None
    assert found.gpu.mig == "1g.12gb"
    assert "not measured: NVIDIA T4" in found.notes[0]
    assert "MIG slice, 1g.12gb" in found.notes[1]


def test_an_unknown_architecture_and_zeros_have_reasons() -> None:
    zeros = {**CARD, "L2CacheSize": 0, "ClockRate": 0, "MemoryClockRate": 0}
    gpu = probe(Library(sm=990, attributes=zeros)).gpu
    assert gpu is not None
    assert gpu.unknown == {
        "l1_bytes": "unknown for compute capability 99.0",
        "l2_bytes": "CUDA does not tell it",
        "memory_hz": "CUDA does not tell it",
        "gpu_hz": "CUDA does not tell it",
        "mig": "the GPU is not sliced",
    }


def test_an_attribute_that_cuda_no_longer_has_is_unknown() -> None:
    fewer = {name: CARD[name] for name in ("Integrated", "MultiProcessorCount")}
    gpu = probe(Library(attributes=fewer)).gpu
    assert gpu is not None
    assert (gpu.n_sms, gpu.l2_bytes, gpu.gpu_hz) == (132, None, None)


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (Library(driver=0), "no NVIDIA driver answers (libcuda.so); load the driver"),
        (
            Library(driver=11040),
            "the driver runs CUDA 11.4 at most, and CuPy was built for 12.2; install CuPy for "
            "CUDA 11 (cupy-cuda11x)",
        ),
        (Library(visible=()), "CUDA shows no GPU; is CUDA_VISIBLE_DEVICES empty"),
        (
            Library(visible=DeviceError("cudaErrorNoDevice: no CUDA-capable device")),
            "no GPU answers: cudaErrorNoDevice: no CUDA-capable device; is CUDA_VISIBLE",
        ),
        (
            Library(nvrtc=DeviceError("libnvrtc.so.12: cannot open")),
            "NVRTC, which compiles the kernels, is missing: libnvrtc.so.12: cannot open; install",
        ),
        (
            Library(nvrtc=(13, 5)),
            "NVRTC 13.5 is newer than the driver's CUDA 12.6, which does not load its code; unin",
        ),
    ],
)
def test_reasons_say_what_and_what_to_do(library: Library, words: str) -> None:
    found = probe(library)
    assert found.gpu is None
    assert found.reason.startswith(words)
    assert "\n" not in found.reason
    assert found.versions["cupy"] == "14.0"


def test_without_cupy() -> None:
    def refuse() -> CudaLibrary:
        raise DeviceError("no CuPy: it is not installed in this Python")

    found = probe_gpu(refuse)
    assert found.gpu is None
    assert found.reason.startswith("no CuPy: it is not installed in this Python; install Mansard's")


def test_a_newer_minor_version_of_the_runtime_works() -> None:
    # 12.2 runs kernels that CUDA 12.9 compiled for the card itself.
    assert probe(Library(driver=12020, runtime=12090)).gpu is not None


@pytest.mark.parametrize(("number", "text"), [(12060, "12.6"), (11040, "11.4"), (13000, "13.0")])
def test_versions_are_cudas_numbers(number: int, text: str) -> None:
    assert version_text(number) == text


def test_the_real_library_or_its_absence_gives_an_answer() -> None:
    found = probe_gpu()
    assert (found.gpu is None) == bool(found.reason)
