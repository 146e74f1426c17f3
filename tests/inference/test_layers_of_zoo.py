"""Every node of a measured network is in one of its layers, or has nothing left to run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mansard.core.records import Measurement
from mansard.core.storage.jsonl import read_rows
from mansard.estimator import load, zoo
from mansard.estimator.model import all_nodes
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import run_plan
from tests.inference.preparing_models import prepared
from tests.inference.small_networks import plan

pytestmark = pytest.mark.usefixtures("before_others")

pytest.importorskip("onnxruntime")


def test_the_layers_of_squeezenet_hold_each_of_its_nodes_once(tmp_path: Path) -> None:
    files = tmp_path / "files"
    network = prepared("squeezenet1_1", files)
    planned = plan(network.trial(engine="ort", provider="cpu", n_threads=1))
    outcome = run_plan(planned, tmp_path / "runs", measurer=LocalMeasurer(files=files))
    (row,) = read_rows(outcome.folder / "measurements.jsonl", Measurement).rows
    assert row.failure is None
    assert row.layers is not None
    op_types = {
        node.index: node.op_type
        for node in all_nodes(load(zoo.read("squeezenet1_1"), "squeezenet1_1").model.nodes)
    }
    assert len(op_types) == 118
    held = [index for layer in row.layers for index in layer.nodes or ()]
    assert max(Counter(held).values()) == 1
    # No layer is without its nodes but what the engine added: conversions of layout.
    added = {layer.op_type for layer in row.layers if not layer.nodes}
    assert added <= {"ReorderInput", "ReorderOutput"}
    # What is in no layer stands for stored weights, which the prepared file has as numbers:
    # 26 convolutions with a filter and a bias each.
    assert Counter(op_types[index] for index in op_types.keys() - set(held)) == {
        "ConstantOfShape": 52
    }
    # A convolution leads its layer, and what is fused into it is its activation.
    convolutions = [
        tuple(op_types[index] for index in layer.nodes or ())
        for layer in row.layers
        if layer.op_type in {"Conv", "FusedConv"}
    ]
    assert convolutions == [("Conv", "Relu")] * 26
