"""With ``allow_unknown`` no operator of unknown shape stops a score, whatever its attributes."""

from __future__ import annotations

from functools import cache

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, parser

from mansard.core.errors import MansardError, ModelError
from mansard.core.records import Phase
from mansard.estimator import score, totals
from mansard.estimator.operators import REGISTRY
from tests.estimator.node_cases import node_models

KINDS = sorted(REGISTRY.operators())
_NUMBERS = st.one_of(st.integers(-9, 9), st.sampled_from([2**40, -(2**62)]))
_NAMES = ("axis", "axes", "perm", "kernel_shape", "group", "num_heads", "split", "to", "pads")
_WITHOUT_RULE = {"Constant", "FlexAttention", "If", "Loop", "Scan", "SequenceMap"}


@cache
def models_with_inputs() -> list[onnx.ModelProto]:
    """The models of a single operator that the onnx package makes."""
    return [model for model in node_models().values() if model.graph.input]


def score_unknown(proto: onnx.ModelProto, phase: Phase, is_upper: bool) -> bool:
    """Whether it was scored; anything but an error of ours is raised."""
    proto.opset_import.append(helper.make_opsetid("my", 1))
    try:
        found = score(
            proto.SerializeToString(),
            allow_unknown=True,
            phase=phase,
            upper=is_upper,
            cache_bytes=1 << 20,
        )
    except MansardError:
        return False
    totals(found)
    return True


def hide(proto: onnx.ModelProto, position: int) -> None:
    """Give the network's input to an operator that nobody knows, and its result to the others."""
    source = proto.graph.input[position]
    name, source.name = source.name, f"{source.name} as given"
    proto.graph.node.insert(0, helper.make_node("Foo", [source.name], [name], "foo", domain="my"))


phases: st.SearchStrategy[Phase] = st.sampled_from(["inference", "training"])


@settings(max_examples=150)
@given(data=st.data(), phase=phases, is_upper=st.booleans())
def test_chains_of_operators_with_inputs_of_unknown_shape(
    data: st.DataObject, phase: Phase, is_upper: bool
) -> None:
    proto = onnx.ModelProto()
    models = models_with_inputs()
    proto.CopyFrom(models[data.draw(st.integers(0, len(models) - 1))])
    for position in range(len(proto.graph.input)):
        if data.draw(st.booleans()):
            hide(proto, position)
    for attribute in proto.graph.node[-1].attribute:
        if attribute.type == onnx.AttributeProto.INTS and data.draw(st.booleans()):
            changed = data.draw(st.lists(_NUMBERS, max_size=5))
            del attribute.ints[:]
            attribute.ints.extend(changed)
        elif attribute.type == onnx.AttributeProto.INT and data.draw(st.booleans()):
            attribute.i = data.draw(_NUMBERS)
    first = next(filter(None, proto.graph.node[-1].output), None)
    behind = data.draw(st.sampled_from(["Transpose", "Relu", "MatMul", "Softmax", ""]))
    if first is not None and behind:
        inputs = [first] * (2 if behind == "MatMul" else 1)
        node = helper.make_node(behind, inputs, ["behind"], "behind")
        if behind == "Transpose":
            perm = data.draw(st.lists(_NUMBERS, max_size=4))
            node.attribute.append(helper.make_attribute("perm", perm, attr_type=7))
        proto.graph.node.append(node)
    score_unknown(proto, phase, is_upper)


@pytest.mark.parametrize("phase", ["inference", "training"])
def test_every_operator_with_all_its_inputs_unknown(phase: Phase) -> None:
    refused: set[str] = set()
    for domain, op_type in KINDS:
        for n_inputs in (1, 4):
            names = [f"x{i}" for i in range(n_inputs)]
            node = helper.make_node(op_type, names, ["y", "z"], "node", domain=domain)
            nodes = [
                *(helper.make_node("Foo", ["x"], [name], name, domain="my") for name in names),
                node,
                helper.make_node("Relu", ["y"], ["r"], "r"),
            ]
            for held in ([], [-1, 5]):
                del node.attribute[:]
                if held:
                    node.attribute.extend(
                        helper.make_attribute(name, held[0] if name == "axis" else held)
                        for name in _NAMES
                    )
                graph = helper.make_graph(
                    nodes,
                    "g",
                    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                    [helper.make_empty_tensor_value_info("r")],
                )
                imports = [helper.make_opsetid("", 21)]
                imports += [helper.make_opsetid(domain, 1)] if domain else []
                is_scored = score_unknown(
                    helper.make_model(graph, opset_imports=imports), phase, False
                )
                if not is_scored:
                    refused.add(op_type)
    # Those whose outputs no rule of shapes gives say what is wrong with them.
    assert refused <= _WITHOUT_RULE


@pytest.mark.parametrize("perm", ["[-1,0]", "[5,7]", "[0]"])
def test_a_transpose_of_an_unknown_shape(perm: str) -> None:
    text = f"h = my.Foo(x) t = Transpose<perm={perm}>(h) y = Relu(t)"
    head = '<ir_version: 8, opset_import: ["" : 17, "my" : 1]>'
    proto = parser.parse_model(f"{head} g (float[2,3] x) => (float[] y) {{ {text} }}")
    found = score(proto.SerializeToString(), allow_unknown=True)
    assert [layer.work_flop for layer in found.layers] == [None, None, None]
    with pytest.raises(ModelError, match="my::Foo"):
        score(proto.SerializeToString())
