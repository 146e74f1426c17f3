"""Gated parts of the GPU: what nvpmodel's masks mean, and what they are now."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType

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
    known = module or full_module(soc)
    if known is None:
        return "neither the device tree nor the configuration tells which chip it is"
    masks = gating_masks(section)
    if known.chip_tpcs is None:
        if masks:
            return f"what the bits of {known.soc}'s gating mask stand for is not published"
        if module is None and known.soc not in _ALIKE:
            return f"it depends on the module: nothing of {known.soc} is gated"
        return known.n_sms
    text = masks.get("TPC_PG_MASK")
    if text is None:
        return NOT_GATED
    mask = parse_integer(text)
    n_sms = active_sms(known, mask)
    return f"its gating mask {text!r} is no number" if n_sms is None else n_sms


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
