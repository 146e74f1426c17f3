"""GPUs of the Tegra chips, and how many of their multiprocessors a gating mask leaves on."""

from __future__ import annotations

import re
from types import MappingProxyType

import msgspec

from mansard.device.nvpmodel.config import Config, Table

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}")


class Gpu(msgspec.Struct, frozen=True):
    """The GPU of a chip as it is on the die; a module may have fewer units."""

    soc: str
    names: tuple[str, ...]  # by which its folder in sysfs goes
    cores_per_sm: int
    sms_per_tpc: int
    n_tpcs: int | None  # on the die: the width of the gating mask; None: no mask is known
    source: str


# A texture processing cluster (TPC) holds the multiprocessors (SM) that a bit gates.
GPUS = MappingProxyType(
    {
        gpu.soc: gpu
        for gpu in (
            Gpu("tegra234", ("ga10b",), 128, 2, 8, "CUDA cores recorded on an AGX Orin: 768 at "
                "mask 248, 1024 at 240, 2048 at 0"),
            Gpu("tegra194", ("gv11b",), 64, 2, 4, "NVIDIA's data sheets: 512 CUDA cores on AGX "
                "Xavier at mask 0, 384 on Xavier NX at mask 1"),
            Gpu("tegra186", ("gp10b",), 128, 2, None, "NVIDIA's data sheet of TX2: 256 cores"),
            Gpu("tegra210", ("57000000.gpu", "gm20b"), 128, 2, None, "NVIDIA's data sheets: 256 "
                "cores on TX1, 128 on Nano"),
            Gpu("tegra264", ("gb10b", "gpu-gpc"), 128, 2, None, "NVIDIA's data sheet of T5000: "
                "2560 cores in 10 TPCs; the layout of its gating mask is not published"),
        )
    }
)  # fmt: skip

# CPU clocks that name the chip where the GPU's path does not.
_CPU_NAMES = (("CPU_A78_", "tegra234"), ("CPU_DENVER_", "tegra194"), ("CPU_DENVER", "tegra186"))


def soc_of_config(config: Config) -> str | None:
    """The chip that a configuration is for, by the path of its GPU's clock or its CPUs' name."""
    paths = [
        path
        for param in config.params
        if param.kind == "CLOCK"
        for path in param.arguments.values()
    ]
    for gpu in GPUS.values():
        if any(f"/{name}" in path or f".{name}" in path for name in gpu.names for path in paths):
            return gpu.soc
    for prefix, soc in _CPU_NAMES:
        if any(param.name.startswith(prefix) for param in config.params):
            return soc
    return None


def parse_integer(text: str) -> int | None:
    """A decimal or ``0x`` number; None where it is none."""
    if _HEX.fullmatch(text):
        return int(text, 16)
    return int(text) if _INTEGER.fullmatch(text) else None


def gating_masks(table: Table) -> dict[str, str]:
    """What a mode sets of the GPU's gating: argument -> value, as the file has them."""
    return {
        setting.argument: setting.value
        for setting in table.settings
        if setting.argument.endswith("PG_MASK")
    }


def active_sms(soc: str | None, table: Table) -> int | str:
    """Multiprocessors that a mode leaves on, or the reason why that is not known.

    SMs = SMs per TPC × (TPCs of the die - bits that are set in the mask). Bits beyond the
    die's TPCs gate nothing.
    """
    gpu = GPUS.get(soc or "")
    if gpu is None:
        return "neither the device tree nor the configuration tells which chip it is"
    text = gating_masks(table).get("TPC_PG_MASK")
    if gpu.n_tpcs is None:
        return (
            f"{gpu.soc} has no gating mask: every multiprocessor of the module is on"
            if not gating_masks(table)
            else f"the layout of {gpu.soc}'s gating mask is not published"
        )
    if text is None:
        return "this mode leaves the GPU's gating as it finds it"
    mask = parse_integer(text)
    if mask is None or mask < 0:
        return f"its gating mask {text!r} is no number"
    gated = (mask & ((1 << gpu.n_tpcs) - 1)).bit_count()
    return gpu.sms_per_tpc * (gpu.n_tpcs - gated)
