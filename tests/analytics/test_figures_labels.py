"""Names in a roofline: where they may stand, and what becomes of those without a place."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.pages.figures.naming import NamedLine, place_names
from mansard.analytics.pages.figures.plane import (
    EDGE_PX,
    LEADER_PX,
    LINE_PX,
    NARROW_PX,
    POINT_PX,
    SLOPE_PX,
    TYPE_PX,
    Layout,
    Placed,
    Rows,
    Spot,
    Window,
    cross,
    cut,
    distinct_labels,
    extent,
    meet,
    shortened_label,
    squares,
    text_box,
    text_px,
)

WIDE, HIGH = 500.0, 380.0
spots = st.tuples(
    st.floats(min_value=8.0, max_value=WIDE - 8), st.floats(min_value=8.0, max_value=HIGH - 8)
)
# Names as long as real ones; of each letter some are.
texts = st.text(alphabet="aimlW_5 .", min_size=1, max_size=24)
points = st.lists(st.tuples(spots, texts), min_size=1, max_size=24)


def boxes_of(named: list[tuple[Spot, str]], found: list[Placed | None], stretch: float) -> Rows:
    """The names in a chart that is drawn ``stretch`` times wider than it was laid out."""
    return np.array(
        [
            text_box((placed.anchor[0] * stretch, placed.anchor[1]), placed.align, text_px(text))
            for (_, text), placed in zip(named, found, strict=True)
            if placed is not None
        ]
    ).reshape(-1, 4)


def overlaps(boxes: Rows) -> bool:
    return bool(np.triu(meet(boxes, boxes), 1).any())


@settings(max_examples=60)
@given(points, st.integers(min_value=0, max_value=5), st.floats(min_value=1.0, max_value=3.0))
def test_no_name_covers_another_or_a_point_or_leaves_the_chart_however_wide_it_is(
    named: list[tuple[Spot, str]], n_first: int, stretch: float
) -> None:
    layout = Layout(WIDE, HIGH)
    found = layout.beside([text for _, text in named], [spot for spot, _ in named], n_first)
    assert len(found) == len(named)  # a place or None for each: none is lost
    for wider in (1.0, stretch):
        names = boxes_of(named, found, wider)
        assert not overlaps(names)
        assert not meet(names, squares([(x * wider, y) for (x, y), _ in named])).any()
        assert (names[:, 0] >= EDGE_PX - 1e-6).all()
        assert (names[:, 2] <= wider * WIDE - EDGE_PX + 0.02 * wider).all()
        assert (names[:, 1] >= 0).all()
        assert (names[:, 3] <= HIGH).all()
    for (spot, _), placed in zip(named, found, strict=True):
        assert placed is None or math.dist(spot, placed.anchor) <= LEADER_PX + 1e-6


rises = st.tuples(
    st.floats(min_value=0.0, max_value=WIDE / 2), st.floats(min_value=0.0, max_value=HIGH)
)


@settings(max_examples=60)
@given(points, st.lists(spots, min_size=2, max_size=4), rises)
def test_names_of_roofs_cover_no_point_and_no_other_name(
    named: list[tuple[Spot, str]], corners: list[Spot], low: Spot
) -> None:
    layout = Layout(WIDE, HIGH)
    layout.mark([spot for spot, _ in named])
    marks = layout.taken
    placed = layout.along("fp32 387.7 GFLOP/s", sorted(set(corners)))
    layout.on_slope("DRAM 40.64 GB/s", (low[0], HIGH), (WIDE, min(low[1], HIGH - 60)))
    own = layout.taken[len(marks) :]
    assert not meet(own, marks).any()
    if placed is not None:
        wide = text_px("fp32 387.7 GFLOP/s", is_bold=True)
        assert tuple(own[0]) == text_box(placed.anchor, "right", wide)
        assert not meet(own[:1], own[1:]).any()


@settings(max_examples=60)
@given(points, st.lists(spots, min_size=2, max_size=5), rises)
def test_no_name_crosses_a_line_where_none_may(
    named: list[tuple[Spot, str]], corners: list[Spot], low: Spot
) -> None:
    layout = Layout(WIDE, HIGH, may_cross=False)
    path = sorted(set(corners))
    rise = ((low[0], HIGH), (WIDE, min(low[1], HIGH - 60)))
    layout.line(path)
    layout.line(rise)
    layout.along("fp32 387.7 GFLOP/s", path)
    layout.below_slope("L2 40.64 GB/s", *rise)
    names = layout.taken
    found = layout.beside([text for _, text in named], [spot for spot, _ in named])
    boxes = np.vstack([names, boxes_of(named, found, 1.0)])
    assert not cut(boxes, layout.lines).any()
    assert not overlaps(boxes)


def test_no_other_line_is_between_a_line_and_its_name() -> None:
    """Of two lines 6 px apart the lower one is named below, the upper one above."""
    layout = Layout(WIDE, HIGH)
    lower, upper = (((0.0, at), (400.0, at - 300.0)) for at in (350.0, 340.0))
    layout.line(lower)
    layout.line(upper)
    for (start, end), side in ((lower, 1), (upper, -1)):
        anchor = layout.on_slope("L3", start, end)
        assert anchor is not None
        # the text is 10 px off its anchor, up and left along (-0.6, -0.8)
        x, y = anchor[0] - 0.6 * SLOPE_PX, anchor[1] - 0.8 * SLOPE_PX
        assert side * (y - (start[1] - 0.75 * x)) > 0


def test_a_level_name_is_at_its_own_line() -> None:
    """Two curves that part at the right end, by 18 px: there the lower one is named below."""
    upper = ((0.0, 300.0), (300.0, 120.0), (500.0, 100.0))
    lower = ((0.0, 303.0), (300.0, 138.0), (500.0, 118.0))
    layout = Layout(WIDE, HIGH, may_cross=False)
    layout.line(upper)
    layout.line(lower)
    for path, side in ((upper, -1), (lower, 1)):
        placed = layout.along("fp16 tensor", path)
        assert placed is not None
        assert placed.anchor[0] == WIDE - EDGE_PX
        assert side * (placed.anchor[1] - path[-1][1]) > 0


def test_a_name_without_room_along_a_slope_is_level_below_it() -> None:
    layout = Layout(WIDE, HIGH)
    start, end = (0.0, 150.0), (90.0, 100.0)
    layout.line((start, end))
    assert layout.on_slope("DRAM 189.5 GB/s", start, end) is None
    anchor = layout.below_slope("DRAM 189.5 GB/s", start, end)
    assert anchor is not None
    # 6.5 px along the line, 6.5 px right of it: at 12.2, and as wide as the text
    assert anchor[0] == pytest.approx(12.2 + text_px("DRAM 189.5 GB/s", is_bold=True), abs=0.1)
    # 3.2 px above the start of the line, and 7.5 + 2.5 px below it
    assert anchor[1] == pytest.approx(156.8, abs=0.1)


def test_a_lone_point_is_named_beside_it_without_a_line() -> None:
    (placed,) = Layout(WIDE, HIGH).beside(["resnet50"], [(200.0, 100.0)])
    # 6.5 px of the mark and 3 px between
    assert placed == Placed((209.5, 100.0), "left", is_led=False)


def test_what_has_no_place_is_none_and_the_first_are_named_before_others() -> None:
    crowd = [(250.0, 190.0)] * 60
    found = Layout(WIDE, HIGH).beside(["a name of a network"] * 60, crowd, n_first=2)
    n_named = sum(placed is not None for placed in found)
    assert 4 <= n_named < 60
    assert None not in found[:2]


def test_a_line_to_a_name_crosses_no_name_and_no_other_line() -> None:
    layout = Layout(WIDE, HIGH)
    close = [(250.0 + 3 * at, 190.0) for at in range(8)]
    found = layout.beside(["a longer name"] * 8, close)
    assert sum(placed is not None and placed.is_led for placed in found) >= 2
    assert not cross(layout.leaders, layout.leaders).any()
    names = boxes_of([(spot, "a longer name") for spot in close], found, 1.0)
    assert not cut(names, layout.leaders, 0.0).any()


def test_a_slanted_line_comes_into_the_boxes_that_it_is_near() -> None:
    line = np.array([[0.0, 0.0, 100.0, 100.0]])
    # the corner (60, 40) is 20 / √2 = 14 px off, and its box is in the line's own rectangle
    boxes = np.array([[45.0, 45.0, 55.0, 55.0], [60.0, 20.0, 80.0, 40.0]])
    assert cut(boxes, line, 1.0).tolist() == [[True], [False]]
    # with 15 px of room at each side it does
    assert cut(boxes, line, 15.0).tolist() == [[True], [True]]
    others = np.array([[0.0, 100.0, 100.0, 0.0], [0.0, 10.0, 100.0, 110.0]])
    assert cross(line, others).tolist() == [[True, False]]


def test_the_width_of_a_text_grows_with_its_letters() -> None:
    # of eight letters r and t are narrow
    assert text_px("resnet50") == pytest.approx(TYPE_PX * (6 * 0.645 + 2 * 0.42))
    assert text_px("net", is_bold=True) == pytest.approx(1.14 * text_px("net"))
    assert text_px("日本") == 2 * TYPE_PX
    assert shortened_label("x" * 30) == "x" * 23 + "…"


def test_the_plane_turns_values_into_pixels_and_back() -> None:
    # 4 decades over 400 px, 3 over 300
    seen = Window(0.1, 1000.0, 1.0, 1000.0, 400, 300)
    assert seen.pixels(1.0, 100.0) == pytest.approx((100.0, 100.0))
    assert seen.values(100.0, 100.0) == pytest.approx((1.0, 100.0))
    assert seen.x_ticks == [0.1, 1.0, 10.0, 100.0, 1000.0]
    assert seen.y_ticks[:4] == [1.0, 2.0, 5.0, 10.0]  # 100 px a decade have room for them
    # a line of slope one rises 100 px in 100 px
    assert math.degrees(seen.angle_rad) == pytest.approx(45.0)
    assert Window(3.0, 30.0, 1.0, 1e6, 400, 300).x_ticks == [5.0, 10.0, 20.0]
    assert Window(3.0, 30.0, 1.0, 1e6, 400, 300).y_ticks == [10.0**power for power in range(7)]


def test_a_range_fits_its_values_and_is_wide_enough() -> None:
    assert extent([4.0, 100.0], 2.0, 3.0, least=30.0) == (2.0, 300.0)
    # 5 to 20 is 4 times wide: to be 16 times, both ends go out by 2
    assert extent([10.0], 2.0, 2.0, least=16.0) == pytest.approx((2.5, 40.0))
    assert extent([], 2.0, 2.0, least=1.0) == (0.5, 2.0)


def rows(*networks: tuple[str, float, float, bool]) -> pl.DataFrame:
    own = {"mode": "2c", "batch": "1", "precision": "fp32"}
    return pl.DataFrame(
        [
            {**own, "network": name, "text": name, "x": x, "y": y, "is_measured": is_measured}
            for name, x, y, is_measured in networks
        ]
    )


ROOF = NamedLine("2c", "fp32", ["fp32 400 GFLOP/s", "fp32"], "level", [(10.0, 400.0), (1e3, 400.0)])
SEEN = Window(1.0, 1000.0, 10.0, 1000.0, 500)
NO_MARKS = pl.DataFrame(schema={"mode": pl.String, "x": pl.Float64, "y": pl.Float64})


def test_names_are_laid_out_for_two_widths_and_the_unnamed_are_counted() -> None:
    crowd = rows(*((f"a network {at}", 50.0, 200.0, at == 0) for at in range(40)))
    names = place_names([ROOF], NO_MARKS, crowd, SEEN)
    assert names.roofs.select("width_px", "text").rows() == [
        (NARROW_PX, "fp32 400 GFLOP/s"),
        (500, "fp32 400 GFLOP/s"),
    ]
    for width_px in (NARROW_PX, 500):
        own = names.points.filter(pl.col("width_px") == width_px)
        assert names.n_unnamed["2c", "1", width_px] == 40 - len(own) > 0
        assert "a network 0" in own["network"]  # measured
    # A name stands 14 px above its line: half a line of type and half a mark.
    assert LINE_PX / 2 + POINT_PX == 14.0
    x, y = names.roofs.filter(pl.col("width_px") == 500).select("x", "y").row(0)
    assert SEEN.pixels(x, y) == pytest.approx((498.0, SEEN.pixels(1e3, 400.0)[1] - 14.0))


def test_a_long_name_of_a_roof_gives_way_to_a_short_one() -> None:
    long = NamedLine("2c", "fp32", ["f" * 200, "fp32"], "level", ROOF.path)
    names = place_names([long], NO_MARKS, rows(("net", 50.0, 200.0, False)), SEEN)
    assert set(names.roofs["text"].to_list()) == {"fp32"}


def test_labels_that_would_be_cut_to_one_stay_distinct() -> None:
    names = [
        f"Meta-Llama-3.1-8B-Instruct {quantization} [decode at 512]"
        for quantization in ("Q4_K_M", "Q8_0")
    ]
    assert shortened_label(names[0]) == shortened_label(names[1])
    labels = distinct_labels(names)
    assert len(set(labels)) == 2
    assert distinct_labels(["short", "short"]) == ["short", "short"]


@given(st.lists(st.text(st.sampled_from("ab["), max_size=40), max_size=8))
def test_labels_are_equal_only_where_names_are(names: list[str]) -> None:
    labels = distinct_labels(names, 8)
    assert len(set(labels)) == len(set(names))
