"""The log-log plane of a roofline: its range, its ticks, and its pixels at a given width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

HEIGHT_PX = 380
NARROW_PX = 215  # the least width for which names are laid out
TICK_PX = 90.0  # a decade needs as much to show its 2 and its 5
Spot = tuple[float, float]  # pixels across and down


@dataclass(frozen=True)
class Window:
    """The visible part of the log-log plane: FLOP/byte across, GFLOP/s or the like up."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    width_px: int
    height_px: int = HEIGHT_PX

    @property
    def x_ticks(self) -> list[float]:
        """Decades; with less than two of them their 2 and 5 as well."""
        decades = _ticks(self.x_low, self.x_high, (1.0,))
        return decades if len(decades) > 1 else _ticks(self.x_low, self.x_high, (1.0, 2.0, 5.0))

    @property
    def y_ticks(self) -> list[float]:
        """One, two and five of each decade; of many decades the decade alone."""
        has_room = self.y_per_decade_px > TICK_PX
        return _ticks(self.y_low, self.y_high, (1.0, 2.0, 5.0) if has_room else (1.0,))

    @property
    def x_per_decade_px(self) -> float:
        return self.width_px / math.log10(self.x_high / self.x_low)

    @property
    def y_per_decade_px(self) -> float:
        return self.height_px / math.log10(self.y_high / self.y_low)

    @property
    def angle_rad(self) -> float:
        """At which a line of slope one rises on the screen."""
        return math.atan2(self.y_per_decade_px, self.x_per_decade_px)

    @property
    def angle(self) -> str:
        """``angle_rad`` as Vega turns a text, in degrees, at whatever width the chart has."""
        decades = math.log10(self.x_high / self.x_low)
        return f"360 - atan2({self.y_per_decade_px:.2f}, width / {decades:.4f}) * 57.29578"

    def wide(self, width_px: int) -> Window:
        """The same range at another width."""
        return replace(self, width_px=width_px)

    def pixels(self, x: float, y: float) -> Spot:
        """Where a value stands, from the upper left corner."""
        across = math.log10(x / self.x_low) * self.x_per_decade_px
        return across, self.height_px - math.log10(y / self.y_low) * self.y_per_decade_px

    def values(self, across: float, down: float) -> tuple[float, float]:
        """The inverse of ``pixels``."""
        x = self.x_low * 10 ** (across / self.x_per_decade_px)
        return float(x), float(self.y_low * 10 ** ((self.height_px - down) / self.y_per_decade_px))


def extent(values: Iterable[float], below: float, above: float, least: float) -> Spot:
    """The range of an axis: ``values`` with room below and above, at least ``least`` times wide."""
    known = list(values) or [1.0]
    low, high = min(known) / below, max(known) * above
    lack = math.sqrt(max(1.0, least / (high / low)))
    return low / lack, high * lack


def _ticks(low: float, high: float, steps: Sequence[float]) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    marks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [mark for mark in marks if low * 0.999 <= mark <= high * 1.001]
