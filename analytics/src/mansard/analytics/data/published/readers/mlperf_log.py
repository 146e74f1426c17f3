"""MLPerf's ``mlperf_log_summary.txt``: what its load generator found in one scenario.

A latency is a batch's only where the generator waits for each query: SingleStream and MultiStream.
In Offline and Server queries wait in a queue, and the result is samples in a second. A language
model has three times: of the query, until its first token, and of each token after it.
"""

from __future__ import annotations

import re

from mansard.analytics.data.published.cells import TextRow
from mansard.analytics.data.published.readers.reader import Reader, Reading, ToolFile, cells, known
from mansard.core.errors import InputError

_TITLE = re.compile(r"^MLPerf Results Summary\r?$", re.MULTILINE)
_LINE = re.compile(r"([^:=]{1,80}?)\s*:\s*(\S.{0,200})")
ONE_BY_ONE = ("SingleStream", "MultiStream")
_RATES = ("Samples per second", "Completed samples per second", "Scheduled samples per second")
_TOKENS = ("TPS w/o loadgen overhead", "Tokens per second", "Completed tokens per second")


def _read(source: ToolFile) -> Reading:
    found: dict[str, str] = {}
    for line in source.text.splitlines():
        if (match := _LINE.fullmatch(line.strip())) is not None:
            found.setdefault(match[1].strip(), match[2].strip())
    scenario, valid = found.get("Scenario", ""), found.get("Result is", "")
    is_performance = found.get("Mode") == "PerformanceOnly"
    if not is_performance or not scenario or not valid:
        is_other = "Mode" in found and not is_performance
        what = f"is of mode {found['Mode']}" if is_other else "is no whole summary"
        raise InputError(what, where=source.where, fix="give the one of a performance run")
    is_one = scenario in ONE_BY_ONE
    median_ns = _number(found, "50.00 percentile latency (ns)", source) if is_one else None
    p99_ns = _number(found, "99.00 percentile latency (ns)", source) if is_one else None
    first_ns = _number(found, "50.00 percentile first token latency (ns)", source)
    token_ns = _number(found, "50.00 percentile time to output token (ns)", source)
    tokens_hz = next((value for name in _TOKENS if (value := _number(found, name, source))), None)
    rate = next((value for name in _RATES if (value := _number(found, name, source))), None)
    if is_one and rate is None:
        rate = _number(found, "QPS w/o loadgen overhead", source)
    if is_one and median_ns is None:
        raise InputError("ends before its latencies", where=source.where, fix="give all of it")
    row = TextRow(
        1,
        cells(
            batch=found.get("samples_per_query") if is_one else None,
            time_s=None if median_ns is None else median_ns / 1e9,
            method=f"MLPerf {scenario}, {valid.lower()}: "
            + ("median latency of a query" if is_one else "samples in a second"),
        ),
        known(
            p99_s=None if p99_ns is None else p99_ns / 1e9,
            first_token_s=None if first_ns is None else first_ns / 1e9,
            token_s=None if token_ns is None else token_ns / 1e9,
            tokens_per_s=tokens_hz,
            **{"queries_per_s" if is_one else "samples_per_s": rate},
        ),
    )
    if rate is None and median_ns is None:
        raise InputError("has no samples per second", where=source.where, fix="give all of it")
    return Reading([row], [] if valid == "VALID" else [f"MLPerf says that it is {valid}"])


def _number(found: dict[str, str], name: str, source: ToolFile) -> float | None:
    text = found.get(name)
    if text is None:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise InputError(
            f"{name} is {text[:40]!r}", where=source.where, fix="give the file as it was written"
        ) from error


MLPERF_LOG = Reader("MLPerf's summary", lambda head: _TITLE.search(head) is not None, _read)
