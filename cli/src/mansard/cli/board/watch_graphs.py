"""The history of a watched board as graphs, where the window is larger than the board's lines.

A column is one interval between looks, the newest at the right. A column without a reading is
blank; a reading of 0 has the lowest block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from mansard.cli.board.watch_lines import (
    LEVELS,
    WIDTH,
    Line,
    Span,
    board_lines,
    hottest_c,
    known,
    mean,
    mega,
    percent,
)
from mansard.core.records import BoardSample
from mansard.core.text import printable

HEIGHT = 24  # of a terminal that shows the board's lines alone, if it is no wider than WIDTH
_GAP = 2  # columns between two graphs
_LEAST_WIDTH = 40  # of a graph
_LEAST_HEIGHT = 3  # its title and two rows of blocks
_AXIS = 5  # columns of the labels of an axis, and a blank
_DIGITS = {"%": 0, "MHz": 0, "W": 2, "°C": 1}


class GraphValue(NamedTuple):
    """One number of a look."""

    name: str
    unit: str  # %, MHz, W or °C
    value: float | None
    top: float | None = None  # 100 %, or the cap of a clock


class TimedLook(NamedTuple):
    """What the graphs keep of one look."""

    time_s: float
    readings: dict[str, GraphValue]  # by name, in the order of the graphs


def with_look(
    looks: Sequence[TimedLook], sample: BoardSample, n_columns: int
) -> tuple[TimedLook, ...]:
    """``looks`` and a new one; the oldest leave where there are more than ``n_columns``."""
    return (*looks, TimedLook(sample.time_s, {each.name: each for each in _readings(sample)}))[
        -n_columns:
    ]


def screen_lines(
    sample: BoardSample, looks: Sequence[TimedLook], width: int, height: int, step_s: float
) -> list[Line]:
    """The lines of ``sample``, and graphs below or beside them: where there is more room.

    ``height`` is without the line of the keys; ``step_s`` is the interval between looks.
    """
    lines = board_lines(sample, width)
    if width <= WIDTH and height < HEIGHT:
        return lines
    n_below = height - len(lines) - 1
    beside = width - WIDTH - _GAP
    left = board_lines(sample)
    if beside >= _LEAST_WIDTH and beside * height > width * n_below and len(left) <= height:
        right = graph_lines(looks, beside, height, step_s)
        n_lines = max(len(left), len(right))
        return [
            [*_padded(line, WIDTH + _GAP), *graph]
            for line, graph in zip(_filled(left, n_lines), _filled(right, n_lines), strict=True)
        ]
    below = graph_lines(looks, width, n_below, step_s)
    return [*lines, [], *below] if below else lines


def graph_lines(looks: Sequence[TimedLook], width: int, height: int, step_s: float) -> list[Line]:
    """As many graphs as ``width`` by ``height`` have room for, and the axis of their time.

    Empty where not even one has room, or nothing was read yet.
    """
    shown = _shown(looks)
    n_across = min(max((width + _GAP) // (_LEAST_WIDTH + _GAP), 1), max(len(shown), 1))
    n_down = min((height - 1) // _LEAST_HEIGHT, ceil(len(shown) / n_across))
    n_columns = (width + _GAP) // n_across - _GAP - _AXIS
    if n_down < 1 or n_columns < 1 or not shown:
        return []
    lines: list[Line] = []
    for at in range(n_down):
        # The rows that are left over go to the first ones.
        n_rows = (height - 1 + n_down - 1 - at) // n_down - 1
        graphs = [
            _graph(reading, columns(looks, reading.name, n_columns, step_s), n_rows)
            for reading in shown[at * n_across : (at + 1) * n_across]
        ]
        lines += _side_by_side(graphs, n_columns + _AXIS)
    axis = _time_axis(n_columns, step_s)
    return [*lines, *_side_by_side([[axis]] * n_across, n_columns + _AXIS)]


def columns(
    looks: Sequence[TimedLook], name: str, n_columns: int, step_s: float
) -> list[float | None]:
    """The reading ``name`` in each of ``n_columns`` intervals that end with the last look.

    None where there was no look, or it had no reading.
    """
    values: list[float | None] = [None] * n_columns
    for look in looks[-n_columns:]:  # an interval has at most one
        at = n_columns - 1 - round((looks[-1].time_s - look.time_s) / step_s)
        reading = look.readings.get(name)
        if reading is not None and reading.value is not None and 0 <= at < n_columns:
            values[at] = reading.value
    return values


def blocks(values: Sequence[float | None], low: float, high: float, n_rows: int) -> list[str]:
    """``values`` as columns of blocks between ``low`` and ``high``, from the top row down."""
    n_levels = n_rows * len(LEVELS)
    heights = [
        0
        if value is None
        else min(max(round((value - low) / (high - low) * n_levels), 1), n_levels)
        for value in values
    ]
    # Blank below a row, its blocks, then full above it: each row begins 8 levels higher.
    ramp = " " * (n_levels + 1) + LEVELS + LEVELS[-1] * n_levels
    return [
        "".join([ramp[level + n_levels - row * len(LEVELS)] for level in heights])
        for row in reversed(range(n_rows))
    ]


def _readings(sample: BoardSample) -> Iterator[GraphValue]:
    """The numbers with graphs, the most important first: a small window has few graphs."""
    for gpu in sample.gpus:
        name = gpu.gpu if len(sample.gpus) > 1 else "GPU"
        yield GraphValue(f"{name} load", "%", percent(gpu.busy_share), 100)
        yield GraphValue(f"{name} clock", "MHz", mega(gpu.clock_hz), mega(gpu.cap_hz))
    yield GraphValue("total power", "W", sample.power_w)
    yield GraphValue("hottest sensor", "°C", hottest_c(sample.zones))
    yield GraphValue("EMC load", "%", percent(sample.memory_busy_share), 100)
    yield GraphValue("EMC clock", "MHz", mega(sample.memory_clock_hz), mega(sample.memory_cap_hz))
    yield GraphValue("CPU load", "%", percent(mean(cpu.busy_share for cpu in sample.cpus)), 100)
    for rail in sample.rails:
        yield GraphValue(printable(rail.rail, 40), "W", rail.power_w)


def _shown(looks: Sequence[TimedLook]) -> list[GraphValue]:
    """The last readings, without those that no look had."""
    read = {
        name for look in looks for name, each in look.readings.items() if each.value is not None
    }
    return [each for name, each in looks[-1].readings.items() if name in read] if looks else []


def _graph(reading: GraphValue, values: Sequence[float | None], n_rows: int) -> list[Line]:
    """A title with the numbers, and rows of blocks between the labels of their axis."""
    low, high = _scale(reading, values)
    room = len(values) + _AXIS
    numbers = f"{_number(reading.value, reading.unit)} {reading.unit}"
    read = known(values)
    if read:
        numbers += (
            f"  min {_number(min(read), reading.unit)} max {_number(max(read), reading.unit)}"
        )
    name = reading.name
    if len(name) + 1 + len(numbers) > room:
        name = f"{name[: max(room - len(numbers) - 2, 0)]}…"
    title: Line = [(f"{name} ", "bold"), (numbers[: room - len(name) - 1], "")]
    labels = [""] * n_rows
    labels[-1] = f"{low:.4g}"
    labels[0] = f"{high:.4g}"
    rows = zip(labels, blocks(values, low, high, n_rows), strict=True)
    return [title, *([(f"{label:>{_AXIS - 1}} ", "dim"), (row, "good")] for label, row in rows)]


def _scale(reading: GraphValue, values: Sequence[float | None]) -> tuple[float, float]:
    """The lower and the upper end of the axis."""
    read = known(values)
    largest = max(read, default=0.0)
    if reading.unit == "°C":  # from 0 no change would be seen
        low = 10 * floor(min(read, default=0.0) / 10)
        return low, max(10 * ceil(largest / 10), low + 10)
    if reading.top:
        return 0, max(reading.top, largest)
    return min(0.0, *read, 0.0), _rounded_up(largest)


def _rounded_up(value: float) -> float:
    """The next of 1, 2 and 5 times a power of ten; 1 for 0."""
    if value <= 0:
        return 1
    power: float = 10 ** floor(log10(value))
    return next(step * power for step in (1, 2, 5, 10) if value <= step * power)


def _time_axis(n_columns: int, step_s: float) -> Line:
    """The time of the first column, and of the last."""
    words = f"{_ago((n_columns - 1) * step_s)} ago"
    if len(words) + 4 > n_columns:
        words = ""
    return [(f"{' ' * _AXIS}{words}{'now':>{n_columns - len(words)}}"[: n_columns + _AXIS], "dim")]


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"


def _number(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:.{_DIGITS[unit]}f}"


def _side_by_side(graphs: Sequence[Sequence[Line]], width: int) -> list[Line]:
    """Graphs of the same height as lines, each ``width`` columns wide with a gap after it."""
    lines: list[Line] = []
    for parts in zip(*graphs, strict=True):
        spans: list[Span] = []
        for part in parts[:-1]:
            spans += _padded(part, width + _GAP)
        lines.append([*spans, *parts[-1]])
    return lines


def _padded(line: Line, width: int) -> Line:
    return [*line, (" " * (width - sum(len(text) for text, _ in line)), "")]


def _filled(lines: Sequence[Line], n_lines: int) -> list[Line]:
    return [*lines, *([] for _ in range(n_lines - len(lines)))]
