"""What was measured takes the place of what the roofs say, in the frame that decisions read."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.model_frames import PREDICTION_KEY
from mansard.analytics.models.predict.measured import prefer_measured
from mansard.analytics.models.predict.prediction import Prediction, predict
from tests.analytics.factory import measurement, write_networks, write_two_modes
from tests.analytics.score_factory import layer, score, write_scores

HASH = score("net", [layer(0, 10**9, 10**8)]).model_hash


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = write_two_modes(tmp_path / "runs")
    write_scores(folder, [score("net", [layer(0, 10**9, 10**8)])])
    return folder


def mode(frame: pl.DataFrame, name: str) -> dict[str, object]:
    return frame.row(by_predicate=pl.col("mode") == name, named=True)


def predicted(runs: Path) -> Prediction:
    return predict(ingest(runs))


def test_nothing_measured_leaves_the_predictions_as_they_are(runs: Path) -> None:
    found = predicted(runs)
    assert prefer_measured(found).equals(found.predictions)


def test_a_measured_time_counts_and_the_other_mode_follows_from_it(runs: Path) -> None:
    write_networks(runs, [measurement("nets", (0.5,) * 9, model="net", model_hash=HASH)], 1)
    found = predicted(runs)
    assert found.predictions["interval"].to_list() == ["roof", "roof"]
    decided = prefer_measured(found)
    assert decided.height == found.predictions.height
    seen, other = mode(decided, "1c"), mode(decided, "2c")
    assert (seen["latency_s"], seen["source"], seen["interval"]) == (0.5, "measured", "spread")
    # At least half of half of what one core took, as two may gain twice their share: 125 ms; at
    # most what it took. Either may be off by e^0.15 = 1.162: 0.1076 and 0.581 s.
    assert other["source"] == "modelled"
    assert other["interval"] != "roof"
    assert float(str(other["latency_low_s"])) == pytest.approx(0.1076, rel=1e-3)
    assert float(str(other["latency_high_s"])) == pytest.approx(0.581, rel=1e-3)


def test_other_batches_stay_as_the_roofs_say(runs: Path) -> None:
    write_networks(
        runs, [measurement("nets", (0.5,) * 9, model="net", model_hash=HASH, batch=8)], 1
    )
    found = predicted(runs)
    same = found.predictions.join(
        prefer_measured(found), on=["mode", "latency_s", *PREDICTION_KEY], nulls_equal=True
    )
    assert same.height == found.predictions.height
