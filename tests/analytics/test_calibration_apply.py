"""Predictions with the factors and launch costs of a calibration."""

from __future__ import annotations

import polars as pl
import pytest

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, GROUP_SCHEMA, MODE_SCHEMA
from mansard.analytics.predict.class_calibration import (
    Calibration,
    ClassFactor,
    LaunchCost,
    Misfit,
    launch_coefficients,
    predict_calibrated,
)

DEVICE, OTHER = "Board GPU", "Another GPU"
_ERROR = Misfit(median=0.1, worst=0.3, ratio_95=1.25, n_totals=9)


def calibration(*, is_launch_in_cycles: bool = False, **launches_s: float) -> Calibration:
    """A factor of 2 for fp16 convolutions, 4 overall."""
    conv = ClassFactor(
        op_class="conv", precision="fp16", value=2.0, low=1.8, high=2.2, n_groups=9, n_networks=3
    )
    costs = tuple(
        LaunchCost(mode=mode, value_s=cost, low_s=0.9 * cost, high_s=1.1 * cost, n_groups=9)
        for mode, cost in launches_s.items()
    )
    return Calibration(
        device=DEVICE,
        runtime="made up",
        phase="inference",
        modes=tuple(launches_s),
        networks=("a", "b", "c"),
        batches=(1,),
        factors=(conv,),
        overall=4.0,
        least_factor=1.0,
        launches=costs,
        is_launch_in_cycles=is_launch_in_cycles,
        n_groups=9,
        n_left_out=0,
        before=_ERROR,
        after=_ERROR,
        unseen=_ERROR,
    )


def board_modes(**cpu_hz: float | None) -> pl.DataFrame:
    rows = [
        {"device": device, "mode": mode, "cpu_hz": clock}
        for device in (DEVICE, OTHER)
        for mode, clock in cpu_hz.items()
    ]
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


def coefficients() -> pl.DataFrame:
    """100 GB/s, 1 pJ for a byte, 10 W, and a launch of 1 us that the calibration replaces."""
    values = (
        ("bandwidth", "DRAM", 100e9),
        ("byte_energy", "DRAM", 1e-12),
        ("constant_power", "", 10.0),
        ("launch", "", 1e-6),
    )
    rows = [
        {
            "device": device,
            "mode": "fast",
            "quantity": quantity,
            "subject": subject,
            "unit": "",
            "value": value,
            "low": value,
            "high": value,
            "source": "measured",
        }
        for device in (DEVICE, OTHER)
        for quantity, subject, value in values
    ]
    return pl.DataFrame(rows, schema=COEFFICIENT_SCHEMA)


def groups_and_scores() -> tuple[pl.DataFrame, pl.DataFrame]:
    """A convolution and a pooling that each move a megabyte: 10 us under the roof."""
    groups = [
        {
            "score_id": precision,
            "group": at,
            "name": op_class,
            "op_class": op_class,
            "tensor_flop": 0.0,
            "cuda_flop": 0.0,
            "traffic_bytes": 1e6,
            "n_launches": 1,
        }
        for precision in ("fp16", "fp32")
        for at, op_class in enumerate(("conv", "pooling"))
    ]
    scores = [
        {
            "score_id": precision,
            "network": "net",
            "batch": 1,
            "precision": precision,
            "phase": "inference",
        }
        for precision in ("fp16", "fp32")
    ]
    return pl.DataFrame(groups, schema=GROUP_SCHEMA), pl.DataFrame(scores)


def test_only_what_was_calibrated_is() -> None:
    groups, scores = groups_and_scores()
    modes = board_modes(fast=2e9)
    found = predict_calibrated(
        groups, scores, coefficients(), modes, calibration(fast=5e-6)
    ).collect()
    rows = {(row["device"], row["precision"]): row for row in found.iter_rows(named=True)}
    assert len(rows) == len(found) == 4
    # 2 × 10 us and, of a class that was not timed, 4 × 10 us; two launches of 5 us.
    assert rows[DEVICE, "fp16"]["latency_s"] == pytest.approx(70e-6)
    # Another precision, another device: 2 × 10 us, two launches of 1 us.
    assert rows[DEVICE, "fp32"]["latency_s"] == pytest.approx(22e-6)
    assert rows[OTHER, "fp16"]["latency_s"] == pytest.approx(22e-6)
    assert {key for key, row in rows.items() if row["is_calibrated"]} == {(DEVICE, "fp16")}
    # 2 MB × 1 pJ + 10 W × 70 us = 2 uJ + 700 uJ.
    assert rows[DEVICE, "fp16"]["energy_j"] == pytest.approx(702e-6)


def test_another_phase_keeps_the_plain_model() -> None:
    groups, scores = groups_and_scores()
    training = scores.with_columns(phase=pl.lit("training"))
    found = predict_calibrated(
        groups, training, coefficients(), board_modes(fast=2e9), calibration(fast=5e-6)
    ).collect()
    assert found["latency_s"].to_list() == pytest.approx([22e-6] * 4)
    assert not found["is_calibrated"].any()


def test_intervals_hold_the_error_on_unseen_networks() -> None:
    groups, scores = groups_and_scores()
    found = predict_calibrated(
        groups, scores, coefficients(), board_modes(fast=2e9), calibration(fast=5e-6)
    ).collect()
    row = found.filter(pl.col("device") == DEVICE, pl.col("precision") == "fp16").row(0, named=True)
    # The launch is 4.5 to 5.5 us: 69 to 71 us, and a ratio of 1.25 on top.
    assert row["latency_low_s"] == pytest.approx(69e-6 / 1.25)
    assert row["latency_high_s"] == pytest.approx(71e-6 * 1.25)


def test_launches_of_modes_in_between_take_the_same_cycles() -> None:
    modes = board_modes(slow=1e9, middle=1.5e9, fast=2e9, beyond=3e9, unclear=None)
    found = launch_coefficients(calibration(slow=20e-6, fast=12.5e-6), modes)
    rows = {row["mode"]: row for row in found.iter_rows(named=True)}
    assert set(found["device"]) == {DEVICE}
    assert rows["slow"]["value"] == 20e-6
    assert rows["slow"]["low"] == pytest.approx(18e-6)
    # 20,000 and 25,000 cycles: 22,361 in the mean, over 1.5 GHz.
    assert rows["middle"]["value"] == pytest.approx(14.907e-6, rel=1e-4)
    # One by the other: 25 / 20 - 1 = 0.25 and 1 - 20 / 25 = 0.2. The interval holds the worse.
    assert rows["middle"]["error"] == pytest.approx(0.225)
    assert rows["middle"]["high"] == pytest.approx(1.25 * 14.907e-6, rel=1e-4)
    assert [rows[mode]["is_extrapolated"] for mode in ("middle", "beyond")] == [False, True]
    assert rows["unclear"]["value"] is None
    assert "CPU clock is not known" in rows["unclear"]["reason"]


def test_one_number_of_cycles_keeps_its_interval() -> None:
    modes = board_modes(slow=1e9, middle=1.6e9, fast=2e9)
    known = calibration(is_launch_in_cycles=True, slow=20e-6, fast=10e-6)
    row = launch_coefficients(known, modes).filter(pl.col("mode") == "middle").row(0, named=True)
    # 20,000 cycles over 1.6 GHz, ± 10 % as in the modes that were fitted.
    assert (row["value"], row["low"], row["high"]) == pytest.approx((12.5e-6, 11.25e-6, 13.75e-6))
    assert row["error"] is None
    assert "none was left out" in row["reason"]


def test_one_mode_tells_no_error() -> None:
    modes = board_modes(slow=1e9, fast=2e9)
    row = launch_coefficients(calibration(slow=20e-6), modes).row(1, named=True)
    assert (row["value"], row["low"], row["error"]) == (pytest.approx(10e-6), None, None)
    assert "one mode was calibrated" in row["reason"]


def test_without_any_clock_there_is_no_launch_cost_elsewhere() -> None:
    modes = board_modes(slow=None, fast=2e9)
    row = launch_coefficients(calibration(slow=20e-6), modes).row(1, named=True)
    assert row["value"] is None
    assert "no launch cost was calibrated" in row["reason"]
