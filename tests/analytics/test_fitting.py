"""What fits, by the ends of needs and of what a machine gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.decisions.fitting import (
    Certainty,
    certainty,
    largest,
    limited,
    need_ends,
    with_less,
)
from mansard.core.hardware.memory import MemoryCapacity
from mansard.estimator.engine_memory import MemoryNeed

GIVEN = MemoryCapacity(
    name="board", low_bytes=80, high_bytes=100, total_bytes=110, source="made up"
)


def _needs(low: int, high: int) -> tuple[MemoryNeed, ...]:
    return MemoryNeed("weights", low, low, ""), MemoryNeed("engine", 0, high - low, "")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (60, 80, "fits"),  # the most that is needed is the least that is given
        (60, 81, "uncertain"),
        (100, 120, "uncertain"),  # the least that is needed is the most that is given
        (101, 120, "does not fit"),
    ],
)
def test_only_what_surely_fits_fits(low: int, high: int, expected: Certainty) -> None:
    needs = _needs(low, high)
    assert need_ends(needs) == (low, high)
    assert certainty(needs, GIVEN) == expected


def test_an_engine_with_a_share_of_all_memory_has_no_more() -> None:
    # 0.8 of 110 is 88: above the 80 that are surely given, below the 100 at most
    fewer = limited(GIVEN, 0.8)
    assert (fewer.low_bytes, fewer.high_bytes) == (80, 88)
    assert limited(GIVEN, None) is GIVEN


@given(st.integers(0, 3000), st.integers(1, 3000), st.integers(1, 50))
def test_the_largest_multiple_that_fits(limit: int, most: int, step: int) -> None:
    def fits(n: int) -> bool:
        return n <= limit

    expected = min(limit, most) // step * step
    assert largest(fits, most, step) == (expected or None)


def test_less_is_a_smaller_batch_before_a_shorter_context() -> None:
    assert with_less("fits", (4096, 8), 4096, 8) == ("fits", None)
    assert with_less("does not fit", (4096, 8), 512, 3) == ("fits with less", "batch 3")
    assert with_less("does not fit", (4096, 1), 512, None) == (
        "fits with less",
        "a context of 512 tokens",
    )
    assert with_less("uncertain", (4096, 1), 512, None) == ("uncertain", "a context of 512 tokens")
    assert with_less("does not fit", (None, 1), None, None) == ("does not fit", None)
