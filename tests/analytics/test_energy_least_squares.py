"""Non-negative least squares against its own optimality conditions, and Student's t by table."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.statistics import student_quantile
from mansard.analytics.models.energy.least_squares import solve_active_set, solve_non_negative


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_no_small_step_makes_it_better(seed: int, n_columns: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_columns + 4, n_columns))
    wanted = random.normal(size=n_columns + 4)
    found = solve_non_negative(rows, wanted)
    assert (found.values >= 0).all()
    # Karush, Kuhn and Tucker: no slope where a value is free, none downhill where it is 0
    slope = rows.T @ (rows @ found.values - wanted)
    assert slope[found.values > 0] == pytest.approx(0, abs=1e-8)
    assert (slope[found.values == 0] >= -1e-8).all()


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 12))
def test_nor_where_there_are_more_columns_than_rows(seed: int, n_columns: int, n_rows: int) -> None:
    random = np.random.default_rng(seed)
    rows, wanted = random.normal(size=(n_rows, n_columns)), random.normal(size=n_rows)
    found = solve_active_set(rows, wanted)
    assert (found >= 0).all()
    slope = rows.T @ (rows @ found - wanted)
    assert slope[found > 0] == pytest.approx(0, abs=1e-7)
    assert (slope[found == 0] >= -1e-7).all()


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_no_subset_of_the_columns_is_better(seed: int, n_columns: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_columns + 4, n_columns))
    wanted = random.normal(size=n_columns + 4)
    least = float(wanted @ wanted)
    for n_used in range(1, n_columns + 1):
        for used in combinations(range(n_columns), n_used):
            tried = np.linalg.lstsq(rows[:, used], wanted, rcond=None)[0]
            if (tried >= 0).all():
                least = min(least, float(((rows[:, used] @ tried - wanted) ** 2).sum()))
    found = rows @ solve_active_set(rows, wanted) - wanted
    assert float(found @ found) == pytest.approx(least, rel=1e-9)


def test_columns_of_nothing_and_columns_alike() -> None:
    rows = np.array([[0.0, 1.0, 1.0], [0.0, 2.0, 2.0]])
    found = solve_active_set(rows, np.array([3.0, 6.0]))
    assert found[0] == 0.0
    assert rows @ found == pytest.approx([3.0, 6.0])


def test_columns_of_very_different_sizes() -> None:
    # 1e-12 · 2e12 + 1e6 · 3e-6 = 2 + 3, as joules of FLOPs and of seconds are
    rows = np.array([[1e-12, 1e6], [2e-12, 1e6], [1e-12, 3e6]])
    found = solve_active_set(rows, rows @ np.array([2e12, 3e-6]))
    assert found == pytest.approx([2e12, 3e-6], rel=1e-6)


def test_a_positive_solution_is_the_plain_one() -> None:
    # y = 2 + 3 t at t = 0, 1, 2, 3
    rows = np.array([[1.0, t] for t in range(4)])
    found = solve_non_negative(rows, np.array([2.0, 5.0, 8.0, 11.0]))
    assert found.values == pytest.approx([2.0, 3.0])
    assert not found.is_hidden.any()


def test_half_widths_of_a_straight_line() -> None:
    # The mean of 1, 2, 3 is 2 with a standard error of 1/√3; t(2) = 4.303: ± 2.484
    found = solve_non_negative(np.ones((3, 1)), np.array([1.0, 2.0, 3.0]))
    assert found.half is not None
    assert found.half[0] == pytest.approx(2.484, abs=0.001)


def test_columns_that_are_one_are_hidden() -> None:
    rows = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [3.0, 6.0, 0.0], [1.0, 2.0, 2.0]])
    # the first two together are 1, the third is 2: 1, 2 + 2, 3, 1 + 2 · 2
    found = solve_non_negative(rows, np.array([1.0, 4.0, 3.0, 5.0]))
    assert found.is_hidden.tolist() == [True, True, False]
    assert found.values[2] == pytest.approx(2.0)


# Quantiles of 95 % two-sided, as in any table of Student's distribution.
@pytest.mark.parametrize(
    ("n_free", "quantile"),
    [
        *((1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (10, 2.2281)),
        *((30, 2.0423), (99, 1.9842), (100, 1.9840), (1000, 1.9623)),
    ],
)
def test_student_by_table(n_free: int, quantile: float) -> None:
    assert student_quantile(n_free) == pytest.approx(quantile, abs=6e-5)
