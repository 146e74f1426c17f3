"""Numbers of inputs and outputs: a node with others than its operator is refused."""

from __future__ import annotations

import pytest
from onnx import defs

from mansard.core.errors import ModelError
from mansard.estimator import score
from mansard.estimator.reading.versions import arity_of
from tests.estimator.models import single_model, text_model

_MANY = 2**31 - 1  # what a schema has for any number


def test_the_table_is_that_of_the_schemas() -> None:
    wrong = []
    for schema in defs.get_all_schemas_with_history():
        arity = arity_of(schema.domain, schema.name, schema.since_version)
        most, most_outputs = (
            float("inf") if most == _MANY else most
            for most in (schema.max_input, schema.max_output)
        )
        if arity is None or arity[1:] != (schema.min_input, most, most_outputs):
            wrong.append((schema.domain, schema.name, schema.since_version, arity))
    assert not wrong


@pytest.mark.parametrize(
    ("op_type", "inputs", "opset", "words"),
    [
        ("Relu", ["float[1,3]", "float[1,3]"], 17, r"Relu\): has 2 input\(s\), Relu of opset 17"),
        ("Add", ["float[1,3]"] * 3, 17, r"has 3 input\(s\), Add of opset 17 has 2"),
        ("Sigmoid", ["float[1,3]", "float[3]"], 17, "has 2 input"),
        ("Clip", ["float[1,3]", "float", "float"], 6, "Clip of opset 6 has 1"),
        ("Where", ["bool[1,3]", "float[1,3]"], 17, "input 2 is missing"),
        ("BatchNormalization", ["float[1,3,2,2]", "float[3]"], 17, "input 3 is missing"),
        ("MatMul", ["float[1,3]", "float[3,1]", "float[1]"], 17, "has 3 input"),
        ("Softmax", ["float[1,3]", "int64[1]"], 17, "has 2 input"),
    ],
)
def test_nodes_with_other_inputs_than_their_operator(
    op_type: str, inputs: list[str], opset: int, words: str
) -> None:
    data = single_model(op_type, inputs, opset).SerializeToString()
    with pytest.raises(ModelError, match=words):
        score(data)


def test_too_many_outputs() -> None:
    data = single_model("Relu", ["float[1,3]"], outputs=("y", "z")).SerializeToString()
    with pytest.raises(ModelError, match=r"has 2 output\(s\), Relu of opset 22 has 1"):
        score(data)


def test_an_input_that_is_left_out_behind_the_last_one_is_none() -> None:
    proto = single_model("Relu", ["float[1,3]"])
    proto.graph.node[0].input.append("")
    assert score(proto.SerializeToString()).layers[0].work_flop == 3


def test_a_branch_with_a_broken_operator_does_not_run() -> None:
    data = text_model(
        "g (float[1,3] x, bool c) => (float[1,3] y) { y = If(c) <"
        "then_branch = t () => (float[1,3] a) { a = Relu(x, x) }, "
        "else_branch = e () => (float[1,3] b) { b = Relu(x) }> }"
    )
    assert "else_branch is counted, the other does not fit" in score(data).notes[0]
    with pytest.raises(ModelError, match=r"node 'a' \(Relu\): has 2 input"):
        score(data, values={"c": True})
