"""Accuracy on TensorRT: from the same engine files, whatever the engine takes its ranges from.

TensorRT is a stand-in of its bindings; all that Mansard does is its own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mansard import api
from mansard.core.records import Accuracy
from mansard.core.storage.jsonl import read_rows
from mansard.simulator import create_board
from tests.inference import stand_in
from tests.inference.small_networks import perceptron

pytestmark = pytest.mark.usefixtures("before_others")


@pytest.fixture(scope="module", autouse=True)
def tensorrt() -> Iterator[None]:
    with stand_in.played("10.3.0", device="orin"):
        yield


def test_it_is_measured_from_the_engine_file(tmp_path: Path) -> None:
    perceptron(tmp_path / "mlp.onnx", batch="N")
    random = np.random.default_rng(4)
    x, labels = random.standard_normal((50, 64), dtype=np.float32), random.integers(0, 64, 50)
    np.savez(tmp_path / "x.npz", x=x, labels=labels)
    request = api.MeasureRequest(
        models=(str(tmp_path / "mlp.onnx"),),
        settings=api.NetworkSettings(
            engine="tensorrt",
            batches=(8,),
            precisions=("fp32", "int8"),
            accuracy=api.AccuracySettings(data=tmp_path / "x.npz"),
        ),
        profile="brief",
        is_local=True,
        board=create_board("agx-orin", tmp_path / "board"),
        runs=tmp_path / "runs",
    )
    result = api.measure_networks(request)
    result.check()
    paths = request.runs.glob("*/accuracies.jsonl")
    rows = {row.precision: row for path in paths for row in read_rows(path, Accuracy).rows}
    assert set(rows) == {"fp32", "int8"}
    assert {(row.engine, row.provider, row.batch, row.source) for row in rows.values()} == {
        ("tensorrt", "tensorrt", 8, "simulated")
    }
    assert rows["int8"].calibration == "entropy calibration of TensorRT, 50 samples of x"
    # The same by hand: weights as ``perceptron`` draws them.
    w0, w1 = np.random.default_rng(3).standard_normal((2, 64, 64), dtype=np.float32)
    assert rows["fp32"].predicted == tuple(np.argmax(np.maximum(x @ w0, 0) @ w1, axis=1))
    found = {each.precision: each for each in result.accuracies}
    assert found["int8"].reference == "tensorrt"
    assert found["fp32"].top1 is not None
    assert found["fp32"].top1.value == np.mean(np.array(rows["fp32"].predicted) == labels)
