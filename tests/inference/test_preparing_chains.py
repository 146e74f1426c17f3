"""Chains of tiny nodes: as many nodes run as they have, none fused or dropped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from mansard.core.records import CHAIN_LENGTHS, chain_length, chain_name
from mansard.inference.preparing.writing import write_chains
from tests.inference.preparing_models import prepared


def test_names_say_the_lengths() -> None:
    assert [chain_length(chain_name(each)) for each in CHAIN_LENGTHS] == [1, 65]
    assert chain_length("resnet50") is None


def test_every_node_runs_in_onnx_runtime(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    for length, path in zip(CHAIN_LENGTHS, write_chains(tmp_path), strict=True):
        network = prepared(path, tmp_path / "files")
        assert chain_length(network.model) == length
        assert len(network.score.layers) == length
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
        file = str(tmp_path / "files" / network.file)
        session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        graph = onnx.load(tmp_path / "optimised.onnx").graph
        assert len(graph.node) == length
        # Neg, Abs, Neg, …: an odd number of nodes ends with a change of sign
        (found,) = session.run(None, {"input": np.array([3.0], np.float32)})
        assert found.tolist() == [-3.0]
