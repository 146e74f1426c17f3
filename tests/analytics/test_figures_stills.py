"""Still pictures of charts whose texts nobody checked."""

from __future__ import annotations

import pytest

from mansard.analytics.pages.figures.figure import drawable, still_picture


def _chart(name: str) -> dict[str, object]:
    return {
        "data": {"values": [{"mode": name, "w": 1.0}]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "w", "type": "quantitative"},
            "y": {"field": "mode", "type": "nominal"},
        },
    }


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\x00b", "</text><script>", "\uffff", "\ud800"])
def test_a_hostile_name_is_drawn_and_does_not_end_the_process(name: str) -> None:
    picture, width = still_picture(_chart(name))
    assert width > 0
    assert "<script" not in picture
    assert "\x1b" not in picture


def test_only_what_no_drawing_can_hold_is_replaced() -> None:
    kept = "50 W\u00a0· ε\n\tlines"
    spec = {"a\x08": ["\x1b[1m", kept, 1.5, None, True], "b": {"c": ("\ufffe",)}}
    assert drawable(spec) == {
        "a\ufffd": ["\ufffd[1m", kept, 1.5, None, True],
        "b": {"c": ["\ufffd"]},
    }
