"""NVIDIA's management library, opened late: a machine without a card never needs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mansard.core.errors import DeviceError


def load_nvml() -> Any:
    """The module ``pynvml``, begun; raises DeviceError that says what is missing.

    It is never shut down: that would end it for others in this process, such as a meter.
    """
    try:
        nvml = import_module("pynvml")
    except ImportError:
        raise DeviceError(
            "nvidia-ml-py is not installed", fix="install it with 'pip install nvidia-ml-py'"
        ) from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise DeviceError(
            f"no card of NVIDIA can be asked: {error}",
            fix="install NVIDIA's driver, or start the container with access to the GPU",
        ) from error
    return nvml


def as_text(name: str | bytes) -> str:
    """A name that NVML gave; versions of nvidia-ml-py before 11.5 give bytes."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name
