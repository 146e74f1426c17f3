"""Cards of NVIDIA that a machine has, whether or not they can be measured from here.

Sources: sysfs-bus-pci of the Linux kernel; the PCI ID Repository (vendor 10de, class 03);
NVIDIA, CUDA Driver API, "Initialization" and "Device Management".
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from mansard.core.text import printable
from mansard.device.system import SYSTEM_ROOT, glob, read_text

_NVIDIA, _DISPLAY = "0x10de", "0x03"  # PCI's vendor, and the class of display controllers
_NAME_BYTES = 200


def pci_cards(root: Path = SYSTEM_ROOT) -> tuple[str, ...]:
    """The graphics cards of NVIDIA on the PCI bus, by their PCI ids; no driver is needed."""
    cards = []
    for vendor in glob(root / "sys/bus/pci/devices", "*/vendor"):
        kind = read_text(vendor.with_name("class")) or ""
        if read_text(vendor) == _NVIDIA and kind.startswith(_DISPLAY):
            number = (read_text(vendor.with_name("device")) or "").removeprefix("0x")
            cards.append(printable(f"NVIDIA card (PCI 10de:{number or 'unknown'})", 60))
    return tuple(cards)


def cuda_devices() -> tuple[str, ...]:
    """Names of the GPUs that CUDA's driver lets this process use; needs no CuPy.

    Empty where the driver does not answer: it is not loaded, or this container, or
    CUDA_VISIBLE_DEVICES, keeps the cards from this process. No context is made.
    """
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        n_devices = ctypes.c_int(0)
        if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(n_devices)):
            return ()
        names = []
        for index in range(n_devices.value):
            device, name = ctypes.c_int(0), ctypes.create_string_buffer(_NAME_BYTES)
            if not cuda.cuDeviceGet(ctypes.byref(device), index):
                cuda.cuDeviceGetName(name, _NAME_BYTES, device)
                names.append(printable(name.value.decode("utf-8", "replace"), _NAME_BYTES))
    except (OSError, AttributeError):  # AttributeError: a library without these functions
        return ()
    return tuple(names)
