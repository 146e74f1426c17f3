"""What the truth is made of: labels, what is free, and that a wrong figure is seen."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper, parser
from runtime_truth.asking import Given
from runtime_truth.comparing import Figures, compare
from runtime_truth.feeds import make_feeds, open_places
from runtime_truth.foreknown import foreknown
from runtime_truth.profiling import Kernel, RealTensor, run
from runtime_truth.truth import find_truth
from runtime_truth.work import multiply_add_flop

from mansard.inference.preparing.labelling import label_copy

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: there is no truth")

PRODUCT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[batch, 3] x) => (float[batch, 4] y) <float[3, 4] w = {1,1,1,1,1,1,1,1,1,1,1,1}> {
    same = Relu(x)
    y = MatMul(same, w)
}"""

BRANCHES = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 3] x, bool flag) => (float[2, 3] y) <bool yes = {1}, float[1] one = {1}> {
    size = Shape(x)
    known = Cast <to = 1> (size)
    double = Add(known, known)
    seen = ReduceMax <keepdims = 0> (double)
    y = If (yes) <
        then_branch = a () => (float[2, 3] ya) { two = Add(one, one) ya = Mul(x, two) },
        else_branch = b () => (float[2, 3] yb) { yb = Add(x, x) }
    >
}"""


def _tensor(*shape: int) -> RealTensor:
    return RealTensor("float", shape)


def test_labels_survive_the_branch_that_is_moved_out() -> None:
    labelled = label_copy(parser.parse_model(BRANCHES))
    feeds = make_feeds(labelled.model, {}, {"flag": 1})
    kernels = run(labelled.model, feeds).kernels
    # Shape, Cast, Add, ReduceMax, If, then in the branches Add, Mul and Add.
    names = [node.op_type for node in labelled.nodes]
    assert names == ["Shape", "Cast", "Add", "ReduceMax", "If", "Add", "Mul", "Add"]
    ran = {kernel.label: kernel.op_type for kernel in kernels if kernel.label is not None}
    assert ran[6] == "Mul"
    assert 7 not in ran  # the other branch


def test_known_beforehand_is_what_needs_no_data() -> None:
    labelled = label_copy(parser.parse_model(BRANCHES))
    # All of the shape arithmetic and, in the branch, 1 + 1; neither the product nor the If.
    assert foreknown(labelled) == {0, 1, 2, 3, 5}
    # A value that was told counts as known: then both branches are.
    assert foreknown(labelled, ["x"]) == set(range(8))


def test_real_shapes_are_those_of_the_feeds() -> None:
    model = parser.parse_model(PRODUCT)
    assert open_places(model) == [("x[0]", "batch", 0, 2)]
    kernels = run(label_copy(model).model, make_feeds(model, {"batch": 5}, {})).kernels
    assert kernels[-1] == Kernel(1, "MatMul", (_tensor(5, 3), _tensor(3, 4)), (_tensor(5, 4),))


def test_a_wrong_figure_is_seen() -> None:
    labelled = label_copy(parser.parse_model(PRODUCT))
    truth = find_truth(labelled, make_feeds(labelled.model, {"batch": 5}, {}))
    right = compare(labelled, truth, Given({"batch": 5}))
    wrong = compare(labelled, truth, Given({"batch": 6}))
    assert right.differences == ()
    # 5 x 3 floats in, 5 x 3 out; then these, 3 x 4 and 5 x 4; a multiply-add is 2 FLOP.
    real = Figures(2, 2 * 5 * 3 * 4, 4 * (15 + 15 + 15 + 12 + 20))
    assert right.real == wrong.real == real
    assert [one.label for one in wrong.differences] == [0, 1]
    assert wrong.differences[1].ours.flop == 2 * 6 * 3 * 4


def test_an_operator_that_never_ran_is_seen() -> None:
    labelled = label_copy(parser.parse_model(PRODUCT))
    truth = find_truth(labelled, make_feeds(labelled.model, {"batch": 5}, {}))
    fewer = type(truth)({0: truth.nodes[0]}, truth.kernels, truth.added)
    (missing,) = compare(labelled, fewer, Given({"batch": 5})).differences
    assert (missing.op_type, missing.real) == ("MatMul", Figures())


def _casts() -> ModelProto:
    return parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[8] x) => (float[8] y) {
        a = Cast <to = 1> (x)
        b = Cast <to = 1> (a)
        c = Cast <to = 1> (b)
        y = Relu(c)
    }""")


def test_chains_of_casts_run_as_they_are_written() -> None:
    labelled = label_copy(_casts())
    kernels = run(labelled.model, make_feeds(labelled.model, {}, {})).kernels
    assert [kernel.op_type for kernel in kernels] == ["Cast", "Cast", "Cast", "Relu"]


def test_a_dequantisation_with_two_readers_runs_once() -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[8] x) => (float[8] y) <float s = {0.5}, uint8 z = {1}> {
        q = QuantizeLinear(x, s, z)
        d = DequantizeLinear(q, s, z)
        a = Relu(d)
        b = Exp(d)
        y = Add(a, b)
    }""")
    kernels = run(label_copy(model).model, make_feeds(model, {}, {})).kernels
    assert [kernel.op_type for kernel in kernels].count("DequantizeLinear") == 1


def test_an_operator_without_a_kernel_has_the_tensors_of_its_neighbours() -> None:
    # ONNX Runtime runs HardSigmoid and Mul instead, with an inner tensor of their own.
    labelled = label_copy(
        parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 8] x) => (float[2, 8] y) { h = HardSwish(x) r = Relu(h) y = HardSwish(r) }""")
    )
    truth = find_truth(labelled, make_feeds(labelled.model, {}, {}))
    assert truth.added == {"HardSigmoid": 2, "Mul": 2}
    assert truth.n_stand_ins == 2
    assert truth.kernels[-1] == Kernel(2, "HardSwish", (_tensor(2, 8),), (_tensor(2, 8),))
    assert [truth.nodes[n].moved_bytes for n in (0, 1, 2)] == [2 * 16 * 4] * 3


def test_functions_are_inlined_before_they_are_labelled() -> None:
    twice = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    g (float[2, 3] x) => (float[2, 3] y) { a = local.Twice(x) y = local.Twice(a) }
    <domain: "local", opset_import: ["" : 17]> Twice (v) => (w) { w = Add(v, v) }""")
    labelled = label_copy(twice)
    assert [node.op_type for node in labelled.nodes] == ["Add", "Add"]
    truth = find_truth(labelled, make_feeds(labelled.model, {}, {}))
    # An operand that is given twice is read once: 2 x 3 floats in and out, twice.
    assert [truth.nodes[n].moved_bytes for n in (0, 1)] == [2 * 6 * 4] * 2


@pytest.mark.parametrize(
    ("op_type", "attributes", "inputs", "output", "macs"),
    [
        # Every output element is a sum over 2 of 6 channels and 3 x 3 places.
        ("Conv", {"group": 3}, [(1, 6, 8, 8), (9, 2, 3, 3)], (1, 9, 6, 6), 9 * 36 * 2 * 9),
        # Every input element meets 2 x 2 weights of 5 outputs.
        ("ConvTranspose", {}, [(1, 4, 3, 3), (4, 5, 2, 2)], (1, 5, 4, 4), 36 * 5 * 4),
        ("MatMul", {}, [(2, 1, 3, 4), (5, 4, 6)], (2, 5, 3, 6), 2 * 5 * 3 * 6 * 4),
        ("Gemm", {"transA": 1}, [(4, 3), (4, 6)], (3, 6), 3 * 6 * 4),
        ("Einsum", {"equation": "bhi,bhj->bij"}, [(2, 3, 4), (2, 3, 5)], (2, 4, 5), 2 * 4 * 5 * 3),
        ("Einsum", {"equation": "i,j->ij"}, [(4,), (5,)], (4, 5), 0),  # no sum: multiplications
        # 7 steps of 2 sequences: 3 gates of 4 over 3 inputs and 4 states.
        ("GRU", {}, [(7, 2, 3), (1, 12, 3), (1, 12, 4)], (7, 1, 2, 4), 7 * 2 * (12 * 3 + 12 * 4)),
    ],
)
def test_multiply_adds_by_hand(
    op_type: str,
    attributes: dict[str, Any],
    inputs: list[tuple[int, ...]],
    output: tuple[int, ...],
    macs: int,
) -> None:
    node = helper.make_node(op_type, ["a", "b", "c"][: len(inputs)], ["y"], **attributes)
    kernel = Kernel(0, op_type, tuple(_tensor(*shape) for shape in inputs), (_tensor(*output),))
    assert multiply_add_flop(node, kernel) == 2 * macs


def test_an_operator_without_a_rule_has_no_figure() -> None:
    node = helper.make_node("Softmax", ["a"], ["y"])
    assert multiply_add_flop(node, Kernel(0, "Softmax", (_tensor(2),), (_tensor(2),))) is None


@pytest.mark.parametrize(
    ("type_name", "n_bytes"),
    [("float", 60), ("float16", 30), ("int64", 120), ("uint8", 15), ("int4", 8), ("string", 0)],
)
def test_bytes_of_a_tensor(type_name: str, n_bytes: int) -> None:
    assert RealTensor(type_name, (3, 5)).n_bytes == n_bytes


def test_a_size_that_is_missing_is_no_guess() -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [])
    with pytest.raises(ValueError, match=r"no size for x\[0\] 'batch'"):
        make_feeds(helper.make_model(graph), {}, {})
