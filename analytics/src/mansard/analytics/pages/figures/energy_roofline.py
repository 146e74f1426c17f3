"""The rooflines of energy and of power: arches over intensity, networks under them.

An arch is GFLOP/J (integers: GOP/J), or W, over intensity for one precision, with data from main
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import altair as alt
import numpy as np
import polars as pl
from markupsafe import Markup

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import GIGA, UNKNOWN, fixed, quantity
from mansard.analytics.models.energy.fit import Coefficient, EnergyFit
from mansard.analytics.models.energy.roof import Balance, EnergyRoof, Span, balance, bends
from mansard.analytics.models.roofs.ceilings import DRAM
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.pages.figures.charting import Chart, following, plot, with_tooltip
from mansard.analytics.pages.figures.figure import (
    Figure,
    Following,
    Missing,
    make_figure,
    positive,
    schema_of,
    si_prefix,
)
from mansard.analytics.pages.figures.naming import (
    NamedLine,
    place_names,
    point_name_marks,
    roof_name_marks,
)
from mansard.analytics.pages.figures.network_points import (
    Points,
    layer_marks,
    network_marks,
    spots,
    under_roofs,
)
from mansard.analytics.pages.figures.parameters import (
    OF_PRECISION,
    Chosen,
    How,
    LiveTable,
    Name,
    Shown,
)
from mansard.analytics.pages.figures.plane import Window
from mansard.analytics.pages.figures.roofline import HEADING, OF_MODE, axes, subtitle, title, window
from mansard.analytics.pages.figures.tables import Column
from mansard.analytics.pages.results import Results
from mansard.core.precision import unit_title, work_unit

WIDTH_PX = 400
MOST_VERTICES, LEAST_VERTICES = 41, 17  # of an arch: 41 are a sixth of a decade apart
MOST_BENDS = 3  # of an arch, which are vertices too
MOST_ROWS = 2000  # of all arches
BALANCE_FIELDS = ("time", "energy", "half")
BALANCES = ("time balance", "energy balance", "half the best efficiency")
Kind = Literal["efficiency", "power"]
NO_METER = (
    "No energy roofline: it needs a power meter. `mansard doctor` lists the meters and why one "
    "cannot be read."
)
NO_COSTS = "The energy of work in {precision}, of traffic or of time in {mode} is unknown."
NO_KERNELS = "No energy roofline: no kernel was measured, of which it takes the energy."
NO_PUBLISHED = "No energy roofline: nothing is published of the energy of work, traffic and time."


@dataclass(frozen=True)
class _Words:
    name: str
    title: str  # of the axis; "{}" for the unit of work
    heading: str
    description: str  # {rate}: the title; {intensity}: that of the other axis
    caption: str


_WORDS = {
    "efficiency": _Words(
        name="energy-roofline",
        title="{}/J",
        heading="Efficiency",
        description="Energy roofline: {rate} over intensity in {intensity} at the roof of time, "
        "for each precision of the chosen power mode, with its balance points and the networks "
        "under it",
        caption=Markup(
            "1 / (ε<sub>work</sub> + ε<sub>byte</sub>/I + π<sub>0</sub>·T/W), from main memory. "
            "Diamond: time balance. Triangle: energy balance. Square: half the best efficiency."
        ),
    ),
    "power": _Words(
        name="power-roof",
        title="W",
        heading="Power",
        description="Power roof: watts over intensity in {intensity} at the roof of time, for each "
        "precision of the chosen power mode, with the networks' mean power",
        caption="Power at the roof of time, with constant power. It peaks at the ridge.",
    ),
}


@dataclass(frozen=True)
class PricedRoof:
    """One precision of one mode whose work, traffic and constant power have a price."""

    mode: str  # its label
    precision: str
    name: str  # fp16 tensor
    roof: EnergyRoof
    balance: Balance


def arch_figure(results: Results, chosen: Chosen, points: Points, kind: Kind) -> Figure | Missing:
    """The chart of work per joule or of power over intensity; else why there is none."""
    priced, gaps = priced_roofs(results)
    if not priced:
        if not results.roofs:
            return Missing(NO_KERNELS)
        is_published = all(roof.source == "published" for roof in results.roofs)
        return Missing(gaps[0] if gaps else NO_PUBLISHED if is_published else NO_METER)
    across = window(results.roofs, points)
    marked = under_roofs(points.marks, kind)
    lines = arches(priced, across.x_low, across.x_high)
    seen = arch_window(lines, under_roofs(points.every, kind), kind, across)
    balances = balance_points(priced).filter(pl.col("x").is_between(seen.x_low, seen.x_high))
    names = place_names(
        named_arches(priced, lines, kind),
        balances.select("mode", "x", y=kind),
        spots(marked, kind),
        seen,
    )
    words = _WORDS[kind]
    precisions = [*(roof.precision for roof in priced), *points.every["precision"].to_list()]
    intensity = unit_title("{}/byte", precisions)
    prefix = None if kind == "power" else si_prefix(seen.y_high)
    rate = words.title
    if prefix is not None:
        rate = unit_title(prefix.letter + words.title, precisions)
    x, y = axes(seen, kind, rate, intensity, prefix)
    _, height = axes(seen, "y", rate, intensity, prefix)
    roof_names = roof_name_marks(names.roofs, x, height, seen)
    if kind == "power":
        roof_names = [names.transform_filter(OF_PRECISION) for names in roof_names]
    marks = [
        *_arches(lines, x, y),
        *(_cap(results, height) if kind == "power" else ()),
        _balances(balances, x, y),
        layer_marks(points.layers, kind),
    ]
    chart = following(
        alt.layer(
            *[mark.transform_filter(OF_MODE) for mark in marks],
            *roof_names,
            *network_marks(points, kind, with_key=False),
            *point_name_marks(names.points, x, height, seen),
        ).resolve_scale(size="independent", shape="independent", color="independent"),
        chosen,
        *("mode", "batch", "network", "precision"),
        width=seen.width_px,
        height=seen.height_px,
        title=title(words.heading),
        description=words.description.format(rate=rate, intensity=intensity),
    )
    networks = under_roofs(points.networks, kind)
    table = balance_table(priced) if kind == "efficiency" else power_table(priced, networks)
    shown = Shown(lines, {"mode": "equal", "precision": "all"})
    follows = Following(shown, chosen, HEADING, NO_COSTS)
    beside = balance_table(priced, is_short=True) if kind == "efficiency" else None
    return make_figure(
        words.name,
        chart,
        table,
        (words.caption,),
        gaps,
        follows=follows,
        beside=beside,
        subtitle=subtitle(points, names, seen, kind),
    )


def priced_roofs(results: Results) -> tuple[list[PricedRoof], list[str]]:
    """Every precision of every mode whose three costs are known, and why the others are unknown."""
    priced: list[PricedRoof] = []
    gaps: list[str] = []
    for roof in results.roofs:
        fit = results.energies.get(roof.run_id)
        if fit is None:
            continue
        with_costs, gap = _priced_roof(roof, fit, cap_w(results, roof))
        priced += with_costs
        if gap and not with_costs:
            gaps.append(f"{display_name(roof.label)}: no energy roof: {gap}.")
    return priced, gaps


def _priced_roof(
    roof: Roofline, fit: EnergyFit, limit_w: float | None
) -> tuple[list[PricedRoof], str | None]:
    dram, byte, constant = roof.bandwidth(DRAM), fit.byte_j.get(DRAM), fit.constant_w
    if dram.value is None:
        return [], f"its bandwidth is unknown ({dram.unknown['value']})"
    if byte is None or byte.value is None:
        return [], "the energy of a byte from main memory is unknown" + _why(byte)
    if constant.value is None:
        return [], "its constant power is unknown" + _why(constant)
    is_capped = limit_w is not None and limit_w > constant.value
    priced = []
    gap = None
    for peak in roof.peaks:
        flop = fit.flop_j.get(peak.name)
        if peak.value is None:
            continue
        if flop is None or flop.value is None:
            gap = f"the energy of work in {peak.name} is unknown{_why(flop)}"
            continue
        costs = EnergyRoof(
            peak_flop_per_s=peak.value,
            bandwidth_bytes_per_s=dram.value,
            flop_j=flop.value,
            byte_j=byte.value,
            constant_w=constant.value,
            cap_w=limit_w if is_capped else None,
            unknown={} if is_capped else {"cap_w": "the mode names no limit above constant power"},
        )
        points = balance(peak, dram, flop, byte, constant)
        priced.append(PricedRoof(roof.label, peak.subject, peak.name, costs, points))
    return priced, gap


def _why(coefficient: Coefficient | None) -> str:
    unknown = None if coefficient is None else coefficient.unknown.get("value")
    return f" ({unknown})" if unknown else ""


def cap_w(results: Results, roof: Roofline) -> float | None:
    """The limit of power that the mode names, W."""
    for manifest in results.dataset.manifests:
        if manifest.run_id == roof.run_id:
            return manifest.mode_read_back.power_limit_w
    return None


def arches(roofs: Sequence[PricedRoof], x_low: float, x_high: float) -> pl.DataFrame:
    """Work per joule and W of each roof over intensity, with its bends; ``is_main``: the best of
    its mode."""
    n_each = MOST_ROWS // max(1, len(roofs)) - MOST_BENDS
    even = np.geomspace(x_low, x_high, max(LEAST_VERTICES, min(MOST_VERTICES, n_each)))
    best = main_roofs(roofs)
    rows = [
        {
            "mode": priced.mode,
            "precision": priced.precision,
            "line": priced.name,
            "is_main": best[priced.mode] is priced,
            "x": float(x),
            "efficiency": float(efficiency) / GIGA,
            "power": float(power),
        }
        for priced in roofs
        for at in [np.union1d(even, [x for x in bends(priced.roof) if x_low < x < x_high])]
        for x, efficiency, power in zip(
            at, 1 / priced.roof.energy_per_flop_j(at), priced.roof.power_w(at), strict=True
        )
    ]
    schema = schema_of(text="mode precision line", number="x efficiency power", flag="is_main")
    return positive(rows, schema, "x", "efficiency", "power").frame


def main_roofs(roofs: Sequence[PricedRoof]) -> dict[str, PricedRoof]:
    """The roof of each mode with the best efficiency."""
    best: dict[str, PricedRoof] = {}
    for roof in roofs:
        if roof.mode not in best or _best(roof) > _best(best[roof.mode]):
            best[roof.mode] = roof
    return best


def _best(priced: PricedRoof) -> float:
    return priced.balance.best_flop_per_j.value or 0.0


def balance_points(roofs: Sequence[PricedRoof]) -> pl.DataFrame:
    """Where time, energy, and energy with constant power turn from traffic to work."""
    best = main_roofs(roofs)
    rows = [
        {
            "mode": priced.mode,
            "precision": priced.precision,
            "is_main": best[priced.mode] is priced,
            "kind": kind,
            "text": f"{priced.name}: "
            + quantity(span.value, f"{work_unit(priced.precision)}/byte", span.low, span.high),
            "x": span.value,
            "efficiency": float(1 / priced.roof.energy_per_flop_j(span.value)) / GIGA,
            "power": float(priced.roof.power_w(span.value)),
        }
        for priced in roofs
        for kind, span in zip(BALANCES, _spans(priced.balance), strict=True)
        if span.value
    ]
    schema = schema_of(text="mode precision kind text", number="x efficiency power", flag="is_main")
    return positive(rows, schema, "x", "efficiency", "power").frame


def _spans(balance: Balance) -> tuple[Span, Span, Span]:
    return balance.time, balance.energy, balance.effective


def arch_window(lines: pl.DataFrame, points: pl.DataFrame, kind: Kind, across: Window) -> Window:
    """The plane of an arch chart, with the intensities of ``across``."""
    values = [*lines[kind].to_list(), *points[kind].to_list()]
    low, high = min(values, default=1.0), max(values, default=10.0)
    below, above = (1.4, 2.0) if kind == "efficiency" else (1.25, 1.35)
    return Window(across.x_low, across.x_high, low / below, high * above, WIDTH_PX)


def named_arches(roofs: Sequence[PricedRoof], lines: pl.DataFrame, kind: Kind) -> list[NamedLine]:
    """Each arch with its name, the best of each mode first.

    Powers run close together: of them one name at a time is shown.
    """
    best = main_roofs(roofs)
    named = []
    for priced in sorted(roofs, key=lambda roof: best[roof.mode] is not roof):
        arch = lines.filter(pl.col("mode") == priced.mode, pl.col("line") == priced.name).sort("x")
        path = arch.select("x", kind).rows()
        if not path:
            continue
        end = path[-1][1]
        # Of efficiencies the table beside has the values.
        texts = [priced.name] if kind == "efficiency" else [f"{priced.name} {fixed(end, 'W')}"]
        is_main = best[priced.mode] is priced
        named.append(
            NamedLine(
                priced.mode,
                priced.precision,
                texts,
                "level",
                path,
                is_main,
                is_alone=kind == "power",
            )
        )
    return named


def _arches(lines: pl.DataFrame, x: alt.X, y: alt.Y) -> list[Chart]:
    base = plot(lines).encode(x=x, y=y, detail="line:N", tooltip="line:N")
    main = "datum.is_main || datum.precision === precision"
    return [
        base.mark_line(style="m-roof-cache", clip=True).transform_filter(f"!({main})"),
        base.mark_line(style="m-roof", clip=True).transform_filter(main),
    ]


def _cap(results: Results, y: alt.Y) -> list[Chart]:
    """The board's own limit of power in each mode that names one."""
    rows = [
        {
            "mode": roof.label,
            "precision": "",
            "y": limit_w,
            "text": f"the mode's limit, {limit_w:g} W",
        }
        for roof in results.roofs
        if (limit_w := cap_w(results, roof))
    ]
    if not rows:
        return []
    base = plot(pl.DataFrame(rows)).encode(y=y)
    label = base.mark_text(style="m-rule-label", align="left", x=6, dy=-9).encode(text="text:N")
    return [base.mark_rule(style="m-peak"), label]


def _balances(points: pl.DataFrame, x: alt.X, y: alt.Y) -> Chart:
    """Balance points: of all precisions together only those of the best one."""
    scale = alt.Scale(domain=list(BALANCES), range=["diamond", "triangle-up", "square"])
    return (
        with_tooltip(plot(points), kind="balance", text="at")
        .transform_filter(OF_PRECISION)
        .mark_point(style="m-ridge", size=60, opacity=1)
        .encode(
            x=x,
            y=y,
            shape=alt.Shape("kind:N", scale=scale, legend=alt.Legend(title=None)),
        )
    )


_BALANCE_SCHEMA = schema_of(text="mode precision name time energy half best")


def balance_table(roofs: Sequence[PricedRoof], *, is_short: bool = False) -> LiveTable:
    """Balance points and the best efficiency of every precision of a mode; short: no intervals."""
    rows = [
        {
            "mode": priced.mode,
            "precision": priced.precision,
            "name": priced.name,
            **{
                name: _span(span, is_short=is_short)
                for name, span in zip(BALANCE_FIELDS, _spans(priced.balance), strict=True)
            },
            "best": _span(
                priced.balance.best_flop_per_j,
                f"{work_unit(priced.precision)}/J",
                is_short=is_short,
            ),
        }
        for priced in roofs
    ]
    titles = {
        "time": "Time",
        "energy": "Energy",
        "half": "Half the best efficiency",
        "best": "Best",
    }
    columns = [
        Column.text("Precision", "name"),
        *(Column.text(title, field, is_numeric=True) for field, title in titles.items()),
    ]
    shown = Shown(pl.DataFrame(rows, _BALANCE_SCHEMA), {"mode": "equal", "precision": "all"})
    unit = unit_title("{}/byte", (priced.precision for priced in roofs))
    caption = f"Balance points of {{mode}} from main memory, {unit}"
    return LiveTable("balances" if is_short else "energy-roofline", caption, columns, shown)


_POWER_SCHEMA = schema_of(text="mode precision batch network name low ridge high mean")


def power_table(roofs: Sequence[PricedRoof], networks: pl.DataFrame) -> LiveTable:
    """The power of each precision left of, at and right of its ridge; and of networks."""
    rows = []
    for priced in roofs:
        ridge = priced.roof.peak_flop_per_s / priced.roof.bandwidth_bytes_per_s
        at = [fixed(float(w), "W") for w in priced.roof.power_w([ridge / 100, ridge, ridge * 100])]
        powers = dict(zip(("low", "ridge", "high"), at, strict=True))
        named = {"mode": priced.mode, "precision": priced.precision, "batch": "", "network": ""}
        rows.append({**named, "name": priced.name, **powers, "mean": "–"})
    for row in networks.iter_rows(named=True):
        named = {name: row[name] for name in ("mode", "precision", "batch", "network")}
        blank = dict.fromkeys(("low", "ridge", "high"), "–")
        name = f"{row['network']} {row['precision']}, batch {row['batch']}"
        rows.append({**named, "name": name, **blank, "mean": fixed(row["power"], "W")})
    titles = {
        "low": "At a hundredth of the ridge",
        "ridge": "At the ridge",
        "high": "At a hundred times the ridge",
        "mean": "Mean power of the network at the roof",
    }
    columns = [
        Column.text("Precision or network", "name"),
        *(Column.text(title, field, is_numeric=True) for field, title in titles.items()),
    ]
    by: dict[Name, How] = {"mode": "equal", "batch": "all", "network": "all", "precision": "all"}
    shown = Shown(pl.DataFrame(rows, _POWER_SCHEMA), by)
    return LiveTable("power-roof", "Power in {mode} as drawn", columns, shown)


def _span(span: Span, unit: str = "", *, is_short: bool = False) -> str:
    if span.value is None:
        return f"{UNKNOWN}: {span.unknown['value']}"
    ends = (None, None) if is_short else (span.low, span.high)
    return quantity(span.value, unit, *ends, 3).strip()
