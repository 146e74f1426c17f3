"""Names in a roofline: where they stand, in chart units and pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from mansard.analytics.figures.figure import Row, schema_of

WIDTH_PX, HEIGHT_PX = 900, 500
DECADE_PX = 95  # with less there is no room for ticks within a decade
CHARACTER_PX = 6.9  # of the charts' 12 px type, on average
LINE_PX = 15.0
POINT_PX = 8.0
LONGEST_LABEL = 24  # characters; the tooltip has the whole name
# Points are named from the right to the left, names stand on their right: then a thin
# line that hangs from a point further left never meets a name placed before it. A name
# on the left comes last, and only where no other point is above it.
_NEAR = (("left", 10.0, 0.0), ("left", 8.0, 14.0), ("left", 8.0, -14.0), ("right", -10.0, 0.0))
_FAR = tuple(("left", 5.0, 30.0 + 9.0 * step) for step in range(40))
PEAK_GAP_PX = 17.0  # the height of a line of text
PEAK_CHARACTER_PX = 7.0  # of the labels' bold 12 px type, on average
PEAK_SPACE_PX = 18.0
MOST_SHIFT = 0.8  # of the width
POINT_LABEL_SCHEMA = schema_of(
    text="mode batch network precision text align", number="x y point_x point_y", flag="hangs"
)
ROOF_LABEL_SCHEMA = schema_of(text="mode precision kind text", number="x y")
Spot = tuple[float, float]  # pixels across and down


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


def _ticks(low: float, high: float, steps: Sequence[float]) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    marks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [mark for mark in marks if low * 0.999 <= mark <= high * 1.001]


@dataclass(frozen=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def place_labels(
    points: pl.DataFrame,
    names: pl.DataFrame,
    lines: pl.DataFrame,
    seen: Window,
    others: pl.DataFrame,
) -> pl.DataFrame:
    """Names for the points of each mode and batch, where there is room.

    ``points`` has mode, batch, network, precision, text, x and y in chart units; ``names`` and
    ``lines`` are those of the roofs; ``others``, as ``points``, are marks without a name that none
    may cover. Returns columns of POINT_LABEL_SCHEMA.
    """
    rows: list[Row] = []
    groups = points.sort(
        "mode", "batch", "x", "text", descending=[False, False, True, False]
    ).group_by("mode", "batch", maintain_order=True)
    for (mode, batch), inside in groups:
        here = pl.col("mode") == mode
        there = others.filter(here & (pl.col("batch") == batch)).rows(named=True)
        layout = _Layout(
            [_name_box(row, seen) for row in names.filter(here).iter_rows(named=True)],
            [*_line_boxes(lines.filter(here), seen), *map(_mark_box, _spots(there, seen))],
            seen,
        )
        rows += layout.place_all(list(inside.iter_rows(named=True)))
    return pl.DataFrame(rows, schema=POINT_LABEL_SCHEMA)


class _Layout:
    """The boxes of names and of other marks in one chart; a name never covers one of them."""

    def __init__(self, names: list[_Box], marks: list[_Box], seen: Window) -> None:
        self.names, self.marks, self.seen = names, marks, seen

    def place_all(self, points: Sequence[Row]) -> Iterator[Row]:
        spots = _spots(points, self.seen)
        self.marks += map(_mark_box, spots)
        for row, spot in zip(points, spots, strict=True):
            text = str(row["text"])
            short = text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"
            unnamed = [x for x, _ in spots if x < spot[0]]
            placed = self._place(short, spot, unnamed)
            if placed is None:
                continue
            align, anchor, hangs = placed
            x, y = _from_pixels(*anchor, self.seen)
            yield {
                **{name: row[name] for name in ("mode", "batch", "network", "precision")},
                "text": short,
                "align": align,
                "x": x,
                "y": y,
                "point_x": row["x"],
                "point_y": row["y"],
                "hangs": hangs,
            }

    def _place(
        self, text: str, spot: Spot, unnamed: Sequence[float]
    ) -> tuple[str, Spot, bool] | None:
        """The first free side of a point: alignment, anchor, and whether the name hangs below.

        A name may not stand above or below one of the points ``unnamed`` yet.
        """
        wide = CHARACTER_PX * len(text) + 2.0
        for hangs, sides in ((False, _NEAR), (True, _FAR)):
            for align, across, down in sides:
                x, y = spot[0] + across, spot[1] + down
                left = x if align == "left" else x - wide
                box = _Box(left, y - LINE_PX / 2, left + wide, y + LINE_PX / 2)
                # The thin line from the point down to the height of its name.
                leader = _Box(spot[0] - 1.0, spot[1] + POINT_PX + 1.0, spot[0] + 1.0, y)
                if (
                    _is_inside(box, self.seen)
                    and not any(box.meets(other) for other in (*self.names, *self.marks))
                    and not any(left - 3 < at < box.right + 3 for at in unnamed)
                    and not (hangs and any(leader.meets(name) for name in self.names))
                ):
                    self.names.append(box)
                    self.marks += [leader] if hangs else []
                    return align, (x, y), hangs
        return None


def _spots(points: Sequence[Row], seen: Window) -> list[Spot]:
    return [_to_pixels(_number(row["x"]), _number(row["y"]), seen) for row in points]


def _mark_box(spot: Spot) -> _Box:
    x, y = spot
    return _Box(x - POINT_PX, y - POINT_PX, x + POINT_PX, y + POINT_PX)


def _is_inside(box: _Box, seen: Window) -> bool:
    across = box.left >= 0 and box.right <= seen.width_px
    return across and box.top >= 0 and box.bottom <= seen.height_px


def _name_box(row: Row, seen: Window) -> _Box:
    """The box of a roof's name; only the level names at the right can be met."""
    right, middle = _to_pixels(_number(row["x"]), _number(row["y"]), seen)
    if row["kind"] != "compute":
        return _Box(right, middle - LINE_PX, right + 40.0, middle)
    wide = CHARACTER_PX * 1.1 * len(str(row["text"]))
    return _Box(right - wide, middle - LINE_PX - 4, right, middle + 3)


def _line_boxes(lines: pl.DataFrame, seen: Window) -> Iterator[_Box]:
    """Small boxes along each line of two ends."""
    half = 3.0
    for (_,), ends in lines.sort("line", "x").group_by(["line"], maintain_order=True):
        first, last = (_to_pixels(row[0], row[1], seen) for row in ends.select("x", "y").rows())
        n_steps = max(1, int(math.dist(first, last) / 6.0))
        for step in range(n_steps + 1):
            share = step / n_steps
            x = first[0] + share * (last[0] - first[0])
            y = first[1] + share * (last[1] - first[1])
            yield _Box(x - half, y - half, x + half, y + half)


def _number(value: object) -> float:
    return float(str(value))


def _to_pixels(x: float, y: float, seen: Window) -> Spot:
    across = math.log10(x / seen.x_low) * seen.x_per_decade_px
    return across, seen.height_px - math.log10(y / seen.y_low) * seen.y_per_decade_px


def _from_pixels(across: float, down: float, seen: Window) -> Spot:
    x = seen.x_low * 10 ** (across / seen.x_per_decade_px)
    return float(x), float(seen.y_low * 10 ** ((seen.height_px - down) / seen.y_per_decade_px))


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
        yield roof_label(mode, precision, "compute", text, x, value)


def _first_named(entry: tuple[str, str, float]) -> tuple[float, bool, str]:
    """From the lowest up; of two at one height the half precision that every GPU has is named."""
    precision, _, value = entry
    return float(f"{value:.4g}"), precision != "fp16", precision


def roof_label(
    mode: str, precision: str, kind: str, text: str, x: float, y: float
) -> dict[str, object]:
    """A row of ROOF_LABEL_SCHEMA."""
    own = {"mode": mode, "precision": precision, "kind": kind}
    return {**own, "text": text, "x": x, "y": y}
