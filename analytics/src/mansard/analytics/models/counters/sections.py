"""Nsight Compute's text: a heading for each launch, then the metrics of its sections.

A heading is ``kernel (2, 256, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 8.7``, that of a
summary by kernel ends in ``Invocations 3``; before 2022 it had a date instead of the grid.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from types import MappingProxyType

from mansard.analytics.models.counters.launch import Export, wanted
from mansard.analytics.models.counters.pages import Lines, Opened, export_of

_HEADING = re.compile(
    r"^\s{2,}(?P<kernel>\S.*?)"
    r"(?: (?P<grid>\(\d+, \d+, \d+\))x(?P<block>\(\d+, \d+, \d+\)))?"
    r"(?:, \d{4}-\w{3}-\d\d \d\d:\d\d:\d\d)?"
    r"(?:, Context \d+)?(?:, Stream \d+)?"
    r"(?:, Device \d+)?(?:, CC (?P<cc>\d+\.\d))?(?:, Invocations (?P<runs>\d{1,9}))?\s*$"
)
_ENDS = (", Context ", ", Device ", ", Stream ")
_ROW = re.compile(
    r"^\s{4,}(?P<name>\S.*?)\s{2,}(?:(?P<unit>[A-Za-z%][\w%/]*)\s+)?(?P<values>\S.*?)\s*$"
)
_GLUED = re.compile(
    r"^\s{4,}(?P<name>\S+(?: \S+)*?)\s+(?P<unit>[A-Za-z%][\w%/]*) "
    r"(?P<values>[\d.,]+(?:\s+[\d.,]+)*)\s*$"
)


def is_sections(lines: Sequence[str]) -> bool:
    """Whether the lines are such a text."""
    has_heading = any(_heading(line) for line in lines)
    return has_heading and any(line.strip().startswith("Metric Name ") for line in lines)


def _heading(line: str) -> re.Match[str] | None:
    return _HEADING.match(line) if any(end in line for end in _ENDS) else None


def read_sections(lines: Sequence[str], where: str) -> Export:
    """The launches of a text; raises InputError. Of a summary the mean, its last column, counts."""
    heads = [(number, found) for number, line in enumerate(lines) if (found := _heading(line))]
    starts = [number for number, _ in heads] + [len(lines)]
    launches = [
        Opened(
            line=number + 1,
            cells={column: found[name] or "" for column, name in _CELLS.items()},
            texts=_metrics(lines[number + 1 : end], number + 2),
        )
        for (number, found), (_, end) in zip(heads, pairwise(starts), strict=True)
    ]
    notes = [] if any(each.texts for each in launches) else ["none of its metrics is used"]
    whole = Lines(where, (), (), cut=False, skipped=0)
    return export_of("text of sections", whole, launches, notes, has_units=True)


_CELLS = MappingProxyType(
    {
        "Kernel Name": "kernel",
        "Grid Size": "grid",
        "Block Size": "block",
        "CC": "cc",
        "Invocations": "runs",
    }
)


def _metrics(body: Sequence[str], first: int) -> dict[str, tuple[str, str, int]]:
    """Number, unit and line of each metric that is used; the last number of a row."""
    found: dict[str, tuple[str, str, int]] = {}
    for number, line in enumerate(body, first):
        row = _GLUED.match(line) or _ROW.match(line)
        metric = wanted(row["name"].strip()) if row else None
        if row and metric:
            found.setdefault(metric, (row["values"].split()[-1], row["unit"] or "", number))
    return found
