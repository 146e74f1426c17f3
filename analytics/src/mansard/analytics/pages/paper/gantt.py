"""A schedule on paper: what each accelerator runs when."""

from __future__ import annotations

from functools import partial

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import MILLI
from mansard.analytics.pages.figures.charting import Chart, plot
from mansard.analytics.pages.figures.figure import si_prefix
from mansard.analytics.pages.figures.gantt import ALONE, MORE, MOVE, bar_frame, last_s
from mansard.analytics.pages.figures.plane import shortened_label, text_px
from mansard.analytics.pages.paper.content import Content
from mansard.analytics.pages.paper.drawing import Inside
from mansard.analytics.pages.paper.look import colours
from mansard.core.records import Problem, Schedule
from mansard.core.text import listed

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ROW_PX = 45.0  # an accelerator
_MOST_NAMED = 3  # networks in the title
_LETTER_PX = 15.0  # the least width of a bar with a letter in it
_OPACITY = {ALONE: 1.0, MORE: 0.45, MOVE: 0.75}
_BAND = {ALONE: 0.7, MORE: 0.7, MOVE: 0.26}
_BARS = "Bars are groups of layers; letters name the networks."
_PALE = "The pale end of a bar is what contention adds."
_NARROW = "Narrow bars are transitions between accelerators."
_DEADLINES = "Dashed lines are deadlines."


def gantt_content(problem: Problem, schedule: Schedule, device: str, mode: str) -> Content:
    """The bars of ``schedule``; ``device`` and ``mode``: of what its times are, if known."""
    end_s = last_s(problem, [schedule])
    networks = [display_name(chain.name) for chain in problem.networks]
    letters = {name: _LETTERS[at % len(_LETTERS)] for at, name in enumerate(networks)}
    bars = bar_frame(problem, schedule, end_s).select(
        part="part",
        accelerator="accelerator",
        network="network",
        group="group",
        start_ms="from_ms",
        end_ms="to_ms",
        letter=pl.col("network").replace_strict(letters, return_dtype=pl.String),
    )
    deadlines = [
        {
            "part": "deadline",
            "network": display_name(chain.name),
            "end_ms": float(f"{chain.max_latency_s / MILLI:.5g}"),
            "letter": letters[display_name(chain.name)],
        }
        for chain in problem.networks
        if 0 < chain.max_latency_s <= end_s and not schedule.is_steady
    ]
    frame = pl.concat([bars, pl.DataFrame(deadlines, schema=bars.schema)])
    parts = set(frame["part"])
    words = [_BARS, *([_PALE] if MORE in parts else []), *([_NARROW] if MOVE in parts else [])]
    words += [_DEADLINES] if deadlines else []
    kind = "optimal" if schedule.is_optimal else "best found"
    rule = f"{listed(networks)}: the {kind} schedule by {schedule.method}, goal {schedule.goal}."
    accelerators = [display_name(one.name) for one in problem.accelerators]
    return Content(
        kind="gantt",
        device=device,
        mode=mode,
        frame=frame,
        build=partial(_chart, frame, accelerators, networks, end_s / MILLI),
        sentences=(rule, *words),
        sources=("modelled",),
        subject=", ".join(networks) if len(networks) <= _MOST_NAMED else "",
        inner_px=_ROW_PX * len(accelerators),
    )


def _chart(
    frame: pl.DataFrame,
    accelerators: list[str],
    networks: list[str],
    end_ms: float,
    inside: Inside,
) -> Chart:
    y = alt.Y(
        "accelerator:N",
        scale=alt.Scale(domain=accelerators),
        axis=alt.Axis(title=None, labelLimit=110, grid=False, ticks=False),
    )
    scale = alt.Scale(domain=[0, float(f"{end_ms:.6g}")], nice=False)
    prefix = si_prefix(end_ms, -3, most=0)
    x = alt.X(
        "start_ms:Q",
        scale=scale,
        axis=alt.Axis(
            title=f"Time, {prefix.letter}s", labelExpr=prefix.tick, tickCount=6, labelFlush=False
        ),
    )
    letters = [_LETTERS[at % len(_LETTERS)] for at in range(len(networks))]
    named = [f"{a} {shortened_label(name, 20)}" for a, name in zip(letters, networks, strict=True)]
    key = alt.Color(
        "letter:N",
        scale=alt.Scale(domain=letters, range=colours(letters)),
        legend=alt.Legend(
            title=None,
            columns=max(1, inside.width_px // 150),
            labelExpr=f"{named}[indexof({letters}, datum.value)]".replace("'", '"'),
        ),
    )
    layers = [
        plot(frame.filter(pl.col("part") == part))
        .mark_bar(height={"band": _BAND[part]}, opacity=_OPACITY[part], stroke="#ffffff")
        .encode(x=x, x2="end_ms:Q", y=y, color=key)
        for part in (ALONE, MORE, MOVE)
        if part in set(frame["part"])
    ]
    labels = _labels(frame, end_ms / inside.width_px, inside.share)
    layers.append(
        plot(labels)
        .mark_text(style="m-cell-high", fontWeight="normal", align="left", dx=3)
        .encode(x=x, y=y, text="text:N")
    )
    deadlines = frame.filter(pl.col("part") == "deadline")
    if len(deadlines):
        rules = plot(deadlines).mark_rule(strokeDash=[5, 3], strokeWidth=1.4)
        layers.append(rules.encode(x="end_ms:Q", color=key))
    return alt.layer(*layers).properties(width=inside.width_px, height=inside.height_px)


def _labels(frame: pl.DataFrame, ms_per_px: float, share: float) -> pl.DataFrame:
    """The longest of ``A conv1``, ``A`` and nothing that fits into each bar."""
    rows = []
    for row in frame.filter(pl.col("part") == ALONE).iter_rows(named=True):
        room_px = (row["end_ms"] - row["start_ms"]) / ms_per_px
        long = f"{row['letter']} {row['group']}"
        fits = share * text_px(long, is_bold=True) + 6 < room_px
        text = long if fits else row["letter"] if room_px > _LETTER_PX else ""
        if text:
            rows.append(
                {"accelerator": row["accelerator"], "start_ms": row["start_ms"], "text": text}
            )
    schema = {"accelerator": pl.String, "start_ms": pl.Float64, "text": pl.String}
    return pl.DataFrame(rows, schema=schema)
