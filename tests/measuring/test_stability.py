"""Statistics of block medians, against hand arithmetic and laws."""

from __future__ import annotations

from math import comb
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.measuring.sampling import (
    block_medians,
    interval_rank,
    median_interval,
    relative_half_width,
)

seconds = st.floats(min_value=1e-9, max_value=1e3)


def test_block_medians_keep_the_order_of_blocks() -> None:
    # Block 3: median of 5, 1, 2 is 2. Block 1: median of 4, 8 is 6.
    assert block_medians([5.0, 4.0, 1.0, 2.0, 8.0], [3, 1, 3, 3, 1]) == (2.0, 6.0)
    assert block_medians([], []) == ()


@pytest.mark.parametrize(
    ("n_values", "rank"),
    [
        (0, None),
        (5, None),  # the extremes miss with 2/2⁵ = 6.25 % > 5 %
        (6, 1),  # 2/2⁶ = 3.1 %
        (8, 1),  # 2/2⁸ = 0.8 %; without them 2·(1 + 8)/2⁸ = 7.0 %
        (9, 2),  # 2·(1 + 9)/2⁹ = 3.9 %
        (11, 2),  # 2·(1 + 11)/2¹¹ = 1.2 %; one further 2·(1 + 11 + 55)/2¹¹ = 6.5 %
        (12, 3),  # 2·(1 + 12 + 66)/2¹² = 3.9 %
        (20, 6),  # 2·(1 + 20 + 190 + 1140 + 4845 + 15504)/2²⁰ = 4.1 %
        (2000, 956),  # 1000 − 1.96·√2000/2 = 956.2, by the normal distribution; no float is 2²⁰⁰⁰
    ],
)
def test_rank_of_the_interval(n_values: int, rank: int | None) -> None:
    assert interval_rank(n_values) == rank


def test_interval_by_hand() -> None:
    values = [3.0, 1.0, 2.0, 9.0, 4.0, 5.0, 6.0, 7.0, 8.0]  # nine: second to eighth
    assert median_interval(values) == (2.0, 8.0)
    # (8 - 2) / 2 / 5
    assert relative_half_width(values) == pytest.approx(0.6)
    assert relative_half_width(values[:5]) is None


@given(st.integers(min_value=6, max_value=60), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_rank_is_the_greatest_that_covers(n_values: int, confidence: float) -> None:
    def missed(rank: int) -> float:
        return float(2 * sum(comb(n_values, k) for k in range(rank)) / 2**n_values)

    rank = interval_rank(n_values, confidence)
    if rank is None:
        assert missed(1) > 1 - confidence
    else:
        assert missed(rank) <= 1 - confidence < missed(rank + 1)


@given(st.lists(seconds, min_size=6, max_size=50))
def test_interval_holds_the_median(values: list[float]) -> None:
    interval = median_interval(values)
    assert interval is not None
    assert min(values) <= interval[0] <= median(values) <= interval[1] <= max(values)


@given(st.lists(seconds, min_size=6, max_size=50), st.floats(min_value=0.125, max_value=8.0))
def test_width_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    one = relative_half_width(values)
    other = relative_half_width([value * factor for value in values])
    assert one is not None
    assert other == pytest.approx(one, rel=1e-9, abs=1e-12)


@given(seconds, st.integers(min_value=6, max_value=50))
def test_equal_values_have_no_width(value: float, n_values: int) -> None:
    assert relative_half_width([value] * n_values) == 0.0
