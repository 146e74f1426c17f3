"""One page about one schedule of several networks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mansard.analytics.data.names import display_name, display_text, in_order
from mansard.analytics.figures.figure import live_tables, pool
from mansard.analytics.figures.gantt import gantt_figure
from mansard.analytics.report.page import write_page
from mansard.core.records import Problem, Schedule
from mansard.core.text import listed


def write_schedule_page(
    path: Path, problem: Problem, found: Schedule, sentence: str, notes: Sequence[str]
) -> None:
    """Write the page to ``path``, whole or not at all; raises StorageError."""
    figures = [gantt_figure("gantt", problem, found)]
    names = listed([display_name(each.name) for each in problem.networks])
    context: dict[str, Any] = {
        "title": f"Schedule of {names}",
        "sentence": sentence,
        "sources": in_order([each.source for one in problem.networks for each in one.groups]),
        "where": display_text(", ".join(filter(None, (problem.machine, problem.mode)))),
        "notes": list(map(display_text, notes)),
        "figures": figures,
        "datasets": pool(figures),
        "tables": live_tables(figures),
    }
    write_page("schedule.html.j2", context, path)
