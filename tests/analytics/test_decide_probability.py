"""How likely a value keeps a limit, by its log-normal interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.decide.values import ValueBand, probability_at_most


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (10.0, 0.5),  # the value itself
        (12.0, 0.975),  # the upper end
        (8.0, 0.025),  # the lower end
        # sqrt(10 · 12): half of the logarithmic way up, z = 0.98, Φ(0.97998) = 0.83645
        (math.sqrt(120.0), 0.83645),
        # sqrt(10 · 8): half of the way down, 1 − 0.83645
        (math.sqrt(80.0), 0.16355),
    ],
)
def test_the_interval_has_two_sides_of_their_own(limit: float, expected: float) -> None:
    assert probability_at_most(10.0, 8.0, 12.0, limit) == pytest.approx(expected, abs=1e-5)


def test_without_an_interval_nothing_is_said() -> None:
    assert probability_at_most(10.0, None, None, 20.0) is None


@pytest.mark.parametrize(("limit", "expected"), [(9.99, 0.0), (10.0, 1.0), (11.0, 1.0)])
def test_a_value_without_spread_is_certain(limit: float, expected: float) -> None:
    assert probability_at_most(10.0, 10.0, 10.0, limit) == expected


def test_a_band_without_interval_stays_below_its_own_value() -> None:
    nan = math.nan
    band = ValueBand(np.array([10.0, 10.0]), np.array([nan, 8.0]), np.array([nan, 12.0]))
    # 12 at 97.5 %, and 10 · (12 / 10)^(1.28155 / 1.95996) = 11.2661 at 90 %
    assert band.quantile(0.9) == pytest.approx([10.0, 11.2661], abs=1e-4)
    # 10 · (8 / 10)^(1.28155 / 1.95996) = 8.6424 at 10 %
    assert band.quantile(0.1) == pytest.approx([10.0, 8.6424], abs=1e-4)


@given(st.floats(0.001, 1000), st.floats(1.001, 3), st.floats(1.001, 3), st.floats(0.01, 0.99))
def test_quantile_and_probability_are_each_other_s_inverse(
    value: float, up: float, down: float, probability: float
) -> None:
    low, high = value / down, value * up
    limit = float(
        ValueBand(*(np.array([each]) for each in (value, low, high))).quantile(probability)[0]
    )
    assert probability_at_most(value, low, high, limit) == pytest.approx(probability, abs=1e-9)
