"""Language models: tokens per second and the cache over the context, energy of a token over modes.

A figure for each model. Lines are at best by the roofs, one for each mode; marks are measured, or
predicted from what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name, stage_of
from mansard.analytics.data.quantities import MEGA, joules, rate, seconds
from mansard.analytics.models.predict.generation_times import GenerationTimes
from mansard.analytics.pages.figures.charting import Chart, colour, plot, shape, with_tooltip
from mansard.analytics.pages.figures.figure import Figure, evenly, make_figure, schema_of
from mansard.analytics.pages.results import Results
from mansard.core.table import Table
from mansard.core.units import Interval

MOST_MODELS, MOST_MODES = 4, 6  # that are drawn; as many modes as there are shapes
_WIDTH_PX, _HEIGHT_PX = 380, 260
CAPTION = (
    "Decode of one sequence over cached tokens. Lines: at most, by the roofs. Marks: measured, "
    "published, or predicted from such times.",
    "The cache contains the keys and values of one sequence.",
)
_SCHEMA = schema_of(
    text="mode source basis tokens step item", number="rate cache energy", count="context"
)


def context_figures(results: Results) -> tuple[Figure, ...]:
    """One for each language model of which decode is predicted or was measured."""
    rows = pl.concat([_predicted(results), _measured(results.generations)])
    models = rows["model"].unique().sort().to_list() if not rows.is_empty() else []
    return tuple(
        _figure(f"contexts{number}", model, rows.filter(model=model).drop("model"))
        for number, model in enumerate(models[:MOST_MODELS])
    )


def _predicted(results: Results) -> pl.DataFrame:
    """A row for each decode with one sequence, in each mode where it has a time."""
    of_one = (score for score in results.dataset.scores if score.batch == 1)
    caches = {score.model: score.kv_cache_bytes for score in of_one}
    rows = []
    frame = results.decided.filter((pl.col("batch") == 1) & pl.col("latency_s").is_finite())
    for row in frame.iter_rows(named=True):
        stage = stage_of(row["network"])
        if stage is not None and stage[1] == "decode":
            value, low, high = (row[f"latency{end}_s"] for end in ("", "_low", "_high"))
            items = Interval(value, low, high, row["interval"]).inverse()
            cache_bytes = caches.get(row["network"])
            rows.append(
                {
                    "model": stage[0],
                    "mode": display_name(f"{row['device']}, {row['mode']}"),
                    "source": row["source"],
                    "basis": row["interval"] or "",
                    "context": stage[2],
                    "rate": 1 / row["latency_s"],
                    "energy": row["energy_j"],
                    "cache": None if cache_bytes is None else cache_bytes / MEGA,
                    "tokens": rate(items.value, items.low, items.high, items.kind),
                    "step": seconds(value, low, high, row["interval"]),
                    "item": joules(row["energy_j"]),
                }
            )
    return pl.DataFrame(rows, schema={"model": pl.String, **_SCHEMA})


def _measured(generations: Sequence[GenerationTimes]) -> pl.DataFrame:
    rows = [
        {
            "model": row.model,
            "mode": display_name(f"{row.device}, {row.mode}"),
            "source": row.source,
            "basis": "",
            "context": row.prompt_tokens + row.generate_tokens // 2,
            "rate": 1 / row.token_s,
            "energy": row.decode_token_j,
            "cache": None,
            "tokens": rate(1 / row.token_s),
            "step": seconds(row.token_s, row.token_low_s, row.token_high_s),
            "item": joules(row.decode_token_j),
        }
        for row in generations
        if row.token_s and row.concurrency == 1 and not row.remark
    ]
    return pl.DataFrame(rows, schema={"model": pl.String, **_SCHEMA})


def _figure(name: str, model: str, rows: pl.DataFrame) -> Figure:
    rows = rows.sort("mode", "context", "source").unique(maintain_order=True)
    modes = evenly(rows["mode"].unique().sort().to_list(), MOST_MODES)
    drawn = rows.filter(pl.col("mode").is_in(list(modes)))
    charts = [_rates(drawn, modes)]
    if not (caches := rows.filter(pl.col("cache").is_not_null())).is_empty():
        charts.append(_caches(caches))
    if not (priced := rows.filter(pl.col("energy").is_not_null())).is_empty():
        charts.append(_energies(priced, modes))
    chart = alt.hconcat(*charts, spacing=30).properties(
        title=display_name(model),
        description=f"Tokens per second of {display_name(model)} over the context in each mode, "
        "its cache over the context, and the energy of a token where it is known",
    )
    n_more = rows["mode"].n_unique() - len(modes)
    notes = (f"Modes that are not drawn: {n_more}; the table has them.",) if n_more else ()
    return make_figure(name, chart, _table(model, rows), CAPTION, notes)


def _table(model: str, rows: pl.DataFrame) -> Table:
    columns = ("mode", "context", "tokens/s", "time of a token", "energy of a token", "source")
    fields = ("mode", "context", "tokens", "step", "item", "source")
    cells = [tuple(str(row[field]) for field in fields) for row in rows.iter_rows(named=True)]
    return Table(f"Decode of {display_name(model)}", columns, cells)


def _rates(rows: pl.DataFrame, modes: Sequence[str]) -> Chart:
    layers = list(_marks(rows, modes))
    return alt.layer(*layers).properties(
        width=_WIDTH_PX, height=_HEIGHT_PX, title="Tokens per second"
    )


def _marks(rows: pl.DataFrame, modes: Sequence[str]) -> Iterator[Chart]:
    """Lines of what is at best, and marks of all else."""
    at_best = pl.col("basis") == "roof"
    for frame, is_line in ((rows.filter(at_best), True), (rows.filter(~at_best), False)):
        if frame.is_empty():
            continue
        base = with_tooltip(
            plot(frame), mode="mode", context="context", tokens="tokens per second",
            step="time of a token", item="energy of a token", source="source",
        ).encode(x=_context_axis(rows), y=_axis("rate"), color=colour("mode", modes))  # fmt: skip
        shaped = base.encode(shape=shape("mode", modes))
        if is_line:
            yield base.mark_line(strokeWidth=1.6)
        yield shaped.mark_point(size=40 if is_line else 80, filled=True, opacity=1)


def _context_axis(rows: pl.DataFrame) -> Any:
    """A logarithmic axis, whose labels are the contexts."""
    values = rows["context"].unique().sort().to_list()
    scale = alt.Scale(type="log", base=2, nice=False, padding=20, domain=[values[0], values[-1]])
    return alt.X(
        "context:Q", scale=scale, axis=alt.Axis(title="Cached tokens", values=values, format="d")
    )


def _axis(field: str, format_: str = ".3~s") -> Any:
    return alt.Y(
        f"{field}:Q", scale=alt.Scale(zero=True), axis=alt.Axis(title=None, format=format_)
    )


def _caches(rows: pl.DataFrame) -> Chart:
    once = rows.unique("context", keep="first", maintain_order=True)
    base = with_tooltip(plot(once), context="cached tokens", cache="cache, MB").encode(
        x=_context_axis(once), y=_axis("cache", ",~r")
    )
    return base.mark_line(point=True, strokeWidth=1.6).properties(
        width=_WIDTH_PX // 2, height=_HEIGHT_PX, title="Keys and values, MB"
    )


def _energies(rows: pl.DataFrame, modes: Sequence[str]) -> Chart:
    """The energy of a token in each mode, at the least context."""
    least = rows.filter(pl.col("context") == pl.col("context").min().over("mode"))
    once = least.unique("mode", keep="first", maintain_order=True)
    base = with_tooltip(
        plot(once), mode="mode", context="cached tokens", item="energy of a token", source="source"
    ).encode(
        x=alt.X("mode:N", sort=None, axis=alt.Axis(title=None, labelAngle=-35)),
        y=_axis("energy"),
        color=colour("mode", modes),
    )
    return base.mark_bar(size=24).properties(
        width=max(80, 40 * len(once)), height=_HEIGHT_PX, title="Energy of a token, J"
    )
