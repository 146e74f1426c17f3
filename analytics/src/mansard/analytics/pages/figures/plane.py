"""The log-log plane of a roofline: its range, its ticks, and its pixels at a given width.

Names stand in it so that none covers another, a mark, or the edge. Everything of their layout is in
pixels. A name's anchor, a point of its box, is given to the chart as a value on its axes. So a
chart may be drawn wider than it was laid out: anchors move apart while boxes keep their size, and
what did not meet does not meet then. (Where s·a + k = s·b + m for anchors a and b, a factor s ≥ 1
and points k and m of the boxes around them, a + k/s = b + m/s; k/s and m/s are in the boxes too,
which hold their anchors: they would have met before.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Align = Literal["left", "center", "right"]
# Boxes are rows of left, top, right and bottom; lines are rows of their ends: x, y, x, y.
Rows = NDArray[np.float64]
Found = NDArray[np.bool_]
TYPE_PX = 12.0  # the charts' type
LINE_PX = 15.0  # the height of a line of it
POINT_PX = 6.5  # half of a mark, with its outline
LEADER_PX = 60.0  # the longest line between a point and its name
CLEAR_PX = 2.5  # between a name and a line that it does not cross
APART_PX = 4.0  # between two lines that a name tells apart
LEVEL_PX = 24.0  # most that a line may rise under its name
OVERHANG = 0.4  # share of a name that may be left of where its line begins, or is level
EDGE_PX = 2.0  # between a name and the edge of the chart
SLOPE_PX = 10.0  # between a rising line and the middle of its name
LIFT_PX = 8.0  # as much more where marks are on the line
MOST_NAMES = 30  # points that are named in one chart: of more the rest are left out
LONGEST_LABEL = 24  # characters; tooltip and table have the whole name
# Widths of letters in shares of the type: of DejaVu Sans, the widest font in ``theme.FONT``.
_SHARES = {
    **dict.fromkeys("fijlrtI|!.,:;'` ()[]{}-/\\·", 0.42),
    **dict.fromkeys("mwMWQ@%", 1.0),
}
_CAPITAL, _OTHER, _BOLD = 0.77, 0.645, 1.14


def text_px(text: str, *, is_bold: bool = False) -> float:
    """An upper bound of the width of ``text`` in the charts' font, px."""
    width_px = TYPE_PX * sum(_SHARES.get(letter) or _share(letter) for letter in text)
    return width_px * (_BOLD if is_bold else 1.0)


def _share(letter: str) -> float:
    if ord(letter) > 0x2FF:
        return 1.0
    return _CAPITAL if letter.isupper() else _OTHER


def shortened_label(text: str, n_most: int = LONGEST_LABEL) -> str:
    """``text`` as a chart prints it; a stage in brackets at its end is kept."""
    if len(text) <= n_most:
        return text
    at = text.rfind(" [")
    end = text[at:] if at > 0 and len(text) - at < n_most - 4 and text.endswith("]") else ""
    return f"{text[: n_most - 1 - len(end)]}…{end}"


def distinct_labels(texts: Sequence[str], n_most: int = LONGEST_LABEL) -> list[str]:
    """``texts`` as a chart prints them: equal only where they are equal.

    Of those that would be cut to one label the beginning and the end are kept, as much of the end
    as tells them apart.
    """
    labels = {text: shortened_label(text, n_most) for text in texts}
    for n_end in range(n_most // 3, max(map(len, texts), default=0)):
        counts = Counter(labels.values())
        alike = [text for text, label in labels.items() if counts[label] > 1]
        if not alike:
            break
        for text in alike:
            begin = text[: max(1, n_most - 1 - n_end)]
            labels[text] = f"{begin}…{text[-n_end:]}" if len(begin) + n_end < len(text) else text
    return [labels[text] for text in texts]


def text_box(anchor: Spot, align: Align, wide: float) -> tuple[float, float, float, float]:
    """The box of a line of text with its ``align``-ed side at ``anchor``."""
    left = anchor[0] - {"left": 0.0, "center": wide / 2, "right": wide}[align]
    return left, anchor[1] - LINE_PX / 2, left + wide, anchor[1] + LINE_PX / 2


def squares(spots: Sequence[Spot], half_px: float = POINT_PX) -> Rows:
    """The boxes centred on ``spots``."""
    middles = np.array(spots, float).reshape(-1, 2)
    return np.hstack([middles - half_px, middles + half_px])


def meet(boxes: Rows, others: Rows) -> Found:
    """Which of ``boxes`` (down) meets which of ``others`` (across)."""
    one, other = boxes[:, None], others[None]
    apart = (one[..., :2] >= other[..., 2:]) | (other[..., :2] >= one[..., 2:])
    return ~np.asarray(apart.any(axis=-1))


def cut(boxes: Rows, lines: Rows, clear_px: float = CLEAR_PX) -> Found:
    """Into which of ``boxes`` (down), with room around them, which of ``lines`` (across) comes.

    No axis and not its own normal separates a line from a box that it comes into.
    """
    start, end = lines[None, :, :2], lines[None, :, 2:]
    low, high = boxes[:, None, :2] - clear_px, boxes[:, None, 2:] + clear_px
    apart = (np.maximum(start, end) <= low) | (np.minimum(start, end) >= high)
    run, away = end - start, (low + high) / 2 - start
    across = np.abs(run[..., 0] * away[..., 1] - run[..., 1] * away[..., 0])
    half = (high - low) / 2
    reach = np.abs(run[..., 1]) * half[..., 0] + np.abs(run[..., 0]) * half[..., 1]
    return np.asarray(~apart.any(axis=-1) & (across < reach))


def cross(lines: Rows, others: Rows) -> Found:
    """Which of ``lines`` (down) crosses which of ``others`` (across)."""
    return np.asarray(_parts(lines, others) & _parts(others, lines).T)


def _parts(lines: Rows, others: Rows) -> Found:
    """Which of ``lines`` has the ends of which of ``others`` on both its sides."""
    start, run = lines[:, None, :2], lines[:, None, 2:] - lines[:, None, :2]
    one, other = others[None, :, :2] - start, others[None, :, 2:] - start
    first = run[..., 0] * one[..., 1] - run[..., 1] * one[..., 0]
    second = run[..., 0] * other[..., 1] - run[..., 1] * other[..., 0]
    return np.asarray(first * second < 0)


@dataclass(frozen=True)
class Placed:
    """Where a name stands: its anchor, how it is aligned there, and whether a short line leads to
    it."""

    anchor: Spot
    align: Align
    is_led: bool = False


class Layout:
    """What is in one chart. With ``may_cross`` a name may cross ``lines`` where there is no other
    place for it.

    ``taken`` are the boxes of names and of marks, ``leaders`` the lines from points to names.
    ``share``: how wide text is, of the bound that ``text_px`` has for any font; None: any font,
    and bold names of lines.
    """

    def __init__(
        self,
        width_px: float,
        height_px: float,
        share: float | None = None,
        *,
        may_cross: bool = True,
    ) -> None:
        self.width_px, self.height_px, self.share = width_px, height_px, share
        self.crossings = (False, True) if may_cross else (False,)
        self.taken, self.leaders, self.lines = (np.empty((0, 4)) for _ in range(3))

    def _line_name_px(self, text: str) -> float:
        return text_px(text, is_bold=True) if self.share is None else self.share * text_px(text)

    def copy(self) -> Layout:
        """A copy, which can be filled further by itself."""
        may_cross = True in self.crossings
        other = Layout(self.width_px, self.height_px, self.share, may_cross=may_cross)
        other.taken, other.leaders, other.lines = self.taken, self.leaders, self.lines
        return other

    def mark(self, spots: Sequence[Spot]) -> None:
        """Nothing may cover the marks at ``spots``."""
        self.taken = np.vstack([self.taken, squares(spots)])

    def line(self, path: Sequence[Spot]) -> None:
        """A line with these corners."""
        pieces = np.array([(*start, *end) for start, end in pairwise(path)]).reshape(-1, 4)
        self.lines = np.vstack([self.lines, pieces])

    def along(self, text: str, path: Sequence[Spot], *, may_cross: bool = False) -> Placed | None:
        """A place for the name of a line, above it or else below, as far right as there is room.

        ``path``: its corners from left to right. None where there is no place beside a level part;
        above, the left of a name may hang over a part that falls.
        """
        wide = self._line_name_px(text)
        last = min(path[-1][0], self.width_px) - EDGE_PX
        least = max(path[0][0] - OVERHANG * wide, 0.0) + wide
        off = LINE_PX / 2 + POINT_PX
        anchors: dict[int, list[Spot]] = {-1: [], 1: []}
        under: dict[int, list[Spot]] = {-1: [], 1: []}  # where the line is under the name
        for right in _between(last, least, -12.0):
            heights = list(_heights(path, right - wide, right))
            beside = list(_heights(path, right - (1 - OVERHANG) * wide, right))
            middle = right - (1 - OVERHANG) * wide / 2
            at_middle = next(_heights(path, middle, middle))
            for side, part, end in ((-1, beside, min(heights)), (1, heights, max(heights))):
                if max(part) - min(part) <= LEVEL_PX:
                    anchors[side].append((right, end + side * off))
                    under[side].append((middle, at_middle))
        for is_apart, side in product((True, False), (-1, 1)):
            boxes = np.array([text_box(anchor, "right", wide) for anchor in anchors[side]])
            free = self._free(boxes.reshape(-1, 4), may_cross=may_cross)
            # No other line is between a line and its name, nor, at best, close to the line.
            beyond_px = APART_PX if is_apart else -1.0
            ways = np.array(
                [
                    (x, y - side * beyond_px, x, anchor[1])
                    for (x, y), anchor in zip(under[side], anchors[side], strict=True)
                ]
            )
            free &= cross(ways.reshape(-1, 4), self.lines).sum(axis=1) <= int(is_apart)
            if free.any():
                at = int(free.argmax())
                self.taken = np.vstack([self.taken, boxes[at]])
                return Placed(anchors[side][at], "right")
        return None

    def on_slope(
        self, text: str, start: Spot, end: Spot, *, may_cross: bool = False
    ) -> Spot | None:
        """The anchor of the name of a rising line, turned as the line is and SLOPE_PX above it.

        The name is above the line, farther above where marks are on it, or below, as near to
        ``start``, the low end, as there is room; None where there is none.
        """
        long = math.dist(start, end)
        wide = self._line_name_px(text)
        shifts = list(_between(10.0, long - wide - 8.0, 6.0))
        if not shifts:
            return None
        run, fall = ((end[at] - start[at]) / long for at in (0, 1))
        steps = list(_between(0.0, wide, 6.0))

        def at(along: float, above: float) -> Spot:
            return start[0] + along * run + above * fall, start[1] + along * fall - above * run

        # A box for lines has corners that reach no farther than the turned text.
        thin_px = (0.4 * LINE_PX + CLEAR_PX) / (abs(run) + abs(fall)) - CLEAR_PX
        for above in (SLOPE_PX, SLOPE_PX + LIFT_PX, -SLOPE_PX):
            middles = [at(shift + step, above) for shift in shifts for step in steps]
            boxes = squares(middles, 0.4 * LINE_PX)  # as high as the turned text
            free = self._free(boxes, may_cross=True)
            if not may_cross:
                free &= ~cut(squares(middles, thin_px), self.lines).any(axis=1)
            # No other line is between a line and its name.
            near = [at(shift + wide / 2, math.copysign(1.0, above)) for shift in shifts]
            far = [at(shift + wide / 2, above) for shift in shifts]
            is_beside = ~cross(np.hstack([near, far]), self.lines).any(axis=1)
            is_place = free.reshape(-1, len(steps)).all(axis=1) & is_beside
            if is_place.any():
                first = int(is_place.argmax())
                self.taken = np.vstack([self.taken, boxes[first * len(steps) :][: len(steps)]])
                return at(shifts[first], above - SLOPE_PX)
        return None

    def below_slope(self, text: str, start: Spot, end: Spot) -> Spot | None:
        """The right end of a level name right of a rising line, as near to ``start``, the low end,
        as there is room; None where there is none."""
        long = math.dist(start, end)
        wide = self._line_name_px(text)
        run, fall = ((end[at] - start[at]) / long for at in (0, 1))
        places = [
            (start[0] + along * run, start[1] + along * fall)
            for along in _between(POINT_PX, long - POINT_PX, 6.0)
        ]
        if not places:
            return None
        spots = np.array(places)
        anchors = spots + np.array([POINT_PX, LINE_PX / 2 + CLEAR_PX])
        boxes = np.array([text_box((x, y), "left", wide) for x, y in anchors])
        free = self._free(boxes, may_cross=False)
        # No other line is between a line and its name.
        free &= ~cross(np.hstack([spots + 0.5, anchors]), self.lines).any(axis=1)
        if not free.any():
            return None
        first = int(free.argmax())
        self.taken = np.vstack([self.taken, boxes[first]])
        return float(boxes[first][2]), float(anchors[first][1])

    def beside(
        self, texts: Sequence[str], spots: Sequence[Spot], n_first: int = 0
    ) -> list[Placed | None]:
        """Places for the names of the points at ``spots``; None for one without a place.

        First at the points, then at the end of a short line. Of several orders the one is kept
        that leaves the fewest of the first ``n_first`` without a name, then the fewest of all.
        """
        self.mark(spots)
        few = range(min(len(spots), MOST_NAMES))
        from_right = sorted(few, key=lambda at: -spots[at][0])
        first = [at for at in from_right if at < n_first]
        others = [at for at in from_right if at >= n_first]
        best: tuple[tuple[int, int], list[Placed | None], Layout] | None = None
        for groups in ([first, others], [first[::-1], others[::-1]], [from_right]):
            layout = self.copy()
            names = layout._beside(texts, spots, groups)
            n_unnamed = (names[:n_first].count(None), names.count(None))
            if best is None or n_unnamed < best[0]:
                best = (n_unnamed, names, layout)
            if n_unnamed == (0, 0):
                break
        assert best is not None  # noqa: S101 - there are orders
        self.taken, self.leaders = best[2].taken, best[2].leaders
        return best[1]

    def _beside(
        self, texts: Sequence[str], spots: Sequence[Spot], groups: Sequence[Sequence[int]]
    ) -> list[Placed | None]:
        names: list[Placed | None] = [None] * len(spots)
        for group, is_led, may_cross in product(groups, (False, True), self.crossings):
            for at in group:
                if names[at] is None:
                    wide = (self.share or 1.0) * text_px(texts[at])
                    names[at] = self._at(spots[at], wide, is_led=is_led, may_cross=may_cross)
        return names

    def _at(self, spot: Spot, wide: float, *, is_led: bool, may_cross: bool) -> Placed | None:
        places = [
            Placed((spot[0] + across, spot[1] + down), align, is_led)
            for across, down, align in (_FAR if is_led else _NEAR)
        ]
        boxes = np.array([text_box(place.anchor, place.align, wide) for place in places])
        free = self._free(boxes, may_cross=may_cross)
        leaders = np.empty((0, 4))
        if is_led and free.any():
            leaders = _leaders(spot, np.array([place.anchor for place in places]))
            free &= ~cut(self.taken, leaders, 1.0).any(axis=0)
            free &= ~cross(leaders, self.leaders).any(axis=1)
        if not free.any():
            return None
        at = int(free.argmax())
        self.taken = np.vstack([self.taken, boxes[at]])
        self.leaders = np.vstack([self.leaders, leaders[at : at + 1]])
        return places[at]

    def _free(self, boxes: Rows, *, may_cross: bool) -> Found:
        """Which of ``boxes`` are in the chart and meet nothing."""
        lines = self.leaders if may_cross else np.vstack([self.leaders, self.lines])
        inside = (boxes[:, 0] >= EDGE_PX) & (boxes[:, 1] >= 0)
        inside &= boxes[:, 2] <= self.width_px - EDGE_PX + 0.01
        inside &= boxes[:, 3] <= self.height_px - EDGE_PX
        inside[inside] &= ~meet(boxes[inside], self.taken).any(axis=1)
        inside[inside] &= ~cut(boxes[inside], lines).any(axis=1)
        return inside


def _near() -> Iterator[tuple[float, float, Align]]:
    gap, line = POINT_PX + 3.0, POINT_PX + LINE_PX / 2 + 0.5
    yield gap, 0.0, "left"
    yield -gap, 0.0, "right"
    yield 0.0, line, "center"
    yield 0.0, -line, "center"
    for down in (line - 4.0, 4.0 - line):
        yield gap - 2.0, down, "left"
        yield 2.0 - gap, down, "right"


def _far() -> Iterator[tuple[float, float, Align]]:
    for far in (22.0, 30.0, 40.0, 50.0, LEADER_PX):
        # Clockwise: 90 is downwards.
        for degrees in (60, 120, 30, 150, 85, 95, 300, 240, 330, 210, 275, 265):
            across, down = (turn(math.radians(degrees)) for turn in (math.cos, math.sin))
            yield far * across, far * down, "left" if across > 0 else "right"


_NEAR, _FAR = tuple(_near()), tuple(_far())


def _leaders(spot: Spot, anchors: Rows) -> Rows:
    """The lines from a point to its name, without the ends that touch them."""
    ways = anchors - spot
    far = np.hypot(*ways.T)[:, None]
    return np.hstack([spot + ways * (POINT_PX * 1.45 + 2.0) / far, anchors - ways * 2.0 / far])


def _heights(path: Sequence[Spot], left: float, right: float) -> Iterator[float]:
    """The heights of ``path`` at ``left``, at ``right`` and at its corners between them."""
    for (x0, y0), (x1, y1) in pairwise(path):
        for x in (left, right):
            if x0 <= x <= x1 and x0 < x1:
                yield y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    yield from (y for x, y in path if left <= x <= right)


def _between(first: float, last: float, step: float) -> Iterator[float]:
    """From ``first`` by ``step``, which may be negative, until ``last`` is passed."""
    return (first + step * at for at in range(math.floor((last - first) / step) + 1))


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
        decades = _ticks(self.y_low, self.y_high, (1.0,))
        if len(decades) > 1 and self.y_per_decade_px <= TICK_PX:
            return decades
        return _ticks(self.y_low, self.y_high, (1.0, 2.0, 5.0))

    @property
    def x_per_decade_px(self) -> float:
        return self.width_px / math.log10(self.x_high / self.x_low)

    @property
    def y_per_decade_px(self) -> float:
        return self.height_px / math.log10(self.y_high / self.y_low)

    @property
    def angle_rad(self) -> float:
        """The angle of a line of slope one on the screen."""
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
        """The position of a value, from the upper left corner."""
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
