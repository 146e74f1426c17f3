"""What ``mansard measure -- COMMAND`` prints: a program's time and energy in each mode."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from mansard import api
from mansard.cli.console import note, print_json
from mansard.cli.tables import plain, print_table

_N_FOR_INTERVAL = 6  # runs below which there is no interval at 95 %


def print_programs(result: api.ProgramResult, *, as_json: bool) -> None:
    """Print what was measured; raises the error of what was not."""
    if as_json:
        print_json(
            [
                {"mode": one.manifest.mode_read_back, "run": one.run, "summary": one.summary}
                for one in result.measured
            ]
        )
    else:
        with contextlib.redirect_stdout(sys.stderr):
            _print_tables(result.measured)
    result.check()


def _print_tables(measured: Sequence[api.MeasuredProgram]) -> None:
    if not measured:
        return
    columns = ["mode", "runs", "time", "CPU time", "energy", "power", "peak", "memory"]
    has_metric = any(one.summary.metric is not None for one in measured)
    rows = []
    for one in measured:
        found = one.summary
        row = [
            one.manifest.mode_read_back.name,
            str(found.n_runs),
            _median(found.time_s, api.seconds),
            api.seconds(found.cpu_s.value),
            _median(found.energy_j, api.joules),
            api.watts(found.power_w.value if found.power_w else None),
            api.watts(found.peak_w),
            _mebibytes(found.peak_memory_bytes),
        ]
        rows.append([*row, *([_median(found.metric, api.fixed)] if has_metric else [])])
    title = measured[0].run.workload
    _print(title, [*columns, *(["metric"] if has_metric else [])], rows)
    windows = [
        [
            one.manifest.mode_read_back.name,
            window.name,
            api.digits(window.n_per_run),
            _median(window.time_s, api.seconds),
            _median(window.energy_j, api.joules),
        ]
        for one in measured
        for window in one.summary.windows
    ]
    if windows:
        columns = ["mode", "window", "in each run", "time of one", "energy of one"]
        _print(f"Windows of {title}", columns, windows)
    for one in measured:
        _note_doubts(one)


def _note_doubts(one: api.MeasuredProgram) -> None:
    mode, found = one.manifest.mode_read_back.name, one.summary
    for why in one.run.disturbances:
        note(f"{mode}: disturbed: {why}")
    conditions = one.run.conditions
    if conditions.n_throttle_events:
        note(f"{mode}: throttled {conditions.n_throttle_events} times while it ran")
    if found.energy_j is None:
        note(f"{mode}: no energy: {found.unknown.get('energy') or found.unknown.get('total_j')}")
    if one.run.stability == "unstable":
        interval = f"±{plain(api.relative(one.run.stability_interval))}"
        why = one.run.unknown.get("stability_interval", interval)
        more = max(_N_FOR_INTERVAL, 2 * found.n_runs if found.n_runs >= _N_FOR_INTERVAL else 0)
        note(f"{mode}: the time is not known well: {why}; --repeat {more} would help")


def _print(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_table(plain(title), columns, [tuple(map(plain, row)) for row in rows])


def _median(found: api.Median | None, words: Any) -> str:
    if found is None:
        return "unknown"
    arguments = [""] if words is api.fixed else []
    return str(words(found.value, *arguments, found.low, found.high)).strip()


def _mebibytes(size: int | None) -> str:
    return "unknown" if size is None else f"{api.digits(size / 2**20, 3)} MiB"
