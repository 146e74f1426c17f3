"""The Gantt chart of a schedule: what each bar is, and what stands in its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard.analytics.pages.figures.gantt import gantt_figure, last_s
from mansard.analytics.pages.report.answer_pages import write_schedule_page
from mansard.core.records import (
    Accelerator,
    LayerGroup,
    NetworkChain,
    Problem,
    Schedule,
    ScheduledGroup,
    ScheduledNetwork,
)

HOSTILE = "</script><b>"


def group(name: str, **time_ms: float) -> LayerGroup:
    return LayerGroup(name=name, time_s={key: value * 1e-3 for key, value in time_ms.items()})


PROBLEM = Problem(
    accelerators=(Accelerator(name="gpu", kind="gpu"), Accelerator(name="dla", kind="dla")),
    networks=(
        NetworkChain(
            name=HOSTILE, groups=(group("one", gpu=4), group("two", dla=2)), max_latency_s=9e-3
        ),
        NetworkChain(name="b", groups=(group("all", dla=3),)),
    ),
    idle_w=None,
    unknown={"idle_w": "no meter"},
)


def placed(network: int, at: int, on: str, *times_ms: float) -> ScheduledGroup:
    start, end, alone, enter, leave = (each * 1e-3 for each in times_ms)
    return ScheduledGroup(
        network=network, group=at, accelerator=on,
        start_s=start, end_s=end, alone_s=alone, enter_s=enter, leave_s=leave,
    )  # fmt: skip


def network(name: str, latency_ms: float) -> ScheduledNetwork:
    return ScheduledNetwork(
        name=name, latency_s=latency_ms * 1e-3, longest_s=latency_ms * 1e-3,
        rate_per_s=1e3 / latency_ms, n_transitions=0, is_missed=False,
    )  # fmt: skip


SCHEDULE = Schedule(
    method="exact", goal="makespan", is_steady=False, value=8e-3, bound=8e-3, is_optimal=True,
    space="4 assignments", n_assignments=4, n_simulated=4, solve_s=1e-3,
    # Of the first group's 6 ms, 4 are its own, 1.5 contention, 0.5 its way out.
    groups=(
        placed(0, 0, "gpu", 0, 6, 4, 0, 0.5),
        placed(1, 0, "dla", 0, 3, 3, 0, 0),
        placed(0, 1, "dla", 6, 8, 1.5, 0.5, 0),
    ),
    networks=(network(HOSTILE, 8), network("b", 3)),
    makespan_s=8e-3, energy_j=None, power_w=None,
    unknown={"energy_j": "no meter", "power_w": "no meter"},
)  # fmt: skip


def test_bars_are_alone_contention_and_transitions() -> None:
    figure = gantt_figure("gantt", PROBLEM, SCHEDULE, 9e-3)
    parts: dict[str, list[tuple[float, float]]] = {}
    for data in figure.datasets.values():
        if "part" not in data["columns"]:
            continue
        columns = {name: unfolded(column) for name, column in data["columns"].items()}
        for part, start, end in zip(
            columns["part"], columns["from_ms"], columns["to_ms"], strict=True
        ):
            if (start, end) not in parts.setdefault(part, []):
                parts[part].append((start, end))
    assert parts == {
        "alone": [(0, 4), (0, 3), (6.5, 8)],
        "contention": [(4, 5.5)],
        "transition": [(5.5, 6), (6, 6.5)],
    }
    slowdowns = [row[figure.table.columns.index("Slowdown")] for row in figure.table.rows]
    assert slowdowns == ["1.375", "1.000", "1.000"]  # 5.5 / 4
    deadlines = [data for data in figure.datasets.values() if "deadline" in data["columns"]]
    assert deadlines[0]["columns"]["deadline"] == [9]
    assert "Dashed: deadlines." in figure.caption[0]


def test_the_axis_ends_with_the_last_group_or_a_deadline_close_behind() -> None:
    assert last_s(PROBLEM, [SCHEDULE]) == pytest.approx(9e-3)  # 8 ms; the deadline is 9
    late = msgspec.structs.replace(PROBLEM.networks[0], max_latency_s=13e-3)
    far = msgspec.structs.replace(PROBLEM, networks=(late, PROBLEM.networks[1]))
    assert last_s(far, [SCHEDULE]) == pytest.approx(8e-3)
    figure = gantt_figure("gantt", far, SCHEDULE, 8e-3)
    assert "deadline" not in figure.caption[0]


def unfolded(column: Any) -> list[Any]:
    """A column as the page stores it, as values."""
    if isinstance(column, dict):
        return [column["words"][at] for at in column["at"]]
    assert isinstance(column, list)
    return column


def test_the_page_escapes_names(tmp_path: Path) -> None:
    path = tmp_path / "schedule.html"
    other = msgspec.structs.replace(SCHEDULE, method=HOSTILE)
    write_schedule_page(path, PROBLEM, [SCHEDULE, other], other, "2 networks.", [HOSTILE])
    text = path.read_text("utf-8")
    assert HOSTILE not in text
    assert "&lt;/script&gt;&lt;b&gt;" in text
    assert '<span class="tag measured">' in text


@pytest.mark.parametrize("is_steady", [False, True])
def test_a_steady_chart_says_which_round_it_is(is_steady: bool) -> None:
    found = msgspec.structs.replace(SCHEDULE, is_steady=is_steady)
    figure = gantt_figure("gantt", PROBLEM, found, 9e-3)
    assert any("last run of each network" in note for note in figure.notes) is is_steady
    assert ("deadline" in json.dumps(figure.spec)) is not is_steady
