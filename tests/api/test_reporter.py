"""What a caller without a reporter gets, and progress as lines."""

from __future__ import annotations

from mansard import api


def test_without_a_reporter_nothing_is_agreed_to() -> None:
    reporter = api.SilentReporter()
    reporter.note("dropped")
    with reporter.progress("dropped too") as progress:
        progress.update(1, 2, None, "now")
    assert not reporter.ask("Download it?")


def test_progress_as_lines_has_a_first_and_a_last_one() -> None:
    lines: list[str] = []
    progress = api.LineProgress("Scoring", lines.append)
    for n_done in range(1, 6):
        progress.update(n_done, 5, 60.0 * (5 - n_done), f"file {n_done}")
    assert lines == [
        "Scoring: 1 of 5, 4 min 00 s left (file 1)",
        "Scoring: 5 of 5, 0 s left (file 5)",
    ]
