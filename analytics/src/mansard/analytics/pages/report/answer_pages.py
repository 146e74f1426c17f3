"""Pages about one answer: of hierarchical inference, or of a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mansard.analytics.data.names import display_name, display_text, in_order
from mansard.analytics.data.quantities import counted
from mansard.analytics.decisions.offload.records import Hierarchical
from mansard.analytics.pages.figures.figure import live_tables, pool
from mansard.analytics.pages.figures.gantt import gantt_figure, last_s
from mansard.analytics.pages.report.page import write_page
from mansard.analytics.pages.tables.offloads import sections
from mansard.analytics.pages.tables.schedules import method_table, network_table
from mansard.core.records import Problem, Schedule
from mansard.core.text import listed


def write_offload_page(answer: Hierarchical, name: str, path: Path) -> None:
    """Write the page to ``path``, whole or not at all; raises StorageError."""
    offloads = sections({name: answer})
    drawn = [figure for section in offloads for figure in section.figures]
    context: dict[str, Any] = {
        "title": f"Hierarchical inference: {display_name(name)}",
        "offloads": offloads,
        "figures": drawn,
        "datasets": pool(drawn),
        "tables": live_tables(drawn),
    }
    write_page("offloads.html.j2", context, path)


_MOST_NAMES = 4  # in the title


def write_schedule_page(
    path: Path,
    problem: Problem,
    schedules: Sequence[Schedule],
    baseline: Schedule | None,
    sentence: str,
    notes: Sequence[str],
) -> None:
    """Write the page to ``path``, whole or not at all; raises StorageError.

    ``schedules``: the best schedule, then others. ``baseline`` is drawn below the best, on the same
    axis: rounds that begin at one time can be compared, runs of steady schedules cannot.
    """
    best = schedules[0]
    others = [] if baseline is None or best.is_steady else [baseline]
    end_s = last_s(problem, (best, *others))
    figures = [gantt_figure("gantt", problem, best, end_s)]
    for other in others:  # what bars are is said above
        figures.append(replace(gantt_figure("gantt-other", problem, other, end_s), caption=()))
    headings = ["The best schedule", *(f"The best baseline, {other.method}" for other in others)]
    names = [display_name(network.name) for network in problem.networks]
    where = ", ".join(filter(None, (problem.machine, problem.mode)))
    title = listed(names) if len(names) <= _MOST_NAMES else counted(len(names), "network")
    context: dict[str, Any] = {
        "title": f"Schedule of {title}",
        "sentence": sentence,
        "sources": in_order(
            [group.source for network in problem.networks for group in network.groups]
        ),
        "where": display_text(where) if where else "",
        "notes": list(map(display_text, notes)),
        "charts": list(zip(headings, figures, strict=True)),
        "numbers": [method_table(schedules), network_table(problem, best)],
        "figures": figures,
        "datasets": pool(figures),
        "tables": live_tables(figures),
    }
    write_page("schedule.html.j2", context, path)
