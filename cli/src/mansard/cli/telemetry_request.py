"""What a telemetry command asks for, checked before anything is read or run."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from mansard.core.errors import UsageError
from mansard.device.system import SYSTEM_ROOT

LIVE_INTERVAL_S = 0.1  # as fast as boards print; recorded at 9.5 lines a second
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(ms|s|min|h|)", re.ASCII)
_SECONDS = {"ms": 1e-3, "s": 1.0, "": 1.0, "min": 60.0, "h": 3600.0}


class Request(msgspec.Struct, frozen=True):
    """Logs or a running tegrastats, and what to make of them."""

    logs: tuple[Path, ...]  # empty: --live
    interval_s: float | None
    duration_s: float | None
    samples: bool
    form: str
    output: Path | None
    root: Path
    has_board: bool


def make_request(
    *,
    logs: list[Path],
    live: bool,
    interval: str | None,
    duration: str | None,
    samples: bool,
    form: str,
    output: Path | None,
    board: Path | None,
) -> Request:
    """The request that the options make; raises UsageError where they do not go together."""
    if live == bool(logs):
        what = "logs and --live exclude each other" if live else "there is nothing to read"
        raise UsageError(what, fix="name logs of tegrastats, or give --live")
    if duration is not None and not live:
        raise UsageError("--duration is for --live", fix="a log is read to its end")
    if form == "parquet" and output is None:
        raise UsageError("parquet is not for a terminal", fix="add --output lines.parquet")
    if form == "table" and output is not None:
        raise UsageError("a table is for the terminal", fix="add --format csv, json or parquet")
    for log in logs:
        if output is not None and output.exists() and log.exists() and output.samefile(log):
            raise UsageError(f"{output} is one of the logs", fix="write another file")
    interval_s = None if interval is None else parse_duration("--interval", interval)
    return Request(
        logs=tuple(Path("/dev/stdin") if str(log) == "-" else log for log in logs),
        interval_s=interval_s if logs else interval_s or LIVE_INTERVAL_S,
        duration_s=None if duration is None else parse_duration("--duration", duration),
        samples=samples or form in {"csv", "parquet"},
        form=form,
        output=output,
        root=board or SYSTEM_ROOT,
        has_board=board is not None,
    )


def parse_duration(option: str, text: str) -> float:
    """Seconds from ``100ms``, ``2s``, ``5min``, ``1h`` or a bare number; raises UsageError."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if seconds < 1e-3:
        raise UsageError(f"{option} {text!r} is no time", fix="write 100ms, 2s, 5min or 1h")
    return seconds
