"""A schedule as a Gantt chart: what each accelerator runs when, and what that costs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import MILLI, counted
from mansard.analytics.pages.figures.charting import Chart, colour, plot, rate_axis, with_tooltip
from mansard.analytics.pages.figures.figure import Figure, Row, make_figure, schema_of
from mansard.analytics.pages.figures.tables import Column, tabulate
from mansard.analytics.pages.words.schedules import slowdown_of
from mansard.core.records import Problem, Schedule, ScheduledGroup

_WIDTH_PX, _ROW_PX = 760, 64
_PX_OF_A_LETTER = 9.0
_FAR = 1.5  # times the end of the last group: later deadlines are not drawn
_IN_A_ROW = 7  # names in the legend, as many as there are colours
BARS = "Bar: a group of layers. Colour: network."
PALE = "Pale end: time added by contention."
NARROW = "Narrow bar: a transition between accelerators."
DEADLINES = "Dashed: deadlines."
REPEATED = "Networks in one legend column share a colour."
LAST_RUNS = "Only the last run of each network is drawn."
_SCHEMA = schema_of(
    text="accelerator network group part label",
    number="from_ms to_ms start end alone slowdown transition",
)
_COLUMNS = (
    Column.text("Network", "network"),
    Column.text("Group", "group"),
    Column.text("Accelerator", "accelerator"),
    Column.number("Start, ms", "start"),
    Column.number("End, ms", "end"),
    Column.number("Alone, ms", "alone"),
    Column.number("Slowdown", "slowdown", ".3f"),
    Column.number("Transitions, ms", "transition"),
)
ALONE, MORE, MOVE = "alone", "contention", "transition"


def gantt_figure(name: str, problem: Problem, schedule: Schedule, end_s: float) -> Figure:
    """The Gantt chart of ``schedule`` until ``end_s``, its table, and its words."""
    frame = bar_frame(problem, schedule, end_s)
    accelerators = [display_name(accelerator.name) for accelerator in problem.accelerators]
    networks = [display_name(chain.name) for chain in problem.networks]
    deadlines = pl.DataFrame(
        [
            {"network": network, "deadline": float(f"{chain.max_latency_s / MILLI:.5g}")}
            for network, chain in zip(networks, problem.networks, strict=True)
            if 0 < chain.max_latency_s <= end_s and not schedule.is_steady
        ],
        schema=schema_of(text="network", number="deadline"),
    )
    chart = _chart(frame, deadlines, accelerators, networks, end_s).properties(
        description=f"Gantt chart of {counted(len(networks), 'network')} on "
        f"{counted(len(accelerators), 'accelerator')}, {schedule.method}: which group runs where "
        "and when, in ms"
    )
    whole = frame.filter(part=ALONE)
    table = tabulate(f"Groups by {schedule.method}", _COLUMNS, whole.iter_rows(named=True))
    parts = {*frame["part"]}
    words = [BARS, *([PALE] if MORE in parts else []), *([NARROW] if MOVE in parts else [])]
    words += [] if deadlines.is_empty() else [DEADLINES]
    notes = [LAST_RUNS] if schedule.is_steady else []
    notes += [REPEATED] if len(networks) > _IN_A_ROW else []
    return make_figure(name, chart, table, (" ".join(words),), notes)


def last_s(problem: Problem, schedules: Sequence[Schedule]) -> float:
    """The end of the last group, or the last deadline if that is shortly after it."""
    end_s = max(group.end_s for schedule in schedules for group in schedule.groups)
    limits_s = [schedule.max_latency_s for schedule in problem.networks]
    is_once = not any(schedule.is_steady for schedule in schedules)
    return max([end_s, *(limit for limit in limits_s if is_once and limit <= _FAR * end_s)])


def bar_frame(problem: Problem, schedule: Schedule, end_s: float) -> pl.DataFrame:
    """A row for each part of each group; the table's values are in all of them."""
    ms_of_a_px = end_s / MILLI / _WIDTH_PX
    rows = [row for group in schedule.groups for row in _rows(problem, group, ms_of_a_px)]
    frame = pl.DataFrame(rows, schema=_SCHEMA)
    numbers = [name for name, kind in _SCHEMA.items() if kind == pl.Float64]
    return frame.with_columns(pl.col(name).round_sig_figs(5) for name in numbers)


def _rows(problem: Problem, group: ScheduledGroup, ms_of_a_px: float) -> Iterator[Row]:
    network = problem.networks[group.network]
    slowdown = slowdown_of(group)
    name = display_name(network.groups[group.group].name)
    shared = {
        "accelerator": display_name(group.accelerator),
        "network": display_name(network.name),
        "group": name,
        "start": group.start_s / MILLI,
        "end": group.end_s / MILLI,
        "alone": group.alone_s / MILLI,
        "slowdown": slowdown,
        "transition": (group.enter_s + group.leave_s) / MILLI,
    }
    begin_s, leave_s = group.start_s + group.enter_s, group.end_s - group.leave_s
    ends = (group.start_s, begin_s, min(begin_s + group.alone_s, leave_s), leave_s, group.end_s)
    for part, start_s, end_s in zip((MOVE, ALONE, MORE, MOVE), ends, ends[1:], strict=False):
        has_room = (end_s - start_s) / MILLI > ms_of_a_px * _PX_OF_A_LETTER * (len(name) + 1)
        if part == ALONE or end_s - start_s > 1e-6 * group.alone_s:
            yield shared | {
                "part": part,
                "label": name if part == ALONE and has_room else "",
                "from_ms": start_s / MILLI,
                "to_ms": end_s / MILLI,
            }


def _chart(
    frame: pl.DataFrame,
    deadlines: pl.DataFrame,
    accelerators: list[str],
    networks: list[str],
    end_s: float,
) -> Chart:
    y = alt.Y(
        "accelerator:N",
        sort=accelerators,
        scale=alt.Scale(domain=accelerators),
        axis=alt.Axis(title=None, labelLimit=160),
    )
    colours = colour("network", networks).legend(columns=_IN_A_ROW)
    ends = [0, float(f"{end_s / MILLI:.6g}")]
    scale = alt.Scale(domain=ends, nice=False)
    x = alt.X("from_ms:Q", scale=scale, axis=rate_axis("Time, ms"))

    def bars(part: str, height: float, opacity: float) -> Chart:
        base = with_tooltip(
            plot(frame.filter(part=part)),
            network="network",
            group="group",
            part="part",
            start="start, ms",
            end="end, ms",
            alone="alone, ms",
            slowdown="slowdown",
            transition="transitions, ms",
        )
        return base.mark_bar(style="m-network", height={"band": height}, opacity=opacity).encode(
            x=x, x2="to_ms:Q", y=y, color=colours
        )

    # At the width that the chart has: a label that a narrow one cannot hold is in the tooltip.
    has_room = (
        f"(datum.to_ms - datum.from_ms) / {ends[1]!r} * width > "
        f"{_PX_OF_A_LETTER} * (length(datum.label) + 1)"
    )
    labels = (
        plot(frame.filter(pl.col("label") != ""))
        .transform_filter(has_room)
        .mark_text(style="m-cell-high", align="left", dx=4)
        .encode(x="from_ms:Q", y=y, text="label:N")
    )
    rules = (
        with_tooltip(plot(deadlines), network="network", deadline="deadline, ms")
        .mark_rule(style="m-interval", strokeDash=[6, 4])
        .encode(x="deadline:Q", color=colours)
    )
    layers = [bars(ALONE, 0.7, 1.0), bars(MORE, 0.7, 0.4), bars(MOVE, 0.24, 0.75), labels]
    return alt.layer(*layers, *([] if deadlines.is_empty() else [rules])).properties(
        width=_WIDTH_PX, height=_ROW_PX * len(accelerators)
    )
