"""What is written: weight-free graphs, weights beside the model, nothing by halves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from mansard.core.errors import InputError, StorageError, UsageError
from mansard.estimator import score, totals
from mansard.estimator.export.request import DynamicAxis
from mansard.estimator.export.run import (
    fixed_axes,
    input_shapes,
    opset_of,
    publish,
    without_provenance,
    without_weights,
    workspace,
)
from mansard.estimator.export.sources import merged, read_config

RANDOM = np.random.default_rng(3)


def exported() -> onnx.ModelProto:
    """Like an exporter's: a convolution, a product, a small and an integer constant."""
    weights = {
        "kernel": RANDOM.standard_normal((12, 3, 3, 3), np.float32),
        "bias": RANDOM.standard_normal(12, np.float32),
        "matrix": RANDOM.standard_normal((12, 5), np.float32),
        "axes": np.array([2, 3]),
        "table": np.arange(64),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "kernel", "bias"], ["y"], name="conv"),
            helper.make_node("ReduceMean", ["y", "axes"], ["mean"], keepdims=0),
            helper.make_node("MatMul", ["mean", "matrix"], ["z"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_export_without_weights_scores_the_same_and_runs() -> None:
    model = exported()
    full = score(model.SerializeToString(), name="g", batch=2)
    assert without_weights(model) == 2  # kernel and matrix; the bias has too few elements
    onnx.checker.check_model(model, full_check=True)
    light = score(model.SerializeToString(), name="g", batch=2)
    assert totals(light).macs == totals(full).macs == 2 * (14 * 14 * 12 * 27 + 12 * 5)
    assert totals(light).parameters == totals(full).parameters == 12 * 27 + 12 + 12 * 5
    assert totals(light).traffic_bytes == totals(full).traffic_bytes
    kept = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert {"bias", "axes", "table"} <= kept.keys()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.ones((1, 3, 16, 16), np.float32)
    # every filter sums 27 inputs of 1 with weights 1/27, then adds its bias; 12 of them
    # times 1/5 (one over the length of a row)
    expected = (1 + kept["bias"]).sum() / 5
    np.testing.assert_allclose(session.run(None, {"x": x})[0], np.full((1, 5), expected), rtol=1e-5)


def test_export_without_weights_needs_no_free_name() -> None:
    model = exported()
    model.graph.node[0].name = "kernel_fill"
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "shape_12x5"))
    without_weights(model)
    onnx.checker.check_model(model, full_check=True)
    assert totals(score(model.SerializeToString(), name="g", batch=1)).parameters == 396


def test_export_graph_facts() -> None:
    model = exported()
    assert opset_of(model) == 18
    assert input_shapes(model) == {"x": ("batch", 3, 16, 16)}
    axes = [
        DynamicAxis("x", 0, "batch"),
        DynamicAxis("x", 2, "height"),
        DynamicAxis("gone", 0, "n"),
    ]
    assert fixed_axes(model, axes) == ["x:2=16"]


def test_export_notes_of_the_exporter_are_removed_everywhere() -> None:
    model = exported()
    body = helper.make_graph([helper.make_node("Identity", ["mean"], ["out"])], "body", [], [])
    branch = helper.make_node("If", ["c"], ["o"], then_branch=body, else_branch=body)
    model.graph.node.append(branch)
    inner = model.graph.node[-1].attribute[0].g.node[0]
    parts = [model, model.graph, model.graph.node[0], model.graph.initializer[0], inner]
    for part in parts:
        part.metadata_props.add(key="pkg.torch.onnx.stack_trace", value="/home/someone/net.py")
        part.metadata_props.add(key="namespace", value="net/conv")
    assert b"someone" in model.SerializeToString()
    without_provenance(model)
    assert b"someone" not in model.SerializeToString()
    assert [len(part.metadata_props) for part in parts] == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("one_file", [True, False])
def test_export_large_weights_lie_beside_the_model(tmp_path: Path, one_file: bool) -> None:
    output = tmp_path / "net.onnx"
    with workspace(output) as folder:
        onnx.save_model(
            exported(),
            folder / output.name,
            save_as_external_data=True,
            all_tensors_to_one_file=one_file,
            location="net.onnx.data" if one_file else None,
            size_threshold=100,
        )
        model = onnx.load(folder / output.name, load_external_data=False)
        written = publish(model, folder, output, with_weights=True)
    assert written == (output, tmp_path / "net.onnx.data")
    assert sorted(tmp_path.iterdir()) == sorted(written)  # the folder is gone
    loaded = onnx.load(output)
    x = np.ones((1, 3, 16, 16), np.float32)
    kernel, bias, matrix = (numpy_helper.to_array(loaded.graph.initializer[i]) for i in range(3))
    expected = (kernel.sum((1, 2, 3)) + bias) @ matrix
    result = onnxruntime.InferenceSession(output).run(None, {"x": x})[0][0]
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_export_without_weights_leaves_their_file_behind(tmp_path: Path) -> None:
    output = tmp_path / "net.onnx"
    with workspace(output) as folder:
        traced = folder / output.name
        onnx.save_model(exported(), traced, save_as_external_data=True, size_threshold=0)
        model = onnx.load(traced, load_external_data=False)
        assert publish(model, folder, output, with_weights=False) == (output,)
    assert list(tmp_path.iterdir()) == [output]
    onnx.checker.check_model(onnx.load(output), full_check=True)
    assert output.stat().st_size < 2500  # 64 integers, and no weight


def test_export_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"), workspace(tmp_path):
        pass
    with pytest.raises(StorageError, match="No such file"), workspace(tmp_path / "no" / "a.onnx"):
        pass
    with pytest.raises(UsageError, match="not a regular file"), workspace(Path("/dev/null")):
        pass


def test_export_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    output = tmp_path / "net.onnx"
    output.write_bytes(b"old")

    def fail() -> None:
        with workspace(output) as folder:
            (folder / "half").write_bytes(b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("net.onnx", b"old")]


def test_export_reads_configurations(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "bert", "part": {"a": 1, "b": 2}}')
    assert read_config(file) == read_config(tmp_path)
    assert merged(read_config(file), {"part": {"b": 3}, "c": 4}) == {
        "model_type": "bert",
        "part": {"a": 1, "b": 3},
        "c": 4,
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "no model_type"),
        ('{"model_type": 3}', "no model_type"),
        ("{", "not JSON"),
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"a": "' + "x" * 10_000_001 + '"}', "too large"),
    ],
)
def test_export_configurations_that_are_none(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content)
    with pytest.raises(InputError, match=words):
        read_config(file)
