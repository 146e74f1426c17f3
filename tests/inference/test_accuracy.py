"""Accuracy is counted: classes and ranks by hand, samples in batches, and rows by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import helper

from mansard.core.errors import InputError, MeasurementError
from mansard.core.records import Accuracy
from mansard.core.storage.jsonl import read_rows
from mansard.device.identity import identify
from mansard.inference.accuracy import (
    batches,
    class_scores,
    normalised,
    predicted,
    ranks,
    read_labels,
)
from mansard.inference.engines import find_engine
from mansard.inference.plan import (
    AccuracyPlan,
    AccuracyTrial,
    Normalisation,
    PreparedSamples,
    any_mode,
    make_plan,
)
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import run_plan
from tests.inference.small_networks import trial, uniform, write

AS_THEY_ARE = {"normalisation": "the arrays are fed as they are"}


def test_classes_and_ranks_by_hand() -> None:
    nan = float("nan")
    scores = np.array([[1.0, 3, 2], [2, 2, 2], [0, 5, 5], [1, nan, 0]])
    # Highest: class 1; of three equal ones the first; of two equal ones class 1; none of NaN.
    assert predicted(scores).tolist() == [1, 0, 1, 3]
    # Before class 2: 3 > 2 alone; before class 2 of equal ones: 0 and 1; before class 2: class 1.
    assert ranks(scores, np.array([2, 2, 2, 0])).tolist() == [1, 2, 1, 3]
    # Class 0: behind both; the first of equal ones; behind both.
    assert ranks(scores, np.array([0, 0, 0, 0])).tolist() == [2, 0, 2, 3]


@given(arrays(np.float64, (7, 5), elements=st.integers(0, 3).map(float)), st.integers(0, 4))
def test_each_class_has_a_rank_of_its_own(scores: Any, label: int) -> None:
    found = np.stack([ranks(scores, np.full(7, each)) for each in range(5)])
    assert (np.sort(found, axis=0) == np.arange(5)[:, None]).all()
    is_right = ranks(scores, np.full(7, label)) == 0
    assert (is_right == (predicted(scores) == label)).all()


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 3, 2), (0, 3)])
def test_outputs_without_scores_of_classes(shape: tuple[int, ...]) -> None:
    with pytest.raises(MeasurementError, match="no scores of classes"):
        class_scores(np.zeros(shape), 4)


def test_sizes_of_one_beside_the_classes_do_not_matter() -> None:
    assert class_scores(np.zeros((4, 3, 1, 1), np.float16), 2).shape == (2, 3)


def test_pixels_are_normalised_by_channel() -> None:
    how = Normalisation(scale=10.0, mean=(0.5, 1.0), deviation=(0.5, 2.0), channel_axis=0)
    pixels = np.full((1, 2, 1, 1), 20, np.uint8)
    # 20 / 10 = 2: (2 - 0.5) / 0.5 = 3 and (2 - 1) / 2 = 0.5.
    assert normalised(pixels, how).ravel().tolist() == [3.0, 0.5]


def file_of(path: Path, n_samples: int, *, is_labelled: bool = True) -> PreparedSamples:
    return PreparedSamples(
        file=path.name,
        file_hash="0" * 16,
        name="blobs",
        n_samples=n_samples,
        is_labelled=is_labelled,
        preprocessing="arrays as they are",
        normalisation=None,
        unknown=AS_THEY_ARE,
    )


@pytest.mark.parametrize("is_packed", [False, True])
def test_samples_come_in_batches_and_the_last_is_filled_up(tmp_path: Path, is_packed: bool) -> None:
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    save = np.savez_compressed if is_packed else np.savez
    save(tmp_path / "x.npz", x=x, labels=np.arange(5, dtype=np.uint8))
    found = list(batches(file_of(tmp_path / "x.npz", 5), [uniform("x", (3, 2))], tmp_path))
    assert [n_new for n_new, _ in found] == [3, 2]
    assert found[0][1]["x"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found[1][1]["x"].tolist() == [[6, 7], [8, 9], [6, 7]]
    assert read_labels(tmp_path / "x.npz").tolist() == [0, 1, 2, 3, 4]


def test_a_file_that_ends_too_early_is_one_line(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 2), np.float32))
    with pytest.raises(InputError, match="cut short"):
        list(batches(file_of(tmp_path / "x.npz", 5), [uniform("x", (3, 2))], tmp_path))


def linear(path: Path, batch: int = 4) -> AccuracyTrial:
    """y = x, three classes: the class of a sample is where its largest number stands."""
    nodes = [helper.make_node("Gemm", ["x", "w"], ["y"])]
    write(path, nodes, {"w": np.eye(3, dtype=np.float32)}, inputs={"x": (batch, 3)})
    network = trial(
        path.name, uniform("x", (batch, 3)), batch=batch, with_layers=False, waiting="block"
    )
    return AccuracyTrial(
        network=network,
        weights_hash="0" * 16,
        samples=file_of(path.parent / "x.npz", 6),
        calibration="",
        output="y",
    )


def measured(spec: AccuracyTrial, folder: Path) -> Accuracy:
    machine, probe = identify(), find_engine("ort").probe()
    plan = make_plan(AccuracyPlan, machine, any_mode(machine), (spec,), probe.versions, None)
    outcome = run_plan(plan, folder / "runs", measurer=LocalMeasurer(files=folder))
    (row,) = read_rows(outcome.folder / "accuracies.jsonl", Accuracy).rows
    assert run_plan(plan, folder / "runs").n_measured == 0  # it is there
    return row


def test_a_network_is_fed_and_its_answers_are_a_row(tmp_path: Path) -> None:
    spec = linear(tmp_path / "eye.onnx")
    x = np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1, 2]]
    np.savez(tmp_path / "x.npz", x=x, labels=np.array([0, 1, 2, 1, 2, 0]))
    row = measured(spec, tmp_path)
    assert row.failure is None
    assert (row.predicted, row.n_classes, row.n_samples) == ((0, 1, 2, 0, 1, 2), 3, 6)
    # The right class of the last three has 0 points: behind the one of 1, and behind lower ones.
    # Sample 4: [1 0 0], class 1: one before it. Sample 5: [0 1 0], class 2: 1, then 0. Sample 6:
    # [0 0 1], class 0: class 2 alone.
    assert row.ranks == (0, 0, 0, 1, 2, 1)


def test_a_label_that_no_class_has_is_a_row_with_the_reason(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((6, 3), np.float32), labels=np.full(6, 3))
    row = measured(linear(tmp_path / "eye.onnx"), tmp_path)
    assert row.failure == "a label is not one of the 3 classes"
    assert (row.predicted, row.ranks, row.n_classes) == ((), None, None)


def test_outputs_of_a_loaded_network_follow_its_inputs(tmp_path: Path) -> None:
    network = linear(tmp_path / "eye.onnx", batch=1).network
    first = np.array([[1, 2, 3]], np.float32)
    loaded = find_engine("ort").load(network, tmp_path, {"x": first.copy()}, 1)
    other = loaded.outputs({"x": first + 1})["y"]
    assert other.tolist() == [[2, 3, 4]]
    assert loaded.outputs({"x": first})["y"].tolist() == [[1, 2, 3]]
    assert other.tolist() == [[2, 3, 4]]  # the caller's own
    loaded.close()
