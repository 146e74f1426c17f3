"""The numbers of a line as columns of a table, and their minimum, mean and maximum over a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from mansard.core.records import Record
from mansard.device.tegrastats.energy import numbered
from mansard.device.tegrastats.sample import FreeBlocks, Shape, TegrastatsSample, Usage

Cell = float | str | None

TEXT_COLUMNS = ("log", "time", "unparsed")  # all others hold numbers
_USAGES = (("RAM", "ram"), ("SWAP", "swap"), ("IRAM", "iram"))


def row(sample: TegrastatsSample, log: str, time_s: float | None) -> dict[str, Cell]:
    """Column → cell. A cell is None where the line has no such number: a core that is off.

    ``time_s`` counts from 1970, or from the first line of a live board.
    """
    cells: dict[str, Cell] = {"log": log, "time": clean(sample.prefix) or None, "time_s": time_s}
    _add_memory(cells, sample)
    for number, cpu in enumerate(sample.cpus):
        cells[f"CPU{number}_load_percent"] = cpu.load_percent
        cells[f"CPU{number}_clock_hz"] = cpu.clock_hz
    _add_engines(cells, sample)
    for sensor, name in zip(sample.temperatures, _names(sample.temperatures), strict=True):
        cells[f"{name}_celsius"] = sensor.celsius
        if sensor.maximum_celsius is not None:
            cells[f"{name}_maximum_celsius"] = sensor.maximum_celsius
    _add_rails(cells, sample)
    if sample.unparsed:
        cells["unparsed"] = clean(" ".join(sample.unparsed))
    return cells


def line_document(sample: TegrastatsSample, log: str, time_s: float | None) -> dict[str, Any]:
    """The same for JSON, with the structure of ``TegrastatsSample``."""
    fields: dict[str, Any] = msgspec.to_builtins(sample)
    for column in ("prefix", "shape", "rail_names", "powers_w", "averages_w", "maximums_w"):
        del fields[column]
    rails = msgspec.to_builtins(sample.rails)
    return {"log": log, "time": clean(sample.prefix), "time_s": time_s, **fields, "rails": rails}


def clean(text: str) -> str:
    """``text`` on one line, without the marks that scripts put between time and fields."""
    return " ".join(text.split()).strip(" -:,;|")


def _add_memory(cells: dict[str, Cell], sample: TegrastatsSample) -> None:
    for name, field in _USAGES:
        usage: Usage | None = getattr(sample, field)
        if usage is not None:
            cells[f"{name}_used_bytes"] = usage.used_bytes
            cells[f"{name}_total_bytes"] = usage.total_bytes
        free: FreeBlocks | None = getattr(sample, f"{field}_free", None)
        if free is not None:
            cells[f"{name}_free_blocks"] = free.n_blocks
            cells[f"{name}_block_bytes"] = free.block_bytes
    if sample.swap_cached is not None:
        cells["SWAP_cached_bytes"] = sample.swap_cached.size_bytes


def _add_rails(cells: dict[str, Cell], sample: TegrastatsSample) -> None:
    for rail, name in zip(sample.rails, numbered(sample.rail_names), strict=True):
        cells[f"{name}_w"] = rail.power_w
        if rail.average_w is not None:
            cells[f"{name}_average_w"] = rail.average_w
        if rail.maximum_w is not None:
            cells[f"{name}_maximum_w"] = rail.maximum_w


def _add_engines(cells: dict[str, Cell], sample: TegrastatsSample) -> None:
    for engine, name in zip(sample.engines, _names(sample.engines), strict=True):
        cells[f"{name}_on"] = int(engine.is_on)
        if engine.load_percent is not None:
            cells[f"{name}_load_percent"] = engine.load_percent
        n_clocks = len(engine.clocks_hz)
        for number, clock_hz in enumerate(engine.clocks_hz):
            label = "clock" if n_clocks == 1 else f"clock{number}"
            cells[f"{name}_{label}_hz"] = clock_hz
    if sample.mts_foreground_percent is not None:
        cells["MTS_foreground_percent"] = sample.mts_foreground_percent
        cells["MTS_background_percent"] = sample.mts_background_percent


def _names(fields: Sequence[Any]) -> tuple[str, ...]:
    return numbered(tuple(sensor.name for sensor in fields))


_BATCH = 512  # lines whose numbers are held before they are added up
_MOST_FIELDS = 4096  # of one log; more come from junk alone, and are left out

_Number = float | None
Key = tuple[str, str, str]  # name, quantity, unit


class FieldSummary(Record, frozen=True, kw_only=True):
    """One number of the lines; ``n_lines`` have it (a core that is off has no load)."""

    field: str
    quantity: str
    unit: str
    n_lines: int
    minimum: float
    mean: float
    maximum: float


class _FieldSum(msgspec.Struct):
    n_lines: int = 0
    minimum: float = float("inf")
    maximum: float = float("-inf")
    sum: float = 0.0


class Columns:
    """Adds up samples; constant memory."""

    def __init__(self) -> None:
        self._running: dict[Key, _FieldSum] = {}
        self._form: tuple[object, ...] = ()
        self._shape: Shape | None = None
        self._keys: list[Key] = []
        self._rows: list[list[_Number]] = []

    def add(self, sample: TegrastatsSample) -> None:
        """Add one sample."""
        form = (len(sample.cpus), *[len(engine.clocks_hz) for engine in sample.engines])
        # A stream's samples share their shape: to compare it by identity is enough, and fast.
        if sample.shape is not self._shape or form != self._form:
            self._flush()
            self._shape, self._form, self._keys = sample.shape, form, keys_of(sample)
        self._rows.append(numbers_of(sample))
        if len(self._rows) >= _BATCH:
            self._flush()

    def summaries(self) -> tuple[FieldSummary, ...]:
        """Every number so far, in the order of the first lines that had it."""
        self._flush()
        return tuple(
            FieldSummary(
                field=name,
                quantity=quantity,
                unit=unit,
                n_lines=total.n_lines,
                minimum=total.minimum,
                mean=min(max(total.sum / total.n_lines, total.minimum), total.maximum),
                maximum=total.maximum,
            )
            for (name, quantity, unit), total in self._running.items()
        )

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        columns = zip(*rows, strict=True) if rows else ()
        for key, column in zip(self._keys if rows else (), columns, strict=True):
            present = [number for number in column if number is not None]
            if not present:
                continue
            running = self._running.get(key)
            if running is None:
                if len(self._running) >= _MOST_FIELDS:
                    continue
                running = self._running[key] = _FieldSum()
            running.n_lines += len(present)
            running.minimum = min(running.minimum, *present)
            running.maximum = max(running.maximum, *present)
            running.sum += sum(present)


def numbers_of(sample: TegrastatsSample) -> list[_Number]:
    """Every number of a sample but those that summarise others (averages, maxima)."""
    numbers: list[_Number] = [
        usage.used_bytes if usage is not None else None
        for usage in (sample.ram, sample.swap, sample.iram)
    ]
    for cpu in sample.cpus:
        numbers += (cpu.load_percent, cpu.clock_hz)
    for engine in sample.engines:
        numbers.append(engine.load_percent)
        numbers += engine.clocks_hz
    numbers += (sample.mts_foreground_percent, sample.mts_background_percent)
    numbers += [temperature.celsius for temperature in sample.temperatures]
    numbers += sample.powers_w
    return numbers


def keys_of(sample: TegrastatsSample) -> list[Key]:
    """The keys of ``numbers_of``; a repeated name (NC) gets a number appended."""
    keys: list[Key] = [(name, "used", "B") for name in ("RAM", "SWAP", "IRAM")]
    for number in range(len(sample.cpus)):
        keys += ((f"CPU{number}", "load", "%"), (f"CPU{number}", "clock", "Hz"))
    for engine in sample.engines:
        keys.append((engine.name, "load", "%"))
        n_clocks = len(engine.clocks_hz)
        clocks = ["clock"] if n_clocks < 2 else [f"clock {k}" for k in range(n_clocks)]
        keys += [(engine.name, clock, "Hz") for clock in clocks[:n_clocks]]
    keys += (("MTS foreground", "load", "%"), ("MTS background", "load", "%"))
    keys += [(sensor.name, "temperature", "°C") for sensor in sample.temperatures]
    keys += [(name, "power", "W") for name in sample.rail_names]
    return _numbered(keys)


def _numbered(keys: Sequence[Key]) -> list[Key]:
    seen: Counter[Key] = Counter()
    numbered = []
    for key in keys:
        seen[key] += 1
        name, *rest = key
        numbered.append(key if seen[key] == 1 else (f"{name} ({seen[key]})", rest[0], rest[1]))
    return numbered


_NO_LOAD = "the lines have its clock but no load"

Kind = Literal["cpu", "gpu", "emc", "dla", "other"]


class Utilisation(Record, frozen=True, kw_only=True):
    """Share of its time that a core or engine works, of the lines in which it is on.

    ``CPU`` is all cores that are on together. An engine that only some lines have (NVENC
    of r32) was off in the others: ``n_lines`` are those that have it.
    """

    name: str
    kind: Kind
    n_lines: int
    mean_percent: float | None
    maximum_percent: float | None


def utilisation_of(fields: tuple[FieldSummary, ...]) -> tuple[Utilisation, ...]:
    """The loads of cores, GPU, memory controller and other engines."""
    loads = {field.field: field for field in fields if field.quantity == "load"}
    n_lines = {field.field: field.n_lines for field in fields if field.unit in {"%", "Hz"}}
    utilisations = []
    cores = [load for name, load in loads.items() if _kind(name) == "cpu"]
    if cores:
        n_loads = sum(core.n_lines for core in cores)
        utilisations.append(
            Utilisation(
                name="CPU",
                kind="cpu",
                n_lines=max(core.n_lines for core in cores),
                mean_percent=sum(core.mean * core.n_lines for core in cores) / n_loads,
                maximum_percent=max(core.maximum for core in cores),
            )
        )
    for name, n_having in n_lines.items():
        load = loads.get(name)
        unknown = {} if load else dict.fromkeys(("mean_percent", "maximum_percent"), _NO_LOAD)
        utilisations.append(
            Utilisation(
                name=name,
                kind=_kind(name),
                n_lines=n_having,
                mean_percent=load.mean if load else None,
                maximum_percent=load.maximum if load else None,
                unknown=unknown,
            )
        )
    return tuple(utilisations)


def _kind(name: str) -> Kind:
    starts: tuple[tuple[str, Kind], ...] = (
        ("CPU", "cpu"),
        ("GR3D", "gpu"),
        ("EMC", "emc"),
        ("NVDLA", "dla"),
        ("DLA", "dla"),
    )
    return next((kind for start, kind in starts if name.startswith(start)), "other")
