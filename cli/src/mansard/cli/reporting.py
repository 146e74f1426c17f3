"""From a folder of runs to the report and the table on the terminal."""

from __future__ import annotations

from pathlib import Path

from mansard.cli.console import note, print_json, print_table


def report_runs(runs: Path, report_path: Path, *, as_json: bool) -> None:
    """Join what ``runs`` holds, write the report, and print its summary."""
    from mansard.analytics.ingest import ingest
    from mansard.analytics.report import write_report
    from mansard.analytics.summary import summary

    dataset = ingest(runs)
    for line in dataset.notes:
        note(f"note: {line}")
    path = write_report(dataset, report_path)
    found = summary(dataset)
    if as_json:
        print_json({"report": str(path), "summary": found})
        return
    for table in found.tables():
        print_table(table.title, table.columns, table.rows)
    print(f"report: {path}")  # noqa: T201 - this line is the command's data
