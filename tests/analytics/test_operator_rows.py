"""The zoo's operators: no networks of a report, and what calibrations rest on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.predict.models import find_models
from mansard.analytics.models.predict.prediction import predict
from mansard.analytics.pages.report.summary import summary
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.modes import protocol_facts
from mansard.core.records import LayerScore, LayerTime, Measurement, ModelScore
from mansard.estimator import zoo
from mansard.estimator.scoring import score
from tests.analytics.factory import measurement, write_networks, write_two_modes
from tests.analytics.score_factory import write_scores

DESIGNED = ("zoo_operators1", "zoo_operators2", "zoo_operators3")
RAN, UNSEEN = "resnet18", "squeezenet1_1"
FLOP_PER_S, BYTE_PER_S, NODE_S = 60e9, 10e9, 2e-6  # half of what the roofs of two cores allow


def taken_s(layer: LayerScore) -> float:
    work_s = (layer.work_flop or 0) / FLOP_PER_S
    return work_s + (layer.fused_traffic_bytes or 0) / BYTE_PER_S + NODE_S


def ran(scored: ModelScore, run_id: str = "nets") -> Measurement:
    """A network each node of which took ``taken_s``."""
    layers = tuple(
        LayerTime(
            index=layer.index,
            name=layer.name,
            op_type=layer.op_type,
            provider="cpu",
            nodes=(layer.index,),
            runs=1,
            seconds_s=(taken_s(layer),),
        )
        for layer in scored.layers
    )
    total_s = sum(map(taken_s, scored.layers))
    return measurement(
        run_id,
        [total_s * part for part in (0.99, 1.0, 1.01)],
        model=scored.model,
        model_hash=scored.model_hash,
        dimensions=scored.dimensions,
        layers=layers,
        profiled_s=(total_s,),
    )


def scored(names: Sequence[str]) -> list[ModelScore]:
    return [score(zoo.read(name), name=name, batch=1) for name in names]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_two_modes(tmp_path_factory.mktemp("runs"))
    scores = scored((*DESIGNED, RAN, UNSEEN))
    write_scores(folder, scores)
    write_networks(folder, [ran(one) for one in scores if one.model != UNSEEN])
    return folder


@pytest.fixture(scope="module")
def dataset(runs: Path) -> Dataset:
    return open_runs([runs])


@pytest.fixture(scope="module")
def results(dataset: Dataset) -> Results:
    return compute(dataset)


def test_a_dataset_has_operators_apart_from_networks(dataset: Dataset) -> None:
    assert [row.model for row in dataset.measurements] == [RAN]
    assert {one.model for one in dataset.scores} == {RAN, UNSEEN}
    assert set(dataset.layers["model"]) == {RAN, UNSEEN}
    assert {row.model for row in dataset.operators.measurements} == set(DESIGNED)
    whole = dataset.with_operators()
    assert {row.model for row in whole.measurements} == {RAN, *DESIGNED}
    assert whole.layers.height == sum(len(one.layers) for one in whole.scores)


def test_two_folders_have_them_apart_too(runs: Path, tmp_path: Path) -> None:
    (more,) = scored(["zoo_operators4"])
    write_scores(tmp_path, [more])
    write_networks(tmp_path, [ran(more, "more")])
    both = open_runs([runs, tmp_path])
    assert [row.model for row in both.measurements] == [RAN]
    assert {row.model for row in both.operators.measurements} == {*DESIGNED, "zoo_operators4"}


def test_no_page_and_no_summary_lists_them(results: Results) -> None:
    shown = summary(results.dataset, results)
    assert {row.network for row in shown.measured} == {RAN}
    assert "zoo_operators1" not in render(results)
    assert "zoo_operators1" not in repr(shown)


def test_neither_do_predictions_that_name_no_network(dataset: Dataset) -> None:
    found = predict(dataset)
    assert set(found.predictions["network"]) == {RAN, UNSEEN}
    assert find_models(dataset).observed_networks() == {RAN}


def test_a_network_that_never_ran_is_predicted_from_them(
    dataset: Dataset, results: Results
) -> None:
    (unseen,) = scored([UNSEEN])
    truth_s = sum(map(taken_s, unseen.layers))
    found = predict(dataset, calibrate=True)
    assert set(found.predictions["network"]) == {RAN, UNSEEN}
    row = found.predictions.filter(pl.col("network") == UNSEEN, pl.col("mode") == "2c")
    assert row["latency_s"].item() == pytest.approx(truth_s, rel=0.15)
    assert row["latency_low_s"].item() < truth_s < row["latency_high_s"].item()
    (fitted,) = found.calibration.values()
    assert fitted.n_operators > 3 * 27
    (fact,) = [line for line in protocol_facts(results) if "of the zoo were timed" in line]
    assert f"{fitted.n_operators} operators of the zoo were timed" in fact
