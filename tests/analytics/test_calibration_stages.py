"""Prefill and decode of language models are calibrated apart, by parts that add."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, GROUP_SCHEMA, MODE_SCHEMA
from mansard.analytics.data.names import stage_columns
from mansard.analytics.models.predict.prediction import predict_roofed
from mansard.analytics.models.predict.totals_calibration import apply_totals, calibrate_totals
from tests.analytics.test_calibration_totals import (
    calibrated,
    constant_power,
    fast,
    observations,
    predictions,
)


def seconds(**times_s: float) -> dict[str, Any]:
    """By names with underscores: a_decode_512 is "a [decode 512]"."""
    named = {
        f"{model} [{stage} {tokens}]": time_s
        for name, time_s in times_s.items()
        for model, stage, tokens in [name.split("_")]
    }
    return fast(**named)


def test_a_name_tells_the_model_and_its_stage() -> None:
    names = ["llama:Q4_K_M [decode 512]", "qwen [prefill 64]", "resnet50", "odd [decode x]"]
    frame = pl.DataFrame({"network": names, "phase": "inference"}).with_columns(**stage_columns())
    assert frame["model"].to_list() == ["llama:Q4_K_M", "qwen", "resnet50", "odd [decode x]"]
    assert frame["kind"].to_list() == ["decode", "prefill", "inference", "inference"]


def test_networks_and_each_stage_have_lines_of_their_own() -> None:
    # Networks take twice the roof, decodes 1.5 times: neither moves the other.
    predicted = predictions(**fast(a=1.0, b=2.0), **seconds(m_decode_64=1.0, n_decode_64=3.0))
    predicted = predicted.with_columns(
        memory_s="compute_s", compute_s=pl.lit(0.0), n_launches=pl.lit(1.0)
    )
    measured = observations(**fast(a=2.0, b=4.0), **seconds(m_decode_64=1.5))
    calibration = calibrate_totals(predicted, measured)
    assert sorted(kind for _, kind in calibration) == ["decode", "inference"]
    row = calibrated(predicted, measured, "n [decode 64]")
    assert row["latency_s"] == pytest.approx(4.5, rel=0.03)
    assert row["is_calibrated"]


def test_a_stage_is_at_best_where_networks_alone_were_measured() -> None:
    predicted = predictions(**fast(a=1.0, b=2.0), **seconds(m_decode_64=1.0))
    row = calibrated(predicted, observations(**fast(a=2.0, b=4.0)), "m [decode 64]")
    assert (row["latency_s"], row["is_calibrated"], row["interval"]) == (1.0, False, "roof")


def test_all_contexts_of_a_model_are_left_out_together() -> None:
    names = seconds(m_decode_64=1.0, m_decode_512=1.2, n_decode_64=3.0)
    lines = calibrate_totals(predictions(**names), observations(**names))["Board GPU", "decode"]
    assert [len(log) for log in lines.networks.logs] == [2, 1]


def powers(**watts: float) -> pl.DataFrame:
    """Of decodes that take a second each."""
    rows = observations(**seconds(**dict.fromkeys(watts, 1.0)))
    return rows.with_columns(power_w=pl.Series(list(watts.values())))


def test_the_power_of_a_stage_is_that_of_others_in_the_mode() -> None:
    # Of 36 and 49 W the geometric mean is 42 W; 2 s of them are 84 J.
    predicted = predictions(**seconds(m_decode_64=1.0, n_decode_64=1.0, o_decode_64=2.0))
    predicted = predicted.with_columns(energy_j=None, power_w=None, reason=pl.lit("no meter"))
    measured = powers(m_decode_64=36.0, n_decode_64=49.0)
    row = calibrated(predicted, measured, "o [decode 64]")
    assert row["power_w"] == pytest.approx(42.0)
    assert row["energy_j"] == pytest.approx(42.0 * row["latency_s"])
    assert row["power_low_w"] < 36.0
    assert row["power_high_w"] > 49.0
    assert row["energy_low_j"] < row["energy_j"] < row["energy_high_j"]
    assert row["reason"] is None
    assert "its power is that of 2 models metered in decode here" in row["notes"]
    assert row["source"] == "modelled"


def test_a_network_has_no_power_of_others() -> None:
    predicted = predictions(**fast(a=1.0, b=1.0)).with_columns(energy_j=None, power_w=None)
    measured = observations(**fast(a=2.0)).with_columns(power_w=pl.lit(36.0))
    assert calibrated(predicted, measured, "b")["power_w"] is None


def test_no_power_is_carried_to_another_mode() -> None:
    predicted = predictions(
        **{"m [decode 64]": {"slow": 2.0, "fast": 1.0}, "n [decode 64]": {"slow": 2.0}}
    ).with_columns(energy_j=None, power_w=None)
    measured = powers(m_decode_64=36.0)  # in "fast"
    found = apply_totals(predicted, calibrate_totals(predicted, measured), constant_power())
    assert found.filter(mode="slow")["power_w"].to_list() == [None, None]


def groups(*rows: dict[str, Any]) -> pl.DataFrame:
    """Groups of the score "s"."""
    same = {"score_id": "s", "tensor_flop": 0.0, "cuda_flop": 0.0, "n_launches": 1}
    given = [{**same, "group": at, "name": "g", **row} for at, row in enumerate(rows)]
    return pl.DataFrame(given, schema=GROUP_SCHEMA)


def test_parts_of_a_stage_add_and_caches_count_twice() -> None:
    # A matrix: 8 GFLOP at 4 GFLOP/s are 2 s, 3 GB at 1 GB/s 3 s. Attention: 1 GB, 1 s.
    # At the roof 3 + 1 s; as parts 2 s of work, and 3 + 2·1 s of traffic.
    rows = groups(
        {"op_class": "matmul", "cuda_flop": 8e9, "cuda_precision": "fp32", "traffic_bytes": 3e9},
        {"op_class": "attention", "traffic_bytes": 1e9},
    )
    peak = {"quantity": "peak", "subject": "fp32", "unit": "CUDA core", "value": 4e9}
    bandwidth = {"quantity": "bandwidth", "subject": "DRAM", "unit": "", "value": 1e9}
    coefficients = pl.DataFrame(
        [
            {"device": "Board GPU", "mode": "fast", "is_extrapolated": False, **each}
            for each in (peak, bandwidth)
        ],
        schema=COEFFICIENT_SCHEMA,
    )
    modes = pl.DataFrame([{"device": "Board GPU", "mode": "fast"}], schema=MODE_SCHEMA)

    def parts(network: str) -> tuple[float, ...]:
        score = {"score_id": "s", "network": network, "batch": 1, "precision": "int8"}
        scores = pl.DataFrame([score]).with_columns(phase=pl.lit("inference"))
        found = predict_roofed(rows, scores, coefficients, modes)
        return found.select("latency_s", "compute_s", "memory_s").row(0)

    assert parts("m [decode 64]") == pytest.approx((4.0, 2.0, 5.0))
    assert parts("m") == pytest.approx((4.0, 0.0, 4.0))
