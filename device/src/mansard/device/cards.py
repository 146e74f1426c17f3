"""Graphics cards through NVML: what they are set to, what they could be, and setting them."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any, Literal

import msgspec

from mansard.core.errors import DeniedError, DeviceError
from mansard.core.records import PowerMode, Record
from mansard.core.text import printable
from mansard.device.system import SYSTEM_ROOT, read_text


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


def nvml_errors(nvml: Any) -> tuple[type[Exception], ...]:
    """What NVML's functions raise: its own errors, and one where the driver is too old for them."""
    mismatch = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)
    return nvml.NVMLError, mismatch


def as_text(name: str | bytes) -> str:
    """A name that NVML gave; versions of nvidia-ml-py before 11.5 give bytes."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name


# A graphics card: what it is set to and what it could be, read through NVML.
#
# Source of functions and units (mW, MHz): NVIDIA, NVML API Reference, "Device Queries".


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
    except nvml_errors(nvml) as error:
        unknown[field] = str(error)
        return None


# A graphics card's power limit and locked clocks: set, read back and put back through NVML.
#
# Source of functions, units (mW, MHz) and permissions: NVIDIA, NVML API Reference, "Device
# Commands". Setting needs root, or CAP_SYS_ADMIN in the container. NVML does not tell
# whether clocks are locked: it is taken that they were not, so putting back unlocks them.

Setting = Literal["power limit", "GPU clock", "memory clock"]
NO_LOCK = "not locked; NVML does not tell of locks that others set"
_SETTERS = {
    "power limit": "nvmlDeviceSetPowerManagementLimit",
    "GPU clock": "nvmlDeviceSetGpuLockedClocks",
    "memory clock": "nvmlDeviceSetMemoryLockedClocks",
}
_UNLOCKERS = {
    "GPU clock": "nvmlDeviceResetGpuLockedClocks",
    "memory clock": "nvmlDeviceResetMemoryLockedClocks",
}
_SAME_MW = 1.0  # limits are whole milliwatts
_AS_ROOT = "run as root (sudo); in a container, with CAP_SYS_ADMIN as well"
# Of capabilities(7): the right by which NVIDIA's driver knows root. It is a bit of CapEff.
_SYS_ADMIN = 1 << 21
_CAPABILITIES = re.compile(r"^CapEff:\s*([0-9a-f]{1,16})$", re.MULTILINE)


def setting_right() -> str:
    """What setting a card still needs; empty where this process has the right to.

    The kernel tells it; nothing is tried, because looking at a card must not write to it. In a
    container of another user the driver may refuse all the same.
    """
    found = _CAPABILITIES.search(read_text(SYSTEM_ROOT / "proc/self/status") or "")
    may_set = int(found[1], 16) & _SYS_ADMIN if found else os.geteuid() == 0
    return "" if may_set else _AS_ROOT


class CardWrite(msgspec.Struct, frozen=True):
    """One setting of a card; ``value`` in mW or MHz, None to unlock."""

    setting: Setting
    value: int | None
    why: str

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.setting} unlocked"
        amount = f"{self.value / 1e3:g} W" if self.setting == "power limit" else f"{self.value} MHz"
        return f"{self.setting} {amount}"


def card_writes(mode: PowerMode, found: CardState) -> tuple[CardWrite, ...]:
    """What brings the card to ``mode``; a limit that it leaves open is the one found."""
    limit = found.power_limit_mw
    if mode.power_limit_w is not None:
        limit = round(mode.power_limit_w * 1e3)
    writes: list[CardWrite] = []
    if limit is not None:
        writes.append(CardWrite("power limit", limit, f"mode {mode.name}"))
    clocks: tuple[tuple[Setting, float | None], ...] = (
        ("GPU clock", mode.gpu_hz),
        ("memory clock", mode.memory_hz),
    )
    for setting, hz in clocks:
        value = None if hz is None else round(hz / 1e6)
        writes.append(CardWrite(setting, value, f"mode {mode.name}"))
    return tuple(writes)


def restoring_writes(found: CardState) -> tuple[CardWrite, ...]:
    """What puts the card back to how it was found."""
    limit = found.power_limit_mw
    power = () if limit is None else (CardWrite("power limit", limit, "as it was found"),)
    unlocked: tuple[Setting, ...] = ("memory clock", "GPU clock")
    return (*power, *(CardWrite(setting, None, "as it was found") for setting in unlocked))


def write_card(write: CardWrite, state: CardState) -> None:
    """Make one setting; raises DeviceError, DeniedError where this user may not.

    A card that cannot lock needs no unlocking.
    """
    nvml = load_nvml()
    handle = card_handle(nvml, state.index, state.uuid)
    try:
        if write.value is None:
            getattr(nvml, _UNLOCKERS[write.setting])(handle)
        elif write.setting == "power limit":
            getattr(nvml, _SETTERS[write.setting])(handle, write.value)
        else:
            getattr(nvml, _SETTERS[write.setting])(handle, write.value, write.value)
    except nvml.NVMLError as error:
        codes = (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        if write.value is None and error.value in codes:
            return
        what, where = f"{write} is refused: {error}", f"GPU {state.index}"
        if error.value == nvml.NVML_ERROR_NO_PERMISSION:
            raise DeniedError(what, where=where, fix=_AS_ROOT) from error
        raise DeviceError(what, where=where, fix="leave this setting out of the mode") from error


def read_back(mode: PowerMode, found: CardState) -> PowerMode:
    """The mode as the card tells it; raises DeviceError where that is not what was wanted."""
    now = read_card(found.index)
    limit_w = None if now.power_limit_mw is None else now.power_limit_mw / 1e3
    if mode.power_limit_w is not None and limit_w is not None:
        _check_limit(mode.power_limit_w, limit_w, found.index)
    unknown = {name: why for name, why in mode.unknown.items() if name != "power_limit_w"}
    if limit_w is None:
        unknown["power_limit_w"] = now.unknown["power_limit_mw"]
    for name in ("gpu_hz", "memory_hz"):
        if getattr(mode, name) is not None:
            unknown[name] = "locked, which NVML cannot read back; trials have the clock they saw"
    return msgspec.structs.replace(
        mode, power_limit_w=limit_w, gpu_hz=None, memory_hz=None, unknown=unknown
    )


def differences(found: CardState) -> tuple[str, ...]:
    """In what the card is not as it was found, as far as NVML tells."""
    try:
        now = read_card(found.index)
    except DeviceError as error:
        return (str(error),)
    if now.power_limit_mw == found.power_limit_mw:
        return ()
    return (f"GPU {found.index}: its power limit is {now.power_limit_mw} mW",)


def _check_limit(wanted_w: float, found_w: float, index: int) -> None:
    if abs(wanted_w - found_w) * 1e3 > _SAME_MW:
        raise DeviceError(
            f"its power limit is {found_w:g} W, not {wanted_w:g} W",
            where=f"GPU {index}",
            fix="choose this limit, or look for what sets it (nvidia-smi -q -d POWER)",
        )
