"""Summaries of logs: ranges of every field, energy of the rails, utilisation of the engines."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

from mansard.core.errors import InputError
from mansard.core.hardware import Module
from mansard.core.records import Record, Source
from mansard.device.tegrastats.columns import Columns, FieldSummary, Utilisation, utilisation_of
from mansard.device.tegrastats.energy import TOO_FEW, UNKNOWN, Bounds, EnergyTally, RailSummary
from mansard.device.tegrastats.grammar import refusals_of
from mansard.device.tegrastats.parse import BATCH, Parser
from mansard.device.tegrastats.sample import TegrastatsSample
from mansard.device.tegrastats.sessions import Line, Moment, Times, place
from mansard.device.totals import Total, find_total, total_power

_MOST_EXAMPLES = 8
_MOST_SESSIONS = 1000  # recordings of one log; only damaged logs have more
_SIMULATED = "simulated"  # a word in the lines of a simulated board


class LogSummary(Record, frozen=True, kw_only=True):
    """A recording of tegrastats in numbers; a log may hold several (``sessions``).

    Energies are those of the time between its first line and its last; ``low`` and ``high`` are
    what they lie between, as far as that time is known.
    """

    log: str
    session: int  # of the log, from 1 on
    session_begins: str  # why a new one begins here; empty for the first
    source: Source
    n_lines: int  # of tegrastats
    n_other_lines: int  # comments, words of scripts, cut beginnings, damaged lines
    n_refused: int  # values and lines that cannot be true
    first_time: str | None  # as the line has it
    duration_s: float | None
    duration_low_s: float | None
    duration_high_s: float | None
    duration_source: str | None
    fields: tuple[FieldSummary, ...]
    utilisation: tuple[Utilisation, ...]
    rails: tuple[RailSummary, ...]
    total_rule: str | None
    total_boundary: str | None
    total_w: float | None  # mean
    total_j: float | None
    total_low_j: float | None
    total_high_j: float | None
    warnings: tuple[str, ...]


class Summariser:
    """Sums up the samples of one recording in constant memory."""

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
        self._n_unparsed = self._n_refused = 0
        self._unparsed: dict[str, None] = {}
        self._refused: list[str] = []
        self._is_simulated = False

    def add(self, sample: TegrastatsSample, moment: Moment | None, number: int = 0) -> None:
        """Take in one sample of ``moment``; None where its time is not known.

        ``number``: its line in the file, or 0.
        """
        if not self.n_lines:
            self._first = sample.prefix.strip(" -\t") or None
        self.n_lines += 1
        self._columns.add(sample)
        self._energy.add(sample, moment)
        if sample.unparsed:
            self._take_unparsed(sample, number or self.n_lines)

    def refuse(self, why: str, number: int) -> None:
        """Note what line ``number`` has that cannot be true; it is not counted."""
        self._n_refused += 1
        if len(self._refused) < _MOST_EXAMPLES:
            self._refused.append(f"line {number}: {why}")

    def _take_unparsed(self, sample: TegrastatsSample, number: int) -> None:
        self._is_simulated |= _SIMULATED in sample.unparsed
        refusals = refusals_of(sample.shape)
        for reason in refusals:
            self.refuse(reason, number)
        if refusals:
            return  # the values that belong to them are among the unparsed
        self._n_unparsed += len(sample.unparsed)
        for token in sample.unparsed:
            if len(self._unparsed) < _MOST_EXAMPLES:
                self._unparsed[token] = None

    def summary(
        self, log: str, n_other_lines: int = 0, *, session: int = 1, begins: str = ""
    ) -> LogSummary:
        """The summary of all samples so far."""
        fields = self._columns.summaries()
        rails = self._energy.energies()
        window = self._energy.window()
        total, total_w, energies_j, reason = _total(rails, self._module)
        duration_s, duration_low_s, duration_high_s = window.span_s or UNKNOWN
        total_j, total_low_j, total_high_j = energies_j or UNKNOWN
        unknown = {} if self._first else {"first_time": "the first line has no time"}
        if duration_s is None:
            names = ("duration_s", "duration_low_s", "duration_high_s", "duration_source")
            unknown |= dict.fromkeys(names, window.reason)
        if total is None:
            unknown |= dict.fromkeys(("total_rule", "total_boundary"), reason)
        if total_w is None:
            unknown["total_w"] = reason
        if total_j is None:
            totals = ("total_j", "total_low_j", "total_high_j")
            unknown |= dict.fromkeys(totals, reason or window.reason or TOO_FEW)
        return LogSummary(
            log=log,
            session=session,
            session_begins=begins,
            source="simulated" if self._is_simulated else self._source,
            n_lines=self.n_lines,
            n_other_lines=n_other_lines,
            n_refused=self._n_refused,
            first_time=self._first,
            duration_s=duration_s,
            duration_low_s=duration_low_s,
            duration_high_s=duration_high_s,
            duration_source=window.source,
            fields=fields,
            utilisation=utilisation_of(fields),
            rails=rails,
            total_rule=total.rule if total is not None else None,
            total_boundary=total.boundary if total is not None else None,
            total_w=total_w,
            total_j=total_j,
            total_low_j=total_low_j,
            total_high_j=total_high_j,
            warnings=self._warnings(reason if total is not None else ""),
            unknown=unknown,
        )

    def _warnings(self, labels: str) -> tuple[str, ...]:
        warnings = [*filter(None, (labels,)), *self._energy.warnings()]
        if self._n_refused:
            more = self._n_refused - len(self._refused)
            also = f"; and {more} more" if more else ""
            warnings.append(
                f"{self._n_refused} refused, not counted: {'; '.join(self._refused)}{also}"
            )
        if self._n_unparsed:
            examples = ", ".join(repr(token[:40]) for token in self._unparsed)
            warnings.append(f"{self._n_unparsed} tokens are no field known here: {examples}")
        return tuple(warnings)


def summarise(
    lines: Iterable[str],
    log: str,
    new_summariser: Callable[[], Summariser],
    on_sample: Callable[[TegrastatsSample, Moment | None], None] | None = None,
    n_ahead: int = BATCH,
) -> Iterator[LogSummary]:
    """The summaries of a log's recordings; ``on_sample`` gets every sample with its time.

    ``n_ahead`` lines are read at once: 1 where they come slowly. Raises InputError if none
    is a line of tegrastats, or they make more recordings than a log can have.
    """
    summariser, session, begins = new_summariser(), 1, ""
    n_other = Counter[str]()  # other lines than those of tegrastats, since the last summary
    for placed in place(_read(lines, n_other, on_sample, n_ahead)):
        line = placed.line
        if placed.refused:
            n_other["lines"] += 1
            summariser.refuse(f"not counted at all: {placed.refused}", line.number)
            continue
        if placed.begins:
            if session >= _MOST_SESSIONS:
                raise InputError(
                    f"more than {_MOST_SESSIONS} recordings: at line {line.number} again "
                    f"{placed.begins}",
                    where=log,
                    fix="give each board's lines in the order of their dates, a file each",
                )
            yield summariser.summary(log, n_other.pop("lines", 0), session=session, begins=begins)
            summariser, session = new_summariser(), session + 1
            begins = f"line {line.number}: {placed.begins}"
        summariser.add(line.sample, line.moment, line.number)
    if not summariser.n_lines:
        raise InputError(
            f"none of its {n_other['lines']} lines is one of tegrastats",
            where=log,
            fix="record one with tegrastats --interval 100 --logfile FILE",
        )
    yield summariser.summary(log, n_other.pop("lines", 0), session=session, begins=begins)


def _read(
    lines: Iterable[str],
    n_other: Counter[str],
    on_sample: Callable[[TegrastatsSample, Moment | None], None] | None,
    n_ahead: int,
) -> Iterator[Line | str]:
    """The lines of a log in their order: those of tegrastats, and the text of all others."""
    ahead: deque[str] = deque()
    times = Times()

    def kept() -> Iterator[str]:
        for line in lines:
            ahead.append(line)
            yield line

    for number, sample in enumerate(Parser().read_all(kept(), n_ahead), 1):
        text = ahead.popleft()
        if sample is None:
            if text.strip():
                n_other["lines"] += 1
                yield text
            continue
        moment = times.of(sample.prefix)
        if on_sample is not None:
            on_sample(sample, moment)
        yield Line(number, sample, moment)


def _total(
    rails: tuple[RailSummary, ...], module: Module | None
) -> tuple[Total | None, float | None, Bounds | None, str]:
    """The rule, mean power and energy of the total, and doubts about it."""
    if not rails:
        return None, None, None, "the lines have no power rails"
    total = find_total(tuple(rail.rail for rail in rails), module)
    if isinstance(total, str):
        return None, None, None, total
    power = total_power({rail.rail: rail.mean_w for rail in rails}, total)
    if power.power_w is None:
        return total, None, None, power.reason
    added = [rail.bounds_j for rail in rails if rail.rail in total.rails]
    complete = [bounds_j for bounds_j in added if bounds_j is not None]
    if len(complete) < len(added):
        return total, power.power_w, None, ""
    energy_j, low_j, high_j = (sum(column) for column in zip(*complete, strict=True))
    return total, power.power_w, (energy_j, low_j, high_j), ""
