"""What a log tells: ranges of every field, energy of the rails, utilisation of the engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mansard.core.errors import InputError
from mansard.core.hardware import Module
from mansard.core.records import Record, Source
from mansard.device.tegrastats.columns import Columns, FieldSummary, Utilisation, utilisation_of
from mansard.device.tegrastats.energy import EnergyTally, RailSummary
from mansard.device.tegrastats.parse import BATCH, Parser
from mansard.device.tegrastats.sample import TegrastatsSample
from mansard.device.tegrastats.times import Moment, Times
from mansard.device.totals import Total, find_total, total_power

_MOST_EXAMPLES = 8
_SIMULATED = "simulated"  # a word in the lines of a simulated board


class LogSummary(Record, frozen=True, kw_only=True):
    """A log of tegrastats in numbers. Energies are those of the time between the first line
    and the last; ``duration_tolerance`` is how well that time is known, relative.
    """

    log: str
    source: Source
    n_lines: int  # of tegrastats
    n_other_lines: int  # comments, words of scripts, cut beginnings
    first_time: str | None  # as the line has it
    duration_s: float | None
    duration_source: str | None
    duration_tolerance: float | None
    fields: tuple[FieldSummary, ...]
    utilisation: tuple[Utilisation, ...]
    rails: tuple[RailSummary, ...]
    total_rule: str | None
    total_boundary: str | None
    total_w: float | None  # mean
    total_j: float | None
    warnings: tuple[str, ...]


class Summariser:
    """Takes in samples one by one; constant memory."""

    def __init__(
        self,
        interval_s: float | None = None,
        module: Module | None = None,
        source: Source = "measured",
    ) -> None:
        self._source = source
        self._module = module
        self._columns = Columns()
        self._energy = EnergyTally(interval_s)
        self.n_lines = 0
        self._first: str | None = None
        self._n_unparsed = 0
        self._unparsed: dict[str, None] = {}

    def add(self, sample: TegrastatsSample, moment: Moment | None) -> None:
        """Take in one sample of ``moment``; None where its time is not known."""
        if not self.n_lines:
            self._first = sample.prefix.strip(" -\t") or None
        self.n_lines += 1
        self._columns.add(sample)
        self._energy.add(sample, moment)
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
            source="simulated" if _SIMULATED in self._unparsed else self._source,
            n_lines=self.n_lines,
            n_other_lines=n_other_lines,
            first_time=self._first,
            duration_s=window.duration_s,
            duration_source=window.source if window.duration_s is not None else None,
            duration_tolerance=window.tolerance if window.duration_s is not None else None,
            fields=fields,
            utilisation=utilisation_of(fields),
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
    log: str,
    summariser: Summariser,
    each: Callable[[TegrastatsSample, Moment | None], None] | None = None,
    n_ahead: int = BATCH,
) -> LogSummary:
    """The summary of a log's lines; ``each`` is shown every sample with its time.

    ``n_ahead`` lines are read at once: 1 where they come slowly. Raises InputError if none
    is a line of tegrastats.
    """
    n_all, times = 0, Times()

    def counted() -> Iterator[str]:
        nonlocal n_all
        for line in lines:
            n_all += bool(line.strip())
            yield line

    for sample in Parser().read_all(counted(), n_ahead):
        if sample is None:
            continue
        moment = times.of(sample.prefix)
        summariser.add(sample, moment)
        if each is not None:
            each(sample, moment)
    if not summariser.n_lines:
        raise InputError(
            f"none of its {n_all} lines is one of tegrastats",
            where=log,
            fix="record one with tegrastats --interval 100 --logfile FILE",
        )
    return summariser.summary(log, n_all - summariser.n_lines)


def _total(
    rails: tuple[RailSummary, ...], module: Module | None
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
