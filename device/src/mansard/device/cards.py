"""Graphics cards: which ones a machine has, what they are set to, what they could be, setting them.

Settings go through NVML. To see which cards there are takes nothing but NVIDIA's driver, and for
those on the PCI bus not even that. Sources: sysfs-bus-pci of the Linux kernel; the PCI ID
Repository (vendor 10de, class 03); NVIDIA, NVML API Reference, "System Queries" and "Device
Queries"; CUDA Driver API, "Initialization" and "Device Management".
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import msgspec

from mansard.core.errors import DeniedError, DeviceError
from mansard.core.records import PowerMode, Record
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
    """The text that a function writes into a buffer, safe to print; empty if it fails."""
    text = ctypes.create_string_buffer(_NAME_BYTES)
    return "" if ask(text, _NAME_BYTES) else printable(text.value.decode("utf-8", "replace"))


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
    """The settings of a card to restore, for the journal."""

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


def read_card_memory(index: int = 0) -> tuple[int, int]:
    """Free and total memory of a card in bytes; raises DeviceError."""
    nvml, unknown = load_nvml(), dict[str, str]()
    handle = card_handle(nvml, index, None)
    memory = _ask(nvml, "nvmlDeviceGetMemoryInfo", (handle,), "memory", unknown)
    if memory is None:
        raise DeviceError(
            f"does not say how much memory is free: {unknown['memory']}",
            where=f"GPU {index}",
            fix="look at nvidia-smi",
        )
    return int(memory.free), int(memory.total)


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
    """NVML's answer; None with NVML's reason in ``unknown`` if it has none."""
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
NO_LOCK = "not locked; NVML does not report locks by others"
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
    """The missing right to set a card; empty if this process has it.

    The kernel tells it; nothing is tried, because looking at a card must not write to it. In a
    container of another user the driver may refuse all the same.
    """
    match = _CAPABILITIES.search(read_text(SYSTEM_ROOT / "proc/self/status") or "")
    may_set = int(match[1], 16) & _SYS_ADMIN if match else os.geteuid() == 0
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


def card_writes(mode: PowerMode, before: CardState) -> tuple[CardWrite, ...]:
    """What brings the card to ``mode``; a limit that it leaves open is the one found."""
    limit = before.power_limit_mw
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


def restoring_writes(before: CardState) -> tuple[CardWrite, ...]:
    """The writes that restore the card's state."""
    limit = before.power_limit_mw
    power = () if limit is None else (CardWrite("power limit", limit, "the former state"),)
    unlocked: tuple[Setting, ...] = ("memory clock", "GPU clock")
    return (*power, *(CardWrite(setting, None, "the former state") for setting in unlocked))


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


def read_back(mode: PowerMode, before: CardState) -> PowerMode:
    """The mode as the card tells it; raises DeviceError where that is not what was wanted."""
    now = read_card(before.index)
    limit_w = None if now.power_limit_mw is None else now.power_limit_mw / 1e3
    if mode.power_limit_w is not None and limit_w is not None:
        _check_limit(mode.power_limit_w, limit_w, before.index)
    unknown = {name: why for name, why in mode.unknown.items() if name != "power_limit_w"}
    if limit_w is None:
        unknown["power_limit_w"] = now.unknown["power_limit_mw"]
    for name in ("gpu_hz", "memory_hz"):
        if getattr(mode, name) is not None:
            unknown[name] = "locked, which NVML cannot read back; trials have the clock they saw"
    return msgspec.structs.replace(
        mode, power_limit_w=limit_w, gpu_hz=None, memory_hz=None, unknown=unknown
    )


def differences(before: CardState) -> tuple[str, ...]:
    """Differences to the card's state ``before``, as far as NVML reports."""
    try:
        now = read_card(before.index)
    except DeviceError as error:
        return (str(error),)
    if now.power_limit_mw == before.power_limit_mw:
        return ()
    return (f"GPU {before.index}: its power limit is {now.power_limit_mw} mW",)


def _check_limit(wanted_w: float, found_w: float, index: int) -> None:
    if abs(wanted_w - found_w) * 1e3 > _SAME_MW:
        raise DeviceError(
            f"its power limit is {found_w:g} W, not {wanted_w:g} W",
            where=f"GPU {index}",
            fix="choose this limit, or look for what sets it (nvidia-smi -q -d POWER)",
        )
