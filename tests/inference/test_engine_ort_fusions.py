"""Which nodes of a network a node of ONNX Runtime's graph does the work of."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import ModelError
from mansard.core.formats.onnx import GraphNode, read_nodes
from mansard.inference.engines.ort_fusions import trace
from tests.inference.small_networks import perceptron


def network(*nodes: tuple[str, str, str]) -> list[GraphNode]:
    """Nodes by operator, inputs and output, labelled in their order."""
    return [
        GraphNode(f"@{index}@", op_type, tuple(inputs.split()), (output,))
        for index, (op_type, inputs, output) in enumerate(nodes)
    ]


def test_blocked_layout() -> None:
    # As ONNX Runtime 1.31 has it on x86 with AVX-512. Of d_nchwc the sum is part that
    # follows d; of g_bn_nchwc, a normalisation as a convolution, the activation that follows g.
    original = network(
        ("Conv", "x w0", "a"),
        ("Clip", "a low high", "b"),
        ("Conv", "b w1", "c"),
        ("BatchNormalization", "c one zero zero one", "d"),
        ("Add", "b d", "e"),
        ("Concat", "e b", "f"),
        ("BatchNormalization", "f one2 zero2 zero2 one2", "g"),
        ("Relu", "g", "h"),
        ("Conv", "h w2", "i"),
        ("HardSwish", "i", "j"),
        ("Conv", "j w3", "y"),
    )
    optimised = [
        GraphNode("ReorderInput", "ReorderInput", ("x",), ("r0",)),
        GraphNode("b_nchwc", "Conv", ("r0", "w0r"), ("r1",)),
        GraphNode("d_nchwc", "Conv", ("r1", "w1r", "bias", "r1"), ("r3",)),
        GraphNode("@5@", "Concat", ("r3", "r1"), ("r4",)),
        GraphNode("g_bn_nchwc", "Conv", ("r4", "scale", "shift"), ("r5",)),
        GraphNode("i_nchwc", "Conv", ("r5", "w2r"), ("r7",)),
        GraphNode("y_nchwc", "Conv", ("r7", "w3r"), ("r9",)),
        GraphNode("ReorderOutput", "ReorderOutput", ("r9",), ("y",)),
    ]
    found = [one.nodes for one in trace(original, optimised)]
    assert found == [(), (0, 1), (2, 3, 4), (5,), (6, 7), (8, 9), (10,), ()]


def test_a_product_between_reshapes_has_the_sum_that_follows_it() -> None:
    original = network(("Relu", "x", "a"), ("MatMul", "a w", "m"), ("Add", "m b", "y"))
    optimised = [
        GraphNode("@0@", "Relu", ("x",), ("a",)),
        GraphNode("gemm_input_reshape", "Reshape", ("a", "s0"), ("gemm_in",)),
        GraphNode("@1@/MatMulAddFusion", "Gemm", ("gemm_in", "w", "b"), ("gemm_out",)),
        GraphNode("gemm_output_reshape", "Reshape", ("gemm_out", "s1"), ("y",)),
    ]
    assert [one.nodes for one in trace(original, optimised)] == [(0,), (), (1, 2), ()]


def test_pieces_of_a_node_are_all_its_own() -> None:
    original = network(("Mish", "x", "a"), ("Relu", "a", "y"))
    optimised = [
        GraphNode("", "Softplus", ("x",), ("sp",)),
        GraphNode("", "Tanh", ("sp",), ("th",)),
        GraphNode("", "Mul", ("x", "th"), ("a",)),
        GraphNode("@1@", "Relu", ("a",), ("y",)),
    ]
    assert [one.nodes for one in trace(original, optimised)] == [(0,), (0,), (0,), (1,)]


@given(st.data())
def test_chains_that_are_fused_are_found_whatever_they_are_called(data: st.DataObject) -> None:
    # A random graph: each node reads one or two tensors before it. Then some nodes are joined
    # with the next one, which is possible where that alone reads them.
    n_nodes = data.draw(st.integers(1, 12))
    read: list[list[int]] = []
    for index in range(n_nodes):
        count = data.draw(st.integers(1, 2))
        read.append([data.draw(st.integers(-1, index - 1)) for _ in range(count)])
    names = [f"t{index}" for index in range(n_nodes)]
    original = [
        GraphNode(f"@{i}@", "Op", tuple("x" if j < 0 else names[j] for j in read[i]), (names[i],))
        for i in range(n_nodes)
    ]
    groups: list[list[int]] = [[index] for index in range(n_nodes)]
    for index in range(n_nodes - 1):
        readers = [j for j in range(n_nodes) if index in read[j]]
        if readers == [index + 1] and data.draw(st.booleans()):
            groups[index + 1] = groups[index] + groups[index + 1]
            groups[index] = []
    optimised = []
    for group in filter(None, groups):
        inside = {names[index] for index in group}
        inputs = [name for index in group for name in original[index].inputs]
        outside = tuple(name for name in inputs if name not in inside)
        optimised.append(GraphNode("Fused_token", "Fused", outside, (names[group[-1]],)))
    found = [one.nodes for one in trace(original, optimised)]
    assert found == [tuple(group) for group in groups if group]


def test_nodes_of_a_file(tmp_path: Path) -> None:
    perceptron(tmp_path / "mlp.onnx")
    assert read_nodes(tmp_path / "mlp.onnx") == (
        GraphNode("@0@", "Gemm", ("x", "w0"), ("a",)),
        GraphNode("@1@", "Relu", ("a",), ("b",)),
        GraphNode("@2@", "Gemm", ("b", "w1"), ("y",)),
    )


@pytest.mark.parametrize("content", [b"\x3a\x7f\x0a", b"\x3a\x03\x0a\x01\xff", b"\xff" * 40])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.onnx").write_bytes(content)
    with pytest.raises(ModelError):
        read_nodes(tmp_path / "bad.onnx")
