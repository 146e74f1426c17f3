"""Any loop costs what its iterations cost when they are written out one after the other.

What follows from the iteration's number is computed anew in each, but written out it is a
constant: that is all the difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from mansard.estimator import score, totals

_COUNTS = ("macs", "work_flop", "parameters", "weight_bytes", "traffic_bytes", "output_bytes")
ROWS = 6  # a window keeps so many


class Step(NamedTuple):
    """One node of a body, or a few that belong together; all work on [rows, 3] tensors."""

    kind: str
    since: int = 0  # of a branch: the iteration from which the other one is taken


steps = st.one_of(
    st.sampled_from(["product", "grow", "window", "relu", "double", "number"]).map(Step),
    st.builds(Step, st.just("branch"), st.integers(0, 6)),
)


class Writer:
    """Nodes with names of their own, of a body or of the unrolled network."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.nodes: list[onnx.NodeProto] = []

    def add(self, op_type: str, /, *inputs: str, **attributes: object) -> str:
        name = f"{self.prefix}{op_type}{len(self.nodes)}"
        node = helper.make_node(op_type, inputs, [name], name)
        node.attribute.extend(helper.make_attribute(*pair) for pair in attributes.items())
        self.nodes.append(node)
        return name

    def constant(self, value: object) -> str:
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(value)))


def write(writer: Writer, step: Step, state: str, number: str, i: int | None) -> str:
    """One step; ``i`` is the iteration where it is known while writing."""
    plain = {
        "product": ("MatMul", state, "w"),
        "grow": ("Concat", state, "x"),
        "double": ("Concat", state, state),
        "relu": ("Relu", state),
    }
    if step.kind in plain:
        attributes: dict[str, object] = {"axis": 0} if "Concat" in plain[step.kind] else {}
        return writer.add(*plain[step.kind], **attributes)
    if step.kind == "window":
        bounds = (writer.constant([start]) for start in (-ROWS, 2**31))
        return writer.add("Slice", state, *bounds)
    if step.kind == "number":
        # as many rows more as iterations are over
        shape = writer.add("Concat", writer.add("Reshape", number, "one"), "three", axis=0)
        return writer.add("Concat", state, writer.add("Expand", "column", shape), axis=0)
    return _branch(writer, step, state, number, i)


def _branch(writer: Writer, step: Step, state: str, number: str, i: int | None) -> str:
    if i is not None:
        return writer.add("MatMul", state, "w") if i < step.since else writer.add("Exp", state)
    condition = writer.add("Less", number, writer.constant(step.since))
    early, late = Writer(f"{writer.prefix}t{len(writer.nodes)}"), Writer(f"{writer.prefix}e")
    early.add("MatMul", state, "w")
    late.prefix += str(len(writer.nodes))
    late.add("Exp", state)
    graphs = {
        name: helper.make_graph(made.nodes, name, [], [_value(made.nodes[-1].output[0], None)])
        for name, made in (("then_branch", early), ("else_branch", late))
    }
    return writer.add("If", condition, **graphs)


def _value(
    name: str, shape: list[int] | None, kind: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def looped(body: list[Step], n: int) -> onnx.ModelProto:
    """The body in a Loop that runs ``n`` times."""
    writer = Writer()
    state = "state"
    for step in body:
        state = write(writer, step, state, "number", None)
    going = writer.add("Identity", "go")
    result = writer.add("Identity", state)
    graph = helper.make_graph(
        writer.nodes,
        "body",
        [
            _value("number", [], TensorProto.INT64),
            _value("go", [], TensorProto.BOOL),
            _value("state", None),
        ],
        [_value(going, [], TensorProto.BOOL), _value(result, None)],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], "loop", body=graph)
    return _model([loop], [numpy_helper.from_array(np.asarray(n), "n")])


def unrolled(body: list[Step], n: int) -> onnx.ModelProto:
    """The body ``n`` times over."""
    writer = Writer("u")
    # another name, as in the loop: what is given twice under one name is read once
    state = writer.add("Identity", "x")
    for i in range(n):
        number = writer.constant(i)
        for step in body:
            state = write(writer, step, state, number, i)
        state = writer.add("Identity", state)
    writer.nodes[-1].output[0] = "y"
    return _model(writer.nodes, [])


def _model(nodes: list[onnx.NodeProto], stored: list[onnx.TensorProto]) -> onnx.ModelProto:
    stored = [
        *stored,
        onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3, 3]),
        numpy_helper.from_array(np.asarray([1]), "one"),
        numpy_helper.from_array(np.asarray([3]), "three"),
    ]
    inputs = [_value("x", [2, 3]), _value("column", [1, 3])]
    graph = helper.make_graph(nodes, "g", inputs, [_value("y", None)], stored)
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, ir_version=8, opset_imports=imports)


def counts(proto: onnx.ModelProto) -> dict[str, int | None]:
    found = totals(score(proto.SerializeToString()))
    return {name: getattr(found, name) for name in _COUNTS}


# FLOP and bytes of an iteration that follow from its number: a Less of two int64 that writes
# a bool, and a Concat of two int64.
_OF_NUMBERS = {"branch": (1, 8 + 8 + 1), "number": (0, 8 + 8 + 16)}


def expected_counts(body: list[Step], n: int) -> dict[str, int | None]:
    """Those of the iterations one by one, with what follows from their numbers."""
    found = counts(unrolled(body, n))
    for step in body:
        flop, n_bytes = _OF_NUMBERS.get(step.kind, (0, 0))
        found["work_flop"] = (found["work_flop"] or 0) + n * flop
        found["traffic_bytes"] = (found["traffic_bytes"] or 0) + n * n_bytes
    return found


@settings(max_examples=150)
@given(body=st.lists(steps, min_size=1, max_size=5), n=st.integers(1, 9))
def test_a_loop_costs_what_its_iterations_cost(body: list[Step], n: int) -> None:
    ours, expected = counts(looped(body, n)), expected_counts(body, n)
    # views that the Loop and its branches are write no bytes of their own
    for found in (ours, expected):
        del found["output_bytes"]
    assert ours == expected


@settings(max_examples=30)
@given(
    body=st.lists(
        steps.filter(lambda step: step.kind in ("product", "relu", "branch")),
        min_size=1,
        max_size=4,
    ),
    n=st.integers(100, 400),
)
def test_many_iterations_cost_what_they_cost_one_by_one(body: list[Step], n: int) -> None:
    ours, expected = counts(looped(body, n)), expected_counts(body, n)
    for name in ("macs", "work_flop", "traffic_bytes", "parameters"):
        assert ours[name] == expected[name]
