"""Nsight Compute's text: a heading for each launch, then the metrics of its sections.

A heading is ``kernel (2, 256, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 8.7``, that of a
summary by kernel ends in ``Invocations 3``; before 2022 it had a date instead of the grid.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from mansard.analytics.counters.cells import (
    capability,
    has_decimal_comma,
    parse_number,
    triple,
    unit_factor,
)
from mansard.analytics.counters.launch import Export, Launch, wanted
from mansard.core.errors import InputError

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
    bodies = [lines[at + 1 : end] for at, end in pairwise(starts)]
    texts = [_metrics(body) for body in bodies]
    comma = has_decimal_comma((value for each in texts for _, value, _ in each.values()), where)
    launches = []
    for (number, found), own in zip(heads, texts, strict=True):
        metrics = {}
        for metric, (unit, text, line) in own.items():
            try:
                value, factor = parse_number(text, comma=comma), unit_factor(unit)
            except ValueError:
                value, factor = None, None
            if factor is None:
                raise InputError(
                    f"line {number + 2 + line}: {metric} is no count: {text[:40]!r} {unit[:20]!r}",
                    where=where,
                    fix="export it as --csv --page raw",
                )
            if value is not None:
                metrics[metric] = value * factor
        launches.append(
            Launch(
                line=number + 1,
                kernel=found["kernel"],
                metrics=metrics,
                n_launches=int(found["runs"] or 1) or 1,
                grid=triple(found["grid"] or ""),
                block=triple(found["block"] or ""),
                compute_capability=capability(found["cc"] or ""),
            )
        )
    notes = [] if any(each.metrics for each in launches) else ["none of its metrics is used"]
    return Export("text of sections", tuple(launches), tuple(notes))


def _metrics(body: Sequence[str]) -> dict[str, tuple[str, str, int]]:
    """Unit, number and line of each metric that is used; the last number of a row."""
    found: dict[str, tuple[str, str, int]] = {}
    for number, line in enumerate(body):
        row = _GLUED.match(line) or _ROW.match(line)
        metric = wanted(row["name"].strip()) if row else None
        if row and metric:
            found.setdefault(metric, (row["unit"] or "", row["values"].split()[-1], number))
    return found
