"""Networks split between stages: chains of groups that compute what the whole does."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from mansard.core.errors import ModelError, UsageError
from mansard.inference.preparing import (
    check_stages,
    cut_choices,
    group_cuts,
    prepare,
    split,
    verify,
    write,
)
from mansard.inference.preparing.cutting import cut_points, read_graph
from tests.inference.test_cutting import residual, run, save

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


# Counted by a sweep over live tensors (the facts that the project began with).
N_CUTS = {
    "bvlc_alexnet": 23,
    "densenet121": 87,
    "inception_v1": 25,
    "inception_v2": 30,
    "resnet50": 39,
    "shufflenet": 39,
    "squeezenet": 33,
    "vgg19": 45,
    "zfnet512": 21,
}


@pytest.mark.parametrize("name", N_CUTS)
def test_the_cuts_of_the_light_models(name: str) -> None:
    assert len(cut_points(read_graph(LIGHT / f"light_{name}.onnx"))) == N_CUTS[name]


@pytest.mark.parametrize("name", ["shufflenet", "squeezenet", "inception_v2"])
def test_a_light_model_split_at_every_cut_computes_the_same(tmp_path: Path, name: str) -> None:
    """All nine: benchmarks/splits.py."""
    whole = prepare(LIGHT / f"light_{name}.onnx", seed=1)
    # Constants stand for its weights: with those it would give the same for every input.
    assert whole.files.is_drawn
    parts = split(whole, tmp_path, None)
    assert len(parts) == N_CUTS[name] + 1
    assert verify(whole, parts, tmp_path) <= 1e-6


def branch(op_type: str, *read: str) -> onnx.GraphProto:
    """A body that takes all that it reads from the graph around it."""
    given_out = helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(op_type, read, ["out"])], "branch", [], [given_out])


def drawn_nodes(data: st.DataObject) -> list[onnx.NodeProto]:
    """Up to eight steps that write t0, t1 …, each from one or two of the last three tensors."""
    node, nodes, names = helper.make_node, list[onnx.NodeProto](), ["x"]
    for at in range(data.draw(st.integers(1, 8))):
        one, other = (data.draw(st.sampled_from(names[-3:])) for _ in range(2))
        kind = data.draw(st.sampled_from(["Add", "MatMul", "Split", "If"]))
        if kind == "Add":
            nodes.append(node("Add", [one, other], [f"t{at}"]))
        elif kind == "MatMul":
            nodes.append(node("MatMul", [one, "w"], [f"t{at}"]))
        elif kind == "Split":
            nodes.append(node("Split", [one], [f"p{at}", f"q{at}"], axis=1))
            nodes.append(node("Concat", [f"q{at}", f"p{at}"], [f"t{at}"], axis=1))
        else:
            nodes.append(node("IsNaN", ["x"], [f"n{at}"]))
            nodes.append(node("Cast", [f"n{at}"], [f"f{at}"], to=onnx.TensorProto.FLOAT))
            nodes.append(node("ReduceSum", [f"f{at}"], [f"s{at}"], keepdims=0))
            nodes.append(node("Cast", [f"s{at}"], [f"c{at}"], to=onnx.TensorProto.BOOL))
            bodies = {"then_branch": branch("Add", one, other), "else_branch": branch("Neg", one)}
            nodes.append(node("If", [f"c{at}"], [f"t{at}"], **bodies))
        names.append(f"t{at}")
    return nodes


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_cuts_of_any_graph_are_those_that_brute_force_finds(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With tensors that nothing reads, several outputs, and bodies that read what is around."""
    folder, nodes = tmp_path_factory.mktemp("graph"), drawn_nodes(data)
    written = [node.output[0] for node in nodes if node.output[0].startswith("t")]
    outputs = {written[-1], data.draw(st.sampled_from(written))}
    stored = {"w": np.random.default_rng(1).random((4, 4), dtype=np.float32)}
    path = save(folder / "any.onnx", nodes, shape=(4, 4), stored=stored, outputs=tuple(outputs))
    whole = prepare(path, seed=1)
    parts = split(whole, folder, None)

    def read_by(node: onnx.NodeProto) -> set[str]:
        inner = [name for each in node.attribute for one in each.g.node for name in one.input]
        return {*node.input, *inner} - {"w"}

    needed, live = set(outputs), list[onnx.NodeProto]()
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed |= read_by(node)
            live.insert(0, node)
    cuts = []
    for at in range(1, len(live)):
        before = {"x", *(name for node in live[:at] for name in node.output)}
        after = outputs.union(*map(read_by, live[at:]))
        cuts += [next(iter(before & after))] if len(before & after) == 1 else []
    assert len(parts) == len(cuts) + 1
    assert all(cut in part.outputs for cut, part in zip(cuts, parts, strict=False))
    assert verify(whole, parts, folder) == 0


def test_a_wrong_chain_is_found(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1)
    other = prepare(residual_of_other_weights(tmp_path), seed=1)
    first, last = split(whole, tmp_path / "files", [1])
    wrong = split(other, tmp_path / "files", [1])
    assert verify(whole, (first, last), tmp_path / "files") == 0
    assert verify(whole, (first, wrong[1]), tmp_path / "files") > 1e-3


def test_only_one_of_both_no_number_is_an_infinite_error(tmp_path: Path) -> None:
    """Constants apart from that, the same network; its other weights make NaN of square roots."""
    nodes = [
        helper.make_node("Add", ["x", "shift"], ["a"]),
        helper.make_node("Sqrt", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]
    found = {}
    for name, shift in (("numbers", 0), ("some", -0.5), ("none", -2)):
        stored = {"shift": np.float32(shift), "w": np.eye(4, dtype=np.float32)}
        path = save(tmp_path / f"{name}.onnx", nodes, shape=(4, 4), stored=stored)
        found[name] = prepare(path, seed=1)
    parts = {name: split(each, tmp_path, None) for name, each in found.items()}
    # NaN in the same places is the same.
    assert [verify(found[name], parts[name], tmp_path) for name in found] == [0, 0, 0]
    for one, other in (("numbers", "some"), ("some", "none"), ("none", "numbers")):
        chain = (parts[other][0], *parts[one][1:])
        assert verify(found[one], chain, tmp_path) == float("inf")


def test_what_no_output_follows_from_is_in_no_part(tmp_path: Path) -> None:
    """And an output that is a constant, or whose shape depends on data, keeps no cut away."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["unread"]),
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
        helper.make_node("NonZero", ["b"], ["i"]),
        helper.make_node("Cast", ["i"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    stored = {"w": np.random.default_rng(1).random((4, 4), dtype=np.float32)}
    path = save(tmp_path / "odd.onnx", nodes, shape=(4, 4), stored=stored, outputs=("y", "w"))
    whole = prepare(path, seed=1)
    # Not behind NonZero: how long its output is depends on data.
    assert [each.tensor for each in cut_choices(whole, tmp_path)] == ["a", "b"]
    parts = split(whole, tmp_path, None)
    assert [part.part.nodes for part in parts] == [(1,), (2,), (3, 4)]
    assert verify(whole, parts, tmp_path) == 0
    prefixes = split(whole, tmp_path, [0], "prefix")
    assert [part.part.nodes for part in prefixes] == [(1,), (1, 2, 3, 4)]


def test_stages_are_compared_with_the_whole_and_their_files_are_gone(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1)
    assert check_stages(whole, tmp_path / "files") == ""
    assert [path.name for path in (tmp_path / "files").iterdir()] == [whole.file]
    drawn = prepare(drawing(tmp_path), seed=1)
    with pytest.raises(ModelError, match="drawing computes something else in 2 stages: off by"):
        check_stages(drawn, tmp_path / "files")


def drawing(folder: Path) -> Path:
    """A network that draws random numbers, and others in a part."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Dropout", ["a", "half", "yes"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]
    stored = {"w": np.eye(8, dtype=np.float32), "half": np.float32(0.5), "yes": np.array(True)}
    return save(folder / "drawing.onnx", nodes, shape=(8, 8), stored=stored)


def test_stages_that_onnx_runtime_cannot_run_are_not_compared(tmp_path: Path) -> None:
    """It has no convolution of bfloat16 on a CPU."""
    whole = prepare(residual(tmp_path), seed=1, precision="bf16")
    assert "bfloat16" in check_stages(whole, tmp_path / "files")


def residual_of_other_weights(folder: Path) -> Path:
    model = onnx.load(residual(folder))
    (gemm,) = (each for each in model.graph.initializer if each.name == "w3")
    gemm.raw_data = np.full((5, 8), 0.5, dtype=np.float32).tobytes()
    onnx.save(model, folder / "other.onnx")
    return folder / "other.onnx"


def test_choices_name_the_tensor_and_its_bytes(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1)
    # Stages: Conv Relu | Conv Relu Conv Add Relu | pool | Gemm; batch 2, 8 channels of 12 · 12
    # floats after the first two: 2 · 8 · 144 · 4 bytes.
    found = [
        (each.number, each.node, each.tensor, each.n_bytes) for each in cut_choices(whole, tmp_path)
    ]
    assert found == [(0, 1, "b", 9216), (1, 6, "g", 9216), (2, 12, "i", 64)]


def test_groups_take_alike_and_never_cut_a_fused_group(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1)
    # Multiply-adds: 2·8·144·27 = 62,208; 2 · 2·8·144·72 = 331,776; few more. The second has 84 %.
    assert group_cuts(whole, tmp_path, 2) == (0,)
    # More groups than stages: each stage is one.
    assert group_cuts(whole, tmp_path, 9) == (0, 1, 2)
    assert group_cuts(whole, tmp_path, 1) == ()
    parts = split(whole, tmp_path, (0, 2))
    assert [part.part.nodes for part in parts] == [(0, 1), (2, 3, 4, 5, 6, 7), (13,)]
    assert [part.part.number for part in parts] == [0, 1, 2]
    assert [tuple(part.outputs) for part in parts] == [("b",), ("i",), ("y",)]


def test_groups_of_equal_stages_are_the_best_division(tmp_path: Path) -> None:
    """Six equal stages in four groups: 2 2 1 1 in some order, found by trying all."""
    names = [f"t{at}" for at in range(6)]
    nodes = [
        node
        for before, after in zip(["x", *names], names, strict=False)
        for node in (helper.make_node("MatMul", [before, "w"], [after]),)
    ]
    stored = {"w": np.eye(64, dtype=np.float32)}
    whole = prepare(
        save(tmp_path / "six.onnx", nodes, shape=(64, 64), stored=stored, outputs=("t5",)), seed=1
    )
    cuts = group_cuts(whole, tmp_path, 4)
    ends = (-1, *cuts, 5)
    assert sorted(end - start for start, end in pairwise(ends)) == [1, 1, 2, 2]


def test_prefixes_end_with_the_whole_and_marked_ones_give_one_tensor_more(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1)
    prefixes = split(whole, tmp_path, (0, 2), "prefix")
    assert [part.part.nodes for part in prefixes] == [
        (0, 1),
        (0, 1, 2, 3, 4, 5, 6, 7),
        (0, 1, 2, 3, 4, 5, 6, 7, 13),
    ]
    marked = split(whole, tmp_path, (0, 2), "marked")
    assert [(part.part.kind, part.part.number, part.part.n_parts) for part in marked] == [
        ("marked", 0, 3),
        ("marked", 1, 3),
    ]
    x = {"x": np.random.default_rng(2).random((2, 3, 12, 12), dtype=np.float32)}
    found = []
    for part in (*prefixes, *marked):
        write(part, tmp_path)
        found.append(run(tmp_path / part.file, x))
    assert [set(each) for each in found] == [{"b"}, {"i"}, {"y"}, {"b", "y"}, {"i", "y"}]
    for each in found[:2] + found[3:]:
        for name, array in each.items():
            expected = next(one[name] for one in found if name in one)
            np.testing.assert_allclose(array, expected, rtol=1e-5)


def test_what_has_no_cut_says_so_in_one_line(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"]),
        helper.make_node("MatMul", ["x", "a"], ["b"]),
        helper.make_node("MatMul", ["x", "b"], ["y"]),
    ]
    whole = prepare(save(tmp_path / "dense.onnx", nodes, shape=(4, 4)), seed=1)
    assert cut_choices(whole, tmp_path) == ()
    with pytest.raises(ModelError, match="dense has no cut: nowhere inside it one tensor alone"):
        group_cuts(whole, tmp_path, 2)
    with pytest.raises(UsageError, match="has no cut 0"):
        split(whole, tmp_path, [0])
    (only,) = split(whole, tmp_path, [])
    assert only.part.nodes == (0, 1, 2)
