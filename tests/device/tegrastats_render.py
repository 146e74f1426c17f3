"""A sample back into its line, from the parsed numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mansard.device.tegrastats.sample import (
    OFFLINE,
    Cpu,
    EngineLoad,
    FreeBlocks,
    MemoryAmount,
    Rail,
    TegrastatsSample,
    Temperature,
    Usage,
)

_BYTES = {"B": 1, "kB": 1 << 10, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_MHZ = 1_000_000


def render(sample: TegrastatsSample) -> str:
    """The line of ``sample``: its fields in their order, spelled as tegrastats does.

    It has the numbers of the line that was parsed; spaces and zeros behind a decimal point
    may differ.
    """
    groups: dict[str, Iterator[Any]] = {
        "engine": iter(sample.engines),
        "temperature": iter(sample.temperatures),
        "rail": iter(sample.rails),
        "unknown": iter(sample.unparsed),
    }
    parts = []
    for kind, name, detail in sample.shape:
        if kind == "memory":
            parts.append(_memory(sample, name, detail))
        elif kind == "cpus":
            parts.append(f"{name} {_cpus(sample, is_shared=detail == 'shared')}")
        elif kind == "mts":
            foreground, background = sample.mts_foreground_percent, sample.mts_background_percent
            parts.append(f"MTS fg {foreground:.15g}% bg {background:.15g}%")
        elif kind == "rail":
            parts.append(_rail(next(groups[kind]), detail[1:]))
        else:
            parts.append(_render_one(next(groups[kind])))
    return sample.prefix + " ".join(parts)


def _memory(sample: TegrastatsSample, name: str, detail: str) -> str:
    usage: Usage = getattr(sample, name.lower())
    n = _BYTES[usage.unit]
    text = f"{name} {usage.used_bytes // n}/{usage.total_bytes // n}{usage.unit}{detail}"
    if not detail:
        return text
    extra = getattr(sample, "swap_cached" if name == "SWAP" else f"{name.lower()}_free")
    return f"{text} {_amount(extra)})"


def _amount(amount: MemoryAmount | FreeBlocks) -> str:
    if isinstance(amount, MemoryAmount):
        return f"{amount.size_bytes // _BYTES[amount.unit]}{amount.unit}"
    count = "" if amount.n_blocks is None else f"{amount.n_blocks}x"
    return f"{count}{amount.block_bytes // _BYTES[amount.unit]}{amount.unit}"


def _cpus(sample: TegrastatsSample, *, is_shared: bool) -> str:
    cores = ",".join(_cpu(cpu, is_shared) for cpu in sample.cpus)
    clock_hz = sample.shared_clock_hz
    return f"[{cores}]" if clock_hz is None else f"[{cores}]@{clock_hz // _MHZ}"


def _cpu(cpu: Cpu, is_shared: bool) -> str:
    if cpu.state != "on":
        return "off" if cpu.state == "off" else "..."
    clock = "" if is_shared or cpu.clock_hz is None else f"@{cpu.clock_hz // _MHZ}"
    return f"{cpu.load_percent:.15g}%{clock}"


def _render_one(field: EngineLoad | Temperature | str) -> str:
    if isinstance(field, str):
        return field
    return _engine(field) if isinstance(field, EngineLoad) else _temperature(field)


def _engine(engine: EngineLoad) -> str:
    if not engine.is_on:
        return f"{engine.name} off"
    load = "" if engine.load_percent is None else f"{engine.load_percent:.15g}%"
    clocks = ",".join(str(clock_hz // _MHZ) for clock_hz in engine.clocks_hz)
    bracket = "]" if engine.spelling == "@[" else ""
    return f"{engine.name} {load}{engine.spelling}{clocks}{bracket}"


def _temperature(temperature: Temperature) -> str:
    text = f"{temperature.name}@{_celsius(temperature.celsius)}C"
    maximum = temperature.maximum_celsius
    if maximum is None and temperature.unknown["maximum_celsius"] != OFFLINE:
        return text
    return f"{text}/{_celsius(maximum)}C"


def _celsius(celsius: float | None) -> str:
    return "-256" if celsius is None else f"{celsius:.15g}"


def _rail(rail: Rail, unit: str) -> str:
    numbers = (rail.power_w, rail.average_w, rail.maximum_w)
    return f"{rail.name} " + "/".join(_watts(unit, each) for each in numbers if each is not None)


def _watts(unit: str, power_w: float) -> str:
    per_watt = 1.0 if unit == "W" else 1000.0
    return f"{power_w * per_watt:.15g}{unit}"
