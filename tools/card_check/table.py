"""The lines of the check: one figure each, what it is compared with, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["pass", "FAIL", "info"]


@dataclass(frozen=True)
class Criterion:
    """A value beside the bounds that it must keep; without bounds it is shown, not judged."""

    of: str  # what it is a share of; empty: the line's own value
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def is_judged(self) -> bool:
        """Whether it has a bound."""
        return self.least is not None or self.most is not None

    @property
    def holds(self) -> bool:
        """Whether it keeps its bounds."""
        above = self.least is None or self.value >= self.least
        return above and (self.most is None or self.value <= self.most)

    def __str__(self) -> str:
        if self.least is not None and self.most is not None:
            goal = f"{self.least:g} to {self.most:g}"
        elif self.most is not None:
            goal = f"<= {self.most:g}"
        else:
            goal = "" if self.least is None else f">= {self.least:g}"
        if not self.of:
            return goal
        return f"{self.value:.3f} of {self.of}" + (f" ({goal})" if goal else "")


@dataclass(frozen=True)
class Line:
    """One line; ``failure``: why there is no value, where that is a fault."""

    name: str
    value: str = ""  # with its unit
    criteria: tuple[Criterion, ...] = ()
    published: str = ""
    note: str = ""
    failure: str = ""

    @property
    def verdict(self) -> Verdict:
        """FAIL where one criterion does not hold; info where none is judged."""
        judged = [one for one in self.criteria if one.is_judged]
        if self.failure or not all(one.holds for one in judged):
            return "FAIL"
        return "pass" if judged else "info"


def within(
    name: str, value: float, unit: str, least: float | None, most: float | None, note: str = ""
) -> Line:
    """A line whose value itself is judged."""
    return Line(name, f"{value:.3g} {unit}", (Criterion("", value, least, most),), note=note)


def counts(lines: Sequence[Line]) -> dict[Verdict, int]:
    """How many lines there are of each verdict."""
    n: dict[Verdict, int] = {"pass": 0, "FAIL": 0, "info": 0}
    for line in lines:
        n[line.verdict] += 1
    return n


def as_text(lines: Sequence[Line]) -> str:
    """The table for a log: failures last, so that the end of a log holds them, and the counts."""
    ordered = sorted(lines, key=lambda line: line.verdict == "FAIL")
    n = counts(lines)
    rows = [_row(line) for line in ordered]
    summary = f"{n['pass']} passed, {n['FAIL']} failed, {n['info']} for information"
    return "\n".join([*rows, summary])


def _row(line: Line) -> str:
    criteria = "; ".join(map(str, line.criteria))
    remarks = [line.failure, line.note, f"published: {line.published}" if line.published else ""]
    text = f"{line.verdict:4} {line.name:34} {line.value:>14}  {criteria}"
    return " | ".join([text.rstrip(), *(part for part in remarks if part)])


def as_markdown(lines: Sequence[Line]) -> str:
    """The same as a table of a document, in the order of the lines."""
    head = ["| | what | value | judged by | published | note |", "|---|---|---|---|---|---|"]
    rows = [
        (
            line.verdict,
            line.name,
            line.value,
            "; ".join(map(str, line.criteria)),
            line.published,
            "; ".join(part for part in (line.failure, line.note) if part),
        )
        for line in lines
    ]
    return "\n".join([*head, *(f"| {' | '.join(map(_cell, row))} |" for row in rows)])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
