"""Networks in int8: what they predict, what becomes of normalisations and labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from mansard.core.errors import ModelError, UsageError
from mansard.core.formats.onnx import labels_of
from mansard.estimator import zoo
from mansard.inference.engines import find_engine
from mansard.inference.inputs import make_inputs
from mansard.inference.preparing import Calibrating
from mansard.inference.preparing.datasets import find_dataset
from mansard.inference.preparing.labelling import label_nodes
from mansard.inference.preparing.preprocessing import parse_preprocessing
from mansard.inference.preparing.quantising import Form, fold_batch_norms
from mansard.inference.preparing.samples import random_samples, samples_for
from tests.inference.preparing_models import SEED, prepared, run, stored_at

RANDOM = Calibrating(samples=lambda specs: random_samples(specs, SEED))


def conv_bn(path: Path, opset: int = 17) -> Path:
    """Conv, BatchNormalization, Relu, Conv, all with numbers of their own; 3 channels to 4 to 2."""
    random = np.random.default_rng(5)
    stored = {
        "w0": random.standard_normal((4, 3, 3, 3)),
        "b0": random.standard_normal(4),
        "gamma": random.uniform(0.5, 1.5, 4),
        "beta": random.standard_normal(4),
        "mean": random.standard_normal(4),
        "variance": random.uniform(0.5, 1.5, 4),
        "w1": random.standard_normal((2, 4, 1, 1)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node(
            "BatchNormalization", ["a", "gamma", "beta", "mean", "variance"], ["b"], epsilon=1e-3
        ),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "w1"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", n_channels, 8, 8])
        for name, n_channels in (("x", 3), ("y", 2))
    ]
    held = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in stored.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    ids = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=ids, ir_version=8), path)
    return path


def unoptimised(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"x": x})
    return np.asarray(found)


def test_a_folded_normalisation_changes_no_result_and_keeps_both_labels(tmp_path: Path) -> None:
    model = label_nodes(onnx.load(conv_bn(tmp_path / "m.onnx"))).model
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 8), dtype=np.float32)
    before = unoptimised(model, x)
    assert fold_batch_norms(model) == 1
    assert [node.op_type for node in model.graph.node] == ["Conv", "Relu", "Conv"]
    assert [labels_of(node.name) for node in model.graph.node] == [(0, 1), (2,), (3,)]
    assert np.abs(unoptimised(model, x) - before).max() < 1e-5 * np.abs(before).max()


def test_a_normalisation_that_others_read_past_stays(tmp_path: Path) -> None:
    model = onnx.load(conv_bn(tmp_path / "m.onnx"))
    model.graph.output.append(helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, None))
    assert fold_batch_norms(model) == 0


def with_branches(folder: Path) -> onnx.ModelProto:
    """``conv_bn`` and an If whose branches give ``gamma``.

    Its file names every stored tensor as an input too.
    """
    model = onnx.load(conv_bn(folder / "m.onnx"))
    value = helper.make_tensor_value_info
    model.graph.input.extend(
        value(each.name, each.data_type, each.dims) for each in model.graph.initializer
    )
    branches = {
        name: helper.make_graph(
            [helper.make_node("Identity", ["gamma"], ["g"])],
            name,
            [],
            [value("g", onnx.TensorProto.FLOAT, [4])],
        )
        for name in ("then_branch", "else_branch")
    }
    model.graph.input.append(value("cond", onnx.TensorProto.BOOL, []))
    model.graph.node.append(helper.make_node("If", ["cond"], ["other"], **branches))
    model.graph.output.append(value("other", onnx.TensorProto.FLOAT, [4]))
    return model


def test_what_bodies_read_stays_and_inputs_of_folded_numbers_go(tmp_path: Path) -> None:
    model = with_branches(tmp_path)
    assert fold_batch_norms(model) == 1
    assert {each.name for each in model.graph.input} == {"x", "gamma", "w1", "cond"}
    assert {"gamma", "w1"} < {each.name for each in model.graph.initializer}
    onnx.checker.check_model(model)


def test_a_convolution_that_a_body_reads_is_not_folded(tmp_path: Path) -> None:
    model = with_branches(tmp_path)
    branch = model.graph.node[-1].attribute[0].g
    branch.node[0].input[0] = "a"
    branch.output[0].CopyFrom(helper.make_tensor_value_info("g", onnx.TensorProto.FLOAT, None))
    assert fold_batch_norms(model) == 0


def test_given_inputs_are_not_calibrated_with_other_numbers(tmp_path: Path) -> None:
    path = conv_bn(tmp_path / "m.onnx")
    inputs = tmp_path / "x.npz"
    np.savez(inputs, x=np.zeros((1, 3, 8, 8), np.float32))
    with pytest.raises(UsageError, match="not calibrated with random numbers where --inputs"):
        prepared(path, tmp_path, precision="int8", calibrating=RANDOM, inputs=inputs)


@pytest.mark.parametrize("form", ["operators", "tensorrt"])
def test_int8_says_nearly_the_same_and_every_node_is_in_a_layer(form: Form, tmp_path: Path) -> None:
    path = conv_bn(tmp_path / "m.onnx")
    x = np.random.default_rng(2).random((20, 3, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    data = find_dataset(tmp_path / "x.npz")
    asked = parse_preprocessing(None)
    found = prepared(
        path,
        tmp_path,
        batch=3,
        precision="int8",
        calibrating=Calibrating(
            form, lambda specs: samples_for(data, specs, asked, is_for_calibration=True)
        ),
    )
    whole = prepared(path, tmp_path, batch=3)
    assert (found.precision, found.model_hash) == ("int8", whole.model_hash)
    assert found.calibration is not None
    assert (found.calibration.name, found.calibration.n_samples) == ("x", 20)
    assert "20 samples of x" in found.calibration_words
    (expected,), (got,) = run(whole, tmp_path), run(found, tmp_path)
    # 8 bits of a range: a few thousandths of the largest number, through two layers.
    assert 0 < np.abs(got - expected).max() < 0.05 * np.abs(expected).max()
    model = onnx.load(tmp_path / found.file)
    kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    read = {name for node in model.graph.node for name in node.input if name in kinds}
    biases = {kinds[name] for name in read if "bias" in name and "scale" not in name}
    int32, fp32 = onnx.TensorProto.INT32, onnx.TensorProto.FLOAT
    assert (int32 in biases) == (form == "operators")
    assert (fp32 in biases) == (form == "tensorrt")
    trial = found.trial(engine="ort", provider="cpu")
    loaded = find_engine("ort").load(trial, tmp_path, make_inputs(trial, tmp_path, SEED), 1)
    loaded.start_profiling()
    for _ in range(3):
        loaded.call()
    layers, _ = loaded.end_profiling([False, True, True])
    loaded.close()
    assert {node for layer in layers for node in layer.nodes or ()} == {0, 1, 2, 3}


def test_weights_of_its_own_need_data(tmp_path: Path) -> None:
    path = conv_bn(tmp_path / "m.onnx")
    with pytest.raises(UsageError, match=r"weights of its own.*--calibration random"):
        prepared(path, tmp_path, precision="int8")
    found = prepared(path, tmp_path, precision="int8", calibrating=RANDOM)
    assert found.calibration is not None
    assert found.calibration.name == "random"


def test_an_old_opset_is_one_line(tmp_path: Path) -> None:
    path = conv_bn(tmp_path / "m.onnx", opset=12)
    with pytest.raises(ModelError, match="opset 12, and int8 needs 13"):
        prepared(path, tmp_path, precision="int8", calibrating=RANDOM)


def test_an_input_without_a_batch_cannot_be_calibrated(tmp_path: Path) -> None:
    path = stored_at(
        tmp_path / "m.onnx", "(float[2, 3] x, float z) => (float[2, 3] y)", "y = Mul (x, z)"
    )
    with pytest.raises(UsageError, match="do not begin with one batch dimension"):
        prepared(path, tmp_path, precision="int8", calibrating=RANDOM)


@pytest.mark.parametrize("name", ["mobilenet_v2", "shufflenet_v2_x1_0"])
def test_networks_of_the_zoo_are_calibrated_with_random_numbers(name: str, tmp_path: Path) -> None:
    found, whole = prepared(name, tmp_path, precision="int8"), prepared(name, tmp_path)
    assert found.score == prepared(name, tmp_path, precision="int8").score
    sizes = [(tmp_path / each.file).stat().st_size for each in (found, whole)]
    assert sizes[0] < 0.4 * sizes[1]  # a quarter, and scales
    assert len(zoo.read(name)) > 0
    (expected, *_), (got, *_) = run(whole, tmp_path), run(found, tmp_path)
    cosine = float((expected * got).sum() / np.linalg.norm(expected) / np.linalg.norm(got))
    assert cosine > 0.98


def test_an_activation_of_nearly_one_number_has_a_range(tmp_path: Path) -> None:
    """A softmax over scores that differ by 1e-5 has no histogram of fp32 bins."""
    stored = {"small": np.float32(1e-5), "w": np.eye(8, dtype=np.float32)}
    nodes = [
        helper.make_node("Mul", ["x", "small"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["p"]),
        helper.make_node("MatMul", ["p", "w"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 8]) for name in "xy"]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    path = tmp_path / "m.onnx"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    symmetric = replace(RANDOM, form="tensorrt")
    network = prepared(path, tmp_path, precision="int8", calibrating=symmetric)
    (found, *_) = run(network, tmp_path)
    assert np.abs(found - 0.125).max() < 0.001  # 1 of 8
    assert "or all where one activation has no histogram" in network.calibration_words
