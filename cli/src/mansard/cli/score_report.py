"""What happens to the outcomes of a scoring: failures are told, a page is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mansard.cli.console import note, print_error
from mansard.cli.score_request import Outcome
from mansard.core.records import ModelScore

_SHOWN = 20  # notes on the terminal


def report_failures(outcomes: Sequence[Outcome]) -> list[ModelScore]:
    """All scores; every file that failed is a line on stderr.

    Where a single file was asked for and nothing came of it, its error is raised.
    """
    if len(outcomes) == 1 and outcomes[0].errors and not outcomes[0].scores:
        raise outcomes[0].errors[0]
    for outcome in outcomes:
        for error in outcome.errors:
            print_error(str(error))
    scores = [score for outcome in outcomes for score in outcome.scores]
    _tell_notes(scores)
    return scores


def _tell_notes(scores: Sequence[ModelScore]) -> None:
    texts = list(
        dict.fromkeys(f"{score.model}: {text}" for score in scores for text in score.notes)
    )
    for text in texts[:_SHOWN]:
        note(f"note: {text}")
    if len(texts) > _SHOWN:
        note(f"note: and {len(texts) - _SHOWN} more; --format json has them all")


def write_page(scores: Sequence[ModelScore], path: Path, machine: Path | None) -> None:
    """Write the page about the layers of ``scores``; raises StorageError."""
    from mansard.analytics.report.score_page import write_score_page

    write_score_page(scores, path, machine)
