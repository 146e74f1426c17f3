"""Networks that are cut into layers and stages: the parts together compute what the whole does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from mansard.core.errors import ModelError
from mansard.core.formats.onnx import label_of
from mansard.core.records import WHOLE
from mansard.inference.preparing import PreparedPart, cut, prepare, write
from mansard.inference.preparing.networks import Calibrating
from mansard.inference.preparing.samples import random_samples

RANDOM = Calibrating(samples=lambda specs: random_samples(specs, 1))  # ranges of int8


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    *,
    shape: tuple[int, ...],
    stored: dict[str, Any] | None = None,
    outputs: tuple[str, ...] = ("y",),
) -> Path:
    given_in = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    taken = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    held = [
        numpy_helper.from_array(np.asarray(each), name) for name, each in (stored or {}).items()
    ]
    graph = helper.make_graph(nodes, "small", given_in, taken, held)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def residual(folder: Path) -> Path:
    """x → Conv → Relu → (Conv → Relu → Conv) + itself → Relu → pool → Reshape → Gemm."""
    random = np.random.default_rng(5)

    def weight(*shape: int) -> Any:
        return random.standard_normal(shape, dtype=np.float32) / 8

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["a"], pads=[1] * 4),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w1"], ["c"], pads=[1] * 4),
        node("Relu", ["c"], ["d"]),
        node("Conv", ["d", "w2"], ["e"], pads=[1] * 4),
        node("Add", ["e", "b"], ["f"]),
        node("Relu", ["f"], ["g"]),
        node("GlobalAveragePool", ["g"], ["h"]),
        node("Shape", ["h"], ["h_shape"]),
        node("Gather", ["h_shape", "zero"], ["n"]),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Concat", ["n1", "rest"], ["to"], axis=0),
        node("Reshape", ["h", "to"], ["i"]),
        node("Gemm", ["i", "w3"], ["y"], transB=1),
    ]
    stored = {
        "w0": weight(8, 3, 3, 3),
        "w1": weight(8, 8, 3, 3),
        "w2": weight(8, 8, 3, 3),
        "w3": weight(5, 8),
        "zero": np.array(0),
        "axis": np.array([0]),
        "rest": np.array([-1]),
    }
    return save(folder / "residual.onnx", nodes, shape=(2, 3, 12, 12), stored=stored)


def run(path: Path, feeds: dict[str, Any]) -> dict[str, Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = {each.name: feeds[each.name] for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, wanted), strict=True))


def run_in_turn(parts: tuple[PreparedPart, ...], folder: Path, feeds: dict[str, Any]) -> Any:
    """What the parts make of ``feeds``, each fed with what those before it gave out."""
    known = dict(feeds)
    for part in parts:
        write(part, folder)
        known |= run(folder / part.file, known)
    return known


def test_layers_together_compute_what_the_network_does(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1)
    found = cut(whole, tmp_path / "files", "layer")
    assert found.left_out == ()
    # A group of the estimator each: Conv+Relu, Conv+Relu, Conv+Add+Relu, the pool, Gemm.
    assert [part.part.op_types for part in found.parts] == [
        ("Conv", "Relu"),
        ("Conv", "Relu"),
        ("Conv", "Add", "Relu"),
        ("GlobalAveragePool",),
        ("Gemm",),
    ]
    assert [part.part.nodes for part in found.parts] == [(0, 1), (2, 3), (4, 5, 6), (7,), (13,)]
    x = np.random.default_rng(2).random((2, 3, 12, 12), dtype=np.float32)
    expected = run(tmp_path / "files" / whole.file, {"x": x})["y"]
    known = run_in_turn(found.parts, tmp_path / "files", {"x": x})
    np.testing.assert_allclose(known["y"], expected, rtol=1e-5)


def test_stages_lie_between_single_tensors_that_no_group_straddles(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1)
    found = cut(whole, tmp_path / "files", "stage")
    # After the first Relu one tensor lives; then two, until Add; then one after each layer.
    assert [part.part.nodes for part in found.parts] == [(0, 1), (2, 3, 4, 5, 6), (7,), (13,)]
    assert [len(part.input_specs) for part in found.parts] == [1, 1, 1, 1]
    x = np.random.default_rng(3).random((2, 3, 12, 12), dtype=np.float32)
    expected = run(tmp_path / "files" / whole.file, {"x": x})["y"]
    known = run_in_turn(found.parts, tmp_path / "files", {"x": x})
    np.testing.assert_allclose(known["y"], expected, rtol=1e-5)


def test_a_part_says_of_which_network_and_layers_it_is(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1)
    assert whole.part == WHOLE
    part = cut(whole, tmp_path / "files", "layer").parts[2]
    trial = part.trial(engine="ort", provider="cpu")
    assert trial.part.whole == "residual"
    assert trial.part.whole_hash == whole.model_hash
    assert (trial.part.kind, trial.part.number, trial.part.n_parts) == ("layer", 2, 5)
    assert trial.model == "residual layer 2"
    assert trial.model_hash != whole.model_hash
    # It reads what the convolution before it gives out, and the shortcut.
    assert [(spec.name, spec.shape) for spec in trial.input_specs] == [
        ("d", (2, 8, 12, 12)),
        ("b", (2, 8, 12, 12)),
    ]


def test_the_nodes_of_a_part_keep_the_labels_of_the_network(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1)
    part = cut(whole, tmp_path / "files", "layer").parts[4]
    write(part, tmp_path / "files")
    nodes = onnx.load(tmp_path / "files" / part.file).graph.node
    # The shape that Reshape reads is known, so it is stored: no Shape, no Gather.
    assert [label_of(node.name) for node in nodes] == [13]


def test_parts_are_cut_from_the_network_in_fp16(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1, precision="fp16")
    found = cut(whole, tmp_path / "files", "layer")
    # Casts stand at the network's ends alone: inside, tensors are of 16 bits.
    assert [part.part.nodes[0] for part in found.parts] == [0, 2, 4, 7, 13]
    inside = [spec.type_name for part in found.parts[1:] for spec in part.input_specs]
    assert set(inside) == {"float16"}
    x = np.random.default_rng(4).random((2, 3, 12, 12), dtype=np.float32)
    expected = run(tmp_path / "files" / whole.file, {"x": x})["y"]
    known = run_in_turn(found.parts, tmp_path / "files", {"x": x})
    np.testing.assert_allclose(known["y"], expected, rtol=2e-2, atol=1e-2)


def test_parts_are_cut_from_the_network_in_int8(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1, precision="int8", calibrating=RANDOM)
    found = cut(whole, tmp_path / "files", "layer")
    # With QuantizeLinear and DequantizeLinear, which have no labels: they go with their readers.
    assert [part.part.nodes for part in found.parts] == [(0, 1), (2, 3), (4, 5, 6), (7,), (13,)]
    x = np.random.default_rng(4).random((2, 3, 12, 12), dtype=np.float32)
    expected = run(tmp_path / "files" / whole.file, {"x": x})["y"]
    known = run_in_turn(found.parts, tmp_path / "files", {"x": x})
    # Engines round where they fuse: one step of 255 here or there.
    np.testing.assert_allclose(known["y"], expected, atol=float(np.ptp(expected)) / 20)


def test_a_node_with_two_labels_stands_for_both(tmp_path: Path) -> None:
    """A conversion folds BatchNormalization into Conv, and names it by both."""
    node = helper.make_node
    random = np.random.default_rng(1)
    stored = {
        "w": random.standard_normal((4, 3, 3, 3), dtype=np.float32),
        **{name: np.ones(4, dtype=np.float32) for name in ("scale", "bias", "mean", "var")},
    }
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("BatchNormalization", ["a", "scale", "bias", "mean", "var"], ["b"]),
        node("Relu", ["b"], ["y"]),
    ]
    source = save(tmp_path / "folded.onnx", nodes, shape=(1, 3, 8, 8), stored=stored)
    whole = prepare(source, seed=1, precision="int8", calibrating=RANDOM)
    (part,) = cut(whole, tmp_path / "files", "layer").parts
    assert part.part.nodes == (0, 1, 2)


def test_the_same_network_gives_the_same_files(tmp_path: Path) -> None:
    source = residual(tmp_path)
    first = cut(prepare(source, seed=1), tmp_path / "one", "layer")
    second = cut(prepare(source, seed=1), tmp_path / "two", "layer")
    assert [part.file for part in first.parts] == [part.file for part in second.parts]
    write(first.parts[0], tmp_path / "one")
    write(second.parts[0], tmp_path / "two")
    name = first.parts[0].file
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_part_whose_input_is_no_tensor_is_left_out_by_name(tmp_path: Path) -> None:
    node = helper.make_node
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("SequenceConstruct", ["a", "x"], ["s"]),
        node("ConcatFromSequence", ["s"], ["b"], axis=0),
        node("Exp", ["b"], ["y"]),
    ]
    whole = prepare(save(tmp_path / "sequence.onnx", nodes, shape=(4, 4)), seed=1)
    found = cut(whole, tmp_path / "files", "layer")
    assert any("is not run alone" in line and "'s'" in line for line in found.left_out)
    assert "Exp" in {name for part in found.parts for name in part.part.op_types}


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_any_elementwise_graph_is_the_sum_of_its_parts(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Random graphs of Add and Sigmoid: layers in turn give what the whole gives."""
    folder = tmp_path_factory.mktemp("graph")
    names, nodes = ["x"], []
    for at in range(data.draw(st.integers(1, 8))):
        first = data.draw(st.sampled_from(names))
        if data.draw(st.booleans()):
            nodes.append(
                helper.make_node("Add", [first, data.draw(st.sampled_from(names))], [f"t{at}"])
            )
        else:
            nodes.append(helper.make_node("MatMul", [first, "w"], [f"t{at}"]))
        names.append(f"t{at}")
    stored = {"w": np.random.default_rng(1).random((4, 4), dtype=np.float32)}
    path = save(folder / "any.onnx", nodes, shape=(4, 4), stored=stored, outputs=(names[-1],))
    whole = prepare(path, seed=1)
    try:
        found = cut(whole, folder / "files", data.draw(st.sampled_from(["layer", "stage"])))
    except ModelError:
        pytest.fail("it cannot be cut")
    x = np.random.default_rng(2).random((4, 4), dtype=np.float32)
    expected = run(folder / "files" / whole.file, {"x": x})[names[-1]]
    dead = [line for line in found.left_out if "nothing reads" not in line]
    assert not dead
    known = run_in_turn(found.parts, folder / "files", {"x": x})
    np.testing.assert_allclose(known[names[-1]], expected, rtol=1e-4)
