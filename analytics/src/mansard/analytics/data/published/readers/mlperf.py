"""MLPerf's results: the summary or the detailed log of one scenario, and tables of systems.

In ``mlperf_log_summary.txt`` a latency is a batch's only where the generator waits for each query:
SingleStream and MultiStream. In Offline and Server queries wait in a queue, and the result is
samples in a second. A language model has three times: of the query, until its first token, and of
each token after it.

Tables have a row for each system, network and scenario. Their columns say what they are: either a
result with its unit, as MLCommons publishes them, or rates and latencies of their own. The power is
of the wall: of the whole system.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import msgspec

from mansard.analytics.data.published.cells import TextRow
from mansard.analytics.data.published.readers.reader import (
    MOST_RUNS,
    MOST_TOOL_BYTES,
    CsvRow,
    Reader,
    ToolFile,
    ToolReading,
    at_most,
    cells,
    header_of,
    known,
    number,
    parse_json,
    read_csv,
)
from mansard.core.errors import InputError

_TITLE = re.compile(r"^MLPerf Results Summary\r?$", re.MULTILINE)
_LINE = re.compile(r"([^:=]{1,80}?)\s*:\s*(\S.{0,200})")
ONE_BY_ONE = ("SingleStream", "MultiStream")
_RATES = ("Samples per second", "Completed samples per second", "Scheduled samples per second")
_TOKENS = ("TPS w/o loadgen overhead", "Tokens per second", "Completed tokens per second")


def _read_summary(source: ToolFile) -> ToolReading:
    fields: dict[str, str] = {}
    for line in source.text.splitlines():
        if (match := _LINE.fullmatch(line.strip())) is not None:
            fields.setdefault(match[1].strip(), match[2].strip())
    return _performance(fields, source)


def _performance(fields: dict[str, str], source: ToolFile) -> ToolReading:
    """The run that a summary's lines describe; raises InputError where it is none."""
    scenario, valid = fields.get("Scenario", ""), fields.get("Result is", "")
    is_performance = fields.get("Mode") == "PerformanceOnly"
    if not is_performance or not scenario or not valid:
        is_other = "Mode" in fields and not is_performance
        what = f"is of mode {fields['Mode']}" if is_other else "is not a whole summary"
        raise InputError(what, where=source.where, fix="give the one of a performance run")
    is_one = scenario in ONE_BY_ONE
    median_ns = _number(fields, "50.00 percentile latency (ns)", source) if is_one else None
    p99_ns = _number(fields, "99.00 percentile latency (ns)", source) if is_one else None
    tokens_hz = next((value for name in _TOKENS if (value := _number(fields, name, source))), None)
    rate = next((value for name in _RATES if (value := _number(fields, name, source))), None)
    if is_one and rate is None:
        rate = _number(fields, "QPS w/o loadgen overhead", source)
    if is_one and median_ns is None:
        raise InputError("ends before its latencies", where=source.where, fix="give all of it")
    row = TextRow(
        1,
        cells(
            batch=fields.get("samples_per_query") if is_one else None,
            time_s=None if median_ns is None else median_ns / 1e9,
            method=f"MLPerf {scenario}, {valid.lower()}: "
            + ("median latency of a query" if is_one else "samples in a second"),
        ),
        known(
            p99_s=None if p99_ns is None else p99_ns / 1e9,
            tokens_per_s=tokens_hz,
            **{"queries_per_s" if is_one else "samples_per_s": rate},
            **dict(_latencies(fields, source, is_one)),
        ),
    )
    if rate is None and median_ns is None:
        raise InputError("has no samples per second", where=source.where, fix="give all of it")
    return ToolReading([row], [] if valid == "VALID" else [f"MLPerf says that it is {valid}"])


_PARTS = (("first_token", "First Token latency"), ("token", "Time to Output Token"))


def _latencies(
    fields: dict[str, str], source: ToolFile, is_one: bool
) -> Iterator[tuple[str, float | None]]:
    """Figures of a language model's times in seconds: mean, and 50th, 90th and 99th percentile.

    ``first_token_s`` and ``token_s`` are the medians, as of every other tool.
    """

    def seconds(name: str) -> float | None:
        value = _number(fields, f"{name} (ns)", source)
        return None if value is None else value / 1e9

    if is_one:
        yield "mean_s", seconds("Mean latency")
        yield "p90_s", seconds("90.00 percentile latency")
    for figure, words in _PARTS:
        plain = words.lower()
        yield f"{figure}_s", seconds(f"50.00 percentile {plain}")
        yield f"{figure}_mean_s", seconds(f"Mean {words}")
        for percent in (50, 90, 99):
            yield f"{figure}_p{percent}_s", seconds(f"{percent}.00 percentile {plain}")


def _number(fields: dict[str, str], name: str, source: ToolFile) -> float | None:
    text = fields.get(name)
    if text is None:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise InputError(
            f"{name} is {text[:40]!r}", where=source.where, fix="give the file as it was written"
        ) from error


# Keys of ``mlperf_log_detail.txt`` by the summary's lines; loadgen writes both.
_DETAILS = MappingProxyType(
    {
        "effective_scenario": "Scenario",
        "effective_test_mode": "Mode",
        "result_validity": "Result is",
        "effective_samples_per_query": "samples_per_query",
        "result_samples_per_second": "Samples per second",
        "result_completed_samples_per_sec": "Completed samples per second",
        "result_scheduled_samples_per_sec": "Scheduled samples per second",
        "result_qps_without_loadgen_overhead": "QPS w/o loadgen overhead",
        "result_tokens_per_second": "Tokens per second",
        "result_completed_tokens_per_second": "Completed tokens per second",
        "result_mean_latency_ns": "Mean latency (ns)",
        "result_first_token_mean_latency_ns": "Mean First Token latency (ns)",
        "result_time_to_output_token_mean": "Mean Time to Output Token (ns)",
    }
)
_DETAIL = re.compile(
    r"result_(?P<first>first_token_)?(?P<token>time_per_output_token_)?(?P<percent>[0-9.]+)"
    r"_percentile(?:_latency)?_ns"
)
_MARK = ":::MLLOG "


class _Detailed(msgspec.Struct):
    key: str
    value: Any = None


def _read_detail(source: ToolFile) -> ToolReading:
    fields: dict[str, str] = {}
    for n, line in enumerate(source.text.splitlines(), start=1):
        if line.startswith(_MARK):
            part = ToolFile(f"{source.where}, line {n}", line.removeprefix(_MARK).encode())
            entry = parse_json(part, _Detailed, "MLPerf")
            if (name := _line_of(entry.key)) is not None:
                fields[name] = str(entry.value)
    return _performance(fields, source)


def _line_of(key: str) -> str | None:
    """The summary's name of a key of the detailed log; None for any other key."""
    if (match := _DETAIL.fullmatch(key)) is None:
        return _DETAILS.get(key)
    what = "latency"
    if match["first"]:
        what = "first token latency"
    elif match["token"]:
        what = "time to output token"
    return f"{match['percent']} percentile {what} (ns)"


MLPERF_DETAIL = Reader(
    "MLPerf's detailed log",
    lambda head: head.startswith(_MARK) and '"key"' in head,
    _read_detail,
    MOST_TOOL_BYTES,
)
MLPERF_LOG = Reader("MLPerf's summary", lambda head: _TITLE.search(head) is not None, _read_summary)


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


def _read_table(source: ToolFile) -> ToolReading:
    columns = _columns(header_of(source.head))
    rows: list[TextRow] = []
    n_empty = n_invalid = 0
    for row in at_most(read_csv(source, "MLPerf", is_log=False), MOST_RUNS, "results", source):
        text = {field: row.cells[name] for field, name in columns.items()}
        if text.get("valid", "VALID").upper() not in {"VALID", "", "TRUE"}:
            n_invalid += 1
            continue
        if (read := _row(row, text, columns, source)) is None:
            n_empty += 1
        else:
            rows.append(read)
    if not rows:
        raise InputError("holds no valid result", where=source.where, fix="give another table")
    notes = [f"{n_empty} rows have no result of their scenario"] * bool(n_empty)
    return ToolReading(rows, [*notes, *[f"{n_invalid} results are not valid"] * bool(n_invalid)])


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


def _is_table(head: str) -> bool:
    columns = _columns(header_of(head))
    has_result = {"result", "unit"} <= set(columns) or {"rate", "median_ns"} & set(columns)
    return {"system", "network", "scenario"} <= set(columns) and bool(has_result)


MLPERF_TABLE = Reader("MLPerf's results", _is_table, _read_table)
