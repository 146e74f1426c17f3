"""The regret of online policies of hierarchical inference over the samples that they have seen."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.names import in_order
from mansard.analytics.decisions.offload.records import Replay
from mansard.analytics.pages.figures.charting import colour, log_scale, plot, rate_axis, shape, told
from mansard.analytics.pages.figures.figure import Figure, make_figure, schema_of
from mansard.analytics.pages.figures.tables import Column, tabulate

_SIZE_PX = (420, 230)
CAPTION = (
    "Policies like HI-LCB and HI-LCB-lite, simulated with a bound of our own: their loss less that "
    "of the best fixed threshold, in wrong answers, the mean of random orders of the samples. On "
    "this axis a regret that grows as a logarithm is a straight line.",
)
_SCHEMA = schema_of(text="policy", number="step regret")
_COLUMNS = (
    Column.text("Policy", "policy"),
    Column.number("Samples", "step", ",.0f"),
    Column.number("Regret", "regret", ",.4g"),
)


def regret_figure(name: str, found: Sequence[Replay]) -> Figure | None:
    """Regret over samples, one line for each policy; None where nothing was replayed."""
    rows = [
        {"policy": each.policy, "step": float(step), "regret": regret}
        for each in found
        for step, regret in zip(each.steps, each.regrets, strict=True)
    ]
    if not rows:
        return None
    frame = pl.DataFrame(rows, schema=_SCHEMA).with_columns(pl.col("regret").round_sig_figs(5))
    policies = in_order(frame["policy"].to_list())
    scale = log_scale(1, max(each.n for each in found))
    chart = (
        told(plot(frame), policy="policy", step="samples", regret="regret")
        .mark_line(strokeWidth=1.5, point=alt.OverlayMarkDef(size=26, filled=True))
        .encode(
            x=alt.X("step:Q", scale=scale, axis=rate_axis("Samples")),
            y=alt.Y("regret:Q", axis=rate_axis("Regret")),
            color=colour("policy", policies),
            shape=shape("policy", policies),
        )
        .properties(
            width=_SIZE_PX[0],
            height=_SIZE_PX[1],
            description="Regret of online policies against the best fixed threshold over samples",
        )
    )
    table = tabulate("Regret on the way", _COLUMNS, frame.iter_rows(named=True))
    return make_figure(name, chart, table, CAPTION)
