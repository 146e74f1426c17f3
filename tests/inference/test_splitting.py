"""Networks split between stages: chains of groups that compute what the whole does."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from mansard.core.errors import ModelError, UsageError
from mansard.inference.preparing import cut_choices, group_cuts, prepare, split, verify, write
from tests.inference.test_cutting import residual, run, save

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.mark.parametrize(
    ("name", "n_cuts"),
    [
        # Counted by a sweep over live tensors (the facts that the project began with). All nine:
        # benchmarks/splits.py.
        ("shufflenet", 39),
        ("squeezenet", 33),
        ("inception_v2", 30),
        ("inception_v1", 25),
    ],
)
def test_a_light_model_split_at_every_cut_computes_the_same(
    tmp_path: Path, name: str, n_cuts: int
) -> None:
    whole = prepare(LIGHT / f"light_{name}.onnx", seed=1)
    # Constants stand for its weights: with those it would give the same for every input.
    assert whole.files.is_drawn
    parts = split(whole, tmp_path, None)
    assert len(parts) == n_cuts + 1
    assert verify(whole, parts, tmp_path) <= 1e-6


def test_a_wrong_chain_is_found(tmp_path: Path) -> None:
    whole = prepare(residual(tmp_path), seed=1)
    other = prepare(residual_of_other_weights(tmp_path), seed=1)
    first, last = split(whole, tmp_path / "files", [1])
    wrong = split(other, tmp_path / "files", [1])
    assert verify(whole, (first, last), tmp_path / "files") == 0
    assert verify(whole, (first, wrong[1]), tmp_path / "files") > 1e-3


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
