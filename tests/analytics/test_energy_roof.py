"""Roofs of energy and power, balance points, and the fit of single rails."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.models.energy.fit import Coefficient
from mansard.analytics.models.energy.roof import (
    EnergyRoof,
    balance,
    bends,
    effective_balance,
    energy_balance,
)
from mansard.analytics.models.roofs.ceilings import Ceiling

NO_CAP = {"cap_w": "no cap is set"}


def roof(
    peak: float = 4e12,
    bandwidth: float = 200e9,
    flop_j: float = 2e-12,
    byte_j: float = 60e-12,
    constant_w: float = 10.0,
    cap_w: float | None = None,
) -> EnergyRoof:
    return EnergyRoof(
        peak_flop_per_s=peak,
        bandwidth_bytes_per_s=bandwidth,
        flop_j=flop_j,
        byte_j=byte_j,
        constant_w=constant_w,
        cap_w=cap_w,
        unknown=NO_CAP if cap_w is None else {},
    )


def test_a_roof_by_hand() -> None:
    # At 10 FLOP/byte: min(4e12, 10 · 200e9) = 2 TFLOP/s;
    # 2 pJ + 60/10 pJ + 10 W / 2e12 = 5 pJ: 13 pJ/FLOP; 13e-12 · 2e12 = 26 W
    assert roof().rate_flop_per_s(10.0) == pytest.approx(2e12)
    assert roof().energy_per_flop_j(10.0) == pytest.approx(13e-12)
    assert roof().power_w(10.0) == pytest.approx(26.0)


def test_power_is_highest_at_the_ridge() -> None:
    # The ridge is 4e12 / 200e9 = 20 FLOP/byte: 2e-12 · 4e12 + 60e-12 · 200e9 + 10 = 8 + 12 + 10
    power_w = roof().power_w([10.0, 20.0, 40.0])
    assert power_w == pytest.approx([26.0, 30.0, 24.0])


def test_curves_bend_at_the_ridge_and_where_a_cap_sets_in() -> None:
    assert bends(roof()) == [20.0]
    # 25 W leave 15 W: (15 / 200e9 - 60e-12) / 2e-12 = 7.5 FLOP/byte; 60e-12 · 4e12 / (15 - 8)
    capped = roof(cap_w=25.0)
    assert bends(capped) == pytest.approx([7.5, 20.0, 240 / 7])
    # 17 W leave 7 W, less than the 8 W of the peak, and 12 W of the bandwidth
    assert bends(roof(cap_w=17.0)) == [20.0]
    # left of the ridge 110/I pJ/FLOP fall with I, right of it 60/I: the efficiency has a corner
    below, at, above = 1 / roof().energy_per_flop_j([19.98, 20.0, 20.02])
    assert (at - below) / (above - at) == pytest.approx(110 / 60, rel=1e-2)


def test_a_cap_bites_only_around_the_ridge() -> None:
    # 25 W leave 15 W: at the ridge 15 / (2 + 3) pJ = 3 TFLOP/s instead of 4
    capped = roof(cap_w=25.0)
    assert capped.rate_flop_per_s([1.0, 20.0, 1000.0]) == pytest.approx([200e9, 3e12, 4e12])
    assert capped.power_w(20.0) == pytest.approx(25.0)
    # At the ridge it draws 30 W: a cap above that bites nowhere.
    assert roof(cap_w=30.5).rate_flop_per_s([1.0, 20.0, 1000.0]) == pytest.approx(
        roof().rate_flop_per_s([1.0, 20.0, 1000.0]), rel=1e-12
    )


@pytest.mark.parametrize("bad", [{"peak": 0.0}, {"byte_j": -1.0}, {"cap_w": 10.0}])
def test_what_cannot_be_a_roof_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"roof|costs|nothing can run"):
        roof(**bad)


scales = st.floats(min_value=0.1, max_value=10.0)


@given(scales, scales, scales, scales, scales)
def test_at_the_balance_point_a_flop_costs_twice_its_least(
    peak: float, bandwidth: float, flop: float, byte: float, constant: float
) -> None:
    board = roof(peak * 4e12, bandwidth * 200e9, flop * 2e-12, byte * 60e-12, constant * 10)
    least_j = board.flop_j + board.constant_w / board.peak_flop_per_s
    at = effective_balance(board)
    assert board.energy_per_flop_j(at) == pytest.approx(2 * least_j)
    half, double = board.energy_per_flop_j([at / 2, at * 2])
    assert double < 2 * least_j < half


@given(scales, scales, st.floats(min_value=1e-3, max_value=1e4))
def test_power_is_energy_over_time_and_never_below_the_constant(
    flop: float, byte: float, intensity: float
) -> None:
    board = roof(flop_j=flop * 2e-12, byte_j=byte * 60e-12)
    time_s = max(1e12 / board.peak_flop_per_s, 1e12 / intensity / board.bandwidth_bytes_per_s)
    energy_j = board.flop_j * 1e12 + board.byte_j * 1e12 / intensity + board.constant_w * time_s
    assert board.power_w(intensity) == pytest.approx(energy_j / time_s)
    assert board.power_w(intensity) >= board.constant_w


def ceiling(value: float | None, low: float | None = None, high: float | None = None) -> Ceiling:
    names = ("value", "low", "high", "stable", "source", "backend", "kernel")
    known = {"value": value, "low": low, "high": high}
    return Ceiling(
        subject="fp32",
        family="fma",
        kernel=None,
        backend=None,
        unit="FLOP/s",
        value=value,
        low=low,
        high=high,
        n_blocks=0,
        trial_ids=(),
        sets_bytes=(1, 1),
        n_disturbed=0,
        stable=None,
        source=None,
        unknown={name: "not measured" for name in names if known.get(name) is None},
    )


def cost(value: float | None, low: float | None = None, high: float | None = None) -> Coefficient:
    known = {"value": value, "low": low, "high": high}
    missing = {name: "no idle point" for name, found in known.items() if found is None}
    return Coefficient(**known, unknown=missing)


def test_balance_points_by_hand_and_at_the_corners() -> None:
    found = balance(
        ceiling(4e12, 3.8e12, 4.2e12),
        ceiling(200e9, 190e9, 210e9),
        cost(2e-12, 1e-12, 3e-12),
        cost(60e-12, 50e-12, 70e-12),
        cost(10.0, 9.0, 11.0),
    )
    # 4e12 / 200e9; 3.8e12 / 210e9 and 4.2e12 / 190e9
    assert (found.time.value, found.time.low) == pytest.approx((20.0, 18.0952), rel=1e-4)
    assert found.time.high == pytest.approx(22.1053, rel=1e-4)
    # 60 / 2; 50 / 3 and 70 / 1
    assert found.energy.value == pytest.approx(30.0)
    assert (found.energy.low, found.energy.high) == pytest.approx((16.6667, 70.0), rel=1e-4)
    # 60 / (2 + 10 / 4) = 13.3 lies left of 20, so (60 + 10 / 0.2) / (2 + 2 · 2.5) = 110 / 7
    assert found.effective.value == pytest.approx(110 / 7)
    # 1 / (2 + 2.5) pJ
    assert found.best_flop_per_j.value == pytest.approx(1e12 / 4.5)


def test_a_balance_without_its_costs_says_which_is_missing() -> None:
    found = balance(
        ceiling(4e12), ceiling(200e9, 190e9, 210e9), cost(None), cost(60e-12), cost(10.0)
    )
    assert found.time.value == pytest.approx(20.0)
    assert found.time.unknown["low"] == "the peak has no interval"
    assert found.energy.value is None
    assert found.energy.unknown["value"] == "the energy of the work: no idle point"


def test_work_that_costs_only_its_time_has_no_balance_of_work_and_traffic() -> None:
    free = roof(flop_j=0.0)
    assert energy_balance(free) is None
    assert np.isfinite(effective_balance(free))
