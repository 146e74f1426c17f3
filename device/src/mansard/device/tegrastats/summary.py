"""What a log tells: ranges of every field, energy of the rails, utilisation of the engines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mansard.core.errors import InputError
from mansard.core.hardware import Module
from mansard.core.records import Record
from mansard.device.meters.totals import Total, find_total, total_power
from mansard.device.tegrastats.columns import Columns, FieldSummary
from mansard.device.tegrastats.energy import EnergyTally, RailEnergy
from mansard.device.tegrastats.parse import Parser
from mansard.device.tegrastats.sample import TegrastatsSample
from mansard.device.tegrastats.times import Moment, time_of

_MOST_EXAMPLES = 8
_NO_LOAD = "the lines have its clock but no load"


class Utilisation(Record, frozen=True, kw_only=True):
    """Share of its time that a core or engine works, of the lines in which it is on."""

    name: str
    mean_percent: float | None
    maximum_percent: float | None


class LogSummary(Record, frozen=True, kw_only=True):
    """A log of tegrastats in numbers. Energies are those of the time between the first line
    and the last; ``duration_tolerance`` is how well that time is known, relative.
    """

    log: str
    n_lines: int  # of tegrastats
    n_other_lines: int  # comments, words of scripts, cut beginnings
    first_time: str | None  # as the line has it
    duration_s: float | None
    duration_source: str | None
    duration_tolerance: float | None
    fields: tuple[FieldSummary, ...]
    utilisation: tuple[Utilisation, ...]
    rails: tuple[RailEnergy, ...]
    total_rule: str | None
    total_boundary: str | None
    total_w: float | None  # mean
    total_j: float | None
    warnings: tuple[str, ...]


class Summariser:
    """Takes in samples one by one; constant memory."""

    def __init__(self, interval_s: float | None = None, module: Module | None = None) -> None:
        self._module = module
        self._columns = Columns()
        self._energy = EnergyTally(interval_s)
        self._n_lines = 0
        self._first: str | None = None
        self._n_unparsed = 0
        self._unparsed: dict[str, None] = {}

    def add(self, sample: TegrastatsSample, moment: Moment | None = None) -> None:
        """Take in one sample, at ``moment`` or at the time that its line has."""
        if not self._n_lines:
            self._first = sample.prefix.strip(" -\t") or None
        self._n_lines += 1
        self._columns.add(sample)
        self._energy.add(sample, moment or time_of(sample.prefix))
        if sample.unparsed:
            self._n_unparsed += len(sample.unparsed)
            for token in sample.unparsed:
                if len(self._unparsed) < _MOST_EXAMPLES:
                    self._unparsed[token] = None

    def summary(self, log: str, n_other_lines: int = 0) -> LogSummary:
        """All that was taken in so far."""
        fields = self._columns.summaries()
        rails = self._energy.energies()
        window = self._energy.window()
        total, total_w, total_j, reason = _total(rails, self._module)
        unknown = {} if self._first else {"first_time": "the first line has no time"}
        if window.duration_s is None:
            names = ("duration_s", "duration_source", "duration_tolerance")
            unknown |= dict.fromkeys(names, window.reason)
        if total is None:
            unknown |= dict.fromkeys(("total_rule", "total_boundary"), reason)
        if total_w is None:
            unknown["total_w"] = reason
        if total_j is None:
            unknown["total_j"] = reason or window.reason
        return LogSummary(
            log=log,
            n_lines=self._n_lines,
            n_other_lines=n_other_lines,
            first_time=self._first,
            duration_s=window.duration_s,
            duration_source=window.source if window.duration_s is not None else None,
            duration_tolerance=window.tolerance if window.duration_s is not None else None,
            fields=fields,
            utilisation=_utilisation(fields),
            rails=rails,
            total_rule=total.rule if total is not None else None,
            total_boundary=total.boundary if total is not None else None,
            total_w=total_w,
            total_j=total_j,
            warnings=self._warnings(reason if total is not None else ""),
            unknown=unknown,
        )

    def _warnings(self, labels: str) -> tuple[str, ...]:
        warnings = [text for text in (labels, self._energy.pauses()) if text]
        if self._n_unparsed:
            examples = ", ".join(repr(token[:40]) for token in self._unparsed)
            warnings.append(f"{self._n_unparsed} tokens are no field known here: {examples}")
        return tuple(warnings)


def summarise(
    lines: Iterable[str],
    log: Path,
    interval_s: float | None = None,
    module: Module | None = None,
) -> LogSummary:
    """The summary of a log's lines; raises InputError if none is a line of tegrastats."""
    read = Parser().read
    summariser = Summariser(interval_s, module)
    n_lines = n_other_lines = 0
    for line in lines:
        sample = read(line)
        if sample is not None:
            summariser.add(sample)
            n_lines += 1
        elif not line.isspace() and line:
            n_other_lines += 1
    if not n_lines:
        raise InputError(
            f"none of its {n_other_lines} lines is one of tegrastats",
            where=str(log),
            fix="record one with tegrastats --interval 100 --logfile FILE",
        )
    return summariser.summary(str(log), n_other_lines)


def _total(
    rails: tuple[RailEnergy, ...], module: Module | None
) -> tuple[Total | None, float | None, float | None, str]:
    """The rule, mean power and energy of the total, and what speaks against it."""
    if not rails:
        return None, None, None, "the lines have no power rails"
    total = find_total(tuple(rail.rail for rail in rails), module)
    if isinstance(total, str):
        return None, None, None, total
    power = total_power({rail.rail: rail.mean_w for rail in rails}, total)
    if power.power_w is None:
        return total, None, None, power.reason
    energies_j = [rail.energy_j for rail in rails if rail.rail in total.rails]
    known_j = [energy_j for energy_j in energies_j if energy_j is not None]
    total_j = sum(known_j) if len(known_j) == len(energies_j) else None
    return total, power.power_w, total_j, ""


def _utilisation(fields: tuple[FieldSummary, ...]) -> tuple[Utilisation, ...]:
    """The loads of cores, GPU, memory controller and other engines."""
    loads = {each.field: each for each in fields if each.quantity == "load"}
    names = dict.fromkeys(each.field for each in fields if each.unit in {"%", "Hz"})
    found = []
    for name in names:
        load = loads.get(name)
        unknown = {} if load else dict.fromkeys(("mean_percent", "maximum_percent"), _NO_LOAD)
        found.append(
            Utilisation(
                name=name,
                mean_percent=load.mean if load else None,
                maximum_percent=load.maximum if load else None,
                unknown=unknown,
            )
        )
    return tuple(found)
