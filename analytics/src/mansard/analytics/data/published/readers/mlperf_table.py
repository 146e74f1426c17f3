"""Tables of MLPerf's results: a row for each system, network and scenario.

Their columns say what they are: either a result with its unit, as MLCommons publishes them, or
rates and latencies of their own. The power is of the wall: of the whole system.
"""

from __future__ import annotations

import re

from mansard.analytics.data.published.cells import TextRow
from mansard.analytics.data.published.readers.csv_rows import CsvRow, header_of, number, read_csv
from mansard.analytics.data.published.readers.mlperf_log import ONE_BY_ONE
from mansard.analytics.data.published.readers.reader import (
    MOST_RUNS,
    Reader,
    Reading,
    ToolFile,
    at_most,
    cells,
    known,
)
from mansard.core.errors import InputError

_NAMES = {
    "system": ("system", "systemname", "system name", "platform"),
    "network": ("model", "benchmark", "mlperfmodel"),
    "scenario": ("scenario",),
    "valid": ("valid", "result is"),
    "result": ("result",),
    "unit": ("units", "unit", "performance_units", "result_unit"),
    "rate": ("samples_per_sec", "samples per second", "samples/s"),
    "median_ns": ("median_latency_ns", "50.00 percentile latency (ns)"),
    "p99_ns": ("p99_latency_ns", "99.00 percentile latency (ns)"),
    "watts": ("avg_watts", "watts", "average power (w)"),
}
_WALL = "wall power of the whole system, not of the module"
_UNITS = re.compile(
    r"(?P<rate>(?P<what>samples|queries|tokens)/s)|(?P<ms>latency \(ms\)|ms)|(?P<watts>watts)",
    re.IGNORECASE,
)


def _columns(header: list[str]) -> dict[str, str]:
    """The columns that are understood, by what they are."""
    plain = {name.casefold(): name for name in reversed(header)}
    return {
        field: next(plain[name] for name in names if name in plain)
        for field, names in _NAMES.items()
        if any(name in plain for name in names)
    }


def _read(source: ToolFile) -> Reading:
    columns = _columns(header_of(source.head))
    rows: list[TextRow] = []
    n_empty = n_invalid = 0
    for row in at_most(read_csv(source, "MLPerf", is_log=False), MOST_RUNS, "results", source):
        text = {field: row.cells[name] for field, name in columns.items()}
        if text.get("valid", "VALID").upper() not in {"VALID", "", "TRUE"}:
            n_invalid += 1
            continue
        if (found := _row(row, text, columns, source)) is None:
            n_empty += 1
        else:
            rows.append(found)
    if not rows:
        raise InputError("holds no valid result", where=source.where, fix="give another table")
    notes = [f"{n_empty} rows have no result of their scenario"] * bool(n_empty)
    return Reading(rows, [*notes, *[f"{n_invalid} results are not valid"] * bool(n_invalid)])


def _row(
    row: CsvRow, text: dict[str, str], columns: dict[str, str], source: ToolFile
) -> TextRow | None:
    """One result; None where the row has none of its scenario."""
    scenario = text["scenario"]
    is_one = scenario.replace(" ", "") in ONE_BY_ONE

    def value(field: str) -> float | None:
        return number(row, columns[field], source) if field in columns else None

    median_ns, p99_ns, watts = value("median_ns"), value("p99_ns"), value("watts")
    rate, what, p90_ms = value("rate"), "samples", None
    unit = _UNITS.match(text.get("unit", "").strip())
    if unit is not None and (result := value("result")) is not None:
        if unit["rate"]:
            rate, what = result, unit["what"].lower()
        elif unit["ms"]:
            p90_ms = result  # the ninetieth percentile is what MLPerf calls the latency
        else:
            watts = result
    time_s = median_ns / 1e9 if is_one and median_ns else None
    figures = {} if rate is None else known(**{f"{what}_per_s": rate})
    if is_one:
        figures |= known(
            p99_s=None if p99_ns is None else p99_ns / 1e9,
            p90_s=None if p90_ms is None else p90_ms / 1e3,
        )
    if time_s is None and not figures and watts is None:
        return None
    return TextRow(
        row.line,
        cells(
            system=text.get("system"),
            network=text["network"],
            batch="1" if scenario.replace(" ", "") == "SingleStream" else None,
            time_s=time_s,
            power_w=watts,
            remark=_WALL if watts else None,
            method=f"MLPerf {scenario}" + (": median latency of a query" if time_s else ""),
            repeat=f"{scenario} {row.line}",
        ),
        figures,
    )


def _recognise(head: str) -> bool:
    columns = _columns(header_of(head))
    has_result = {"result", "unit"} <= set(columns) or {"rate", "median_ns"} & set(columns)
    return {"system", "network", "scenario"} <= set(columns) and bool(has_result)


MLPERF_TABLE = Reader("MLPerf's results", _recognise, _read)
