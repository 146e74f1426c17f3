"""Least absolute errors and the jackknife."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.models.predict.class_fit import jackknife_half, least_absolute

_ONES = np.ones(3)


def test_one_bad_time_moves_the_median_not_the_answer() -> None:
    # The sum of |x - 1| + |x - 1.1| + |x - 100| is least at the median, 1.1; the mean is 34.
    found = least_absolute(np.ones((3, 1)), np.array([1.0, 1.1, 100.0]), _ONES)
    assert found == pytest.approx([1.1], rel=1e-3)


def test_errors_are_shares_of_the_scale() -> None:
    # |x - 1| / 1 + |x - 2| / 0.1: a step from 2 towards 1 costs 10 and saves 1.
    found = least_absolute(np.ones((2, 1)), np.array([1.0, 2.0]), np.array([1.0, 0.1]))
    assert found == pytest.approx([2.0], rel=1e-3)


def test_nothing_is_negative() -> None:
    found = least_absolute(np.ones((3, 1)), np.array([-1.0, -2.0, -3.0]), _ONES)
    assert found.tolist() == [0.0]


def test_a_column_of_zeros_gets_nothing() -> None:
    rows = np.column_stack([np.ones(3), np.zeros(3)])
    assert least_absolute(rows, _ONES, _ONES) == pytest.approx([1.0, 0.0])


@given(
    st.lists(st.floats(0.1, 10), min_size=2, max_size=2),
    st.lists(st.floats(0.1, 10), min_size=4, max_size=9),
)
def test_what_can_be_explained_exactly_is(truth: list[float], sizes: list[float]) -> None:
    # Columns that are no multiples of each other: size and 1.
    rows = np.column_stack([np.cumsum(sizes), np.ones(len(sizes))])
    wanted = rows @ np.array(truth)
    found = least_absolute(rows, wanted, wanted)
    assert rows @ found == pytest.approx(wanted, rel=1e-4)


def test_jackknife_by_hand() -> None:
    # 1, 2, 3 without one network each: mean 2, spread 2, error √(2 · 2/3) = 1.1547;
    # Student's t with 2 degrees of freedom at 95 %: 4.3027. Half: 4.968.
    assert jackknife_half(np.array([[1.0], [2.0], [3.0]])) == pytest.approx([4.968], rel=1e-3)


def test_two_networks_tell_nothing_about_the_spread() -> None:
    assert jackknife_half(np.array([[1.0], [2.0]])) is None
