"""A graphics card: what it is set to and what it could be, read through NVML.

Source of functions and units (mW, MHz): NVIDIA, NVML API Reference, "Device Queries".
"""

from __future__ import annotations

from typing import Any

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import Record
from mansard.core.text import printable
from mansard.device.cards.nvml import as_text, load_nvml


class CardState(Record, frozen=True, kw_only=True):
    """What of a card is put back, for the journal."""

    index: int
    uuid: str | None
    name: str | None
    power_limit_mw: int | None


class CardLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a card can be set to; ``unknown`` has the card's own reason for what it cannot.

    Clocks are ascending, in MHz; those of the GPU are those at the highest memory clock.
    """

    least_mw: int | None = None
    most_mw: int | None = None
    default_mw: int | None = None
    gpu_mhz: tuple[int, ...] = ()
    memory_mhz: tuple[int, ...] = ()
    unknown: dict[str, str] = {}


def read_card(index: int = 0) -> CardState:
    """The state of a card that Mansard may change; raises DeviceError."""
    nvml, unknown = load_nvml(), dict[str, str]()
    handle = card_handle(nvml, index, None)
    name = _ask(nvml, "nvmlDeviceGetName", (handle,), "name", unknown)
    uuid = _ask(nvml, "nvmlDeviceGetUUID", (handle,), "uuid", unknown)
    limit = _ask(nvml, "nvmlDeviceGetPowerManagementLimit", (handle,), "power_limit_mw", unknown)
    return CardState(
        index=index,
        uuid=None if uuid is None else as_text(uuid),
        name=None if name is None else printable(as_text(name)),
        power_limit_mw=limit,
        unknown=unknown,
    )


def read_card_limits(index: int = 0) -> CardLimits:
    """What the card can be set to; raises DeviceError."""
    nvml, unknown = load_nvml(), dict[str, str]()
    handle = card_handle(nvml, index, None)
    ends = _ask(nvml, "nvmlDeviceGetPowerManagementLimitConstraints", (handle,), "power", unknown)
    least, most = ends or (None, None)
    default = _ask(nvml, "nvmlDeviceGetPowerManagementDefaultLimit", (handle,), "default", unknown)
    memory = _ask(nvml, "nvmlDeviceGetSupportedMemoryClocks", (handle,), "memory", unknown) or ()
    gpu: Any = ()
    if memory:
        arguments = (handle, max(memory))
        gpu = _ask(nvml, "nvmlDeviceGetSupportedGraphicsClocks", arguments, "gpu", unknown) or ()
    else:
        unknown["gpu"] = unknown.get("memory", "the card lists no clocks")
    return CardLimits(
        least_mw=least,
        most_mw=most,
        default_mw=default,
        gpu_mhz=tuple(sorted(set(gpu))),
        memory_mhz=tuple(sorted(set(memory))),
        unknown=unknown,
    )


def card_handle(nvml: Any, index: int, uuid: str | None) -> Any:
    """NVML's handle of a card, by its UUID where that is known; raises DeviceError."""
    try:
        if uuid is not None:
            return nvml.nvmlDeviceGetHandleByUUID(uuid)
        return nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        raise DeviceError(
            f"cannot be asked: {error}", where=f"GPU {index}", fix="look at nvidia-smi -L"
        ) from error


def _ask(
    nvml: Any, function: str, arguments: tuple[Any, ...], field: str, unknown: dict[str, str]
) -> Any:
    """What NVML answers; None where it does not, with its words in ``unknown``."""
    try:
        return getattr(nvml, function)(*arguments)
    except nvml.NVMLError as error:
        unknown[field] = str(error)
        return None
