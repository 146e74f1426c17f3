from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.figures.label_layout import (
    CHARACTER_PX,
    HEIGHT_PX,
    LINE_PX,
    WIDTH_PX,
    Window,
    place_labels,
)

SEEN = Window(0.1, 1000.0, 1.0, 1000.0)
EMPTY_NAMES = pl.DataFrame(
    schema={"mode": pl.String, "kind": pl.String, "text": pl.String, "x": float, "y": float}
)
EMPTY_LINES = pl.DataFrame(schema={"mode": pl.String, "line": pl.String, "x": float, "y": float})
NO_OTHERS = pl.DataFrame(
    schema={"mode": pl.String, "batch": pl.String, "x": pl.Float64, "y": pl.Float64}
)
spots = st.tuples(
    st.floats(min_value=1.0, max_value=300.0), st.floats(min_value=100.0, max_value=900.0)
)


def place(
    points: list[tuple[float, float]], others: pl.DataFrame = NO_OTHERS
) -> list[dict[str, object]]:
    rows = [
        {
            "mode": "2c",
            "batch": "1",
            "network": f"net-{at}",
            "precision": "fp32",
            "text": f"network {at}",
            "x": x,
            "y": y,
        }
        for at, (x, y) in enumerate(points)
    ]
    return place_labels(pl.DataFrame(rows), EMPTY_NAMES, EMPTY_LINES, SEEN, others).to_dicts()


def test_a_name_covers_no_mark_that_has_none() -> None:
    (alone,) = place([(10.0, 500.0)])
    left, low, right, high = box(alone)
    middle = {"x": 0.1 * 10 ** ((left + right) / 2 / WIDTH_PX * 4), "y": float(str(alone["y"]))}
    others = pl.DataFrame([{"mode": "2c", "batch": "1", **middle}])
    (moved,) = place([(10.0, 500.0)], others)
    assert box(moved) != (left, low, right, high)


def box(row: dict[str, object]) -> tuple[float, float, float, float]:
    wide = CHARACTER_PX * len(str(row["text"]))
    x = pixels(float(str(row["x"])), 0.1, 1000.0, WIDTH_PX)
    y = HEIGHT_PX - pixels(float(str(row["y"])), 1.0, 1000.0, HEIGHT_PX)
    left = x if row["align"] == "left" else x - wide
    return left, y - LINE_PX / 2, left + wide, y + LINE_PX / 2


def pixels(value: float, low: float, high: float, size: float) -> float:
    import math

    return math.log(value / low) / math.log(high / low) * size


def test_a_lone_point_is_named_beside_it() -> None:
    (row,) = place([(10.0, 500.0)])
    assert (row["text"], row["align"], row["hangs"]) == ("network 0", "left", False)


def test_twelve_points_at_one_spot_are_all_named() -> None:
    assert len(place([(10.0, 900.0)] * 12)) == 12


@settings(max_examples=40)
@given(st.lists(spots, min_size=1, max_size=12))
def test_names_never_overlap_nor_leave_the_chart(points: list[tuple[float, float]]) -> None:
    boxes = [box(row) for row in place(points)]
    for at, (left, top, right, bottom) in enumerate(boxes):
        assert left > -1
        assert top > -1
        assert right < WIDTH_PX + 1
        assert bottom < HEIGHT_PX + 1
        for other in boxes[at + 1 :]:
            apart = (
                right <= other[0] + 0.1
                or other[2] <= left + 0.1
                or bottom <= other[1] + 0.1
                or other[3] <= top + 0.1
            )
            assert apart
