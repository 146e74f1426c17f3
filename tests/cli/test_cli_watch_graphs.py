"""The graphs of ``mansard board watch``: lines from small histories, and which window has them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.cli.board.watch_graphs import (
    GraphValue,
    TimedLook,
    blocks,
    columns,
    graph_lines,
    screen_lines,
    with_look,
)
from mansard.cli.board.watch_lines import board_lines, plain
from mansard.core.records import BoardSample
from mansard.device.watching import BoardWatch
from mansard.simulator import create_board

BOARDS = ("agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor")


def _looks(*values: float | None, unit: str = "%", top: float | None = 100) -> list[TimedLook]:
    return [
        TimedLook(1000.0 + at, {"GPU load": GraphValue("GPU load", unit, value, top)})
        for at, value in enumerate(values)
    ]


def _text(looks: list[TimedLook], width: int, height: int, step_s: float = 1.0) -> list[str]:
    return [plain(line) for line in graph_lines(looks, width, height, step_s)]


@pytest.fixture
def sample(tmp_path: Path) -> BoardSample:
    watch = BoardWatch(create_board("agx-orin", tmp_path))
    watch.read()
    return watch.read()


def test_a_graph_has_a_title_two_rows_and_an_axis() -> None:
    # 40 columns less 5 of the labels: 35 s. Two rows have 16 levels: 0 % has the lowest block,
    # 25 % 4 of 16, 50 % 8, 100 % 16. The look without a reading is blank.
    lines = _text(_looks(0, 50, 100, None, 25), 40, 4)
    assert lines == [
        "GPU load 25 %  min 0 max 100",
        " 100                                 █",
        "   0                               ▁██ ▄",
        "     34 s ago                        now",
    ]


def test_rows_of_blocks() -> None:
    # 24 levels between 0 and 12 W: 2 a watt. 0.1 W is rounded to none and drawn as the lowest.
    assert blocks([None, 0, 0.1, 1, 4.5, 8, 12, 13], 0, 12, 3) == [
        "      ██",
        "    ▁███",
        " ▁▁▂████",
    ]


def test_a_late_look_leaves_a_gap() -> None:
    looks = [
        TimedLook(at, {"power": GraphValue("power", "W", at)}) for at in (10.0, 11.02, 14.0, 14.98)
    ]
    # Of six seconds that end with 14.98: 10, 11.02, none at 12 and 13, 14, 14.98.
    assert columns(looks, "power", 6, 1.0) == [10.0, 11.02, None, None, 14.0, 14.98]
    assert columns(looks, "power", 2, 1.0) == [14.0, 14.98]  # a narrower window
    assert columns(looks, "energy", 2, 1.0) == [None, None]


def test_ends_of_the_axes() -> None:
    # A clock ends at its cap, a power at the next of 1, 2 and 5, a temperature at tens.
    clock = _text(_looks(306, 612, unit="MHz", top=918), 40, 4)
    assert [line[:5] for line in clock[1:3]] == [" 918 ", "   0 "]
    power = _text(_looks(14.83, 9, unit="W", top=None), 40, 4)
    assert [line[:5] for line in power[1:3]] == ["  20 ", "   0 "]
    assert power[0] == "GPU load 9.00 W  min 9.00 max 14.83"
    heat = _text(_looks(41.25, 58, unit="°C", top=None), 40, 4)
    assert [line[:5] for line in heat[1:3]] == ["  60 ", "  40 "]
    nothing = _text(_looks(0, 0, unit="W", top=None), 40, 4)
    assert nothing[2] == "   0                                  ▁▁"


def test_a_reading_that_is_gone_keeps_its_past() -> None:
    lines = _text(_looks(50, None), 40, 4)
    assert lines[0] == "GPU load – %  min 50 max 50"
    assert lines[2] == "   0                                  █"
    assert _text(_looks(None, None), 40, 4) == []
    assert _text([], 40, 4) == []


def test_a_long_span_and_a_long_name() -> None:
    name = "V" * 500
    looks = [TimedLook(0, {name: GraphValue(name, "W", 3.0)})]
    lines = _text(looks, 44, 4, step_s=60.0)
    # "3.00 W  min 3.00 max 3.00" is 25 wide: 44 - 25 - 1 are left, the last of them the mark.
    assert lines[0] == f"{'V' * 17}… 3.00 W  min 3.00 max 3.00"
    assert lines[3] == f"     38 min ago{'now':>29}"
    assert _text(looks, 44, 4, step_s=3600.0)[3] == f"     38 h ago{'now':>31}"


def test_history_is_bounded(sample: BoardSample) -> None:
    looks: tuple[TimedLook, ...] = ()
    for at in range(50):
        looks = with_look(looks, replace(sample, time_s=float(at)), 20)
    assert [look.time_s for look in looks] == [float(at) for at in range(30, 50)]
    assert list(looks[-1].readings)[:7] == [
        *("GPU load", "GPU clock", "total power", "hottest sensor"),
        *("EMC load", "EMC clock", "CPU load"),
    ]
    assert len(with_look(looks, sample, 5)) == 5


def test_a_small_window_has_no_graphs(sample: BoardSample) -> None:
    looks = with_look((), sample, 80)
    for width, height in ((80, 23), (60, 23), (80, 10)):
        assert screen_lines(sample, looks, width, height, 1.0) == board_lines(sample, width)


def test_a_high_window_has_graphs_below_and_a_wide_one_beside(sample: BoardSample) -> None:
    looks = with_look((), sample, 200)
    high = [plain(line) for line in screen_lines(sample, looks, 100, 29, 1.0)]
    assert len(high) == 29
    assert high[: high.index("")] == [plain(line) for line in board_lines(sample, 100)]
    assert high[high.index("") + 1].startswith("GPU load 0 %  min 0 max 0  ")
    wide = [plain(line) for line in screen_lines(sample, looks, 200, 23, 1.0)]
    assert len(wide) == 23
    assert wide[0].startswith(plain(board_lines(sample)[0]))
    assert wide[0][82:].startswith("GPU load 0 %  min 0 max 0")


@pytest.mark.parametrize("name", BOARDS)
def test_a_screen_fits_its_window(name: str, tmp_path: Path) -> None:
    watch = BoardWatch(create_board(name, tmp_path))
    watch.read()
    sample = watch.read()
    for width, height in product((10, 20, 60, 81, 100, 120, 200, 500), (1, 23, 24, 29, 39, 100)):
        lines = screen_lines(sample, with_look((), sample, width), width, height, 1.0)
        assert max(sum(len(text) for text, _ in line) for line in lines) <= width
        assert len(lines) <= max(height, len(board_lines(sample, width)))
        assert all(plain(line, can_draw=False).isascii() for line in lines)
