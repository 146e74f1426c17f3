"""Cards of NVIDIA that a machine has, whether or not they can be measured from here.

Nothing but NVIDIA's driver is needed, and for those on the PCI bus not even that. Sources:
sysfs-bus-pci of the Linux kernel; the PCI ID Repository (vendor 10de, class 03); NVIDIA, NVML API
Reference, "System Queries" and "Device Queries"; CUDA Driver API, "Initialization" and "Device
Management".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import msgspec

from mansard.core.storage.files import check_descriptors
from mansard.core.text import printable
from mansard.device.system import SYSTEM_ROOT, glob, read_text

UNNAMED = "NVIDIA GPU of unknown model"
_NVIDIA, _DISPLAY = "0x10de", "0x03"  # PCI's vendor, and the class of display controllers
_NAME_BYTES = 200
_OF_CUDA13 = 580  # major version of the driver


class SeenCards(msgspec.Struct, frozen=True):
    """Cards of a machine whose GPU cannot be measured, by names."""

    of_cuda: tuple[str, ...]  # that CUDA's driver lets this process use: libraries are missing
    on_bus: tuple[str, ...]  # of the PCI bus


def see_cards(root: Path = SYSTEM_ROOT) -> SeenCards:
    """The cards under ``root``; CUDA's driver answers for this machine alone."""
    return SeenCards(cuda_devices() if root == SYSTEM_ROOT else (), pci_cards(root))


def cuda_extra(driver: str | None) -> str:
    """The extra of Mansard with the newest CuPy that a card's driver runs.

    CUDA 13 needs driver 580 (CUDA Toolkit Release Notes, "CUDA Driver"), CUDA 12 an older one.
    """
    major = (driver or "").partition(".")[0]
    return "cuda13" if major.isdecimal() and int(major) >= _OF_CUDA13 else "cuda12"


def listed_cards() -> tuple[tuple[str, ...], str | None]:
    """Names of the cards that NVML lists, and its driver's version; none where it does not answer.

    Containers and sandboxes may show no /proc/driver/nvidia and answer all the same.
    """
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        n_cards = ctypes.c_uint(0)
        if nvml.nvmlInitWithFlags(0) or nvml.nvmlDeviceGetCount_v2(ctypes.byref(n_cards)):
            return (), None
        names = [_listed_name(nvml, index) for index in range(n_cards.value)]
        driver = _text(nvml.nvmlSystemGetDriverVersion)
    except (OSError, AttributeError) as error:  # AttributeError: a library without these functions
        check_descriptors(error, "libnvidia-ml.so.1")
        return (), None
    return tuple(names), driver or None


def _listed_name(nvml: ctypes.CDLL, index: int) -> str:
    handle = ctypes.c_void_p()
    if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
        return UNNAMED
    return _text(lambda text, size: nvml.nvmlDeviceGetName(handle, text, size)) or UNNAMED


def pci_cards(root: Path = SYSTEM_ROOT) -> tuple[str, ...]:
    """The graphics cards of NVIDIA on the PCI bus, by their PCI ids; no driver is needed."""
    cards = []
    for vendor in glob(root / "sys/bus/pci/devices", "*/vendor"):
        kind = read_text(vendor.with_name("class")) or ""
        if read_text(vendor) == _NVIDIA and kind.startswith(_DISPLAY):
            number = (read_text(vendor.with_name("device")) or "unknown").removeprefix("0x")
            cards.append(printable(f"NVIDIA card (PCI 10de:{number})", 60))
    return tuple(cards)


def cuda_devices() -> tuple[str, ...]:
    """Names of the GPUs that CUDA's driver lets this process use; needs no CuPy.

    Empty where the driver does not answer: this container, or CUDA_VISIBLE_DEVICES, keeps the cards
    from this process. No context is made.
    """
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        n_devices = ctypes.c_int(0)
        if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(n_devices)):
            return ()
        return tuple(_cuda_name(cuda, index) for index in range(n_devices.value))
    except (OSError, AttributeError) as error:
        check_descriptors(error, "libcuda.so.1")
        return ()


def _cuda_name(cuda: ctypes.CDLL, index: int) -> str:
    device = ctypes.c_int(0)
    if cuda.cuDeviceGet(ctypes.byref(device), index):
        return UNNAMED
    return _text(lambda text, size: cuda.cuDeviceGetName(text, size, device)) or UNNAMED


def _text(ask: Callable[[ctypes.Array[ctypes.c_char], int], int]) -> str:
    """What a function writes into a buffer, safe to print; empty where it fails."""
    text = ctypes.create_string_buffer(_NAME_BYTES)
    return "" if ask(text, _NAME_BYTES) else printable(text.value.decode("utf-8", "replace"))
