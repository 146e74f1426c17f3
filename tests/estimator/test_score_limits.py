"""Graphs that are wide, deep or long: refused in words, or counted without going over all twice."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from mansard.core.errors import MansardError, StorageError
from mansard.estimator import score, totals

VALUE = helper.make_tensor_value_info
FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
PIECE_BYTES = 4 * 2 * 3  # of the input


def made(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto] | None = None) -> bytes:
    """Nodes from ``x`` to ``y``."""
    given = inputs or [VALUE("x", FLOAT, [2, 3])]
    graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info("y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = proto.SerializeToString()
    return content


def refused(source: bytes) -> str:
    with pytest.raises(MansardError) as caught:
        score(source)
    return str(caught.value)


def test_more_dimensions_than_a_tensor_may_have() -> None:
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    for rank, said in ((10_000, "10000 dimensions are declared"), (65, "65 dimensions")):
        names = [VALUE("x", FLOAT, [f"d{i}" for i in range(rank)])]
        assert said in refused(made(relu, names))
    assert totals(score(made(relu, [VALUE("x", FLOAT, [1] * 64)]))).work_flop == 1


def test_all_of_many_dimensions_that_are_missing_are_told() -> None:
    # Looked up for each of them among all others, this took minutes.
    inputs = [VALUE(f"x{i}", FLOAT, [f"d{i}.{axis}" for axis in range(20)]) for i in range(500)]
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"y{i}"]) for i in range(500)]
    said = refused(made([*nodes, helper.make_node("Exp", ["x0"], ["y"])], inputs))
    assert "10000 dimension(s) must be given: 'd0.0' (dimension 0 of input 'x0'" in said


def test_a_long_chain_of_joins_moves_each_piece_once() -> None:
    n_pieces = 3000
    pieces = [helper.make_node("Exp", ["x"], [f"p{i}"]) for i in range(n_pieces)]
    names = ["p0", *(f"j{i}" for i in range(1, n_pieces - 1)), "y"]
    joins = [
        helper.make_node("Concat", [before, f"p{i + 1}"], [after], axis=0)
        for i, (before, after) in enumerate(pairwise(names))
    ]
    # Each Exp writes where the last Concat's result stands; no Concat moves anything.
    found = totals(score(made([*pieces, *joins])))
    assert found.fused_read_bytes == found.fused_write_bytes == n_pieces * PIECE_BYTES


@pytest.mark.parametrize("operator", ["Concat", "Sum"])
def test_a_node_with_very_many_inputs(operator: str) -> None:
    n_pieces = 20_000
    pieces = [helper.make_node("Softmax", ["x"], [f"p{i}"]) for i in range(n_pieces)]
    names = [f"p{i}" for i in range(n_pieces)]
    last = helper.make_node(operator, [*names, "p0"], ["y"])
    if operator == "Concat":
        last.attribute.append(helper.make_attribute("axis", 0))
    found = totals(score(made([*pieces, last])))
    # Pieces are written where the Concat's result stands, but p0, which stands there twice:
    # it is read once and written twice. The sum joins the last softmax, whose result it
    # takes, and reads all others once.
    more_read, more_written = {"Concat": (1, 2), "Sum": (n_pieces - 1, 0)}[operator]
    assert found.fused_read_bytes == (n_pieces + more_read) * PIECE_BYTES
    assert found.fused_write_bytes == (n_pieces + more_written) * PIECE_BYTES


def test_a_branch_with_fewer_results_than_its_node() -> None:
    full = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["r"])], "t", [], [helper.make_empty_tensor_value_info("r")]
    )
    empty = helper.make_graph([], "e", [], [])
    node = helper.make_node("If", ["c"], ["y"], "choice", then_branch=full, else_branch=empty)
    source = made([node], [VALUE("x", FLOAT, [2, 3]), VALUE("c", BOOL, [])])
    assert "node 'choice' (If): writes 1 outputs, else_branch only 0" in refused(source)


def test_graphs_in_graphs_say_what_to_do() -> None:
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["r"])], "b", [], [])
    result = [helper.make_empty_tensor_value_info("r")]
    graph.output.extend(result)
    for depth in range(33):
        both = {"then_branch": graph, "else_branch": helper.make_graph([], "e", [], [])}
        node = helper.make_node("If", ["c"], ["r" if depth < 32 else "y"], **both)
        graph = helper.make_graph([node], "b", [], result)
    source = made(list(graph.node), [VALUE("x", FLOAT, [2, 3]), VALUE("c", BOOL, [])])
    assert "nested deeper than 32; the file is broken" in refused(source)


def test_a_file_that_says_it_is_empty_is_not_read_to_its_end() -> None:
    # Files of the kernel have a size of 0 whatever they hold; some never end.
    kernels = Path("/proc/self/status")
    if not kernels.is_file():
        pytest.skip("no /proc here")
    with pytest.raises((MansardError, StorageError), match="the file is empty"):
        score(kernels)


@pytest.mark.parametrize("kind", [TensorProto.STRING, BOOL])
@pytest.mark.parametrize("operator", ["MatMul", "Conv", "Gemm"])
def test_what_cannot_be_multiplied(operator: str, kind: int) -> None:
    shape = [1, 1, 1] if operator == "Conv" else [3, 3]
    node = helper.make_node(operator, ["x", "x"], ["y"])
    said = refused(made([node], [VALUE("x", kind, shape)]))
    assert "multiplies 'x', which is " + ("bool" if kind == BOOL else "string") in said
