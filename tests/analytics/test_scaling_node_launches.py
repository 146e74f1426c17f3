"""What a node costs an engine, from two chains of tiny nodes, as the launch of a mode."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.predict.models import find_models
from mansard.analytics.models.predict.prediction import predict
from mansard.analytics.pages.results import compute
from mansard.analytics.pages.tables.ceilings import launch_table
from mansard.core.records import Measurement, chain_name
from tests.analytics.factory import measurement, write_networks, write_two_modes
from tests.analytics.score_factory import layer, score, write_scores


def chains(run_id: str, short_s: float, long_s: float, **known: object) -> list[Measurement]:
    """Both chains with samples of 1 % scatter in three blocks."""
    rows = []
    for length, time_s in ((1, short_s), (65, long_s)):
        times = tuple(time_s * part for part in (0.99, 1.0, 1.01) for _ in range(3))
        block = (0, 0, 0, 1, 1, 1, 2, 2, 2)
        name = chain_name(length)
        values = {"model": name, "model_hash": name[:10], "block": block, "trial_id": name}
        rows.append(measurement(run_id, times, **{**values, **known}))
    return rows


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = write_two_modes(tmp_path / "runs")
    write_scores(folder, [score("net", [layer(0, 10**9, 10**8), layer(1, 10**9, 10**8)])])
    return folder


def test_the_slope_is_a_node_and_the_rest_a_call(runs: Path) -> None:
    # 5 µs and 18 µs: (18 − 5) / 64 = 0.203125 µs a node, 5 − 0.203125 a call
    write_networks(runs, chains("nets", 5e-6, 18e-6))
    (found,) = find_models(ingest(runs)).node_launches
    assert found.mode == "2c"
    assert found.node_s == pytest.approx(0.203125e-6)
    assert found.call_s == pytest.approx(4.796875e-6)
    assert found.node_low_s is not None
    assert found.node_high_s is not None
    # ends of both at most 1 % off: (17.82 − 5.05) / 64 and (18.18 − 4.95) / 64
    assert 0.1995e-6 <= found.node_low_s < 0.203125e-6 < found.node_high_s <= 0.2068e-6


def test_it_is_added_once_for_each_layer_in_every_mode(runs: Path) -> None:
    before = predict(ingest(runs)).predictions
    write_networks(runs, chains("nets-2c", 5e-6, 18e-6))
    write_networks(runs, chains("nets-1c", 5e-6, 37e-6), 1)
    found = predict(ingest(runs))
    # chains are not listed as networks
    assert found.predictions["network"].unique().to_list() == ["net"]
    assert found.models.observations.is_empty()
    more = (found.predictions["latency_s"] - before["latency_s"]).to_list()
    # two layers of 0.5 µs with one core, of 0.203125 µs with two
    modes = found.predictions["mode"].to_list()
    assert dict(zip(modes, more, strict=True)) == {
        "1c": pytest.approx(1e-6, rel=1e-3),
        "2c": pytest.approx(0.40625e-6, rel=1e-3),
    }


def test_of_one_mode_alone_the_other_follows_by_its_law_and_the_page_shows_both_costs(
    runs: Path,
) -> None:
    write_networks(runs, chains("nets", 5e-6, 18e-6))
    dataset = ingest(runs)
    launches = find_models(dataset).coefficients.filter(pl.col("quantity") == "launch")
    assert launches["mode"].to_list() == ["2c"]
    (row,) = launch_table(compute(dataset)).rows
    assert row[1] == "a node of onnxruntime cpu"
    assert row[4].replace("\u00a0", " ") == "plus 4.80 µs for each call"


@pytest.mark.parametrize(
    ("short_s", "long_s", "known"),
    [(5e-6, 4e-6, {}), (5e-6, 18e-6, {"disturbances": ("throttled once",)})],
)
def test_what_cannot_be_is_unknown(
    runs: Path, short_s: float, long_s: float, known: dict[str, object]
) -> None:
    write_networks(runs, chains("nets", short_s, long_s, **known))
    models = find_models(ingest(runs))
    known_launches = models.coefficients.filter(pl.col("quantity") == "launch")
    assert known_launches["value"].drop_nulls().is_empty()
    if not known:
        (found,) = models.node_launches
        assert found.unknown["node_s"] == "the longer chain took no longer than the shorter one"


def test_each_engine_has_its_own_and_a_model_takes_that_of_the_newest_run(runs: Path) -> None:
    write_networks(runs, chains("first", 5e-6, 18e-6))
    later = "2026-01-03T04:00:00Z"
    write_networks(runs, chains("other", 5e-6, 37e-6, threads=1), started_utc=later)
    models = find_models(ingest(runs))
    # 13 µs and 32 µs over 64 nodes
    assert {each.engine: each.node_s for each in models.node_launches} == pytest.approx(
        {"onnxruntime cpu": 0.203125e-6, "onnxruntime cpu 1 thread": 0.5e-6}
    )
    launches = models.coefficients.filter(pl.col("quantity") == "launch")
    assert launches["value"].to_list() == [pytest.approx(0.5e-6)]
    # The first engine again, later: its launch is now the newest.
    write_networks(runs, chains("again", 5e-6, 24.2e-6), started_utc="2026-01-04T04:00:00Z")
    models = find_models(ingest(runs))
    assert [each.run_id for each in models.node_launches] == ["other", "again"]
    launches = models.coefficients.filter(pl.col("quantity") == "launch")
    assert launches["value"].to_list() == [pytest.approx(0.3e-6)]  # 19.2 µs over 64 nodes


def test_a_mode_without_a_roof_gets_none(tmp_path: Path) -> None:
    write_networks(tmp_path / "runs", chains("nets", 5e-6, 18e-6))
    models = find_models(ingest(tmp_path / "runs"))
    assert len(models.node_launches) == 1
    assert models.coefficients.is_empty()
