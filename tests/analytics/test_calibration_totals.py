"""Calibration by the totals of whole networks."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.model_frames import (
    COEFFICIENT_SCHEMA,
    OBSERVATION_SCHEMA,
    PREDICTION_SCHEMA,
)
from mansard.analytics.predict.totals_calibration import apply_totals, calibrate_totals
from mansard.core.errors import InputError
from tests.analytics.model_factory import (
    board_coefficients,
    network_observations,
    network_predictions,
)

_SAME = {"device": "Board GPU", "batch": 1, "precision": "fp16", "phase": "inference"}


def predictions(**times_s: dict[str, float]) -> pl.DataFrame:
    """By network and mode; 2 J of them constant power, 10 W, the rest work."""
    rows = [
        {
            **_SAME,
            "network": network,
            "mode": mode,
            "latency_s": time_s,
            "latency_low_s": 0.9 * time_s,
            "latency_high_s": 1.2 * time_s,
            "energy_j": 10.0 * time_s + 1.0,
            "power_w": 10.0 + 1.0 / time_s,
            "source": "modelled",
            "is_calibrated": False,
        }
        for network, times in times_s.items()
        for mode, time_s in times.items()
    ]
    return pl.DataFrame(rows, schema=PREDICTION_SCHEMA)


def observations(source: str = "measured", **times_s: dict[str, float | None]) -> pl.DataFrame:
    rows = [
        {**_SAME, "network": network, "mode": mode, "latency_s": time_s, "source": source}
        for network, times in times_s.items()
        for mode, time_s in times.items()
    ]
    return pl.DataFrame(rows, schema=OBSERVATION_SCHEMA)


def constant_power() -> pl.DataFrame:
    rows = [
        {"device": "Board GPU", "mode": mode, "quantity": "constant_power", "value": 10.0}
        for mode in ("slow", "middle", "fast")
    ]
    return pl.DataFrame(rows, schema=COEFFICIENT_SCHEMA)


def _factor(predicted: pl.DataFrame, observed: pl.DataFrame, network: str) -> dict[str, object]:
    factors = calibrate_totals(predicted, observed).factors
    return factors.filter(pl.col("network") == network).row(0, named=True)


def test_two_modes_give_a_line_through_the_logarithms() -> None:
    # The model says that slow takes 4 times as long, it takes 2: T = 3 · T_model^0.5.
    found = _factor(
        predictions(net={"slow": 4.0, "middle": 2.0, "fast": 1.0}),
        observations(net={"slow": 6.0, "fast": 3.0}),
        "net",
    )
    assert (found["scale"], found["slope"], found["n_modes"]) == (
        pytest.approx(3.0),
        pytest.approx(0.5),
        2,
    )


@pytest.mark.parametrize(
    ("measured", "scale"),
    [
        ({"fast": 1.5}, 1.5),  # one mode: no slope
        ({"slow": 1.0, "fast": 4.0}, 1.0),  # the wrong way round: √(1/4 · 4/1)
        ({"fast": 1.5, "slow": None}, 1.5),
        ({"fast": 1.5, "slow": float("nan")}, 1.5),
    ],
)
def test_without_a_slope_there_is_one_factor(
    measured: dict[str, float | None], scale: float
) -> None:
    found = _factor(predictions(net={"slow": 4.0, "fast": 1.0}), observations(net=measured), "net")
    assert (found["scale"], found["slope"]) == (pytest.approx(scale), 1.0)


def test_modes_that_the_model_hardly_tells_apart_give_no_slope() -> None:
    # 1.05 is nearer than 1.1: √(2 · 4/1.05) = 2.760.
    found = _factor(
        predictions(net={"slow": 1.05, "fast": 1.0}),
        observations(net={"slow": 4.0, "fast": 2.0}),
        "net",
    )
    assert (found["scale"], found["slope"]) == (pytest.approx(2.760, rel=1e-3), 1.0)


def test_an_unmeasured_network_takes_the_median_of_the_others() -> None:
    predicted = predictions(**{name: {"fast": 1.0} for name in ("a", "b", "c", "new")})
    measured = observations(a={"fast": 1.5}, b={"fast": 2.0}, c={"fast": 4.0})
    found = calibrate_totals(predicted, measured)
    row = found.factors.filter(pl.col("network") == "new").row(0, named=True)
    assert (row["scale"], row["n_modes"]) == (2.0, 0)
    # a by b and c: 3 for 1.5; b by a and c: 2.75 for 2; c by a and b: 1.75 for 4.
    # Errors 1, 0.375, 0.5625; before 1/3, 1/2, 3/4.
    assert found.unseen_networks is not None
    assert found.unseen_networks.median == pytest.approx(0.5625)
    assert found.unseen_networks.worst == pytest.approx(1.0)
    assert found.before.median == pytest.approx(0.5)
    assert found.after.worst == pytest.approx(0.0)
    assert found.unseen_modes is None  # one mode each


def test_each_mode_by_the_others() -> None:
    found = calibrate_totals(
        predictions(net={"slow": 4.0, "fast": 1.0}), observations(net={"slow": 6.0, "fast": 3.0})
    )
    # slow by fast: 3 · 4 = 12 for 6; fast by slow: 1.5 · 1 for 3.
    assert found.unseen_modes is not None
    assert found.unseen_modes.worst == pytest.approx(1.0)
    assert found.unseen_modes.median == pytest.approx(0.75)
    assert found.unseen_modes.ratio_95 == pytest.approx(2.0)
    assert found.unseen_networks is None


def test_published_times_count_only_where_nobody_measured() -> None:
    both = pl.concat(
        [observations(net={"fast": 2.0}), observations("published", net={"fast": 9.0, "slow": 9.0})]
    )
    found = _factor(predictions(net={"slow": 4.0, "fast": 1.0}), both, "net")
    assert (found["scale"], found["n_modes"]) == (2.0, 1)


def test_other_devices_and_phases_are_not_calibrated() -> None:
    predicted = predictions(net={"fast": 1.0})
    others = [
        predicted.with_columns(device=pl.lit("Another GPU")),
        predicted.with_columns(phase=pl.lit("training")),
    ]
    measured = observations(net={"fast": 2.0})
    everything = pl.concat([predicted, *others])
    found = apply_totals(everything, calibrate_totals(everything, measured), constant_power())
    assert found["latency_s"].to_list() == [2.0, 1.0, 1.0]
    assert found["is_calibrated"].to_list() == [True, False, False]


def test_nothing_in_common_is_said() -> None:
    with pytest.raises(InputError, match="no measured network is among the predicted"):
        calibrate_totals(predictions(net={"fast": 1.0}), observations(other={"fast": 1.0}))


def test_longer_costs_the_constant_power_longer() -> None:
    predicted = predictions(net={"slow": 4.0, "fast": 1.0}, other={"fast": 1.0})
    measured = observations(net={"slow": 8.0, "fast": 2.0})
    found = apply_totals(predicted, calibrate_totals(predicted, measured), constant_power())
    row = found.row(1, named=True)
    assert found.columns == predicted.columns
    # 1 s becomes 2 s: 11 J and 10 W for one more second; 21 J / 2 s.
    assert (row["latency_s"], row["energy_j"], row["power_w"]) == pytest.approx((2.0, 21.0, 10.5))
    # Each mode by the other is exact: the ends keep their shares, 0.9 and 1.2.
    assert (row["latency_low_s"], row["latency_high_s"]) == pytest.approx((1.8, 2.4))
    # Nobody else was measured: nothing tells how far the other network is off.
    other = found.row(2, named=True)
    assert (other["latency_s"], other["latency_low_s"]) == (pytest.approx(2.0), None)
    assert "how far the calibration is off" in other["reason"]


def test_without_constant_power_the_energy_is_unknown() -> None:
    predicted = predictions(net={"fast": 1.0})
    totals = calibrate_totals(predicted, observations(net={"fast": 2.0}))
    row = apply_totals(predicted, totals, constant_power().clear()).row(0, named=True)
    assert (row["latency_s"], row["energy_j"], row["power_w"]) == (2.0, None, None)
    assert "no constant power" in row["reason"]


@settings(max_examples=10, deadline=None)
@given(st.floats(0.2, 5.0))
def test_a_board_that_is_slower_by_one_factor_is_predicted_exactly(factor: float) -> None:
    predicted, measured = network_predictions(), network_observations(factor)
    totals = calibrate_totals(predicted, measured.sample(60, seed=1))
    found = apply_totals(predicted, totals, board_coefficients())
    assert found["latency_s"].to_list() == pytest.approx(
        (predicted["latency_s"] * factor).to_list(), rel=1e-6
    )
