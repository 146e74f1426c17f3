"""Tensors that cannot be: sizes, types, values and nodes that contradict each other."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from onnx import TensorProto, helper, parser

from mansard.core.errors import ModelError
from mansard.estimator import score


def parse(body: str, signature: str = "float[2,3] x") -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({signature}) => (float[] y) {{ {body} }}'
    return parser.parse_model(text)


def refused(data: bytes) -> str:
    with pytest.raises(ModelError) as caught:
        score(data)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_missing_shape() -> None:
    model = parse("y = Relu(x)")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert "input 'x' has no shape in the file" in refused(model.SerializeToString())


def test_an_input_that_is_no_tensor() -> None:
    model = parse("y = Relu(x)")
    model.graph.input[0].type.map_type.value_type.tensor_type.elem_type = 1
    assert "input 'x' is not a tensor" in refused(model.SerializeToString())


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (-1, "--dim 'x[1]=N'"),  # what exporters of old write for a size that is not known
        (-2, "dimension -2 is negative"),
        (-(2**63), "is negative"),
        (0, "dimension 1 of input 'x' is 0: there is nothing to compute"),
        (2**63 - 1, "is absurd"),
        (2**41, "is absurd"),
    ],
)
def test_sizes_that_cannot_be(size: int, message: str) -> None:
    model = parse("y = Relu(x)")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = size
    assert message in refused(model.SerializeToString())


def test_counts_beyond_63_bits() -> None:
    model = parse(
        "y = MatMul(x, w)", "float[1099511627776,1099511627776] x, float[1099511627776,9] w"
    )
    assert "does not fit 63 bits" in refused(model.SerializeToString())


@pytest.mark.parametrize("dims", [[-4, 3], [2**62, 2**62]])
def test_stored_shapes_that_cannot_be(dims: list[int]) -> None:
    model = parse("y = Add(x, w)")
    model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=dims)
    assert "w" in refused(model.SerializeToString())


def test_a_stored_value_of_the_wrong_length() -> None:
    model = parse("y = Reshape(x, s)")
    model.graph.initializer.add(name="s", data_type=TensorProto.INT64, dims=[2], int64_data=[3])
    assert "1 values are stored for a shape of [2]" in refused(model.SerializeToString())


def test_stored_types_that_contradict() -> None:
    text = refused(parse("y = Add(x, z)", "float[2,3] x, int64[2,3] z").SerializeToString())
    assert "types contradict: 'x' is float32, 'z' is int64" in text
    text = refused(
        parse("y = Conv(x, w)", "float[1,3,8,8] x, double[4,3,3,3] w").SerializeToString()
    )
    assert "types contradict" in text


def test_an_element_type_that_does_not_exist() -> None:
    model = parse("y = Add(x, w)")
    model.graph.initializer.add(name="w", data_type=77, dims=[2, 3])
    assert "element type 77 does not exist" in refused(model.SerializeToString())


def test_shapes_that_depend_on_data() -> None:
    model = parse("i = NonZero(x) t = Transpose(i) y = GatherND(x, t)")
    text = refused(model.SerializeToString())
    assert "node 'i' (NonZero)" in text


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node.input.pop(),
        lambda node: node.attribute[0].ints.append(-7),
        lambda node: node.attribute[0].CopyFrom(helper.make_attribute("pads", "text")),
        lambda node: node.output.extend(["p", "q", "r"]),
    ],
)
def test_malformed_nodes(change: Callable[[onnx.NodeProto], object]) -> None:
    model = parse("y = Conv<pads=[1,1,1,1]>(x, w)", "float[1,3,8,8] x, float[4,3,3,3] w")
    change(model.graph.node[0])
    assert "Conv" in refused(model.SerializeToString())


def test_tensors_that_grow_without_end() -> None:
    names = "abcdefghijklm"
    body = " ".join(
        f"{new} = Tile({old}, n)" for old, new in zip("x" + names, names + "y", strict=True)
    )
    model = parse(body)
    repeats = helper.make_tensor("n", TensorProto.INT64, [2], [2**31, 2**31])
    model.graph.initializer.append(repeats)
    assert "absurd size" in refused(model.SerializeToString())


def test_a_constant_with_two_outputs() -> None:
    model = parse("c = Constant<value = float {1.0}>() y = Add(x, d)")
    model.graph.node[0].output.append("d")
    assert "a constant has one output" in refused(model.SerializeToString())


def test_tensors_of_endless_rank() -> None:
    model = parse("y = Add(x, w)")
    model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2**40] * 100_000)
    assert "is absurd" in refused(model.SerializeToString())
