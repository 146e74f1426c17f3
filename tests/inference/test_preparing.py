"""A network of the zoo, or a file, becomes what an engine loads: whole, and labelled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from mansard.core.errors import ModelError, UsageError
from mansard.core.formats.onnx import label_of, labels_of
from mansard.estimator import load, score, zoo
from mansard.inference.preparing import prepare
from mansard.inference.preparing.labelling import check_numbers, label_nodes, numbered_nodes
from tests.inference.preparing_models import SEED, parsed, prepared, run, stored_at


@pytest.mark.parametrize("name", ["squeezenet1_1", "mobilenet_v3_small", "lstm", "gru"])
def test_a_network_of_the_zoo_runs_with_random_weights(name: str, tmp_path: Path) -> None:
    network = prepared(name, tmp_path, batch=2)
    assert (network.batch, network.precision) == (2, "fp32")
    assert network.dimensions["batch"] == 2
    first, *_ = run(network, tmp_path)
    assert first.shape[0] == 2
    assert np.isfinite(first).all()
    assert first.std() > 0
    assert not np.array_equal(first[0], first[1])


@pytest.mark.parametrize("name", zoo.names())
def test_labels_are_the_indexes_of_the_score(name: str) -> None:
    layers = score(zoo.read(name), batch=1, dims=_usual(name)).layers
    nodes = label_nodes(onnx.load_from_string(zoo.read(name))).nodes
    assert len(nodes) == len(layers)
    assert all(
        (nodes[layer.index].op_type, label_of(nodes[layer.index].name))
        == (layer.op_type, layer.index)
        for layer in layers
    )


def _usual(name: str) -> dict[str, int]:
    return {dim: size for dim, size in zoo.entry(name).dims if dim != "batch"}


def test_the_same_input_gives_the_same_files(tmp_path: Path) -> None:
    first = prepared("mobilenet_v3_small", tmp_path / "a")
    second = prepared("mobilenet_v3_small", tmp_path / "b")
    other = prepare("mobilenet_v3_small", seed=SEED + 1)
    assert first.file == second.file
    assert (tmp_path / "a" / first.file).read_bytes() == (tmp_path / "b" / second.file).read_bytes()
    assert other.file_hash != first.file_hash


def test_names_hold_labels_of_all_that_was_fused() -> None:
    # As ONNX Runtime calls a fused node, and one that it moved out of a branch.
    assert labels_of("@4@_fused_@5@") == (4, 5)
    assert label_of("If_0_then_branch_@17@") == 17
    assert label_of("Conv_3") is None


def test_a_trial_has_all_that_a_plan_needs(tmp_path: Path) -> None:
    network = prepared("squeezenet1_1", tmp_path)
    trial = network.trial(engine="ort", provider="cpu", n_threads=2)
    assert (trial.model, trial.file, trial.n_threads) == ("squeezenet1_1", network.file, 2)
    assert trial.model_hash == score(zoo.read("squeezenet1_1"), batch=1).model_hash
    nodes = numbered_nodes(onnx.load(tmp_path / network.file).graph)
    # The weights' own nodes are gone, the others keep the indexes that they have in the score.
    kept = {label_of(node.name) for node in nodes}
    layers = network.score.layers
    assert kept == {each.index for each in layers if each.op_type != "ConstantOfShape"}


LOOP = """
  n = Constant <value = int64 {3}> ()
  go = Constant <value = bool {1}> ()
  h = Loop (n, go, x) <body = b (int64 i, bool c, float[2,4] s) => (bool c2, float[2,4] t) {
    c2 = Identity (c)
    z = Relu (s)
    big = Constant <value = bool {0}> ()
    t = If (big) <then_branch = p () => (float[2,4] q) { q = Neg (z) },
                  else_branch = e () => (float[2,4] r) { u = Abs (z) r = Add (u, x) }>
  }>
  y = Sigmoid (h)
"""
SCAN = """
  s, y = Scan <num_scan_inputs = 1, body = b (float[4] a, float[4] v) => (float[4] w, float[4] o) {
    w = Add (a, v)
    o = Tanh (w)
  }> (start, x)
"""
CALL = "m = local.Twice (x) k = Neg (m) y = local.Twice (k)"
TWICE = """<domain: "local", opset_import: ["" : 17, "local" : 1]>
  Twice (a) => (b) { c = local.Once (a) b = Add (c, c) }
<domain: "local", opset_import: ["" : 17]> Once (d) => (f) { f = Relu (d) }"""


@pytest.mark.parametrize(
    ("signature", "body", "functions"),
    [
        ("(float[2,4] x) => (float[2,4] y)", LOOP, ""),
        ("(float[3,4] x, float[4] start) => (float[3,4] y)", SCAN, ""),
        ("(float[2,4] x) => (float[2,4] y)", CALL, TWICE),
    ],
    ids=["loop and branch", "scan", "functions"],
)
def test_labels_inside_bodies_and_functions(
    signature: str, body: str, functions: str, tmp_path: Path
) -> None:
    path = stored_at(tmp_path / "m.onnx", signature, body, functions=functions)
    network = prepared(path, tmp_path)
    nodes = {label_of(n.name): n for n in numbered_nodes(onnx.load(tmp_path / network.file).graph)}
    layers = (*network.score.layers, *network.score.alternatives)
    assert {index: node.op_type for index, node in nodes.items()} == {
        layer.index: layer.op_type for layer in layers
    }
    assert all(np.isfinite(output).all() for output in run(network, tmp_path))


def test_a_function_that_the_onnx_package_breaks_is_told() -> None:
    # onnx.inliner leaves out an output that is an input: nothing writes ``p`` then.
    same = """<domain: "local", opset_import: ["" : 17]> Same (a, c) => (a, b) { b = Abs (c) }"""
    body = "p, q = local.Same (x, x) y = Add (p, q)"
    model = parsed("(float[2] x) => (float[2] y)", body, functions=same)
    with pytest.raises(ModelError, match="functions cannot be written out"):
        check_numbers(label_nodes(model), load(model.SerializeToString()).model)


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "lstm"])
def test_a_network_in_half_precision(name: str, tmp_path: Path) -> None:
    single, half = prepared(name, tmp_path), prepared(name, tmp_path, precision="fp16")
    assert (half.precision, half.model_hash) == ("fp16", single.model_hash)
    assert half.score == score(
        zoo.read(name), name=name, batch=1, dims=_usual(name), precision="fp16"
    )
    # The same weights, rounded: the file takes half, the outputs agree to fp16's three digits.
    sizes = [(tmp_path / each.file).stat().st_size for each in (half, single)]
    assert 0.49 < sizes[0] / sizes[1] < 0.55
    labels = [
        {label_of(n.name) for n in numbered_nodes(onnx.load(tmp_path / each.file).graph)} - {None}
        for each in (single, half)
    ]
    assert labels[0] == labels[1]
    (expected, *_), (found, *_) = run(single, tmp_path), run(half, tmp_path)
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize("precision", ["fp8", "fp17"])
def test_a_precision_that_cannot_be_had_is_one_line(precision: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"'?{precision}'?"):
        prepared("lstm", tmp_path, precision=precision)


def test_a_file_of_half_precision_runs_as_it_is(tmp_path: Path) -> None:
    path = stored_at(tmp_path / "m.onnx", "(float16[2] x) => (float16[2] y)", "y = Add (x, x)")
    assert prepared(path, tmp_path).file == prepared(path, tmp_path, precision="fp16").file
    with pytest.raises(UsageError, match="it is fp16, and only networks of fp32"):
        prepared(path, tmp_path, precision="fp32")


def test_arrays_win_over_a_zoo_network_s_usual_dimensions(tmp_path: Path) -> None:
    path = tmp_path / "tokens.npz"
    np.savez(path, input_ids=np.zeros((1, 16), np.int64))
    found = prepare("gpt2", seed=SEED, inputs=path)
    shapes = {spec.name: spec.shape for spec in found.input_specs}
    assert shapes["input_ids"] == (1, 16)  # the zoo's usual sequence is 128
    assert shapes["past_key_values.0.key"] == (1, 12, 0, 64)


def unbatched(folder: Path) -> Path:
    return stored_at(
        folder / "chw.onnx",
        "(float[3,8,8] x) => (float[1,4,6,6] y)",
        "u = Unsqueeze(x, z) w = ConstantOfShape(s) y = Conv(u, w)",
        "int64[4] s = {4,3,3,3}, int64[1] z = {0}",
    )


@pytest.mark.parametrize("batch", [None, 1])
def test_an_image_without_a_batch_is_one_item(batch: int | None, tmp_path: Path) -> None:
    network = prepared(unbatched(tmp_path), tmp_path, batch=batch)
    assert network.batch == 1
    assert network.input_specs[0].shape == (3, 8, 8)
    assert any("counted as batch 1" in note for note in network.notes)
    with pytest.raises(UsageError, match="begins with 3, which is not a batch"):
        network.class_output()


def test_an_image_without_a_batch_has_no_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a batch: node 'y' \(Conv\) takes it as channels"):
        prepare(unbatched(tmp_path), batch=4, seed=SEED)
