"""Hierarchical inference in charts: what each threshold reaches, and the regret of policies.

The frontier is accuracy over latency, energy and share, with the chosen threshold. Latencies are in
ms and energies in mJ of one sample, accuracies and shares in percent.

The regret of online policies is over the samples that they have seen. A section of a page holds
the charts of an answer, its sentence and its tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name, display_text, in_order
from mansard.analytics.data.quantities import MILLI, UNKNOWN
from mansard.analytics.decisions.offload.records import (
    Amount,
    Calibration,
    Hierarchical,
    HiPoint,
    ModeCosts,
    Replay,
)
from mansard.analytics.pages.figures.charting import (
    Chart,
    colour,
    log_scale,
    plot,
    rate_axis,
    shape,
    with_tooltip,
)
from mansard.analytics.pages.figures.figure import Figure, Row, make_figure, schema_of
from mansard.analytics.pages.figures.tables import Column, tabulate
from mansard.analytics.pages.words.offload import (
    POINT_COLUMNS,
    amount_text,
    calibration_text,
    point_cells,
)
from mansard.core.table import Table
from mansard.core.text import capitalized

_PARTS = ("local_s", "decision_s", "offload_s", "local_j", "decision_j", "offload_j")


@dataclass(frozen=True)
class OffloadSection:
    """What the page shows of one answer."""

    anchor: str
    title: str
    sentence: str
    sources: Sequence[str]
    figures: Sequence[Figure]
    details: Sequence[Table]
    notes: Sequence[str]


def offload_sections(answers: Mapping[str, Hierarchical]) -> list[OffloadSection]:
    """One for each answer, in the order of their names."""
    return [_section(number, name, answers[name]) for number, name in enumerate(sorted(answers))]


def _section(number: int, name: str, answer: Hierarchical) -> OffloadSection:
    return OffloadSection(
        anchor=f"offload-{number}",
        title=display_name(name),
        sentence=display_text(answer.sentence),
        sources=_sources(answer.costs),
        figures=[
            figure
            for figure in (
                frontier_figure(f"frontier-{number}", answer),
                regret_figure(f"regret-{number}", answer.replay),
            )
            if figure is not None
        ],
        details=[_cost_table(answer.costs), *map(_bin_table, answer.calibration)],
        notes=list(map(display_text, answer.notes)),
    )


def _sources(costs: Sequence[ModeCosts]) -> list[str]:
    amounts = [getattr(mode, part) for mode in costs for part in _PARTS]
    return in_order([amount.source for amount in amounts if amount is not None])


def _cost_table(costs: Sequence[ModeCosts]) -> Table:
    columns = (
        *("Mode", "Local run", "Decision", "Offload"),
        *("Local energy", "Decision energy", "Offload energy"),
    )
    rows = []
    for mode in costs:
        cells = []
        for part in _PARTS:
            amount = getattr(mode, part)
            text = amount_text(amount, part[-1].upper() if part.endswith("j") else "s")
            cells.append(UNKNOWN if amount is None else f"{text} ({amount.source})")
        rows.append([display_name(mode.mode) if mode.mode else "all", *cells])
    return Table("What a sample costs", columns, rows, frozenset({1, 2, 3, 4, 5, 6}))


def _bin_table(calibration: Calibration) -> Table:
    text = calibration_text(calibration)
    caption = capitalized(text)
    rows = [
        [
            f"{edge:.3f} to {edge + 1 / calibration.n_bins:.3f}",
            f"{n:,}",
            f"{mean:.3f}",
            f"{share:.3f}",
        ]
        for edge, n, mean, share in calibration.bins
    ]
    columns = ("Bin", "Samples", "Mean probability", "Share that is right")
    return Table(caption, columns, rows, frozenset({1, 2, 3}))


_FRONTIER_PX = (300, 270)
FRONTIER_CAPTION = (
    "Line: the chosen rule at every threshold, with its 95 % bootstrap band. Marks: other rules "
    "and modes at their best thresholds, and baselines, with 95 % intervals.",
)
UNANSWERED = (
    "Some answers of offloaded samples were not recorded: the line is the least accuracy, and the "
    "band reaches the highest."
)
_TEXTS = ("rule", "mode", "below", "offloaded", "said", "time", "item", "cost", "limits")
_POINTS_SCHEMA = schema_of(
    text=f"what {' '.join(_TEXTS)}", number="accuracy low high share latency energy"
)
_AXES = (
    ("latency", "Mean latency, ms"),
    ("energy", "Mean energy, mJ"),
    ("share", "Offloaded, %"),
)
_NUMERIC = frozenset(range(2, 8))


def frontier_figure(name: str, answer: Hierarchical) -> Figure | None:
    """Accuracy over what is known of latency, energy and share; None where nothing was chosen."""
    if answer.chosen is None:
        return None
    line = _frame(map(_numbers, answer.frontier))
    marks = _frame(_marks(answer))
    # The first mark is the chosen point: what is not known of it has no line.
    axes = [(field, title) for field, title in _AXES if marks[field][0] is not None][:2]
    panels = [_panel(line, marks, field, title) for field, title in axes]
    chart = alt.hconcat(*panels, spacing=34).properties(
        description="Accuracy over the mean cost of a sample at every threshold of hierarchical "
        "inference, with the chosen threshold and the baselines"
    )
    where = "held out" if answer.is_held_out else "all"
    table = Table(
        f"Rules, modes and baselines on {answer.n_judged:,} samples ({where})",
        [name.capitalize() for name in POINT_COLUMNS],
        marks.select(_TEXTS).rows(),
        _NUMERIC,
    )
    notes = (UNANSWERED,) if any(point.n_unanswered for point in answer.frontier) else ()
    return make_figure(name, chart, table, FRONTIER_CAPTION, notes)


def _marks(answer: Hierarchical) -> Iterator[Row]:
    """The chosen point first, then rules, modes and baselines; each once."""
    chosen = answer.chosen
    if chosen is None:
        return
    yield _mark(chosen, "chosen", answer)
    yield from (
        _mark(point, "other mode", answer)
        for point in answer.modes
        if point.mode != chosen.mode and point.rule == chosen.rule
    )
    yield from (_mark(point, point.rule, answer) for point in answer.rules if point != chosen)


def _mark(point: HiPoint, what: str, answer: Hierarchical) -> Row:
    texts = dict(zip(_TEXTS, point_cells(point, answer), strict=True))
    return {"what": what, **texts, **_numbers(point)}


def _numbers(point: HiPoint) -> Row:
    return {
        "accuracy": 100 * point.accuracy_least,
        "low": 100 * point.accuracy_low,
        "high": 100 * point.accuracy_high,
        "share": 100 * point.share,
        "latency": _milli(point.latency),
        "energy": _milli(point.energy),
    }


def _milli(amount: Amount | None) -> float | None:
    return None if amount is None else amount.value / MILLI


def _frame(rows: Iterator[Row]) -> pl.DataFrame:
    frame = pl.DataFrame(list(rows), schema=_POINTS_SCHEMA)
    numbers = [name for name, kind in _POINTS_SCHEMA.items() if kind == pl.Float64]
    return frame.with_columns(pl.col(name).round_sig_figs(5) for name in numbers)


def _panel(line: pl.DataFrame, marks: pl.DataFrame, field: str, title: str) -> Chart:
    names = in_order(marks["what"].to_list())
    known, shown = line.drop_nulls(field), marks.drop_nulls(field)
    x = alt.X(f"{field}:Q", scale=alt.Scale(zero=False), axis=rate_axis(title))
    y: dict[str, Any] = {"scale": alt.Scale(zero=False)}
    accuracy = alt.Y("accuracy:Q", axis=rate_axis("Accuracy, %"), **y)
    across = plot(known).encode(x=x)
    dots = with_tooltip(
        plot(shown),
        what="rule",
        mode="mode",
        below="offloads below",
        offloaded="offloaded",
        said="accuracy",
        time="latency",
        item="energy",
    ).encode(x=x, color=colour("what", names))
    return alt.layer(
        across.mark_area(style="m-roof-area").encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        across.mark_line(style="m-front").encode(y=accuracy),
        dots.mark_rule(style="m-interval").encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        dots.mark_point(size=80, filled=True, opacity=0.95).encode(
            y=accuracy, shape=shape("what", names)
        ),
    ).properties(width=_FRONTIER_PX[0], height=_FRONTIER_PX[1])


_REGRET_PX = (420, 230)
REGRET_CAPTION = (
    "Regret in wrong answers against the best fixed threshold, the mean of random sample orders. "
    "Logarithmic regret is a straight line. HI-LCB and HI-LCB-lite are simulated.",
)
_REGRET_SCHEMA = schema_of(text="policy", number="step regret")
_COLUMNS = (
    Column.text("Policy", "policy"),
    Column.number("Samples", "step", ",.0f"),
    Column.number("Regret", "regret", ",.4g"),
)


def regret_figure(name: str, replays: Sequence[Replay]) -> Figure | None:
    """Regret over samples, one line for each policy; None where nothing was replayed."""
    rows = [
        {"policy": replay.policy, "step": float(step), "regret": regret}
        for replay in replays
        for step, regret in zip(replay.steps, replay.regrets, strict=True)
    ]
    if not rows:
        return None
    frame = pl.DataFrame(rows, schema=_REGRET_SCHEMA).with_columns(
        pl.col("regret").round_sig_figs(5)
    )
    policies = in_order(frame["policy"].to_list())
    scale = log_scale(1, max(replay.n for replay in replays))
    chart = (
        with_tooltip(plot(frame), policy="policy", step="samples", regret="regret")
        .mark_line(strokeWidth=1.5, point=alt.OverlayMarkDef(size=26, filled=True))
        .encode(
            x=alt.X("step:Q", scale=scale, axis=rate_axis("Samples")),
            y=alt.Y("regret:Q", axis=rate_axis("Regret")),
            color=colour("policy", policies),
            shape=shape("policy", policies),
        )
        .properties(
            width=_REGRET_PX[0],
            height=_REGRET_PX[1],
            description="Regret of online policies against the best fixed threshold over samples",
        )
    )
    table = tabulate("Regret on the way", _COLUMNS, frame.iter_rows(named=True))
    return make_figure(name, chart, table, REGRET_CAPTION)
