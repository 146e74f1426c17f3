from __future__ import annotations

import math

import polars as pl
import pytest

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, GROUP_SCHEMA, PREDICTION_SCHEMA
from mansard.analytics.models.predict.engine import SHARE_SCHEMA, predict_scores
from tests.analytics.predict_factory import (
    BYTE_J,
    CONSTANT_W,
    DRAM,
    FP16,
    FP16_J,
    FP32,
    FP32_J,
    LAUNCH,
    ROUND,
    TENSOR,
    TENSOR_J,
    coefficient_rows,
    group,
    groups_of,
    mode_frame,
    predicted,
    scores_of,
)


def test_groups_add_up_and_launches_come_on_top() -> None:
    found = predicted(
        group(0, cuda=20e9, traffic=1e9),  # 20 ms of arithmetic, 10 ms of traffic
        group(1, cuda=1e9, traffic=3e9, n_launches=2),  # 1 ms and 30 ms
    )
    # 20 + 30 ms, and 3 launches of 1 ms
    assert found["latency_s"] == pytest.approx(0.053)
    assert found["time_bound"] == "memory"
    # 21 GFLOP × 1 pJ + 4 GB × 10 pJ + 5 W × 53 ms = 21 + 40 + 265 mJ
    assert found["energy_j"] == pytest.approx(0.326)
    assert found["energy_bound"] == "constant"
    assert found["power_w"] == pytest.approx(0.326 / 0.053)
    assert found["source"] == "modelled"
    assert found["is_calibrated"] is False
    assert found["reason"] is None
    assert found["notes"] is None


def test_tensor_cores_and_cuda_cores_work_side_by_side() -> None:
    both = group(tensor=80e9, cuda=10e9, precision="fp16")
    # 80 GFLOP at 8 TFLOP/s = 10 ms, beside 10 GFLOP at 2 TFLOP/s = 5 ms; 1 ms of launch
    assert predicted(both)["latency_s"] == pytest.approx(0.011)
    more = group(tensor=80e9, cuda=40e9, precision="fp16")
    assert predicted(more)["latency_s"] == pytest.approx(0.021)
    # 80 GFLOP × 0.25 pJ + 40 GFLOP × 0.5 pJ + 5 W × 21 ms
    assert predicted(more)["energy_j"] == pytest.approx(0.02 + 0.02 + 0.105)


def test_without_tensor_cores_their_work_comes_after_the_other() -> None:
    values = {key: value for key, value in ROUND.items() if key not in (TENSOR, TENSOR_J)}
    both = group(tensor=80e9, cuda=10e9, precision="fp16")
    # 90 GFLOP at 2 TFLOP/s, and 1 ms
    assert predicted(both, values=values)["latency_s"] == pytest.approx(0.046)
    tf32 = group(tensor=80e9, tensor_precision="tf32", cuda=10e9, precision="fp16")
    # tf32 as fp32: 80 GFLOP at 1 TFLOP/s, then 10 at 2, and 1 ms
    found = predicted(tf32, values=values)
    assert found["latency_s"] == pytest.approx(0.086)
    # 80 GFLOP × 1 pJ + 10 GFLOP × 0.5 pJ + 5 W × 86 ms
    assert found["energy_j"] == pytest.approx(0.08 + 0.005 + 0.43)


def test_a_tensor_peak_that_is_not_known_is_not_replaced() -> None:
    found = predicted(group(tensor=80e9), values={**ROUND, TENSOR: None})
    assert found["latency_s"] is None
    assert found["reason"] == "no fp16 peak on tensor cores: nobody looked"


def test_half_precision_beside_tensor_cores_is_no_slower_than_single() -> None:
    half = group(cuda=10e9, precision="fp16")
    values = {key: value for key, value in ROUND.items() if key not in (FP16, FP16_J)}
    # 10 GFLOP at the 1 TFLOP/s of fp32, and 1 ms
    assert predicted(half, values=values)["latency_s"] == pytest.approx(0.011)
    # The peak of other tensor cores says nothing of bf16.
    brain = predicted(group(cuda=10e9, precision="bf16"), values=values)
    assert brain["reason"] == "no bf16 peak is known in this mode"
    # A machine without tensor cores may compute fp16 more slowly than fp32: nothing is said.
    bare = {key: value for key, value in values.items() if key not in (TENSOR, TENSOR_J)}
    assert predicted(half, values=bare)["reason"] == "no fp16 peak is known in this mode"


def test_an_efficiency_makes_its_class_slower_and_is_said() -> None:
    rows = (group(0, cuda=20e9), group(1, traffic=1e9, op_class="movement"))
    found = predicted(*rows, efficiency={"conv": 1.5})
    # 20 ms × 1.5 + 10 ms + 2 launches of 1 ms
    assert found["latency_s"] == pytest.approx(0.042)
    assert found["is_calibrated"] is True
    # The work costs what it costs; only the constant power lasts longer.
    assert found["energy_j"] == pytest.approx(0.02 + 0.01 + 5 * 0.042)


@pytest.mark.parametrize(
    ("row", "bound"),
    [
        (group(cuda=20e9), "compute"),
        (group(traffic=2e9), "memory"),
        (group(cuda=1e6, n_launches=9), "launch"),
        # 10 ms each: arithmetic is named first
        (group(cuda=10e9, traffic=1e9), "compute"),
    ],
)
def test_the_bound_is_what_most_of_the_time_goes_into(row: dict[str, object], bound: str) -> None:
    assert predicted(row)["time_bound"] == bound


def test_what_launches_take_most_of_is_bound_by_latency() -> None:
    # A GFLOP is 1 ms, a launch too: 2 launches take more than 1 ms of work, and as much as 2 ms.
    assert predicted(group(cuda=1e9, n_launches=2))["notes"] == (
        "bound by latency: launches of kernels take most of the time"
    )
    assert predicted(group(cuda=2e9, n_launches=2))["notes"] is None


def test_errors_of_time_and_of_costs_are_apart_in_energy_and_power() -> None:
    found = predicted(
        group(0, cuda=20e9),
        group(1, traffic=1e9),
        values={
            FP32: (1e12, 0.8e12, 1.25e12),
            DRAM: (100e9, 50e9, 200e9),
            LAUNCH: (1e-3, 0.5e-3, 2e-3),
            FP32_J: (1e-12, 0.5e-12, 2e-12),
            BYTE_J: (10e-12, 5e-12, 15e-12),
            CONSTANT_W: (5.0, 4.0, 6.0),
        },
    )
    assert found["latency_s"] == pytest.approx(0.032)
    # 20 GFLOP / 1.25 TFLOP/s + 1 GB / 200 GB/s + 2 × 0.5 ms = 16 + 5 + 1
    assert found["latency_low_s"] == pytest.approx(0.022)
    # 25 + 20 + 4
    assert found["latency_high_s"] == pytest.approx(0.049)
    # 0.03 J of work and traffic + 5 W × 32 ms = 0.19 J. Time: 5 W × 10 ms less, 5 W × 17 ms more.
    # Costs: 0.015 J + 4 W × 32 ms = 0.143 J, 0.055 J + 6 W × 32 ms = 0.247 J.
    assert found["energy_low_j"] == pytest.approx(0.19 - math.hypot(0.050, 0.047))
    assert found["energy_high_j"] == pytest.approx(0.19 + math.hypot(0.085, 0.057))
    # 0.19 J / 32 ms; 0.03 J over 49 or 22 ms instead; 0.143 or 0.247 J over 32 ms.
    slower, faster = 0.03 / 0.032 - 0.03 / 0.049, 0.03 / 0.022 - 0.03 / 0.032
    assert found["power_low_w"] == pytest.approx(5.9375 - math.hypot(slower, 1.46875))
    assert found["power_high_w"] == pytest.approx(5.9375 + math.hypot(faster, 1.78125))


def test_without_an_interval_of_a_ceiling_there_is_a_value_alone() -> None:
    found = predicted(group(cuda=20e9), values={**ROUND, FP32: (1e12, None, None)})  # type: ignore[dict-item]
    assert found["latency_s"] == pytest.approx(0.021)
    assert found["latency_low_s"] is None
    assert found["energy_high_j"] is None
    assert found["power_low_w"] is None
    # An interval of a ceiling that is not needed may be missing.
    assert predicted(group(traffic=1e9), values={**ROUND, FP32: None})["latency_low_s"] is not None


def test_a_power_limit_stretches_the_time() -> None:
    row = group(cuda=100e9, traffic=1e9)
    # 100 + 10 mJ in 101 ms beside 5 W: 6.09 W
    assert predicted(row, limit_w=6.1)["latency_s"] == pytest.approx(0.101)
    found = predicted(row, limit_w=5.5)
    # 110 mJ / (5.5 - 5 W) = 0.22 s
    assert found["latency_s"] == pytest.approx(0.22)
    assert found["power_w"] == pytest.approx(5.5)
    assert found["energy_j"] == pytest.approx(0.11 + 5 * 0.22)
    assert found["time_bound"] == "power"


def test_a_limit_below_the_constant_power_has_no_time() -> None:
    found = predicted(group(cuda=100e9), limit_w=4.0)
    assert found["latency_s"] is None
    assert found["energy_j"] is None
    assert found["reason"] == "the power limit leaves nothing beside the constant power"


def test_a_limit_that_may_leave_nothing_has_no_interval() -> None:
    found = predicted(group(cuda=100e9), values={**ROUND, CONSTANT_W: (5, 4, 6)}, limit_w=5.5)
    # 100 mJ / (5.5 - 5 W); with a constant power of 6 W it takes forever
    assert found["latency_s"] == pytest.approx(0.2)
    ends = ("latency_low_s", "latency_high_s", "energy_low_j", "energy_high_j", "power_low_w")
    assert [found[name] for name in (*ends, "power_high_w")] == [None] * 6


def test_modes_and_scores_cross_in_their_order() -> None:
    coefficients = pl.concat(
        [coefficient_rows({FP32: 1e12}, "fast"), coefficient_rows({FP32: 1e11}, "slow")]
    )
    groups = groups_of(group(cuda=1e9, score="a"), group(cuda=2e9, score="b"))
    found = predict_scores(
        groups, scores_of("b", "a"), coefficients, mode_frame(("slow", "fast", "new"))
    )
    assert found.select("score_id", "mode", "latency_s").collect().rows() == [
        ("b", "slow", pytest.approx(0.02)),
        ("b", "fast", pytest.approx(0.002)),
        ("b", "new", None),
        ("a", "slow", pytest.approx(0.01)),
        ("a", "fast", pytest.approx(0.001)),
        ("a", "new", None),
    ]
    (reason,) = found.filter(pl.col("mode") == "new").select("reason").unique().collect()["reason"]
    assert reason == "no fp32 peak is known in this mode"


def test_extrapolated_coefficients_mark_what_rests_on_them() -> None:
    coefficients = coefficient_rows(ROUND).with_columns(
        is_extrapolated=pl.col("quantity") == "bandwidth"
    )
    groups = groups_of(group(cuda=1e9, score="work"), group(traffic=1e9, score="move"))
    found = predict_scores(groups, scores_of("work", "move"), coefficients, mode_frame()).collect()
    assert found["is_extrapolated"].to_list() == [False, True]


@pytest.mark.parametrize("empty", ["groups", "scores", "coefficients", "modes"])
def test_empty_frames_give_the_schema(empty: str) -> None:
    frames = {
        "groups": groups_of(group(cuda=1e9)),
        "scores": scores_of("s"),
        "coefficients": coefficient_rows(ROUND),
        "modes": mode_frame(),
    }
    frames[empty] = frames[empty].clear()
    found = predict_scores(*frames.values()).collect()
    assert found.schema == pl.Schema(PREDICTION_SCHEMA)
    assert len(found) == (0 if empty in ("scores", "modes") else 1)
    if empty == "coefficients":
        assert found["reason"].to_list() == ["no fp32 peak is known in this mode"]


def test_selecting_and_filtering_before_collecting_changes_nothing() -> None:
    groups = groups_of(group(cuda=1e9, score="a"), group(cuda=2e9, score="b"))
    lazy = predict_scores(
        groups, scores_of("a", "b"), coefficient_rows(ROUND), mode_frame(), with_shares=True
    )
    whole = lazy.collect()
    assert whole.columns == [*PREDICTION_SCHEMA, *SHARE_SCHEMA]
    late = pl.col("latency_s") > 0.0025
    assert (
        lazy.filter(late)
        .select("network", "power_w")
        .collect()
        .equals(whole.filter(late).select("network", "power_w"))
    )
    assert lazy.head(1).collect().equals(whole.head(1))
    assert lazy.select(pl.len()).collect().item() == 2


def test_one_coefficient_twice_is_the_first() -> None:
    twice = pl.concat([coefficient_rows({FP32: 1e12}), coefficient_rows({FP32: 5e12})])
    found = predict_scores(
        groups_of(group(cuda=1e9)), scores_of("s"), twice, mode_frame(("m", "m"))
    )
    assert found.collect()["latency_s"].to_list() == [pytest.approx(0.001)]


def test_schemas_of_the_factory_are_whole() -> None:
    assert coefficient_rows(ROUND).schema == pl.Schema(COEFFICIENT_SCHEMA)
    assert groups_of(group()).schema == pl.Schema(GROUP_SCHEMA)
