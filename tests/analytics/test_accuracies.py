"""Shares and drops of accuracy, by hand and by their laws; which rows are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.accuracies import (
    NetworkAccuracy,
    by_precision,
    network_accuracies,
    paired_drop,
    wilson,
)
from mansard.analytics.data.opening import merge, open_runs
from mansard.core.records import Accuracy
from tests.analytics.factory import manifest, write_run


def test_a_share_of_wilson_by_hand() -> None:
    # 8 of 10, z² = 3.8415: middle 0.8 + 3.8415 / 20 = 0.99207, half 1.95996 √(0.016 + 0.0096036)
    # = 1.95996 · 0.160011 = 0.31362, scale 1.38415: 0.49016 to 0.94332.
    found = wilson(8, 10)
    assert found.value == 0.8
    assert found.low == pytest.approx(0.49016, abs=1e-5)
    assert found.high == pytest.approx(0.94332, abs=1e-5)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_lies_within_its_interval_and_both_within_0_and_1(numbers: tuple[int, int]) -> None:
    found = wilson(*numbers)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high
    other = wilson(numbers[1] - numbers[0], numbers[1])
    assert other.low == pytest.approx(1 - found.high)


def test_a_drop_by_hand() -> None:
    # Of 10 samples 3 are lost and 1 won: 0.2. With halves: (3.5 - 1.5) / 12 = 0.16667,
    # √(5 - 4 / 12) / 12 = 0.18002; ends 0.16667 ± 1.95996 · 0.18002.
    in_fp32 = np.array([1, 1, 1, 1, 1, 1, 0, 0, 0, 0], bool)
    in_int8 = np.array([0, 0, 0, 1, 1, 1, 1, 0, 0, 0], bool)
    found = paired_drop(in_int8, in_fp32)
    assert found.value == pytest.approx(0.2)
    assert found.middle == pytest.approx(1 / 6)
    assert found.deviation == pytest.approx(0.18002, abs=1e-5)
    assert found.low == pytest.approx(1 / 6 - 0.35284, abs=1e-4)
    assert found.probability_at_most(1 / 6) == pytest.approx(0.5)
    # The standard normal is below 1 with 84.134 %.
    assert found.probability_at_most(1 / 6 + 0.18002) == pytest.approx(0.84134, abs=1e-4)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200))
def test_drops_of_two_against_each_other_are_opposite(pairs: list[tuple[bool, bool]]) -> None:
    one, two = np.array(pairs).T
    there, back = paired_drop(one, two), paired_drop(two, one)
    assert there.value == pytest.approx(-back.value)
    assert there.low == pytest.approx(-back.high)
    assert there.high == pytest.approx(-back.low)
    assert there.value == pytest.approx(two.mean() - one.mean())


def accuracy(**changes: Any) -> NetworkAccuracy:
    why = "it is made up"
    names = ("n_classes", "top1", "top5", "agreement", "drop", "reference")
    made = NetworkAccuracy(
        run_id="r",
        started_utc="2026-11-23T10:00:00+00:00",
        device="board",
        source="measured",
        network="net",
        weights_hash="w",
        engine="ort",
        provider="cpu",
        precision="fp32",
        calibration="",
        dataset="val",
        dataset_hash="d",
        preprocessing="arrays as they are",
        n_samples=100,
        n_not_finite=0,
        remark="",
        **dict.fromkeys(names),
        unknown=dict.fromkeys(names, why),
    )
    return msgspec.structs.replace(made, **changes)


def test_the_data_set_that_most_precisions_were_measured_with_is_taken() -> None:
    rows = [
        accuracy(),
        accuracy(precision="int8"),
        accuracy(dataset_hash="other", precision="fp16", started_utc=NOON),
        accuracy(precision="fp16", remark="it crashed"),
        accuracy(device="another", precision="bf16"),
    ]
    assert set(by_precision(rows, "board", "net")) == {"fp32", "int8"}
    assert by_precision(rows, "board", "none") == {}


NOON = "2026-11-23T12:00:00+00:00"  # later than others


@pytest.mark.parametrize("field", ["dataset_hash", "weights_hash"])
def test_of_changed_samples_and_weights_the_newest_are_taken(field: str) -> None:
    old = [accuracy(**{field: "z"}, precision=each, n_samples=1) for each in ("fp32", "int8")]
    new = [
        accuracy(**{field: "a"}, precision=each, n_samples=2, started_utc=NOON)
        for each in ("fp32", "int8")
    ]
    found = by_precision([*new, *old], "board", "net")
    assert [found[each].n_samples for each in ("fp32", "int8")] == [2, 2]


def test_retrained_weights_are_taken_though_fewer_precisions_were_measured() -> None:
    rows = [
        accuracy(weights_hash="a", started_utc=NOON),
        accuracy(weights_hash="z"),
        accuracy(weights_hash="z", precision="int8"),
    ]
    assert set(by_precision(rows, "board", "net")) == {"fp32"}


def test_all_precisions_are_of_the_same_samples() -> None:
    rows = [
        accuracy(),
        accuracy(precision="int8"),
        accuracy(dataset_hash="few", n_samples=10, started_utc=NOON),
    ]
    found = by_precision(rows, "board", "net")
    assert {name: each.n_samples for name, each in found.items()} == {"fp32": 100, "int8": 100}


def test_the_engine_that_was_timed_stands_before_others() -> None:
    rows = [
        *(accuracy(precision=each) for each in ("fp32", "fp16", "int8")),
        *(accuracy(engine="tensorrt", provider="tensorrt", precision=each) for each in ("fp32",)),
    ]
    timed = pl.DataFrame({"device": "board", "network": "net", "engine": "tensorrt open batch"})
    assert [each.engine for each in by_precision(rows, "board", "net", timed).values()] == [
        "tensorrt"
    ]
    assert len(by_precision(rows, "board", "net")) == 3


def predictions(run_id: str, precision: str, predicted_: tuple[int, ...], **known: Any) -> Accuracy:
    """Predictions of a network of six classes for four samples, of the classes 0, 1, 2 and 5."""
    labels = (0, 1, 2, 5)
    ranks = tuple(0 if one == label else 5 for one, label in zip(predicted_, labels, strict=True))
    made: dict[str, Any] = {
        "run_id": run_id,
        "trial_id": f"trial-{precision}",
        "source": "measured",
        "model": "net",
        "model_hash": "m",
        "weights_hash": "w",
        "engine": "ort",
        "engine_version": "1.31.1",
        "processor": "cpu",
        "provider": "cpu",
        "options": {},
        "precision": precision,
        "batch": 1,
        "dimensions": {},
        "calibration": "",
        "dataset": "val",
        "dataset_hash": "d",
        "preprocessing": "arrays as they are",
        "output": "scores",
        "n_samples": 4,
        "n_classes": 6,
        "predicted": predicted_,
        "ranks": ranks,
        "failure": None,
        "started_utc": "2026-11-23T10:00:00+00:00",
        "duration_s": 1.5,
        "unknown": {"failure": "it ran"},
    }
    return Accuracy(**(made | known))


def write_predictions(runs: Path, row: Accuracy) -> Path:
    run = manifest(row.run_id, 2, 1, kind="accuracies")
    return write_run(runs / row.run_id, run, [row]).parent


def test_rows_are_kept_in_a_dataset_and_compared_sample_by_sample(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_predictions(runs, predictions("one", "fp32", (0, 1, 2, 3)))
    write_predictions(
        runs, predictions("two", "int8", (0, 1, 6, 3), calibration="128 samples of val")
    )
    write_predictions(runs, predictions("other", "fp16", (0, 1, 2, 5), weights_hash="another"))
    merge([runs], str(tmp_path / "fleet"))
    found = open_runs([tmp_path / "fleet"])
    assert [row.run_id for row in found.accuracies] == ["one", "other", "two"]
    assert found.workload_manifests == ()
    # Devices are called by all runs, so that a board has one name everywhere.
    assert [each.run_id for each in found.all_manifests] == ["one", "other", "two"]
    rows = {each.precision: each for each in network_accuracies(found)}
    fp32, int8, fp16 = rows["fp32"], rows["int8"], rows["fp16"]
    # Three of four, and two; the third of int8 is no number, and its fourth the same as in fp32.
    assert (fp32.top1, int8.top1) == (wilson(3, 4), wilson(2, 4))
    assert int8.agreement == wilson(3, 4)
    assert int8.drop == paired_drop(
        np.array([True, True, False, False]), np.array([True, True, True, False])
    )
    assert int8.n_not_finite == 1
    assert int8.reference == "onnxruntime cpu"
    assert fp16.drop is None  # of other weights
    assert fp16.unknown["drop"] == "it was not run in fp32 with these samples"


def test_each_calibration_is_a_row_and_those_of_the_runs_asked_for_are_shown(
    tmp_path: Path,
) -> None:
    write_predictions(tmp_path, predictions("fp32", "fp32", (0, 1, 2, 3)))
    write_predictions(
        tmp_path, predictions("one", "int8", (0, 1, 2, 3), calibration="samples of a")
    )
    late = {"started_utc": NOON, "trial_id": "late"}
    write_predictions(
        tmp_path, predictions("two", "int8", (0, 1, 3, 3), calibration="of b", **late)
    )
    write_predictions(tmp_path, predictions("three", "int8", (3, 3, 3, 3), calibration="of b"))
    dataset = open_runs([tmp_path])
    found = network_accuracies(dataset)
    assert [each.run_id for each in found] == ["fp32", "two", "one"]
    # The newest of all, and the one of a run that is asked for.
    found = network_accuracies(dataset, {"fp32", "three"})
    assert [each.run_id for each in found] == ["fp32", "three", "one"]


def test_what_failed_has_no_number_of_samples_without_scores(tmp_path: Path) -> None:
    unknown = dict.fromkeys(("n_classes", "ranks"), "it could not be run: it crashed")
    nothing: dict[str, Any] = {"ranks": None, "n_classes": None, "failure": "it crashed"}
    row = msgspec.structs.replace(
        predictions("one", "fp32", (0, 1, 2, 3)), predicted=(), unknown=unknown, **nothing
    )
    (found,) = network_accuracies(open_runs([write_predictions(tmp_path, row)]))
    assert (found.n_not_finite, found.remark) == (None, "it crashed")
    assert found.unknown["n_not_finite"] == "it could not be run: it crashed"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"predicted": (0, 1, 2)}, "predictions and samples differ in number"),
        ({"ranks": (0, 1, 2)}, "predictions and samples differ in number"),
        ({"predicted": (0, 1, 2, 7)}, "a predicted class is above the number of classes"),
        ({"n_samples": -1}, "n_samples is negative"),
        ({"duration_s": -1.0}, "it took less than 0 s"),
    ],
)
def test_rows_that_cannot_be_are_left_out(
    tmp_path: Path, changes: dict[str, Any], what: str
) -> None:
    found = open_runs(
        [write_predictions(tmp_path, predictions("one", "fp32", (0, 1, 2, 3), **changes))]
    )
    assert found.accuracies == ()
    assert any("1 trial was left out" in note and what in note for note in found.notes)
