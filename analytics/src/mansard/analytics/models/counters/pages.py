"""What Nsight Compute exports: the raw page, the details page, the summary by kernel, and text.

The raw page (``--csv --page raw``) has a row for each launch and a column for each metric, with the
units in the second row, or in the header where the GUI wrote it. The details page (``--csv``) and a
summary (``--print-summary per-kernel``) have a row for each metric of a launch, with its unit. A
table that a person made of a raw page has neither units nor, at times, the kernels' names.

Text has a heading for each launch, then the metrics of its sections. A heading is ``kernel (2, 256,
1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 8.7``. A summary by kernel ends its headings with
``Invocations 3``. Before 2022 a heading had a date instead of the grid.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

from mansard.analytics.models.counters.launch import (
    METRIC_NAME,
    Export,
    ProfiledLaunch,
    base_factor,
    capability,
    half_step,
    has_decimal_comma,
    is_rate,
    parse_number,
    triple,
    unit_factor,
    wanted,
)
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
    """Whether the lines are such a text; before 2022 its sections had no head."""
    has_heading = any(_heading(line) for line in lines)
    marks = ("Metric Name ", "Section: ")
    return has_heading and any(line.strip().startswith(marks) for line in lines)


def _heading(line: str) -> re.Match[str] | None:
    return _HEADING.match(line) if any(end in line for end in _ENDS) else None


def read_sections(lines: Sequence[str], where: str) -> Export:
    """The launches of a text; raises InputError. Of a summary the mean, its last column, counts."""
    is_cut = not lines[-1].endswith(("\n", "\r")) and bool(_metrics(lines[-1:], len(lines)))
    lines = lines[:-1] if is_cut else lines
    heads = [(number, heading) for number, line in enumerate(lines) if (heading := _heading(line))]
    starts = [number for number, _ in heads] + [len(lines)]
    launches = [
        OpenLaunch(
            line=number + 1,
            cells={column: heading[name] or "" for column, name in _CELLS.items()},
            texts=_metrics(lines[number + 1 : end], number + 2),
        )
        for (number, heading), (_, end) in zip(heads, pairwise(starts), strict=True)
    ]
    notes = [] if any(launch.texts for launch in launches) else ["none of its metrics is used"]
    if is_cut:
        notes.append("ends in the middle of a line: it was left out")
    whole = TableRows(where, (), (), cut=False, skipped=0)
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
    metrics: dict[str, tuple[str, str, int]] = {}
    for number, line in enumerate(body, first):
        row = _GLUED.match(line) or _ROW.match(line)
        metric = wanted(row["name"].strip(), row["unit"] or "") if row else None
        if row and metric:
            metrics.setdefault(metric, (row["values"].split()[-1], row["unit"] or "", number))
    return metrics


KERNEL = "Kernel Name"
METRIC = "Metric Name"
ALL_KERNELS = "all kernels"
TABLE = "number of the table"  # a column of ours, in files that hold several


@dataclass(frozen=True)
class TableRows:
    """The rows of a CSV file after its header, with the line at which each ends.

    ``cut``: whether the last row is incomplete. ``skipped``: the number of lines that are not rows.
    ``units``: by column, from the header. ``has_comma``: whether an ambiguous number has a decimal
    comma. ``n_tables``: the number of tables with this header, one after the other.
    """

    where: str
    header: tuple[str, ...]
    rows: Sequence[tuple[int, list[str]]]
    cut: bool
    skipped: int
    units: Mapping[str, str] = field(default_factory=dict)
    has_comma: bool = False
    n_tables: int = 1

    def dicts(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Rows by column; the columns that a short row lacks are empty."""
        for line, cells in self.rows:
            yield line, dict(zip(self.header, cells + [""] * len(self.header), strict=False))


@dataclass
class OpenLaunch:
    """A launch whose rows are being gathered; ``texts``: number, unit and line of each metric."""

    line: int
    cells: Mapping[str, str]
    texts: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)


def read_raw(lines: TableRows) -> Export:
    """The raw page, or a table of metrics without names: a launch for each row; raises InputError.

    A launch without a name is called by the columns that are not metrics: ``N=8, cin=512``.
    """
    columns = _metric_columns(lines.header)
    has_names = KERNEL in lines.header
    others = [n for n in lines.header if n != TABLE and not METRIC_NAME.fullmatch(n)][:4]
    units, rows = _units(lines, columns)
    lacking = " nor ".join(
        what for what, has in (("kernels' names", has_names), ("units", bool(units))) if not has
    )
    notes = [f"has no {lacking}"] if lacking else []
    if not units:
        notes = [f"{notes[0]}: numbers are taken to be in base units (ns, byte, hz)"]
    launches = []
    for line, cells in rows:
        texts = {
            metric: (cells[name], units.get(name, ""), line) for name, metric in columns.items()
        }
        identity = ", ".join(f"{name or 'row'}={cells[name]}" for name in others)
        name = {} if has_names else {KERNEL: identity or f"line {line}"}
        launches.append(OpenLaunch(line, {**cells, **name}, texts))
    has_metrics = any(METRIC_NAME.fullmatch(name) for name in lines.header)
    named = "raw page" if has_metrics else "table of labels"  # the GUI's summary
    form = named if has_names else "table of metrics"
    return export_of(form, lines, launches, notes, has_units=bool(units))


def _metric_columns(header: Sequence[str]) -> dict[str, str]:
    """The metrics of columns. A metric's own column comes before that of its label."""
    columns = {name: metric for name in header if (metric := wanted(name))}
    return {
        name: metric for name, metric in columns.items() if name == metric or metric not in header
    }


def _units(
    lines: TableRows, columns: Mapping[str, str]
) -> tuple[Mapping[str, str], list[tuple[int, dict[str, str]]]]:
    """The units by column, from the header and the first row, and the rows after them."""
    rows = list(lines.dicts())
    first = rows[0][1] if rows else {}
    if KERNEL in lines.header:
        are_units = bool(rows) and not first[KERNEL].strip()
    else:
        cells = [first[name].strip() for name in columns if first]
        are_units = any(cells) and all(unit_factor(cell) is not None for cell in cells)
    if not are_units:
        return lines.units, rows
    rows = rows[1:]
    if lines.n_tables > 1:  # each has a units row
        rows = [(line, cells) for line, cells in rows if {**cells, TABLE: ""} != first]
    return {**lines.units, **{name: unit for name, unit in first.items() if unit}}, rows


def read_details(lines: TableRows) -> Export:
    """The details page: a launch for each ID of a process; raises InputError."""
    return _gathered("details page", lines, "Metric Value", ("Process ID", "ID"))


def read_summary(lines: TableRows) -> Export:
    """The summary by kernel: the mean of the launches of each kernel with one grid and block.

    A summary by device (``--print-summary per-gpu``) has no kernels; one by range has both names.
    """
    head = lines.header[: lines.header.index(METRIC)]
    key = [name for name in head if name != "Section Name"]
    form = "summary by kernel" if KERNEL in head else "summary by device"
    return _gathered(form, lines, "Average", key)


def _gathered(form: str, lines: TableRows, value: str, key: Sequence[str]) -> Export:
    launches_by_key: dict[tuple[str, ...], OpenLaunch] = {}
    for line, cells in lines.dicts():
        open_launch = launches_by_key.setdefault(
            tuple(cells.get(name, "") for name in (*key, TABLE)), OpenLaunch(line, cells)
        )
        name = cells[METRIC].strip()  # empty in rows that hold only what a rule says
        if name:
            open_launch.seen.add(name)
        unit = cells.get("Metric Unit", "").strip()
        metric = wanted(name, unit)
        if metric is not None:
            open_launch.texts.setdefault(metric, (cells.get(value, ""), unit, line))
    launches = list(launches_by_key.values())
    notes = []
    if len(launches) > 1:
        usual = set.intersection(*(launch.seen for launch in launches[:-1]))
        if lacking := usual - launches[-1].seen:
            notes.append(
                f"its last launch lacks {len(lacking)} of the metrics that all others have: the "
                "file may be cut"
            )
    return export_of(form, lines, launches, notes, has_units=True)


def export_of(
    form: str, lines: TableRows, opened: Sequence[OpenLaunch], notes: list[str], *, has_units: bool
) -> Export:
    """The launches with their numbers in SI; raises InputError for what is none."""
    texts = (text for launch in opened for text, _, _ in launch.texts.values())
    comma = has_decimal_comma(texts, lines.where, whole=_whole(opened), usual=lines.has_comma)
    launches = [_launch(launch, lines.where, comma=comma, has_units=has_units) for launch in opened]
    if lines.n_tables > 1:
        notes.append(f"holds {lines.n_tables} tables, one after the other")
    for column, what in (("Process ID", "processes"), ("Device", "devices")):
        if (n := len({launch.cells.get(column) for launch in opened})) > 1:
            notes.append(f"holds launches of {n} {what}")
    if lines.cut:
        notes.append(
            f"ends in the middle of a row: it was left out, and {len(launches)} launches were kept"
        )
    if lines.skipped:
        notes.append(f"lines that are no rows of the table were left out: {lines.skipped}")
    if not launches:
        raise InputError("holds no kernel launch", where=lines.where, fix="export the whole report")
    return Export(form, tuple(launches), tuple(notes))


_WHOLE_UNITS = frozenset({"inst", "sector", "byte", "cycle", "ns", "nsecond"})


def _whole(opened: Sequence[OpenLaunch]) -> Iterator[str]:
    """Numbers without a fraction: sums of counts in base units, of single launches."""
    for launch in opened:
        if launch.cells.get("Invocations"):
            continue
        for metric, (text, unit, _) in launch.texts.items():
            if metric.endswith(".sum") and unit.strip() in _WHOLE_UNITS:
                yield text


def _launch(opened: OpenLaunch, where: str, *, comma: bool, has_units: bool) -> ProfiledLaunch:
    metrics: dict[str, float] = {}
    steps: dict[str, float] = {}
    for metric, (text, unit, line) in opened.texts.items():
        try:
            value = parse_number(text, comma=comma)
        except ValueError:
            raise InputError(
                f"line {line}: {metric} is {text[:40]!r}, which is not a count",
                where=where,
                fix="remove the row, or export it again",
            ) from None
        unit_text = unit.strip() if has_units else ""
        factor = unit_factor(unit_text) if unit_text else base_factor(metric)
        if factor is None:
            raise InputError(
                f"line {line}: {metric} is in {unit[:40]!r}, an unknown unit",
                where=where,
                fix="export it with --print-units base",
            )
        if value is not None:
            metrics[metric] = value * factor
            if is_rate(metric):
                steps[metric] = half_step(text, value, comma=comma)
    cells = opened.cells
    return ProfiledLaunch(
        line=opened.line,
        kernel=_kernel_name(cells),
        metrics=metrics,
        n_launches=_count(cells.get("Invocations") or "1", opened.line, where),
        grid=triple(cells.get("Grid Size", "")),
        block=triple(cells.get("Block Size", "")),
        compute_capability=capability(cells.get("CC", "")),
        nvtx=_ranges(cells),
        steps=steps,
    )


def _kernel_name(cells: Mapping[str, str]) -> str:
    name = cells.get(KERNEL, ALL_KERNELS).strip() or cells.get("Function Name", "").strip()
    return name or "(no name)"


def _count(text: str, line: int, where: str) -> int:
    bare = text.replace(",", "").strip()
    if not re.fullmatch("[0-9]{1,9}", bare) or not int(bare):
        raise InputError(
            f"line {line}: {text[:40]!r} invocations", where=where, fix="export it again"
        )
    return int(bare)


_RANGES = ("Push/Pop_Range", "Start/Stop_Range")  # in the columns' names, with --nvtx
_RANGE = re.compile(r'"([^"]*)"')
_RANGE_FIELDS = 6  # after a range's name: payload, colour, and kinds of both and of the message


def _ranges(cells: Mapping[str, str]) -> tuple[str, ...] | None:
    """The NVTX ranges around a launch, outermost first; None where the export has none.

    A cell is ``7  "<default domain>:outer:none:none:…"  "<default domain>:inner:none:none:…"``.
    """
    names = [name for name in cells if any(part in name for part in _RANGES)]
    if not names:
        return None
    return tuple(
        said
        for name in names
        for range_text in _RANGE.findall(cells[name])
        if (said := _range_name(range_text))
    )


def _range_name(text: str) -> str:
    parts = text.split(":")
    name = parts[1:-_RANGE_FIELDS] if len(parts) > _RANGE_FIELDS + 1 else parts[1:2]
    return ":".join(name).strip()


def is_metric_table(header: Sequence[str]) -> bool:
    """Whether a header has metrics, but no names of kernels."""
    return KERNEL not in header and sum(wanted(name) is not None for name in header) >= 2


def is_summary(header: Sequence[str]) -> bool:
    """Whether a header is a summary's: it has metrics and their averages."""
    return METRIC in header and "Average" in header


def twice(header: Sequence[str]) -> str | None:
    """A column that stands in a header more than once, if it is one that is read."""
    counted = Counter(header)
    known = {KERNEL, METRIC, "Metric Value", "Average", "ID"}
    return next((n for n, k in counted.items() if k > 1 and (n in known or wanted(n))), None)
