"""How likely a value keeps a limit, by its log-normal interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.decisions.values import (
    BROKEN,
    KEPT,
    UNKNOWN,
    ValueBand,
    probability_at_most,
)


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
    ends = np.array([nan, 8.0]), np.array([nan, 12.0])
    band = ValueBand(np.array([10.0, 10.0]), *ends, np.array(["", "spread"]))
    # 12 at 97.5 %, and 10 · (12 / 10)^(1.28155 / 1.95996) = 11.2661 at 90 %
    assert band.quantile(0.9) == pytest.approx([10.0, 11.2661], abs=1e-4)
    # 10 · (8 / 10)^(1.28155 / 1.95996) = 8.6424 at 10 %
    assert band.quantile(0.1) == pytest.approx([10.0, 8.6424], abs=1e-4)


@given(st.floats(0.001, 1000), st.floats(1.001, 3), st.floats(1.001, 3), st.floats(0.01, 0.99))
def test_quantile_and_probability_are_each_other_s_inverse(
    value: float, up: float, down: float, probability: float
) -> None:
    low, high = value / down, value * up
    band = ValueBand(np.array([value]), np.array([low]), np.array([high]), np.array(["spread"]))
    limit = float(band.quantile(probability)[0])
    assert probability_at_most(value, low, high, limit) == pytest.approx(probability, abs=1e-9)


@pytest.mark.parametrize(
    ("interval", "limit", "expected"),
    [
        # 8 to 12 about 10: 90 % at 11.266, 10 % at 8.642
        ("spread", 11.3, KEPT),
        ("spread", 11.2, UNKNOWN),
        ("spread", 8.7, UNKNOWN),
        ("spread", 8.6, BROKEN),
        # What any network can do: only beyond the ends is anything known.
        ("bounds", 12.0, KEPT),
        ("bounds", 11.9, UNKNOWN),
        ("bounds", 8.1, UNKNOWN),
        ("bounds", 7.9, BROKEN),
        # At best 8: no limit is ever kept.
        ("roof", 100.0, UNKNOWN),
        ("roof", 8.1, UNKNOWN),
        ("roof", 7.9, BROKEN),
    ],
)
def test_a_limit_is_kept_broken_or_not_known(interval: str, limit: float, expected: int) -> None:
    band = ValueBand(np.array([10.0]), np.array([8.0]), np.array([12.0]), np.array([interval]))
    assert band.holds(limit, 0.9).tolist() == [expected]


def test_a_value_alone_keeps_nothing() -> None:
    nan = np.array([math.nan])
    band = ValueBand(np.array([10.0]), nan, nan, np.array([""]))
    assert [band.holds(limit, 0.9)[0] for limit in (9.9, 100.0)] == [BROKEN, UNKNOWN]


def test_of_a_roof_s_power_nothing_is_known() -> None:
    # Energy and time are at least so much: their ratio may be anything.
    ends = np.array([8.0]), np.array([12.0])
    band = ValueBand(np.array([10.0]), *ends, np.array(["roof"]), is_power=True)
    assert band.holds(9.0, 0.9).tolist() == [UNKNOWN]


def test_what_values_are_compared_by_grows_with_what_is_not_known_of_them() -> None:
    # ln(12.5 / 8) / (2 · 1.95996) = 0.113853; 10 · exp(0.0284632) = 10.2887
    band = ValueBand(np.array([10.0]), np.array([8.0]), np.array([12.5]), np.array(["spread"]))
    assert band.cost() == pytest.approx([10.2887], abs=1e-4)


def test_bounds_about_a_fit_have_a_probability() -> None:
    # The ends lie 2 standard deviations away: 90 % at 10 · (20 / 10)^(1.28155 / 2) = 15.5910,
    # 10 % at 10 · (5 / 10)^(1.28155 / 2) = 6.4139.
    ends = np.array([5.0]), np.array([20.0])
    band = ValueBand(np.array([10.0]), *ends, np.array(["bounds"]), bounds_z=2.0)
    assert band.quantile(0.9) == pytest.approx([15.5910], abs=1e-3)
    assert band.quantile(0.1) == pytest.approx([6.4139], abs=1e-3)
    held = [int(band.holds(limit, 0.9)[0]) for limit in (15.6, 15.5, 6.5, 6.4)]
    assert held == [KEPT, UNKNOWN, UNKNOWN, BROKEN]
    # Φ(2 · ln 1.5 / ln 2) = Φ(1.16993) = 0.87899
    assert probability_at_most(10.0, 5.0, 20.0, 15.0, 2.0) == pytest.approx(0.87899, abs=1e-5)
    # ln(20 / 5) / (2 · 2)
    assert band.deviation() == pytest.approx([0.346574], abs=1e-6)


@given(st.floats(0.001, 0.999))
def test_no_quantile_of_bounds_is_beyond_them(probability: float) -> None:
    ends = np.array([9.0]), np.array([11.0])
    band = ValueBand(np.array([10.0]), *ends, np.array(["bounds"]), bounds_z=2.0)
    assert 9.0 <= band.quantile(probability)[0] <= 11.0
