"""Several networks at once, in stages on several devices: mappings that are given, or drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.profiler_files import write_profiler_files
from mansard.core.errors import MansardError, MeasurementError
from mansard.core.jsonl import read_rows
from mansard.core.records import ModelScore, MultiRun
from mansard.inference.multi.trial import MULTI
from mansard.sweeps.mappings import MultiRequest, draw_mappings, sweep_mappings
from mansard.sweeps.modes import begun, rows_of
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.inference.multi.drawing import Drawing
    from mansard.inference.multi.mappings import Mapping


class MeasuredMulti(msgspec.Struct, frozen=True):
    """A row, and the mode that it was measured in."""

    machine: str
    mode: str
    row: MultiRun


class MultiResult(msgspec.Struct, frozen=True):
    """What ran, now or before, and what could not be measured."""

    rows: tuple[MeasuredMulti, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, or name the mappings that could not be run."""
        if self.failure is not None:
            raise self.failure
        failed = [found.row for found in self.rows if found.row.failure is not None]
        if failed:
            raise MeasurementError(
                f"{len(failed)} of {len(self.rows)} mappings could not be run; the first: "
                f"{failed[0].failure}",
                fix="to try one again, move the folder of its run away",
            )


def run_mappings(
    request: MultiRequest, mappings: Sequence[Mapping], reporter: Reporter = SILENT
) -> MultiResult:
    """Run each of ``mappings`` in each mode, and keep every row in ``request.runs``.

    Mappings of the same networks that follow one another share their files and a run of each mode;
    the files are removed after it. What was measured before, or comes twice, is not measured
    again. Raises UsageError for a mapping that nothing could run, and any MansardError that keeps
    everything from being measured.
    """
    swept = sweep_mappings(request, mappings, reporter)
    rows = tuple(
        MeasuredMulti(manifest.machine.name, manifest.mode_read_back.name, row)
        for manifest, row in sorted(rows_of(request.runs, swept.run_ids, MULTI), key=begun)
    )
    return MultiResult(rows, swept.failure)


def run_drawn(
    request: MultiRequest,
    models: Sequence[str],
    devices: Sequence[str],
    drawing: Drawing,
    reporter: Reporter = SILENT,
    *,
    has_seed_per_mode: bool = False,
) -> MultiResult:
    """Draw mappings of ``models`` on ``devices``, and run them as ``run_mappings``.

    ``has_seed_per_mode``: the seed of each mode is that of ``drawing`` and its name; else all modes
    have the same mappings. Raises UsageError for numbers that cannot be.
    """
    drawn = draw_mappings(
        request, models, devices, drawing, reporter, has_seed_per_mode=has_seed_per_mode
    )
    results = [run_mappings(of_mode, mappings, reporter) for of_mode, mappings in drawn]
    failure = next((result.failure for result in results if result.failure is not None), None)
    return MultiResult(tuple(row for result in results for row in result.rows), failure)


def write_run_files(
    result: MultiResult, runs: Path, folder: Path, *, replaces: bool = False
) -> tuple[Path, ...]:
    """Write what ran into ``folder`` as NN-Profiler does, a file of each row; returns their paths.

    ``runs``: the folder of runs, for the networks' scores. A file that Mansard did not write raises
    UsageError unless it ``replaces``. Raises StorageError.
    """
    from mansard.analytics.pages.report.nn_profiler_runs import run_files

    rows = [(each.machine, each.mode, each.row) for each in result.rows]
    files = run_files(rows, read_rows(runs / "scores.jsonl", ModelScore, runs).rows)
    return write_profiler_files(files, folder, replaces=replaces)
