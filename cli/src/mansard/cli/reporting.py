"""From a folder of runs to the report and the table on the terminal."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from mansard.cli.console import note, path_text, print_json, print_table
from mansard.cli.summary_tables import summary_tables


def report_runs(
    runs: Path,
    report_path: Path,
    *,
    as_json: bool,
    run_ids: Collection[str] | None = None,
) -> None:
    """Join what ``runs`` holds, write the report, and print its summary.

    The report and ``--json`` show every run; the tables only ``run_ids``, if given.
    """
    from mansard.analytics.data.ingest import ingest
    from mansard.analytics.report.summary import summary
    from mansard.analytics.report.write import write_report
    from mansard.analytics.results import compute

    dataset = ingest(runs)
    for line in dataset.notes:
        note(f"note: {line}")
    results = compute(dataset)
    path = write_report(dataset, report_path, results)
    found = summary(dataset, results)
    if as_json:
        print_json({"report": path_text(path), "summary": found})
        return
    for title, columns, rows in summary_tables(found, run_ids):
        print_table(title, columns, rows)
    print(f"report: {path}")  # noqa: T201 - this line is the command's data
