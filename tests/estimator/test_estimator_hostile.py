"""Models that were edited to mislead: each is refused, and none gives a number silently."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, parser

from mansard.core.errors import ModelError
from mansard.estimator import score, totals

IMAGE = "float[1,4,8,8] x, float[4,4,3,3] w, float[9] b"


def parse(body: str, signature: str = IMAGE) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({signature}) => (float y) {{ {body} }}'
    return parser.parse_model(text)


def refused(model: onnx.ModelProto) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModelError) as caught:
            score(model.SerializeToString())
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y = MaxPool<kernel_shape=[0,0]>(x)", "holds nothing"),
        ("y = AveragePool<kernel_shape=[-1,3]>(x)", "holds nothing"),
        ('y = Conv<auto_pad="SOME">(x, w)', "'auto_pad' = 'SOME' does not exist"),
        ('y = ConvTranspose<auto_pad="SOME">(x, w)', "'auto_pad' = 'SOME' does not exist"),
        ("y = Conv(x, w, b)", "'b' has 9 values for 4 filters"),
        ("y = ConvTranspose(x, w, b)", "'b' has 9 values for 4 filters"),
        ("y = ConvTranspose<group=0>(x, w)", "do not fit 0 groups"),
        ("y = ConvTranspose<group=3>(x, w)", "do not fit 3 groups"),
        ("y = ConvTranspose<kernel_shape=[5,5]>(x, w)", "is not that of"),
        ("y = GlobalAveragePool(b)", "needs [batch, channels"),
        ("y = LRN<size=-5>(x)", "holds nothing"),
        ("y = GroupNormalization<num_groups=0>(x, x, x)", "do not fit 0 groups"),
        ("y = GroupNormalization<num_groups=3>(x, x, x)", "do not fit 3 groups"),
        ('y = Einsum<equation="abcd->aa">(x)', "stands there twice"),
    ],
)
def test_attributes_that_cannot_be(body: str, message: str) -> None:
    assert message in refused(parse(body))


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("hidden_size=7", "hidden_size 7 contradicts weights R of 8"),
        ("hidden_size=-8", "hidden_size -8 contradicts weights R of 8"),
        ('direction="sideways"', "direction 'sideways' does not exist"),
        ("layout=5", "layout 5 does not exist"),
    ],
)
def test_recurrent_attributes_that_contradict(attribute: str, message: str) -> None:
    model = parse(
        f"y = LSTM<{attribute}>(x, w, r)", "float[5,2,3] x, float[1,32,3] w, float[1,32,8] r"
    )
    assert message in refused(model)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_cannot_be(scale: float) -> None:
    model = parse("y = Resize(x, , s)")
    scales = helper.make_tensor("s", TensorProto.FLOAT, [4], [1.0, 1.0, scale, 2.0])
    model.graph.initializer.append(scales)
    assert "must be positive" in refused(model)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_shape_arithmetic_without_a_number_warns_nobody(value: float) -> None:
    model = parse("n = Cast<to=7>(p) y = Expand(x, n)")
    model.graph.initializer.append(helper.make_tensor("p", TensorProto.FLOAT, [1], [value]))
    assert "cannot expand to [-9223372036854775808]" in refused(model)


def ranged(limit: float, step: float, length: int) -> onnx.ModelProto:
    model = parse("r = Range(a, b, c) y = Add(x, r)", f"float[{length}] x")
    for name, value in (("a", 0.0), ("b", limit), ("c", step)):
        model.graph.initializer.append(helper.make_tensor(name, TensorProto.FLOAT, [], [value]))
    return model


@pytest.mark.parametrize(("limit", "step"), [(float("inf"), 1.0), (1.0, 1e-45)])
def test_ranges_without_end(limit: float, step: float) -> None:
    assert "absurd size" in refused(ranged(limit, step, 3))


def test_a_range_whose_length_depends_on_rounding() -> None:
    # In fp32 0.3 is 0.300000012 and 0.1 is 0.100000001, so that ceil(0.3 / 0.1) is 4;
    # the quotient rounded to fp32 would be 3.
    assert totals(score(ranged(0.3, 0.1, 4).SerializeToString())).work_flop == 4


def test_slices_of_the_same_axis_twice() -> None:
    model = parse("y = Slice(x, z, o, z)")
    for name, values in (("z", [0, 0]), ("o", [1, 2])):
        model.graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [2], values))
    assert "axes [0, 0] repeat" in refused(model)


def test_two_stored_tensors_of_one_name() -> None:
    model = parse("y = Add(x, k)")
    for dims in ([8], [1]):
        model.graph.initializer.add(name="k", data_type=TensorProto.FLOAT, dims=dims)
    assert "two stored tensors of the graph have the same name" in refused(model)


def test_a_stored_value_that_ends_within_a_number() -> None:
    model = parse("y = Reshape(x, s)")
    shape = model.graph.initializer.add(name="s", data_type=TensorProto.INT64, dims=[2])
    shape.raw_data = bytes(17)
    assert "17 bytes are stored, which is not a whole number of int64" in refused(model)


def test_file_names_that_are_no_text(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/net\xff.onnx"))
    path.write_bytes(parse("y = Relu(x)").SerializeToString())
    assert score(path).model == "net\ufffd"


def test_a_node_that_writes_nothing() -> None:
    model = parse("y = Add(x, x)")
    model.graph.node.add(op_type="Relu", input=["x"], name="silent")
    assert "'silent' (Relu): writes nothing" in refused(model)
