"""A schedule on paper: what each accelerator runs when."""

from __future__ import annotations

from functools import partial

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import MILLI
from mansard.analytics.pages.figures.charting import LIGHT, Chart, plot
from mansard.analytics.pages.figures.figure import si_prefix
from mansard.analytics.pages.figures.gantt import ALONE, MORE, MOVE, bar_frame, last_s
from mansard.analytics.pages.figures.plane import shortened_label, text_px
from mansard.analytics.pages.paper.content import Content, legend_columns
from mansard.analytics.pages.paper.drawing import Inside
from mansard.analytics.pages.paper.look import colours
from mansard.core.records import Problem, Schedule
from mansard.core.text import listed

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ROW_PX = 45.0  # an accelerator
_MOST_NAMED = 3  # networks in the title
_OPACITY = {ALONE: 1.0, MORE: 0.45, MOVE: 0.75}
_BAND = {ALONE: 0.7, MORE: 0.7, MOVE: 0.26}
_BARS = "Bars are groups of layers, with the letter of the network and the group."
_PALE = "The pale end of a bar is what contention adds."
_NARROW = "Narrow bars are transitions between accelerators."
_DEADLINES = "Dashed lines are the deadlines of the networks above them."


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
        axis=alt.Axis(title=None, labelLimit=110, grid=False, ticks=False, domain=False),
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
            columns=legend_columns(named, inside),
            labelExpr=f"{named}[indexof({letters}, datum.value)]".replace("'", '"'),
        ),
    )
    layers = []
    for part in (ALONE, MORE, MOVE):
        bars = plot(frame.filter(pl.col("part") == part)).encode(x=x, x2="end_ms:Q", y=y)
        height = {"band": _BAND[part]}
        if part in set(frame["part"]):
            # No line of the grid is seen through a pale bar.
            layers.append(bars.mark_bar(height=height, color=LIGHT.paper))
            mark = bars.mark_bar(height=height, opacity=_OPACITY[part], stroke=LIGHT.paper)
            layers.append(mark.encode(color=key))
    labels = _labels(frame, end_ms / inside.width_px, inside.share)
    layers.append(
        plot(labels)
        .mark_text(style="m-cell-high", fontWeight="normal", align="left", dx=3)
        .encode(x=x, y=y, text="text:N")
    )
    deadlines = frame.filter(pl.col("part") == "deadline")
    if len(deadlines):
        rules = plot(deadlines).encode(x="end_ms:Q")
        layers.append(rules.mark_rule(strokeWidth=3.4, color=LIGHT.paper))
        layers.append(rules.mark_rule(strokeDash=[5, 3], strokeWidth=1.4).encode(color=key))
        above = plot(_deadline_names(deadlines, end_ms / inside.width_px))
        above = above.mark_text(style="m-network-label", baseline="bottom")
        layers.append(above.encode(x="end_ms:Q", y=alt.value(-1), text="letter:N"))
    return alt.layer(*layers).properties(width=inside.width_px, height=inside.height_px)


def _deadline_names(deadlines: pl.DataFrame, ms_per_px: float) -> pl.DataFrame:
    """The letters above the lines, those of near lines in one text."""
    named: list[tuple[float, str]] = []
    for end_ms, letter in deadlines.sort("end_ms").select("end_ms", "letter").iter_rows():
        if named and (end_ms - named[-1][0]) / ms_per_px < text_px(named[-1][1] + letter):
            named[-1] = (named[-1][0], f"{named[-1][1]}, {letter}")
        else:
            named.append((end_ms, letter))
    return pl.DataFrame(named, schema=["end_ms", "letter"], orient="row")


def _labels(frame: pl.DataFrame, ms_per_px: float, share: float) -> pl.DataFrame:
    """The longest of ``A from layer 5``, ``A 5``, ``A`` and nothing that fits into each bar.

    The last word alone, where it differs between all groups of the network.
    """
    rows = []
    bars = frame.filter(pl.col("part") == ALONE)
    last_words = pl.col("group").str.split(" ").list.last()
    is_distinct = last_words.n_unique().over("letter") == pl.col("group").n_unique().over("letter")
    for row in bars.with_columns(
        last=pl.when(is_distinct).then(last_words).otherwise("group")
    ).iter_rows(named=True):
        room_px = (row["end_ms"] - row["start_ms"]) / ms_per_px
        texts = (f"{row['letter']} {row['group']}", f"{row['letter']} {row['last']}", row["letter"])
        text = next((text for text in texts if share * text_px(text) + 6 < room_px), "")
        if text:
            rows.append(
                {"accelerator": row["accelerator"], "start_ms": row["start_ms"], "text": text}
            )
    schema = {"accelerator": pl.String, "start_ms": pl.Float64, "text": pl.String}
    return pl.DataFrame(rows, schema=schema)
