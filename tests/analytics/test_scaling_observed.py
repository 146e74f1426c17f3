"""Networks that were only timed: what was seen stands, the rest is modelled."""

from __future__ import annotations

import polars as pl
import pytest

from mansard.analytics.data.model_frames import MODE_SCHEMA, OBSERVATION_SCHEMA, PREDICTION_SCHEMA
from mansard.analytics.scaling.network_predict import predict_observed


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


def test_what_was_seen_stands_as_it_is_also_without_clocks() -> None:
    rows = observed(seen("MAXN", 0.020, 20.0), seen("x", 0.010, 10.0))
    found = predict_observed(rows, modes("MAXN", "x"), modes("MAXN", "x")).sort("mode")
    assert found.schema == pl.Schema(PREDICTION_SCHEMA)
    assert found["latency_s"].to_list() == [0.020, 0.010]
    # 0.020 s · 20 W, 0.010 s · 10 W
    assert found["energy_j"].to_list() == pytest.approx([0.4, 0.1])
    assert found["source"].to_list() == ["published", "published"]
    assert found["latency_low_s"].to_list() == [None, None]
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


def test_a_time_without_power_stays_where_nothing_knows_the_power() -> None:
    found = predict_observed(observed(seen("m", 0.5, None)), modes("m"), modes("m"))
    (row,) = found.iter_rows(named=True)
    assert (row["latency_s"], row["power_w"], row["energy_j"]) == (0.5, None, None)
    assert row["reason"] == "the table has no power"


def test_nothing_seen_gives_nothing() -> None:
    assert predict_observed(observed(), modes("m"), modes("m")).is_empty()
