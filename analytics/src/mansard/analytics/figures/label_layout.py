"""Names in a chart: where they stand, so that none covers another, a mark, or the edge.

Everything here is in pixels. A name's anchor, a point of its box, is given to the chart as a value
on its axes. So a chart may be drawn wider than it was laid out: anchors move apart while boxes
keep their size, and what did not meet does not meet then. (Where s·a + k = s·b + m for anchors a
and b, a factor s ≥ 1 and points k and m of the boxes around them, a + k/s = b + m/s; k/s and m/s
are in the boxes too, which hold their anchors: they would have met before.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Literal

from mansard.analytics.figures.plane import Spot

Align = Literal["left", "center", "right"]
TYPE_PX = 12.0  # the charts' type
LINE_PX = 15.0  # the height of a line of it
POINT_PX = 6.5  # half of a mark, with its outline
LEADER_PX = 60.0  # the longest line between a point and its name
LEVEL_PX = 24.0  # most that a line may rise under its name
OVERHANG = 0.4  # share of a name that may stand left of where its line begins
EDGE_PX = 2.0  # between a name and the edge of the chart
SLOPE_PX = 10.0  # between a rising line and the middle of its name
LONGEST_LABEL = 24  # characters; tooltip and table have the whole name
# Widths of letters in shares of the type: of DejaVu Sans, the widest font in ``theme.FONT``.
_SHARES = {
    **dict.fromkeys("fijlrtI|!.,:;'` ()[]{}-/\\·", 0.42),
    **dict.fromkeys("mwMWQ@%", 1.0),
}
_CAPITAL, _OTHER, _BOLD = 0.77, 0.645, 1.14


def text_px(text: str, *, is_bold: bool = False) -> float:
    """At most how wide ``text`` is in the charts' type."""
    width_px = TYPE_PX * sum(_SHARES.get(letter) or _share(letter) for letter in text)
    return width_px * (_BOLD if is_bold else 1.0)


def _share(letter: str) -> float:
    if ord(letter) > 0x2FF:
        return 1.0
    return _CAPITAL if letter.isupper() else _OTHER


def shortened_label(text: str, n_most: int = LONGEST_LABEL) -> str:
    """``text`` as a chart prints it."""
    return text if len(text) <= n_most else f"{text[: n_most - 1]}…"


@dataclass(frozen=True)
class Box:
    """A rectangle whose sides are those of the screen."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    @staticmethod
    def around(spot: Spot, half_px: float) -> Box:
        """The square of which ``spot`` is the middle."""
        x, y = spot
        return Box(x - half_px, y - half_px, x + half_px, y + half_px)

    @staticmethod
    def of_text(anchor: Spot, align: Align, wide: float) -> Box:
        """A line of text that stands with its ``align``-ed side at ``anchor``."""
        left = anchor[0] - {"left": 0.0, "center": wide / 2, "right": wide}[align]
        return Box(left, anchor[1] - LINE_PX / 2, left + wide, anchor[1] + LINE_PX / 2)


@dataclass(frozen=True)
class Segment:
    """A straight piece of a line, with room around it."""

    start: Spot
    end: Spot
    half_px: float = 2.5

    def meets(self, box: Box) -> bool:
        """Whether it comes into ``box``: no axis and not its own normal separates the two."""
        (x0, y0), (x1, y1) = self.start, self.end
        left, right = box.left - self.half_px, box.right + self.half_px
        top, bottom = box.top - self.half_px, box.bottom + self.half_px
        if max(x0, x1) <= left or min(x0, x1) >= right:
            return False
        if max(y0, y1) <= top or min(y0, y1) >= bottom:
            return False
        run, fall = x1 - x0, y1 - y0
        middle = ((left + right) / 2 - x0, (top + bottom) / 2 - y0)
        reach = abs(fall) * (right - left) / 2 + abs(run) * (bottom - top) / 2
        return abs(run * middle[1] - fall * middle[0]) < reach

    def crosses(self, other: Segment) -> bool:
        """Whether each of the two has its ends on both sides of the other."""
        return self._parts(other) and other._parts(self)

    def _parts(self, other: Segment) -> bool:
        (x0, y0), (x1, y1) = self.start, self.end
        sides = [(x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) for x, y in (other.start, other.end)]
        return sides[0] * sides[1] < 0


@dataclass(frozen=True)
class Placed:
    """Where a name stands: its anchor, how it is aligned there, and whether a short line leads to
    it."""

    anchor: Spot
    align: Align
    is_led: bool = False


@dataclass
class Layout:
    """What is in one chart. A name may cross ``lines`` where there is no other place for it."""

    width_px: float
    height_px: float
    taken: list[Box] = field(default_factory=list)  # names and marks
    leaders: list[Segment] = field(default_factory=list)
    lines: list[Segment] = field(default_factory=list)

    def mark(self, spot: Spot, half_px: float = POINT_PX) -> None:
        """Nothing may cover the mark at ``spot``."""
        self.taken.append(Box.around(spot, half_px))

    def line(self, path: Sequence[Spot]) -> None:
        """A line with these corners."""
        self.lines += [Segment(*ends) for ends in pairwise(path)]

    def along(self, text: str, path: Sequence[Spot]) -> Placed | None:
        """A place for the name of a line, above it or else below, as far right as there is room.

        ``path``: its corners from left to right. None where there is no place beside a level part.
        """
        wide = text_px(text, is_bold=True)
        last = min(path[-1][0], self.width_px) - EDGE_PX
        rights = list(_between(last, max(path[0][0] - OVERHANG * wide, 0.0) + wide, -12.0))
        for may_cross, side in product((False, True), (-1, 1)):
            for right in rights:
                heights = list(_heights(path, right - wide, right))
                if max(heights) - min(heights) > LEVEL_PX:
                    continue
                edge = min(heights) if side < 0 else max(heights)
                anchor = (right, edge + side * (LINE_PX / 2 + POINT_PX))
                if self._take([Box.of_text(anchor, "right", wide)], may_cross=may_cross):
                    return Placed(anchor, "right")
        return None

    def on_slope(self, text: str, start: Spot, end: Spot) -> Spot | None:
        """A place for the name of a rising line, turned as the line is and SLOPE_PX above it.

        Its anchor on the line, as near to ``start``, the low end, as there is room; None where
        there is none.
        """
        long = math.dist(start, end)
        wide = text_px(text, is_bold=True)
        if long < 1.0:
            return None
        run, fall = ((end[at] - start[at]) / long for at in (0, 1))
        for may_cross in (False, True):
            for shift in _between(10.0, long - wide - 8.0, 12.0):
                boxes = [
                    Box.around(
                        (
                            start[0] + (shift + step) * run + SLOPE_PX * fall,
                            start[1] + (shift + step) * fall - SLOPE_PX * run,
                        ),
                        0.4 * LINE_PX,  # whose corners reach as far as the turned line does
                    )
                    for step in _between(0.0, wide, 6.0)
                ]
                if self._take(boxes, may_cross=may_cross):
                    return start[0] + shift * run, start[1] + shift * fall
        return None

    def beside(
        self, texts: Sequence[str], spots: Sequence[Spot], n_first: int = 0
    ) -> list[Placed | None]:
        """Places for the names of the points at ``spots``; None for one without a place.

        First at the points, then at the end of a short line. Of several orders the one is kept
        that leaves the fewest of the first ``n_first`` without a name, then the fewest of all.
        """
        for spot in spots:
            self.mark(spot)
        from_right = sorted(range(len(spots)), key=lambda at: -spots[at][0])
        first = [at for at in from_right if at < n_first]
        others = [at for at in from_right if at >= n_first]
        in_turn = [[first, others], [from_right]]
        tried = []
        for groups in (*in_turn, *([each[::-1] for each in groups] for groups in in_turn)):
            copied = Layout(
                self.width_px, self.height_px, [*self.taken], [*self.leaders], self.lines
            )
            tried.append((copied._beside(texts, spots, groups), copied))
        placed, best = min(
            tried, key=lambda each: (each[0][:n_first].count(None), each[0].count(None))
        )
        self.taken, self.leaders = best.taken, best.leaders
        return placed

    def _beside(
        self, texts: Sequence[str], spots: Sequence[Spot], groups: Sequence[Sequence[int]]
    ) -> list[Placed | None]:
        found: list[Placed | None] = [None] * len(spots)
        for group, is_led, may_cross in product(groups, (False, True), (False, True)):
            for at in group:
                if found[at] is None:
                    wide = text_px(texts[at])
                    found[at] = self._at(spots[at], wide, is_led=is_led, may_cross=may_cross)
        return found

    def _at(self, spot: Spot, wide: float, *, is_led: bool, may_cross: bool) -> Placed | None:
        for placed in _far(spot) if is_led else _near(spot):
            box = Box.of_text(placed.anchor, placed.align, wide)
            if not is_led:
                if self._take([box], may_cross=may_cross):
                    return placed
                continue
            leader = _leader(spot, placed.anchor)
            is_clear = not any(map(leader.meets, self.taken)) and not any(
                map(leader.crosses, self.leaders)
            )
            if is_clear and self._take([box], may_cross=may_cross):
                self.leaders.append(leader)
                return placed
        return None

    def _take(self, boxes: list[Box], *, may_cross: bool) -> bool:
        is_free = all(self._is_free(box, may_cross=may_cross) for box in boxes)
        if is_free:
            self.taken += boxes
        return is_free

    def _is_free(self, box: Box, *, may_cross: bool) -> bool:
        is_inside = (
            box.left >= EDGE_PX
            and box.right <= self.width_px - EDGE_PX + 0.01
            and box.top >= 0
            and box.bottom <= self.height_px - EDGE_PX
        )
        lines = self.leaders if may_cross else (*self.leaders, *self.lines)
        return (
            is_inside
            and not any(box.meets(other) for other in self.taken)
            and not any(line.meets(box) for line in lines)
        )


def _near(spot: Spot) -> Iterator[Placed]:
    x, y = spot
    gap, line = POINT_PX + 3.0, POINT_PX + LINE_PX / 2 + 0.5
    yield Placed((x + gap, y), "left")
    yield Placed((x - gap, y), "right")
    yield Placed((x, y + line), "center")
    yield Placed((x, y - line), "center")
    for down in (line - 4.0, 4.0 - line):
        yield Placed((x + gap - 2.0, y + down), "left")
        yield Placed((x - gap + 2.0, y + down), "right")


def _far(spot: Spot) -> Iterator[Placed]:
    x, y = spot
    for far in (22.0, 30.0, 40.0, 50.0, LEADER_PX):
        # Clockwise: 90 is downwards.
        for degrees in (60, 120, 30, 150, 85, 95, 300, 240, 330, 210, 275, 265):
            turn = math.radians(degrees)
            anchor = (x + far * math.cos(turn), y + far * math.sin(turn))
            yield Placed(anchor, "left" if math.cos(turn) > 0 else "right", is_led=True)


def _leader(spot: Spot, anchor: Spot) -> Segment:
    """The line from a point to its name, without the ends that touch them."""
    far = math.dist(spot, anchor)
    cuts = ((POINT_PX * 1.45 + 2.0) / far, 1.0 - 2.0 / far)
    ends = [tuple(a + share * (b - a) for a, b in zip(spot, anchor, strict=True)) for share in cuts]
    return Segment((ends[0][0], ends[0][1]), (ends[1][0], ends[1][1]), 1.0)


def _heights(path: Sequence[Spot], left: float, right: float) -> Iterator[float]:
    """How far down ``path`` is at ``left``, at ``right`` and at its corners between the two."""
    for (x0, y0), (x1, y1) in pairwise(path):
        for x in (left, right):
            if x0 <= x <= x1 and x0 < x1:
                yield y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    yield from (y for x, y in path if left <= x <= right)


def _between(first: float, last: float, step: float) -> Iterator[float]:
    """From ``first`` by ``step``, which may be negative, until ``last`` is passed."""
    return (first + step * at for at in range(math.floor((last - first) / step) + 1))
