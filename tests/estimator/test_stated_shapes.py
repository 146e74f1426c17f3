"""Operators without a rule: their outputs are as the caller or the file states them.

What follows is counted; the sums are then those of the layers that are known.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

from mansard.core.errors import ModelError, UsageError
from mansard.core.records import ModelScore
from mansard.estimator import load, score, totals, zoo
from tests.estimator.models import store

HEAD = '<ir_version: 8, opset_import: ["" : 17, "my" : 1]>'
# [b, 3, 8, 8] to [b, 16] by an operator that nobody knows, then to [b, 5]
CUSTOM = """g (float[%s,3,8,8] x) => (float[%s,5] y)
    <float[16,3,3,3] w, float[16,5] v%s> {
        a = Conv(x, w) h = my.Pooled(a) y = MatMul(h, v) }"""
CONV_MACS = 16 * 6 * 6 * 3 * 3 * 3  # 15552, of one image
MATMUL_MACS = 16 * 5


def custom(batch: str = "batch", noted: str = "", text: str = CUSTOM) -> bytes:
    """The network; ``noted`` is its value_info."""
    proto = parser.parse_model(f"{HEAD} {text % (batch, batch, noted)}")
    data: bytes = store(proto).SerializeToString()
    return data


def macs(scored: ModelScore) -> dict[str, int | None]:
    return {layer.name: layer.macs for layer in scored.layers}


def test_a_shape_in_the_file_serves_where_there_is_no_rule() -> None:
    found = score(custom(noted=", float[batch,16] h"), batch=2, allow_unknown=True)
    assert macs(found) == {"a": 2 * CONV_MACS, "h": None, "y": 2 * MATMUL_MACS}
    # the unknown layer has no counts; the others are no total
    sums = totals(found)
    assert sums.macs is None
    assert sums.at_least["macs"] == 2 * CONV_MACS + 2 * MATMUL_MACS
    assert sums.at_least["parameters"] == 16 * 3 * 3 * 3 + 16 * 5
    assert "simple_flop" not in sums.at_least  # nothing known of it: 0 would say that there is none
    assert "function_flop" in sums.unknown
    assert found.notes == (
        "1 of 3 layers are unknown, from Pooled 'h' on; sums are of the others: "
        "the operator has no formula",
    )


def test_without_a_shape_what_follows_is_unknown() -> None:
    found = score(custom(), batch=2, allow_unknown=True)
    assert macs(found) == {"a": 2 * CONV_MACS, "h": None, "y": None}
    assert totals(found).at_least["macs"] == 2 * CONV_MACS
    assert "there is no shape rule for this operator: pass --shape 'h=AxB'" in found.notes[0]


def test_the_caller_gives_shape_and_type() -> None:
    found = score(custom(), batch=2, shapes={"h": (2, 16)}, allow_unknown=True)
    assert macs(found)["y"] == 2 * MATMUL_MACS
    # the type is that of the operator's first input, unless it is given: fp16 halves the input
    assert found.layers[2].input_bytes == 2 * 16 * 4
    typed = score(
        custom(text=CUSTOM.replace("MatMul(h, v)", "Cast<to=1>(h)")),
        batch=2,
        shapes={"h": (2, 16)},
        types={"h": "float16"},
        allow_unknown=True,
    )
    assert typed.layers[2].input_bytes == 2 * 16 * 2


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (
            {"h": "float"},
            "'float', given for 'h', is not an element type; write one such as float32",
        ),
        ({"x": "int64"}, "'x' is float32 in the file, not int64"),
    ],
)
def test_types_that_are_none(types: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        score(custom(), batch=2, types=types, allow_unknown=True)


def test_what_the_caller_gives_wins_over_the_file() -> None:
    data = custom(noted=", float[batch,16] h", text=CUSTOM.replace("MatMul(h, v)", "Relu(h)"))
    found = score(data, batch=2, shapes={"h": (2, 7)}, allow_unknown=True)
    assert found.layers[2].work_flop == 14


def test_an_unknown_operator_is_told_before_dimensions_are_asked_for() -> None:
    with pytest.raises(ModelError) as caught:
        score(custom())
    text = str(caught.value)
    assert "1 operator(s) have no formula: my::Pooled (node 'h')" in text
    assert "--shape 'h=AxB' for the shape of what they write" in text
    assert "must be given" not in text
    # with the shape in the file there is none to give
    with pytest.raises(ModelError) as caught:
        score(custom(noted=", float[batch,16] h"))
    assert "--allow-unknown --batch 1 to count the others" in str(caught.value)
    assert "--shape" not in str(caught.value)
    with pytest.raises(ModelError, match=r"1 dimension\(s\) must be given: 'batch'"):
        score(custom(), allow_unknown=True)


def test_a_shape_of_another_batch_does_not_serve() -> None:
    # the file holds batch 1, and notes what was computed for it
    data = custom("1", ", float[1,16] h")
    assert macs(score(data, allow_unknown=True))["y"] == MATMUL_MACS
    assert macs(score(data, batch=2, allow_unknown=True)) == {
        "a": 2 * CONV_MACS,
        "h": None,
        "y": None,
    }


def test_a_shape_that_contradicts_the_inputs_does_not_serve() -> None:
    data = custom("1", ", float[1,16,9,9] a, float[1,16] h")
    found = score(data, allow_unknown=True)
    assert macs(found)["y"] is None
    assert found.notes[0] == (
        "the file notes another type or shape of 'a' than its operators give: "
        "float32[1, 16, 9, 9], counted is float32[1, 16, 6, 6]"
    )


def test_an_open_dimension_of_the_file_is_asked_for() -> None:
    data = custom(noted=", float[batch,found] h", text=CUSTOM.replace("MatMul(h, v)", "Relu(h)"))
    found = score(data, batch=2, allow_unknown=True)
    assert "pass --dim 'h[1]=N'" in found.layers[2].unknown["macs"]
    found = score(data, batch=2, dims={"h[1]": 9}, allow_unknown=True)
    assert found.layers[2].work_flop == 18
    assert found.dimensions == {"batch": 2, "h[1]": 9}


def test_a_name_of_a_dimension_may_be_computed() -> None:
    text = CUSTOM.replace("MatMul(h, v)", "Relu(h)")
    data = custom(noted=', float["2*batch",16] h', text=text)
    assert score(data, batch=3, allow_unknown=True).layers[2].work_flop == 6 * 16


def test_counting_goes_on_at_any_tensor_that_the_file_states() -> None:
    text = CUSTOM.replace("h = my.Pooled(a)", "g = my.Pooled(a) h = Relu(g)")
    found = score(custom("1", ", float[1,16] h", text), allow_unknown=True)
    assert macs(found) == {"a": CONV_MACS, "g": None, "h": None, "y": MATMUL_MACS}


def test_rules_win_over_the_file_and_a_note_says_it() -> None:
    text = "g (float[2,3] x) => (float[2,3] y) <float[2,4] h, int64[2,3] k> "
    text += "{ h = Relu(x) k = Relu(h) y = Relu(k) }"
    data = parser.parse_model(f"{HEAD} {text}").SerializeToString()
    found = score(data)
    assert totals(found).work_flop == 18
    assert found.notes[:1] == (
        "the file notes another type or shape of 'h' and of 1 more than its operators give: "
        "float32[2, 4], counted is float32[2, 3]",
    )
    # for other dimensions than the file's there is nothing to contradict
    assert not any("the file notes" in note for note in score(data, dims={"x[0]": 5}).notes)


def test_a_shape_inside_a_loop() -> None:
    text = """g (float[2,3] x) => (float[2,3] y) <int64 n = {4}, bool c = {1}> {
        y = Loop(n, c, x) <body = b (int64 i, bool d, float[2,3] s) => (bool e, float[2,3] t)
            <float[2,3] u> { e = Identity(d) u = my.Step(s) t = Relu(u) }> }"""
    found = score(parser.parse_model(f"{HEAD} {text}").SerializeToString(), allow_unknown=True)
    assert [layer.work_flop for layer in found.layers if layer.op_type == "Relu"] == [4 * 6]


def test_a_damaged_note_says_nothing() -> None:
    proto = onnx.ModelProto.FromString(custom(noted=", float[batch,16] h"))
    (note,) = [each for each in proto.graph.value_info if each.name == "h"]
    note.type.tensor_type.shape.dim[1].dim_value = -3
    found = score(proto.SerializeToString(), batch=2, allow_unknown=True)
    assert "pass --dim 'h[1]=N'" in found.layers[2].unknown["macs"]
    note.type.tensor_type.elem_type = 99
    assert macs(score(proto.SerializeToString(), batch=2, allow_unknown=True))["y"] is None


@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_1", "mobilenet_v3_small"])
def test_what_onnx_notes_is_read_and_contradicts_nothing(name: str, tmp_path: Path) -> None:
    proto = onnx.load(zoo.write(name, tmp_path), load_external_data=False)
    noted = onnx.shape_inference.infer_shapes(proto)
    data = noted.SerializeToString()
    stated = load(data).model.stated
    n_notes = 0
    for value in noted.graph.value_info:
        sizes = [
            size.dim_value if size.HasField("dim_value") else size.dim_param or None
            for size in value.type.tensor_type.shape.dim
        ]
        dtype, found = stated[value.name]
        assert dtype is not None
        assert (dtype.code, list(found or ())) == (value.type.tensor_type.elem_type, sizes)
        n_notes += 1
    assert n_notes > 20
    assert score(data, batch=2).notes == ()
