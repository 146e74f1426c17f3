from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.models.roofs.rates import MIN_BLOCKS, estimate, members

rates = st.floats(min_value=1.0, max_value=1e12)
groups = st.lists(st.lists(rates, min_size=1, max_size=8), min_size=1, max_size=5)


def test_estimate_is_the_median_over_all_blocks() -> None:
    found = estimate([np.array([10.0, 11.0, 12.0]), np.array([13.0, 14.0])])
    assert found.value == 12.0  # of 10 11 12 13 14
    assert found.n_blocks == 5


def test_estimate_of_equal_blocks_has_no_width() -> None:
    found = estimate([np.full(8, 7.0)])
    assert (found.low, found.value, found.high) == (7.0, 7.0, 7.0)


def test_two_blocks_have_no_interval() -> None:
    found = estimate([np.array([10.0, 12.0])])
    assert found.value == 11.0  # (10 + 12) / 2
    assert found.low is None
    assert found.high is None


def test_scatter_between_trials_widens_the_interval() -> None:
    steady = np.array([99.0, 100.0, 101.0] * 4)
    apart = estimate([steady * 0.98, steady, steady * 1.02])
    together = estimate([steady, steady, steady])
    assert apart.low is not None
    assert together.low is not None
    assert apart.low < together.low


def test_members_are_within_tolerance_of_the_best() -> None:
    # the best median is 100, so at 3 % everything from 97 on belongs to the plateau
    medians = [100.0, 97.0, 96.9, 50.0]
    assert members([np.array([value]) for value in medians], 0.03) == [0, 1]


def test_one_lucky_block_does_not_lift_the_plateau() -> None:
    blocks = np.array([100.0] * 8 + [160.0])
    assert estimate([blocks]).value == 100.0


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        found = estimate([random.normal(100.0, 1.0, 9)])
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 100.0 <= found.high
    # 95 % of 200 is 190; a bootstrap of nine medians is known to be a little narrow
    assert 175 <= hits <= 200


@given(groups)
def test_interval_contains_the_estimate(blocks: list[list[float]]) -> None:
    found = estimate([np.array(group) for group in blocks])
    if sum(map(len, blocks)) < MIN_BLOCKS:
        assert found.low is None
    else:
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high


@given(groups, st.randoms())
def test_order_of_blocks_and_trials_does_not_matter(
    blocks: list[list[float]], random: object
) -> None:
    shuffled = [list(group) for group in blocks]
    for group in (*shuffled, shuffled):
        random.shuffle(group)  # type: ignore[attr-defined]
    assert estimate([np.array(g) for g in blocks]) == estimate([np.array(g) for g in shuffled])


@pytest.mark.parametrize("factor", [0.5, 3.0, 1e9])
def test_estimate_scales_with_its_unit(factor: float) -> None:
    blocks = np.array([9.0, 10.0, 11.0, 12.0, 13.0])
    one, other = estimate([blocks]), estimate([blocks * factor])
    assert other.value == pytest.approx(one.value * factor)
    assert other.low == pytest.approx((one.low or 0.0) * factor)
