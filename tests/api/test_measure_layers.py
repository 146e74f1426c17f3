"""Layers that are run alone on ONNX Runtime through the API: kept, summed, and never a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard import api
from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.predict.models import find_models
from mansard.analytics.models.scaling.observations import measured_observations
from mansard.analytics.pages.results import compute
from mansard.api import results
from mansard.core.errors import InputError, UsageError
from mansard.core.records import Measurement, ModelScore
from mansard.core.storage.jsonl import read_rows
from mansard.sweeps.layers import parse_each_layer
from tests.inference.test_cutting import residual
from tests.undisturbed import without_doubts

pytestmark = pytest.mark.usefixtures("before_others")


class Measured(msgspec.Struct):
    """What was measured once for all tests of this file."""

    request: api.MeasureRequest
    result: results.LayersResult


class Notes(api.SilentReporter):
    """Keeps notes, and lines of progress."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("layers")
    request = api.MeasureRequest(
        models=(str(residual(folder)),),
        profile="brief",
        is_local=True,
        mode="1c",
        settings=api.NetworkSettings(threads=1),
        runs=folder / "runs",
    )
    result = api.measure_layers(request, api.LayerSettings(rest_s=0.01))
    result.check()
    return Measured(request, result)


def test_each_layer_is_a_row_that_says_what_it_is_of(measured: Measured) -> None:
    rows = [each.row for each in measured.result.rows]
    assert [row.model for row in rows] == [f"residual layer {n}" for n in range(5)]
    assert {row.part.whole for row in rows} == {"residual"}
    assert [row.part.number for row in rows] == [0, 1, 2, 3, 4]
    assert rows[2].part.op_types == ("Conv", "Add", "Relu")
    (whole,) = (each.row for each in measured.result.whole.rows)
    assert not whole.is_part


def test_layers_of_the_engine_keep_the_indexes_of_the_whole_network(measured: Measured) -> None:
    row = measured.result.rows[2].row
    assert row.layers is not None
    nodes = {node for layer in row.layers for node in layer.nodes or ()}
    assert nodes == {4, 5, 6}


def test_the_sum_is_that_of_the_parts_that_count(measured: Measured) -> None:
    (found,) = measured.result.sums
    assert (found.kind, found.n_parts) == ("layer", 5)
    good = [each for each in measured.result.parts if not each.remark]
    assert found.n_measured == len(good)
    assert found.parts_s == pytest.approx(sum(each.time_s or 0.0 for each in good))


def test_the_same_command_measures_no_layer_again(measured: Measured) -> None:
    without_doubts(measured.request.runs)
    before = {p: p.read_bytes() for p in measured.request.runs.rglob("measurements.jsonl")}
    reporter = Notes()
    again = api.measure_layers(measured.request, api.LayerSettings(rest_s=0.01), reporter)
    done = [line for line in reporter.lines if line.endswith("(done)")]
    assert sum(line.startswith("Preparing networks") for line in done) == 1
    assert [one.row.trial_id for one in again.rows] == [
        one.row.trial_id for one in measured.result.rows
    ]
    after = {p: p.read_bytes() for p in measured.request.runs.rglob("measurements.jsonl")}
    assert after == before


def test_a_layer_is_no_network_anywhere(measured: Measured) -> None:
    """Neither scored, nor observed, calibrated on, predicted, shown or recommended."""
    runs = measured.request.runs
    assert [row.model for row in read_rows(runs / "scores.jsonl", ModelScore).rows] == ["residual"]
    dataset = open_runs([runs])
    assert sum(row.is_part for row in dataset.measurements) == 5
    observed = measured_observations(dataset)
    assert observed.rows["network"].to_list() == ["residual"]
    assert not any("layer" in note for note in observed.notes)
    models = find_models(dataset)
    assert set(models.observations["network"]) == {"residual"}
    results = compute(dataset)
    assert [row.network for row in results.measured] == ["residual"]
    assert set(results.predictions["network"]) <= {"residual"}
    assert not any("layer" in name for name in results.names.values())
    assert len(results.parts) == 5
    for each in results.recommendations:
        assert "layer" not in str(each)


def test_without_its_parts_a_folder_says_the_same(measured: Measured, tmp_path: Path) -> None:
    """Whatever is computed of networks is the same with and without the rows of parts."""
    import shutil

    with_parts = measured.request.runs
    without = tmp_path / "runs"
    shutil.copytree(with_parts, without)
    for path in without.glob("*/measurements.jsonl"):
        if any(row.is_part for row in read_rows(path, Measurement).rows):
            shutil.rmtree(path.parent)
    shutil.rmtree(without / "dataset", ignore_errors=True)
    one, two = compute(open_runs([with_parts])), compute(open_runs([without]))
    assert one.measured == two.measured
    assert one.observations.equals(two.observations)
    assert one.predictions.equals(two.predictions)
    assert one.calibration == two.calibration


def test_the_report_shows_the_layers(measured: Measured) -> None:
    found = api.report((str(measured.request.runs),))
    page = Path(found.path).read_text(encoding="utf-8")
    assert "Layers that were run alone" in page
    assert "Conv, Add, Relu" in page


def test_only_the_slowest_are_measured_where_that_is_asked(measured: Measured) -> None:
    result = api.measure_layers(measured.request, api.LayerSettings(slowest=2, rest_s=0.02))
    assert len(result.rows) == 2
    numbers = [each.row.part.number for each in result.rows]
    assert numbers == sorted(numbers)


def test_stages_are_parts_of_another_kind(measured: Measured) -> None:
    result = api.measure_layers(measured.request, api.LayerSettings(kind="stage"))
    assert [each.row.part.nodes for each in result.rows] == [(0, 1), (2, 3, 4, 5, 6), (7,), (13,)]
    kinds = {each.kind: each.n_measured for each in result.sums}
    assert kinds["stage"] == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [("all", ("layer", None)), ("stages", ("stage", None)), ("7", ("layer", 7))],
)
def test_which_layers_are_asked_for(text: str, expected: Any) -> None:
    assert parse_each_layer(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-3", "some", "1.5", "٣"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no layers"):
        parse_each_layer(text)


def test_layers_of_the_whole_network_are_held_against_their_nodes(measured: Measured) -> None:
    request = measured.request
    results = api.layers(Path(str(request.models[0])), runs=[request.runs])
    (whole,) = (result for result in results if result.network == "residual")
    assert (whole.source, whole.lost_share) == ("measured", 0)
    assert {row.joined_by for row in whole.layers if row.nodes} == {"traced"}
    assert whole.joined_work_share == 1
    # No kernel was run on this machine: there are times and no roofs.
    assert "no roofs were measured" in whole.unknown["roofs_source"]
    with pytest.raises(InputError, match="that have layers; measure it"):
        api.layers(Path(str(request.models[0])), runs=[request.runs], mode="9c")
