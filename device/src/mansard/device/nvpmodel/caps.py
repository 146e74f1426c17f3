"""Caps of clocks and gated parts of the GPU: what a mode of nvpmodel sets, and what is set now."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType

import msgspec

from mansard.core.errors import InputError
from mansard.core.hardware import MODULES, Module, active_sms
from mansard.device.nvpmodel.sections import KNEXT, Config, ModeSection, Param
from mansard.device.system import below, read_text

NOT_GATED = "this mode leaves the GPU's gating as it finds it"
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}")


# Folders of the GPU in sysfs, by which its chip is known. The name "17000000.gpu", that r36
# gives it, tells nothing: three chips have their GPU at that address.
_GPU_NAMES = MappingProxyType(
    {
        "ga10b": "tegra234",
        "gv11b": "tegra194",
        "gp10b": "tegra186",
        "gm20b": "tegra210",
        "57000000.gpu": "tegra210",
        "gb10b": "tegra264",
        "gpu-gpc-0": "tegra264",
    }
)
# CPU clocks that name the chip where the GPU's path does not.
_CPU_NAMES = (("CPU_A78_", "tegra234"), ("CPU_DENVER_", "tegra194"), ("CPU_DENVER", "tegra186"))
_ALIKE = frozenset({"tegra186"})  # chips that have their whole GPU on every module


def soc_of_config(config: Config) -> str | None:
    """The chip that a configuration is for, by the path of its GPU's clock or its CPUs' name.

    Paths for the newer kernel count last: Nano's file has Xavier's GPU in one of them.
    """
    paths = [
        (argument.endswith(KNEXT), argument != "MAX_FREQ", path)
        for param in config.params
        if param.kind == "CLOCK"
        for argument, path in param.arguments.items()
    ]
    for _, _, path in sorted(paths):
        folders = path.split("/")
        for name in (*folders, *(folder.rpartition(".")[2] for folder in folders)):
            if name in _GPU_NAMES:
                return _GPU_NAMES[name]
    for prefix, soc in _CPU_NAMES:
        if any(param.name.startswith(prefix) for param in config.params):
            return soc
    return None


def parse_integer(text: str) -> int | None:
    """A decimal or ``0x`` number; None where it is none."""
    if _HEX.fullmatch(text):
        return int(text, 16)
    return int(text) if _INTEGER.fullmatch(text) else None


def gating_masks(section: ModeSection) -> dict[str, str]:
    """What a mode sets of the GPU's gating: argument -> value, as the file has them."""
    return {
        setting.argument: setting.value
        for setting in section.settings
        if setting.argument.endswith("PG_MASK")
    }


def full_module(soc: str | None) -> Module | None:
    """The module of a chip with the most of its GPU; its gating masks have the same bits."""
    modules = [module for module in MODULES.values() if module.soc == soc]
    return max(modules, key=lambda module: module.n_sms, default=None)


def mode_sms(soc: str | None, module: Module | None, section: ModeSection) -> int | str:
    """Multiprocessors that a mode leaves on, or the reason why that is not known.

    SMs = SMs per TPC × (TPCs of the chip - bits that are set in the mask), and never more
    than the module has (``core.hardware.active_sms``). A chip whose TPCs can be gated needs
    no module for it; of the others the module tells the number.
    """
    chip = module or full_module(soc)
    if chip is None:
        return "neither the device tree nor the configuration tells which chip it is"
    masks = gating_masks(section)
    if chip.chip_tpcs is None:
        if masks:
            return f"what the bits of {chip.soc}'s gating mask stand for is not published"
        if module is None and chip.soc not in _ALIKE:
            return f"it depends on the module: nothing of {chip.soc} is gated"
        return chip.n_sms
    text = masks.get("TPC_PG_MASK")
    if text is None:
        return NOT_GATED
    mask = parse_integer(text)
    n_sms = active_sms(chip, mask)
    return f"its gating mask {text!r} is not a number" if n_sms is None else n_sms


def find_path(root: Path, param: Param, argument: str) -> str | None:
    """The board's path of an argument that exists under ``root``; None where none does.

    The path for the newer kernel comes first: where both exist nvpmodel's own choice is not
    documented, and the older one is then a link kept for old tools. Paths that lead out of
    /sys are never looked at (``below``): nothing of a board is set elsewhere.
    """
    for name in (f"{argument}{KNEXT}", argument):
        path = param.arguments.get(name)
        if path is not None and _exists(root, path):
            return path
    return None


def _exists(root: Path, path: str) -> bool:
    try:
        return below(root, path).exists()
    except (InputError, OSError, ValueError):  # no path of the kernel's, or no path at all
        return False


def present_masks(root: Path, config: Config) -> dict[str, str | None]:
    """Each gating mask that ``config`` names, and what it is now; None where it is not told."""
    masks: dict[str, str | None] = {}
    for param in config.params:
        for argument in param.arguments:
            if argument.endswith("PG_MASK"):
                path = find_path(root, param, argument)
                masks[argument] = read_text(below(root, path)) if path is not None else None
    return masks


UNCAPPED = "uncapped"
NOT_SET = "this mode does not set it"
# "-1 is taken as INT_MAX", says the file's head; the tool prints the maximum of its own
# integer, which was 32 bits wide up to r32 and is 64 bits wide since.
_MAXIMA = frozenset({-1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1})
_CPU_PATH = re.compile(r"/sys/devices/system/cpu/cpu([0-9]{1,3})/cpufreq/[a-z_]+")
_GPU_PATH = re.compile(r"/(?:[0-9a-f]+\.)?(?:gpu|gm20b|gp10b|gv11b|ga10b|gb10b|gpu-gpc-0)/")
_EMC_PATH = re.compile(r"/(?:emc_iso_cap|emc|bwmgr/max_freq)$")
_DLA_NAME = re.compile(r"NAFLL_DLA|DLA[0-9]?_CORE|DLA[0-9]?")


class Cap(msgspec.Struct, frozen=True):
    """A clock's cap in hertz, or the reason why there is none."""

    hz: float | None
    why: str


def read_cap(section: ModeSection, param: Param) -> Cap:
    """What ``section`` sets the highest clock of ``param`` to.

    CPU clocks are written in kHz, all others in Hz. Zero stands for no cap: so it does for
    EMC up to r35, and no clock runs at 0 Hz.
    """
    text = section.value(param.name, "MAX_FREQ")
    if text is None:
        text = section.value(param.name, f"MAX_FREQ{KNEXT}")
    if text is None:
        return Cap(None, NOT_SET)
    value = parse_integer(text)
    if value is None or value < -1:
        return Cap(None, f"the configuration sets it to {text!r}, which is not a clock")
    if value == 0 or value in _MAXIMA:
        return Cap(None, UNCAPPED)
    return Cap(float(value * 1000 if is_cpu(param) else value), "")


def is_cpu(param: Param) -> bool:
    """Whether it is the clock of CPUs: its values are in kHz."""
    return param.kind == "CLOCK" and (first_cpu(param) is not None or param.name[:4] == "CPU_")


def undeclared(config: Config) -> tuple[Param, ...]:
    """Clocks that modes set though nothing declares them, as in a dump without its head."""
    declared = {param.name for param in config.params}
    names = dict.fromkeys(
        setting.param
        for section in config.modes
        for setting in section.settings
        if setting.argument == "MAX_FREQ" and setting.param not in declared
    )
    return tuple(Param("CLOCK", name, {}) for name in names)


def first_cpu(param: Param) -> int | None:
    """The CPU whose cpufreq folder the clock's cap is in; None for any other clock."""
    if param.kind != "CLOCK":
        return None
    matches = filter(None, map(_CPU_PATH.fullmatch, _max_paths(param)))
    return next((int(match[1]) for match in matches), None)


def _max_paths(param: Param) -> tuple[str, ...]:
    """Where its cap is written: the paths that tell which clock it is."""
    names = ("MAX_FREQ", f"MAX_FREQ{KNEXT}")
    return tuple(param.arguments[name] for name in names if name in param.arguments)


class ClockParams(msgspec.Struct, frozen=True):
    """The parameters that cap the clocks of the CPUs, the GPU, the memory and the DLAs."""

    cpus: tuple[Param, ...]
    gpu: Param | None
    emc: Param | None
    dla: tuple[Param, ...]  # the cores' clocks, whatever the release calls them


def clock_params(config: Config) -> ClockParams:
    """The clocks of a configuration, by name and where that says nothing by path."""
    clocks = [param for param in config.params if param.kind == "CLOCK"]
    clocks += undeclared(config)
    return ClockParams(
        cpus=tuple(param for param in clocks if is_cpu(param)),
        gpu=_clock(clocks, "GPU", _GPU_PATH),
        emc=_clock(clocks, "EMC", _EMC_PATH),
        dla=tuple(param for param in clocks if _DLA_NAME.fullmatch(param.name)),
    )


def _clock(clocks: Iterable[Param], name: str, path: re.Pattern[str]) -> Param | None:
    by_path = None
    for param in clocks:
        if param.name == name:
            return param
        if by_path is None and any(path.search(path_of_cap) for path_of_cap in _max_paths(param)):
            by_path = param
    return by_path


def lowest(caps: Iterable[Cap], without: str) -> Cap:
    """The cap that holds for all of them; ``without`` is the reason where there are none."""
    all_caps = tuple(caps)
    if (unset := next((cap for cap in all_caps if cap.why == NOT_SET), None)) is not None:
        return unset
    clocks = [cap for cap in all_caps if cap.hz is not None]
    if clocks:
        return min(clocks, key=lambda cap: cap.hz or 0)
    return all_caps[0] if all_caps else Cap(None, without)
