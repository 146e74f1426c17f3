"""What the rooflines of energy and of power draw: arches, balance points, names.

An arch is FLOP/J, or W, over intensity for one precision from main memory; GFLOP/J and W here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from mansard.analytics.charts.data import GIGA, positive
from mansard.analytics.charts.roof_geometry import Window
from mansard.analytics.charts.roof_labels import LABEL_SCHEMA, right_labels
from mansard.analytics.data.quantities import fixed, quantity
from mansard.analytics.energy.balance import Balance, Span
from mansard.analytics.energy.roof import EnergyRoof

MOST_VERTICES, LEAST_VERTICES = 41, 17  # of an arch: 41 are a sixth of a decade apart
MOST_ROWS = 2000  # of all arches
Kind = Literal["efficiency", "power"]


@dataclass(frozen=True)
class PricedRoof:
    """One precision of one mode whose work, traffic and constant power have a price."""

    mode: str  # its label
    precision: str
    name: str  # fp16 tensor
    roof: EnergyRoof
    balance: Balance


def arches(roofs: Sequence[PricedRoof], x_low: float, x_high: float) -> pl.DataFrame:
    """GFLOP/J and W of each roof over FLOP/byte; ``is_main``: the best of its mode."""
    n_each = MOST_ROWS // max(1, len(roofs))
    at = np.geomspace(x_low, x_high, max(LEAST_VERTICES, min(MOST_VERTICES, n_each)))
    best = main_roofs(roofs)
    rows = [
        {
            "mode": each.mode,
            "precision": each.precision,
            "line": each.name,
            "is_main": best[each.mode] is each,
            "x": float(x),
            "efficiency": float(efficiency) / GIGA,
            "power": float(power),
        }
        for each in roofs
        for x, efficiency, power in zip(
            at, 1 / each.roof.energy_per_flop_j(at), each.roof.power_w(at), strict=True
        )
    ]
    schema = {
        "mode": pl.String,
        "precision": pl.String,
        "line": pl.String,
        "is_main": pl.Boolean,
        "x": pl.Float64,
        "efficiency": pl.Float64,
        "power": pl.Float64,
    }
    return positive(rows, schema, "x", "efficiency", "power").frame


def main_roofs(roofs: Sequence[PricedRoof]) -> dict[str, PricedRoof]:
    """The roof of each mode that does most for a joule."""
    best: dict[str, PricedRoof] = {}
    for each in roofs:
        if each.mode not in best or _best(each) > _best(best[each.mode]):
            best[each.mode] = each
    return best


def balance_points(roofs: Sequence[PricedRoof]) -> pl.DataFrame:
    """Where time, energy, and energy with constant power turn from traffic to work, FLOP/byte."""
    best = main_roofs(roofs)
    rows = [
        {
            "mode": each.mode,
            "precision": each.precision,
            "is_main": best[each.mode] is each,
            "kind": kind,
            "text": f"{each.name}: {quantity(span.value, 'FLOP/byte', span.low, span.high)}",
            "x": span.value,
            "efficiency": float(1 / each.roof.energy_per_flop_j(span.value)) / GIGA,
            "power": float(each.roof.power_w(span.value)),
        }
        for each in roofs
        for kind, span in _spans(each.balance)
        if span.value
    ]
    schema = {
        "mode": pl.String,
        "precision": pl.String,
        "is_main": pl.Boolean,
        "kind": pl.String,
        "text": pl.String,
        "x": pl.Float64,
        "efficiency": pl.Float64,
        "power": pl.Float64,
    }
    return positive(rows, schema, "x", "efficiency", "power").frame


BALANCES = ("time balance", "energy balance", "half the best FLOP/J")


def _spans(balance: Balance) -> list[tuple[str, Span]]:
    return list(zip(BALANCES, (balance.time, balance.energy, balance.effective), strict=True))


def arch_window(
    lines: pl.DataFrame, points: pl.DataFrame, kind: Kind, across: Window, size_px: tuple[int, int]
) -> Window:
    """The plane of an arch chart, with the intensities of ``across``."""
    values = [*lines[kind].to_list(), *points[kind].to_list()]
    low, high = min(values, default=1.0), max(values, default=10.0)
    room = (1.4, 2.0) if kind == "efficiency" else (1.25, 1.35)
    return Window(across.x_low, across.x_high, low / room[0], high * room[1], *size_px)


def arch_labels(roofs: Sequence[PricedRoof], kind: Kind, seen: Window) -> pl.DataFrame:
    """The name of each arch at its right end, with its height there."""
    best = main_roofs(roofs)
    rows = []
    for mode in dict.fromkeys(each.mode for each in roofs):
        own = [each for each in roofs if each.mode == mode]
        # Of powers, which run close together, one name at a time is shown: none has to give way.
        groups = [own] if kind == "efficiency" else [[each] for each in own]
        for group in groups:
            is_main = best[mode] in group
            entries = [_entry(each, kind, seen) for each in group]
            rows += [{**row, "is_main": is_main} for row in right_labels(mode, entries, seen)]
    return pl.DataFrame(rows, schema={**LABEL_SCHEMA, "is_main": pl.Boolean})


def segments(lines: pl.DataFrame, kind: Kind) -> pl.DataFrame:
    """Each arch as short lines, for the layout of names that keep clear of it."""
    ordered = lines.sort("mode", "line", "x")
    to = [pl.col(name).shift(-1).over("mode", "line").alias(f"{name}_to") for name in ("x", kind)]
    both = ordered.with_columns(*to).filter(pl.col("x_to").is_not_null())
    numbered = both.with_row_index("at").with_columns(line=pl.col("at").cast(pl.String))
    start = numbered.select("mode", "line", x="x", y=kind)
    return pl.concat([start, numbered.select("mode", "line", x="x_to", y=f"{kind}_to")])


def _entry(each: PricedRoof, kind: Kind, seen: Window) -> tuple[str, str, float]:
    per_flop = float(each.roof.energy_per_flop_j(seen.x_high))
    if kind == "efficiency":
        return (
            each.precision,
            f"{each.name}  {quantity(1 / per_flop, 'FLOP/J')}",
            1 / per_flop / GIGA,
        )
    power = float(each.roof.power_w(seen.x_high))
    return each.precision, f"{each.name}  {fixed(power, 'W')}", power


def _best(each: PricedRoof) -> float:
    return each.balance.best_flop_per_j.value or 0.0
