"""Published figures beside what the module's hardware can do: a wrong unit stands out."""

from __future__ import annotations

import difflib

from mansard.analytics.data.quantities import quantity
from mansard.analytics.published.importing import Imported
from mansard.core.errors import UsageError
from mansard.core.hardware import MODULES, Module, memory_bytes_per_s, peak_flop_per_s
from mansard.core.records import PublishedRate

SLACK = 1.02  # clocks are rounded in tables


def find_module(name: str) -> Module:
    """The module of a part number, or the first of a family or name; raises UsageError."""
    wanted = name.casefold()
    for part_number, module in MODULES.items():
        if wanted in {part_number, module.family, module.name.casefold()}:
            return module
    families = list(dict.fromkeys(module.family for module in MODULES.values()))
    close = difflib.get_close_matches(wanted, families, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise UsageError(f"unknown module {name!r}", fix=f"{hint}it is one of {', '.join(families)}")


def limit_notes(imported: Imported, module: Module | None) -> list[str]:
    """One line for each rate above what ``module`` can do; none without a module."""
    if module is None:
        return []
    found = [(rate, hardware_limit(rate, module)) for rate in imported.rates]
    return [
        f"line {rate.row}: {rate.subject} {rate.quantity} of {_text(rate, rate.value)} in mode "
        f"{rate.mode.name} is above the {_text(rate, limit)} that {module.name} can do"
        for rate, limit in found
        if limit is not None and rate.value > SLACK * limit
    ]


def _text(rate: PublishedRate, value: float) -> str:
    return quantity(value, "FLOP/s" if rate.quantity == "peak" else "B/s")


def module_called(name: str) -> Module | None:
    """The module whose name a table's device has, or None."""
    return next((module for module in MODULES.values() if module.name == name), None)


def hardware_limit(rate: PublishedRate, module: Module | None) -> float | None:
    """FLOP/s or B/s at the row's clocks, at the module's highest where it says none.

    None without a module, and where its hardware's limit is not known.
    """
    if module is None:
        return None
    if rate.quantity == "peak" and rate.processor == "gpu":
        return peak_flop_per_s(
            module,
            n_sms=rate.mode.n_sms or module.n_sms,
            gpu_hz=rate.mode.gpu_hz or module.highest_gpu_hz,
            precision=rate.subject,
            unit="tensor" if rate.unit == "tensor core" else "fma",
        )
    if rate.quantity == "bandwidth" and rate.subject == "DRAM":
        return memory_bytes_per_s(module, rate.mode.memory_hz or module.highest_memory_hz)
    return None
