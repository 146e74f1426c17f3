"""A limit on power stretches time: by hand, and as a law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.models.energy.roof import capped_time_s

_amounts = st.floats(1e-3, 1e3)


def test_what_the_limit_leaves_pays_for_the_work() -> None:
    # 30 J of work and traffic, 10 W of 20 W are left to pay them: 30 J / 10 W = 3 s > 2 s.
    assert capped_time_s(2.0, 30.0, 10.0, 20.0) == 3.0
    # 30 W are left: 1 s < 2 s, the limit does not bind.
    assert capped_time_s(2.0, 30.0, 10.0, 40.0) == 2.0


def test_a_limit_below_the_constant_power_is_never_met() -> None:
    assert capped_time_s(2.0, 30.0, 20.0, 20.0) == np.inf
    assert capped_time_s(2.0, 30.0, 25.0, 20.0) == np.inf
    # Nothing to pay beside the constant power, which the limit cannot change.
    assert capped_time_s(2.0, 0.0, 25.0, 20.0) == 2.0


@pytest.mark.parametrize("unknown", [1, 2, 3])
def test_what_is_not_known_limits_nothing(unknown: int) -> None:
    given_ = [2.0, 30.0, 10.0, 20.0]
    given_[unknown] = np.nan
    assert capped_time_s(*given_) == 2.0


def test_arguments_are_broadcast() -> None:
    found = capped_time_s(np.array([[1.0], [5.0]]), 30.0, 10.0, np.array([20.0, 40.0, np.nan]))
    np.testing.assert_array_equal(found, [[3.0, 1.0, 1.0], [5.0, 5.0, 5.0]])


@given(_amounts, _amounts, _amounts, _amounts)
def test_the_power_over_the_capped_time_is_at_most_the_limit(
    time_s: float, dynamic_j: float, constant_w: float, left_w: float
) -> None:
    limit_w = constant_w + left_w
    found = float(capped_time_s(time_s, dynamic_j, constant_w, limit_w))
    assert found >= time_s
    assert dynamic_j / found + constant_w <= limit_w * (1 + 1e-9)
