"""Calibration by the totals of whole networks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.model_frames import (
    COEFFICIENT_SCHEMA,
    OBSERVATION_SCHEMA,
    PREDICTION_SCHEMA,
)
from mansard.analytics.models.predict.engine import NO_LAUNCH, SHARE_SCHEMA
from mansard.analytics.models.predict.totals_calibration import apply_totals, calibrate_totals
from tests.analytics.model_factory import (
    board_coefficients,
    network_observations,
    network_predictions,
)

_SAME = {"device": "Board GPU", "batch": 1, "precision": "fp16", "phase": "inference"}


_ENDS = (("latency", "s"), ("energy", "j"), ("power", "w"))
_NO_OTHER = {"memory_s": 0.0, "launch_s": 0.0, "n_launches": 0.0}


def predictions(**times_s: dict[str, float]) -> pl.DataFrame:
    """By network and mode; 2 J of them constant power, 10 W, the rest work."""
    rows = [
        {
            **_SAME,
            "network": network,
            "mode": mode,
            "latency_s": time_s,
            "energy_j": 10.0 * time_s + 1.0,
            "power_w": 10.0 + 1.0 / time_s,
            "energy_low_j": 10.0 * time_s + 0.8,
            "energy_high_j": 10.0 * time_s + 1.2,
            "interval": "roof",
            "source": "modelled",
            "is_extrapolated": False,
            "is_calibrated": False,
            "compute_s": time_s,
            **_NO_OTHER,
        }
        for network, times in times_s.items()
        for mode, time_s in times.items()
    ]
    return pl.DataFrame(
        rows, schema={**PREDICTION_SCHEMA, **SHARE_SCHEMA, "n_launches": pl.Float64}
    )


def observations(
    source: str = "measured", /, **times_s: Mapping[str, float | None]
) -> pl.DataFrame:
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


def calibrated(
    predicted: pl.DataFrame, observed: pl.DataFrame, network: str, mode: str = "fast"
) -> dict[str, Any]:
    """The calibrated row of a network in a mode."""
    calibration = calibrate_totals(predicted, observed)
    found = apply_totals(predicted, calibration, constant_power())
    assert found.columns == predicted.columns
    return found.filter(pl.col("network") == network, pl.col("mode") == mode).row(0, named=True)


def fast(**times_s: float) -> dict[str, Any]:
    return {name: {"fast": time_s} for name, time_s in times_s.items()}


def test_a_line_of_a_constant_and_the_modelled_time_is_found() -> None:
    # T = 2 + 3 · T_model. One factor, the median of 5, 4, 3.5 and 3.25, would say 60 s.
    predicted = predictions(**fast(a=1.0, b=2.0, c=4.0, d=8.0, new=16.0))
    measured = observations(**fast(a=5.0, b=8.0, c=14.0, d=26.0))
    row = calibrated(predicted, measured, "new")
    assert row["latency_s"] == pytest.approx(50.0, rel=0.03)
    assert (row["interval"], row["is_calibrated"]) == ("spread", True)
    assert row["latency_low_s"] < 50.0 < row["latency_high_s"]
    # Both ends are as far away in logarithms.
    assert row["latency_low_s"] * row["latency_high_s"] == pytest.approx(row["latency_s"] ** 2)


def test_cpu_time_is_the_truth_of_the_line_and_wall_time_what_is_reported() -> None:
    # CPU times are twice the roof's. Wall times beside other load are longer, and of c unknown.
    predicted = predictions(**fast(a=1.0, b=2.0, c=4.0, d=8.0, new=16.0))
    measured = observations(**fast(a=9.0, b=5.0, c=0.0, d=40.0)).with_columns(
        latency_s=pl.Series([9.0, 5.0, None, 40.0]), cpu_s=pl.Series([2.0, 4.0, 8.0, 16.0])
    )
    # Four networks leave the line a little freedom; wall times would say 64 s and more.
    assert calibrated(predicted, measured, "new")["latency_s"] == pytest.approx(32.0, rel=0.06)
    row = calibrated(predicted, measured, "a")
    assert (row["latency_s"], row["source"]) == (9.0, "measured")
    row = calibrated(predicted, measured, "c")
    assert row["latency_s"] == pytest.approx(8.0)
    assert row["source"] == "modelled"


def test_arithmetic_and_memory_have_coefficients_of_their_own() -> None:
    # Five times the time of arithmetic and twice that of memory: 5 · 3 + 2 · 1 = 17.
    shares = {"a": (1, 4), "b": (4, 1), "c": (2, 2), "d": (1, 8), "e": (8, 1), "new": (3, 1)}
    took = {name: 5 * compute + 2 * memory for name, (compute, memory) in shares.items()}
    names = list(shares)
    predicted = predictions(**fast(**{name: float(sum(shares[name])) for name in names}))
    split = predicted.with_columns(
        compute_s=pl.Series([float(shares[name][0]) for name in names]),
        memory_s=pl.Series([float(shares[name][1]) for name in names]),
        launch_s=pl.lit(0.0),
        n_launches=pl.lit(0),
    )
    measured = observations(**fast(**{name: float(took[name]) for name in names[:5]}))
    assert calibrated(split, measured, "new")["latency_s"] == pytest.approx(17.0, rel=0.05)
    assert calibrated(predicted, measured, "new")["latency_s"] < 15.0  # 4 s of either kind


def test_the_number_of_launches_counts() -> None:
    # 1 s at the roof, and 0.1 s for each launch.
    names = ["a", "b", "c", "d", "e", "new"]
    n_launches = [10, 20, 40, 80, 160, 320]
    predicted = predictions(**fast(**dict.fromkeys(names, 1.0))).with_columns(
        compute_s=pl.lit(1.0),
        memory_s=pl.lit(0.0),
        launch_s=pl.lit(0.0),
        n_launches=pl.Series(n_launches),
    )
    took = {name: 1 + 0.1 * n for name, n in zip(names[:5], n_launches, strict=False)}
    noted = predicted.with_columns(notes=pl.lit(f"unfused; {NO_LAUNCH}"))
    row = calibrated(noted, observations(**fast(**took)), "new")
    assert row["latency_s"] == pytest.approx(33.0, rel=0.1)
    assert row["notes"] == "unfused"  # launches are in it


def test_the_interval_is_what_the_networks_are_off_when_left_out() -> None:
    names = "abcdefgh"
    modelled = {name: 2.0**at for at, name in enumerate(names)}
    predicted = predictions(**fast(**modelled, new=16.0))
    off = [1.6, 1 / 1.6, 1.6, 1 / 1.6, 1.6, 1 / 1.6, 1.6, 1 / 1.6]
    exact = observations(**fast(**{name: 3 * time_s for name, time_s in modelled.items()}))
    rough = observations(
        **fast(**{name: 3 * modelled[name] * by for name, by in zip(names, off, strict=True)})
    )
    near, far = calibrated(predicted, exact, "new"), calibrated(predicted, rough, "new")
    assert (
        near["latency_high_s"] / near["latency_s"] < 1.6 < far["latency_high_s"] / far["latency_s"]
    )
    (found,) = calibrate_totals(predicted, rough).values()
    assert found.networks.misfit is not None
    assert found.networks.misfit.median > 0.3
    assert found.modes.misfit is None  # one mode


def test_one_network_gives_an_interval_by_what_such_calibrations_were_off_elsewhere() -> None:
    predicted = predictions(**fast(only=1.0, new=4.0))
    row = calibrated(predicted, observations(**fast(only=3.0)), "new")
    # Between the same time, were it all constant, and four times as much.
    assert 3.0 < row["latency_s"] < 12.0
    assert row["interval"] == "spread"
    assert row["latency_low_s"] < 3.0
    assert row["latency_high_s"] > 12.0


def test_a_measured_network_takes_what_it_took() -> None:
    predicted = predictions(net={"slow": 4.0, "fast": 1.0}, other={"fast": 1.0})
    measured = observations(net={"fast": 3.0})
    row = calibrated(predicted, measured, "net")
    assert (row["latency_s"], row["source"], row["interval"]) == (3.0, "measured", "spread")
    assert 1.0 < row["latency_high_s"] / 3.0 < 1.3  # of one measurement
    # 1 s becomes 3 s: 11 J and 10 W for two more seconds; 31 J / 3 s.
    assert (row["energy_j"], row["power_w"]) == pytest.approx((31.0, 31 / 3))
    drawn = measured.with_columns(power_w=pl.lit(12.0))
    row = calibrated(predicted, drawn, "net")
    assert (row["energy_j"], row["power_w"]) == pytest.approx((36.0, 12.0))
    # Errors of the time and of the power are apart.
    logs = [math.log(row[f"{name}_high_{unit}"] / row[f"{name}_{unit}"]) for name, unit in _ENDS]
    assert logs[1] == pytest.approx(math.hypot(logs[0], logs[2]))


def test_what_a_network_is_off_in_a_mode_it_is_in_others() -> None:
    # All take three times what the model says, but this one six times.
    modelled = {name: {"slow": 4.0 * by, "fast": 1.0 * by} for by, name in enumerate("abcd", 1)}
    predicted = predictions(**modelled, odd={"slow": 10.0, "fast": 2.5})
    took = {name: {mode: 3 * time for mode, time in of.items()} for name, of in modelled.items()}
    row = calibrated(predicted, observations(**took, odd={"slow": 60.0}), "odd")
    assert row["latency_s"] == pytest.approx(15.0, rel=0.15)
    assert row["interval"] == "spread"


def test_what_a_network_is_off_in_a_batch_it_is_half_in_another() -> None:
    modelled = dict(zip("abcde", (1.0, 2.0, 3.0, 4.0, 5.0), strict=True))
    predicted = predictions(**fast(**modelled, odd=2.5))
    larger = predicted.filter(pl.col("network") == "odd").with_columns(batch=pl.lit(2, pl.Int64))
    took = {name: 3 * time_s for name, time_s in modelled.items()}
    row = calibrated(pl.concat([predicted, larger]), observations(**fast(**took, odd=30.0)), "odd")
    assert row["latency_s"] == 30.0
    both = pl.concat([larger, predicted])
    row = calibrated(both, observations(**fast(**took, odd=30.0)), "odd")  # of batch 2
    plain = calibrated(both, observations(**fast(**took)), "odd")
    # Four times its line: between that and the line.
    assert 1.3 * plain["latency_s"] < row["latency_s"] < 3 * plain["latency_s"]


def test_each_mode_by_the_others() -> None:
    (found,) = calibrate_totals(
        predictions(net={"slow": 4.0, "fast": 1.0}), observations(net={"slow": 12.0, "fast": 3.0})
    ).values()
    assert found.modes.misfit is not None
    # Each is off by what of the network is taken to be constant.
    assert 0.0 < found.modes.misfit.worst < 1.0
    assert found.networks.misfit is None


def test_outside_the_measured_modes_there_is_no_interval() -> None:
    predicted = predictions(net={"slow": 4.0, "fast": 1.0}).with_columns(
        is_extrapolated=pl.col("mode") == "slow"
    )
    row = calibrated(predicted, observations(net={"fast": 3.0}), "net", "slow")
    assert (row["interval"], row["latency_low_s"], row["latency_high_s"]) == (None, None, None)
    assert row["latency_s"] > 4.0
    assert "its error is unknown" in row["notes"]


def test_published_times_count_only_where_nobody_measured() -> None:
    both = pl.concat(
        [observations(net={"fast": 2.0}), observations("published", net={"fast": 9.0, "slow": 9.0})]
    )
    predicted = predictions(net={"slow": 4.0, "fast": 1.0})
    assert calibrated(predicted, both, "net")["latency_s"] == 2.0
    assert calibrated(predicted, both, "net", "slow")["source"] == "modelled"


def test_other_devices_and_phases_are_not_calibrated() -> None:
    predicted = predictions(net={"fast": 1.0})
    others = [
        predicted.with_columns(device=pl.lit("Another GPU")),
        predicted.with_columns(phase=pl.lit("training")),
    ]
    everything = pl.concat([predicted, *others])
    calibration = calibrate_totals(everything, observations(net={"fast": 2.0}))
    found = apply_totals(everything, calibration, constant_power())
    assert found["latency_s"].to_list() == [2.0, 1.0, 1.0]
    assert found["is_calibrated"].to_list() == [True, False, False]
    assert found["interval"].to_list() == ["spread", "roof", "roof"]


def test_nothing_in_common_is_no_calibration() -> None:
    predicted = predictions(net={"fast": 1.0})
    assert calibrate_totals(predicted, observations(other={"fast": 1.0})) == {}
    assert calibrate_totals(predicted, observations(net={"fast": None})) == {}
    assert calibrate_totals(predicted, observations(net={"fast": float("nan")})) == {}


def test_a_longer_time_is_more_energy_and_less_power() -> None:
    predicted = predictions(**fast(a=1.0, b=2.0, c=4.0, d=8.0, new=16.0))
    row = calibrated(predicted, observations(**fast(a=3.0, b=6.0, c=12.0, d=24.0)), "new")
    time_s, low_s, high_s = (row[f"latency_{end}s"] for end in ("", "low_", "high_"))
    assert time_s == pytest.approx(48.0, rel=0.05)
    # 1 J of work, and 10 W. The roof's own errors are 0.2 of 161 J, and none of the power.
    assert row["energy_j"] == pytest.approx(1 + 10 * time_s)
    by_time, own = math.log((1 + 10 * high_s) / row["energy_j"]), math.log(161.2 / 161)
    assert row["energy_high_j"] == pytest.approx(
        row["energy_j"] * math.exp(math.hypot(by_time, own))
    )
    # 1 J more or less over a longer time hardly changes the power; energy and time go together.
    with_power = predicted.with_columns(
        power_low_w=0.999 * pl.col("power_w"), power_high_w=1.001 * pl.col("power_w")
    )
    row = calibrated(with_power, observations(**fast(a=3.0, b=6.0, c=12.0, d=24.0)), "new")
    assert row["power_low_w"] < row["power_w"] < row["power_high_w"]
    assert row["power_high_w"] / row["power_low_w"] < 1.01
    assert row["energy_high_j"] / row["energy_low_j"] == pytest.approx(high_s / low_s, rel=0.01)


def test_without_constant_power_the_energy_is_unknown() -> None:
    predicted = predictions(net={"fast": 1.0})
    calibration = calibrate_totals(predicted, observations(net={"fast": 2.0}))
    row = apply_totals(predicted, calibration, constant_power().clear()).row(0, named=True)
    assert (row["latency_s"], row["energy_j"], row["power_w"]) == (2.0, None, None)
    assert "no constant power" in row["reason"]


@settings(max_examples=10, deadline=None)
@given(st.floats(0.2, 5.0))
def test_a_board_that_is_slower_by_one_factor_is_predicted_nearly(factor: float) -> None:
    predicted = network_predictions().with_columns(
        compute_s=pl.col("latency_s"), **{name: pl.lit(value) for name, value in _NO_OTHER.items()}
    )
    measured = network_observations(factor)
    calibration = calibrate_totals(predicted, measured.sample(60, seed=1))
    found = apply_totals(predicted, calibration, board_coefficients())
    ratio = found["latency_s"] / (predicted["latency_s"] * factor)
    assert ratio.median() == pytest.approx(1.0, rel=0.02)
    assert ratio.to_list() == pytest.approx([1.0] * len(ratio), rel=0.3)
