"""Where the roofs of the chart are named."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import polars as pl

from mansard.analytics.charts.data import GIGA, value_text
from mansard.analytics.charts.roof_geometry import Window
from mansard.analytics.roofs.roofline import Roofline

LABEL_GAP_PX = 22  # the height of a line of text, on the slope
PEAK_GAP_PX = 17.0  # the height of a line of text
PEAK_CHARACTER_PX = 7.0  # of the labels' bold 12 px type, on average
PEAK_SPACE_PX = 18.0
MOST_SHIFT = 0.8  # of the width

LABEL_SCHEMA = {
    "mode": pl.String,
    "precision": pl.String,
    "kind": pl.String,
    "text": pl.String,
    "x": pl.Float64,
    "y": pl.Float64,
}


def roof_labels(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """Where each roof is named: memory roofs along their lower end, peaks at the right."""
    rows: list[dict[str, object]] = []
    for roof in roofs:
        slopes = [c for c in (roof.bandwidth(level.name) for level in roof.levels) if c.value]
        previous_px, shift_px = math.inf, 0.0
        for slope in sorted(slopes, key=lambda slope: slope.value or 0.0, reverse=True):
            assert slope.value  # noqa: S101 - filtered above
            height_px = math.log10(slope.value) * seen.y_per_decade_px
            crowded = previous_px - height_px < LABEL_GAP_PX
            shift_px = shift_px + 110.0 if crowded else 0.0
            previous_px = height_px
            start = max(seen.x_low, seen.y_low * GIGA / slope.value)
            x = start * 10 ** ((14 + shift_px) / seen.x_per_decade_px)
            text = f"{slope.subject}  {value_text(slope)}"
            rows.append(_label(roof.label, "", "memory", text, x, slope.value * x / GIGA))
        rows += _peak_labels(roof, seen)
    return pl.DataFrame(rows, schema=LABEL_SCHEMA)


def _peak_labels(roof: Roofline, seen: Window) -> Iterator[dict[str, object]]:
    peaks = [
        (peak.subject, f"{peak.name} peak  {value_text(peak)}", peak.value / GIGA)
        for peak in roof.peaks
        if peak.value
    ]
    return right_labels(roof.label, peaks, seen)


def right_labels(
    mode: str, entries: Sequence[tuple[str, str, float]], seen: Window
) -> Iterator[dict[str, object]]:
    """Names at the right end of level lines; one that another is too near stands left of it.

    ``entries``: the precision, the text, and the height in units of ``seen``. One that would
    stand too far to the left is left out: its line has a tooltip.
    """
    below_px, shift_px = -math.inf, 0.0
    for precision, text, value in sorted(entries, key=_first_named):
        height_px = math.log10(value) * seen.y_per_decade_px
        if height_px - below_px >= PEAK_GAP_PX:
            below_px, shift_px = height_px, 0.0
        x = seen.x_high * 10 ** (-shift_px / seen.x_per_decade_px)
        shift_px += PEAK_CHARACTER_PX * len(text) + PEAK_SPACE_PX
        if shift_px > MOST_SHIFT * seen.width_px:
            continue
        yield _label(mode, precision, "compute", text, x, value)


def _first_named(entry: tuple[str, str, float]) -> tuple[float, bool, str]:
    """From the lowest up; of two at one height the half precision that every GPU has is named."""
    precision, _, value = entry
    return float(f"{value:.4g}"), precision != "fp16", precision


def _label(
    mode: str, precision: str, kind: str, text: str, x: float, y: float
) -> dict[str, object]:
    own = {"mode": mode, "precision": precision, "kind": kind}
    return {**own, "text": text, "x": x, "y": y}
