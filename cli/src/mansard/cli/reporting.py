"""From a folder of runs to the report and the table on the terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from mansard.cli.console import note, path_text, print_json, print_table
from mansard.cli.mode_choice import wanted_modes
from mansard.cli.summary_tables import summary_tables

MOST_ROWS = 1000  # of a table: more of them nobody reads, and a terminal takes minutes


def report_runs(
    places: Sequence[str],
    report_path: Path,
    *,
    as_json: bool,
    mix: bool = False,
    run_ids: Collection[str] | None = None,
    modes: str | None = None,
    board: Path | None = None,
) -> None:
    """Join what ``places`` hold, write the report, and print its summary.

    The report and ``--json`` show every run; the tables only ``run_ids``, those of a bench: of its
    devices, runs that do not go with the newest are left out instead of refused. ``modes``: what
    to predict beside the modes that were measured, see ``mode_choice.wanted_modes``.
    """
    from mansard.analytics.data.names import device_labels
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.report.summary import summary
    from mansard.analytics.report.write import write_report
    from mansard.analytics.results import compute

    dataset = open_runs(places, mix=mix, newest_only=run_ids is not None)
    for line in dataset.notes:
        note(f"note: {line}")
    devices = dict.fromkeys(device_labels(dataset.manifests).values())
    wanted = [] if modes is None else [wanted_modes(modes, board, name)[0] for name in devices]
    results = compute(dataset, wanted)
    path = write_report(dataset, report_path, results)
    found = summary(dataset, results)
    for line in found.notes[len(dataset.notes) :]:
        note(f"note: {line}")
    if as_json:
        print_json({"report": path_text(path), "summary": found})
        return
    for title, columns, rows in summary_tables(found, run_ids):
        print_table(title, columns, rows[:MOST_ROWS])
        if len(rows) > MOST_ROWS:
            note(f"note: the first {MOST_ROWS} of {len(rows):,} rows; --json prints all of them")
    print(f"report: {path}")  # noqa: T201 - this line is the command's data
