"""The report of folders of runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.boards import find_modes
from mansard.api.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.analytics.report.summary import Summary


class Report(msgspec.Struct, frozen=True):
    """A report that was written. ``run_ids``: the runs that it was made for; None: all of it."""

    path: Path
    summary: Summary
    run_ids: frozenset[str] | None


def report(
    locations: Sequence[str],
    output: Path,
    *,
    mix: bool = False,
    run_ids: Collection[str] | None = None,
    modes: str | None = None,
    board: Path | None = None,
    reporter: Reporter = SILENT,
) -> Report:
    """Join what folders of runs hold, and write the report to ``output``; measures nothing.

    ``locations``: folders of runs, or merged datasets (folders or URLs). ``mix``: take together
    runs of one device by different versions, and boards that are alike. ``run_ids``: those of a
    bench; of its devices, runs that do not go with the newest are left out instead of refused.
    ``modes``: what to predict beside the modes that were measured, as ``find_modes`` takes it.
    Raises InputError, UsageError, StorageError.
    """
    from mansard.analytics.data.names import device_labels
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.report.summary import summary
    from mansard.analytics.report.write import write_report
    from mansard.analytics.results import compute

    dataset = open_runs(locations, mix=mix, newest_only=run_ids is not None)
    for line in dataset.notes:
        reporter.note(f"note: {line}")
    devices = dict.fromkeys(device_labels(dataset.manifests).values())
    wanted = [] if modes is None else [find_modes(modes, board, name)[0] for name in devices]
    results = compute(dataset, wanted)
    path = write_report(dataset, output, results)
    found = summary(dataset, results)
    for line in found.notes[len(dataset.notes) :]:
        reporter.note(f"note: {line}")
    return Report(path, found, None if run_ids is None else frozenset(run_ids))
