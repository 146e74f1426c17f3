"""Networks that were only timed: what was seen stands, the rest is modelled."""

from __future__ import annotations

from math import exp, hypot

import polars as pl
import pytest

from mansard.analytics.data.model_frames import MODE_SCHEMA, OBSERVATION_SCHEMA, PREDICTION_SCHEMA
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.models.scaling.network_fit import fit_networks
from mansard.analytics.models.scaling.network_predict import predict_observed
from tests.analytics.answers import recommend_each


def modes(*names: str, **clocks_hz: float) -> pl.DataFrame:
    rows = [{"device": "board", "mode": name, "gpu_hz": clocks_hz.get(name)} for name in names]
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


def seen(mode: str, latency_s: float | None, power_w: float | None) -> dict[str, object]:
    return {
        "device": "board",
        "mode": mode,
        "network": "net",
        "batch": 2,
        "precision": None,
        "phase": "inference",
        "latency_s": latency_s,
        "power_w": power_w,
        "source": "published",
        "citation": "a table",
        "reason": None if power_w else "the table has no power",
    }


def observed(*rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=OBSERVATION_SCHEMA)


def test_what_was_seen_stands_with_the_scatter_of_runs_also_without_clocks() -> None:
    rows = observed(seen("MAXN", 0.020, 20.0), seen("x", 0.010, 10.0))
    found = predict_observed(rows, modes("MAXN", "x"), modes("MAXN", "x")).sort("mode")
    assert found.schema == pl.Schema(PREDICTION_SCHEMA)
    assert found["latency_s"].to_list() == [0.020, 0.010]
    # 0.020 s · 20 W, 0.010 s · 10 W
    assert found["energy_j"].to_list() == pytest.approx([0.4, 0.1])
    assert found["source"].to_list() == ["published", "published"]
    # t(4) = 2.7764: 2.7764 · 0.012 of time, · 0.008 of power; both of energy
    time, power = 2.7764 * 0.012, 2.7764 * 0.008
    assert found["interval"].to_list() == ["spread", "spread"]
    assert found["latency_low_s"].to_list() == pytest.approx([0.020 / exp(time), 0.010 / exp(time)])
    assert found["power_high_w"].to_list() == pytest.approx([20.0 * exp(power), 10.0 * exp(power)])
    assert found["energy_high_j"][0] == pytest.approx(0.4 * exp(hypot(time, power)))
    assert "± 3.3 % of time and ± 2.2 % of power" in found["notes"][0]
    assert found["score_id"].n_unique() == 1


def test_other_modes_are_modelled_between_those_that_were_seen() -> None:
    clocks_hz = {"a": 400e6, "b": 600e6, "c": 800e6, "d": 1200e6, "new": 1000e6}
    rows = observed(*(seen(name, 4e6 / clocks_hz[name], 10.0) for name in "abcd"))
    found = predict_observed(rows, modes(*"abcd", **clocks_hz), modes("a", "new", **clocks_hz))
    by_mode = {row["mode"]: row for row in found.iter_rows(named=True)}
    assert set(by_mode) == {"a", "new"}
    assert by_mode["a"]["source"] == "published"
    assert by_mode["new"]["source"] == "modelled"
    # 4e6 cycles at 1 GHz
    assert by_mode["new"]["latency_s"] == pytest.approx(4e-3, rel=1e-3)


def test_repeats_of_a_mode_are_pooled_in_what_is_shown_as_in_what_is_fitted() -> None:
    clocks_hz = {"a": 400e6, "b": 600e6, "c": 800e6}
    rows = observed(
        *(seen(name, 4e6 / clocks_hz[name], 10.0) for name in "abc"),
        seen("a", 4e6 / 400e6 * 1.1, 12.0),
    )
    found = predict_observed(rows, modes(*"abc", **clocks_hz), modes("a", **clocks_hz))
    (row,) = found.iter_rows(named=True)
    # 10 ms and 11 ms, 10 W and 12 W
    assert row["latency_s"] == pytest.approx(10.5e-3)
    assert row["power_w"] == pytest.approx(11.0)
    assert row["energy_j"] == pytest.approx(10.5e-3 * 11.0)
    assert row["notes"] == "pooled from 2 measurements"
    assert row["latency_low_s"] < 10e-3
    assert row["latency_high_s"] > 11e-3
    (fit,) = fit_networks(rows, modes(*"abc", **clocks_hz))
    assert fit.measured.filter(pl.col("mode") == "a")["latency_s"].to_list() == pytest.approx(
        [10.5e-3]
    )


def test_a_measured_time_just_below_a_limit_is_not_certain() -> None:
    found = predict_observed(observed(seen("m", 19.9e-3, 10.0)), modes("m"), modes("m"))
    (told,) = recommend_each(found, modes("m"), Wanted(max_latency_s=20e-3))
    assert told.verdict == "uncertain"
    # ln(20 / 19.9) = 0.005013, over 0.03332 / 1.96: 0.2948 standard deviations
    assert told.checks[0].probability == pytest.approx(0.616, abs=1e-3)


def test_a_time_without_power_stays_where_nothing_knows_the_power() -> None:
    found = predict_observed(observed(seen("m", 0.5, None)), modes("m"), modes("m"))
    (row,) = found.iter_rows(named=True)
    assert (row["latency_s"], row["power_w"], row["energy_j"]) == (0.5, None, None)
    assert row["reason"] == "the table has no power"


def test_a_measured_time_stands_where_only_the_power_is_modelled() -> None:
    clocks_hz = {"a": 400e6, "b": 600e6, "c": 800e6, "d": 1200e6}
    rows = observed(
        *(seen(name, 4e6 / clocks_hz[name], clocks_hz[name] / 1e8) for name in "abd"),
        seen("c", 5.1e-3, None),
    )
    found = predict_observed(rows, modes(*"abcd", **clocks_hz), modes("c", **clocks_hz))
    (row,) = found.iter_rows(named=True)
    assert (row["latency_s"], row["source"], row["interval"]) == (5.1e-3, "modelled", "spread")
    assert row["latency_high_s"] == pytest.approx(5.1e-3 * exp(2.7764 * 0.012))
    # 1 W for each 100 MHz: 8 W, and 5.1 ms of it
    assert row["power_w"] == pytest.approx(8.0, rel=0.1)
    assert row["energy_j"] == pytest.approx(5.1e-3 * row["power_w"])
    assert row["power_low_w"] < row["power_w"] < row["power_high_w"]
    assert row["reason"] is None
    assert row["notes"] == "the power is modelled, beside times that were measured"


def test_nothing_seen_gives_nothing() -> None:
    assert predict_observed(observed(), modes("m"), modes("m")).is_empty()
