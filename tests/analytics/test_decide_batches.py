"""What a batch size costs."""

from __future__ import annotations

import polars as pl
import pytest

from mansard.analytics.data.model_frames import OBSERVATION_SCHEMA
from mansard.analytics.decisions.batches import BATCH_SCHEMA, batch_table
from tests.analytics.decide_factory import frame, row

SCORES = pl.DataFrame(
    {"score_id": ["net-1", "net-4"], "work_flop": [6e9, 24e9], "traffic_bytes": [1e8, 2e8]}
)
NOTHING_RUN = pl.DataFrame(schema=OBSERVATION_SCHEMA)


def test_throughput_energy_and_intensity_of_each_batch() -> None:
    rows = batch_table(
        frame([row("15W", 0.05, 0.8, batch=4), row("15W", 0.02, 0.3, batch=1)]), SCORES, NOTHING_RUN
    )
    assert rows.schema == BATCH_SCHEMA
    # 1 / 0.02 and 4 / 0.05; 0.3 and 0.8 / 4; 6e9 / 1e8 and 24e9 / 2e8
    assert rows["batch"].to_list() == [1, 4]
    assert rows["items_per_s"].to_list() == pytest.approx([50.0, 80.0])
    assert rows["energy_j"].to_list() == pytest.approx([0.3, 0.2])
    assert rows["intensity_flop_per_byte"].to_list() == pytest.approx([60.0, 120.0])
    assert rows["is_most_items"].to_list() == [False, True]
    assert rows["is_least_energy"].to_list() == [False, True]


def test_a_larger_batch_that_gains_less_than_a_hundredth_is_not_the_best() -> None:
    # 100, 199 and 200 items/s: 199 is within 1 % of 200
    rows = [
        row("15W", 0.01, 1.0),
        row("15W", 2 / 199, 1.0, batch=2),
        row("15W", 0.02, 2.0, batch=4),
    ]
    found = batch_table(frame(rows), SCORES, NOTHING_RUN)
    assert found["is_most_items"].to_list() == [False, True, False]
    assert found["is_least_energy"].to_list() == [False, True, False]


def test_curves_of_modes_are_apart_and_unknown_stays_unknown() -> None:
    rows = [row("15W", 0.02), row("30W", None, reason="no peak"), row("15W", 0.05, batch=4)]
    found = batch_table(frame(rows), SCORES, NOTHING_RUN)
    assert found["mode"].to_list() == ["15W", "15W", "30W"]
    assert found["items_per_s"].to_list() == [50.0, 80.0, None]
    assert found["is_most_items"].to_list() == [False, True, False]
    assert not found["is_least_energy"].any()
    assert found["reason"].to_list() == [None, None, "no peak"]


def test_what_was_measured_stands_beside_its_prediction() -> None:
    """21 ms for one and 64 ms at 10 W for four: 47.6 and 62.5 items/s, 160 mJ of an item."""
    predictions = frame([row("15W", 0.02), row("15W", 0.05, batch=4), row("15W", 0.1, batch=8)])
    like = predictions.row(0, named=True)
    keys = {name: like[name] for name in ("device", "mode", "network", "precision", "phase")}
    seen = [
        {**keys, "batch": 1, "engine": "onnxruntime cpu", "latency_s": 0.021},
        {**keys, "batch": 4, "engine": "onnxruntime cpu", "latency_s": 0.064, "power_w": 10.0},
        {**keys, "batch": 4, "engine": None, "latency_s": 0.9, "source": "published"},
    ]
    found = batch_table(predictions, SCORES, pl.DataFrame(seen, schema=OBSERVATION_SCHEMA))
    assert found["batch"].to_list() == [1, 4, 8]
    assert found["measured_s"].to_list() == pytest.approx([0.021, 0.064, None])
    assert found["measured_items_per_s"].to_list() == pytest.approx([1 / 0.021, 62.5, None])
    assert found["measured_j"].to_list() == pytest.approx([None, 0.16, None])
    assert found["engine"].to_list() == ["onnxruntime cpu", "onnxruntime cpu", None]


def test_no_predictions_are_no_rows() -> None:
    assert batch_table(frame([]), SCORES, NOTHING_RUN).is_empty()
