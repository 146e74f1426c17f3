"""Where the lines and labels of the roofline stand, in chart units and pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from mansard.analytics.charts.data import GIGA, ceiling_text
from mansard.analytics.data.quantities import quantity
from mansard.analytics.roofs.ceilings import Ceiling
from mansard.analytics.roofs.levels import DRAM
from mansard.analytics.roofs.roofline import Roofline

WIDTH_PX, HEIGHT_PX = 900, 500
DECADE_PX = 95  # with less there is no room for ticks within a decade
MOST_BELOW = 6  # layers this far left of everything else are not drawn: they move and do not work

_LINE_SCHEMA = {
    "mode": pl.String,
    "line": pl.String,
    "level": pl.String,
    "precision": pl.String,  # of a peak; "" of a memory roof
    "x": pl.Float64,
    "y": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}
_RIDGE_SCHEMA = {
    "mode": pl.String,
    "precision": pl.String,
    "text": pl.String,
    "interval": pl.String,
    "x": pl.Float64,
    "y": pl.Float64,
}


@dataclass(frozen=True)
class Window:
    """The visible part of the log-log plane: FLOP/byte across, GFLOP/s up."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    width_px: int = WIDTH_PX
    height_px: int = HEIGHT_PX

    @property
    def x_ticks(self) -> list[float]:
        """Decades."""
        return _ticks(self.x_low, self.x_high, (1.0,))

    @property
    def y_ticks(self) -> list[float]:
        """One, two and five of each decade, of many decades the decade alone."""
        room = self.y_per_decade_px > DECADE_PX
        return _ticks(self.y_low, self.y_high, (1.0, 2.0, 5.0) if room else (1.0,))

    @property
    def angle_deg(self) -> float:
        """The angle at which a line of slope one rises on the screen, negative is upwards."""
        return -math.degrees(math.atan2(self.y_per_decade_px, self.x_per_decade_px))

    @property
    def x_per_decade_px(self) -> float:
        return self.width_px / math.log10(self.x_high / self.x_low)

    @property
    def y_per_decade_px(self) -> float:
        return self.height_px / math.log10(self.y_high / self.y_low)


def window(
    roofs: Sequence[Roofline],
    points: pl.DataFrame,
    layers: pl.DataFrame,
    size_px: tuple[int, int] = (WIDTH_PX, HEIGHT_PX),
) -> Window:
    """One window for all modes, so that switching modes shows what moves."""
    inner = layers["intensity"].to_list()
    ridges = [ridge.value for roof in roofs for ridge in roof.ridges()]
    intensities = [*ridges, *points["intensity"].to_list()] or [1.0]
    peaks = [peak.value / GIGA for roof in roofs for peak in roof.peaks if peak.value]
    slopes = [
        ceiling.value / GIGA
        for roof in roofs
        for ceiling in (roof.bandwidth(level.name) for level in roof.levels)
        if ceiling.value
    ]
    x_low, x_high = (
        max(min([min(intensities) / 3, *inner]), min(intensities) / 3 / MOST_BELOW) / 1.5,
        max([max(intensities) * 6, *inner]) * 1.5,
    )
    top = max(peaks, default=max(slopes, default=1.0) * x_high)
    bottom = min(slopes, default=top / 1e4) * x_low
    lowest = min([bottom, *points["rate"].to_list()])
    return Window(x_low, x_high, lowest, top * 2.2, *size_px)


def roof_lines(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """Two ends of every roof: memory roofs up to their highest ridge, peaks from theirs."""
    rows: list[dict[str, object]] = []
    for roof in roofs:
        slopes = [c for c in (roof.bandwidth(level.name) for level in roof.levels) if c.value]
        peaks = [peak for peak in roof.peaks if peak.value]
        top = max((peak.value or 0.0 for peak in peaks), default=math.inf)
        steepest = max((slope.value or 0.0 for slope in slopes), default=math.inf)
        for slope in slopes:
            assert slope.value  # noqa: S101 - filtered above
            start = max(seen.x_low, seen.y_low * GIGA / slope.value)
            end = min(top / slope.value, seen.x_high)
            rows += _memory_roof(roof.label, slope, start, end, top / GIGA)
        for peak in peaks:
            assert peak.value  # noqa: S101 - filtered above
            level = "peak" if peak.value == top else "lower peak"
            rows += _peak_roof(
                roof.label, peak, level, max(peak.value / steepest, seen.x_low), seen
            )
    return pl.DataFrame(rows, schema=_LINE_SCHEMA)


def roof_area(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """What is attainable from main memory at the highest peak: three vertices per mode."""
    rows = []
    for roof in roofs:
        slope = roof.bandwidth(DRAM).value
        top = max((peak.value for peak in roof.peaks if peak.value), default=None)
        if slope is None or top is None:
            continue
        for x in (seen.x_low, top / slope, seen.x_high):
            y = max(min(top, slope * x) / GIGA, seen.y_low)
            rows.append({"mode": roof.label, "x": x, "y": y, "base": seen.y_low})
    schema = {"mode": pl.String, "x": pl.Float64, "y": pl.Float64, "base": pl.Float64}
    return pl.DataFrame(rows, schema=schema)


def ridge_points(roofs: Sequence[Roofline]) -> pl.DataFrame:
    """Where each peak meets the roof of main memory."""
    rows = [
        {
            "mode": roof.label,
            "precision": ridge.precision,
            "text": f"{ridge.name} meets {ridge.level}",
            "interval": quantity(ridge.value, "FLOP/byte", ridge.low, ridge.high),
            "x": ridge.value,
            "y": (roof.peak(ridge.precision, ridge.family).value or 0.0) / GIGA,
        }
        for roof in roofs
        for ridge in roof.ridges()
        if ridge.level == DRAM
    ]
    return pl.DataFrame(rows, schema=_RIDGE_SCHEMA)


def _memory_roof(
    mode: str, slope: Ceiling, start: float, end: float, top: float
) -> list[dict[str, object]]:
    return [
        {
            "mode": mode,
            "line": f"{slope.subject}: {ceiling_text(slope)}",
            "level": slope.subject,
            "precision": "",
            "x": x,
            "y": _scaled(slope.value, x),
            "low": _scaled(slope.low, x),
            "high": None if slope.high is None else min(top, slope.high * x / GIGA),
        }
        for x in (start, end)
    ]


def _peak_roof(
    mode: str, peak: Ceiling, level: str, start: float, seen: Window
) -> list[dict[str, object]]:
    return [
        {
            "mode": mode,
            "line": f"{peak.name} peak: {ceiling_text(peak)}",
            "level": level,
            "precision": peak.subject,
            "x": x,
            "y": _scaled(peak.value, 1.0),
            "low": _scaled(peak.low, 1.0),
            "high": _scaled(peak.high, 1.0),
        }
        for x in (start, seen.x_high)
    ]


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor / GIGA


def _ticks(low: float, high: float, steps: Sequence[float]) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    marks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [mark for mark in marks if low * 0.999 <= mark <= high * 1.001]
