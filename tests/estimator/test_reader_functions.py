"""Model-local functions: their nodes stand where they were called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import onnx
from onnx import checker, defs, helper, inliner, parser

from mansard.estimator.model import ModelNode, Subgraph
from mansard.estimator.reading import read_model
from tests.estimator.function_models import CHOICE, parsed, read
from tests.estimator.reader_oracle import oracle, plain


def lines(nodes: Iterable[ModelNode]) -> list[str]:
    return [f"{','.join(n.outputs)} = {n.op_type}({','.join(n.inputs)})" for n in nodes]


def test_a_function_is_written_out_at_each_call() -> None:
    model = read("h = local.f(x) y = local.f(h)", "f (a) => (b) { c = Relu(a) b = Neg(c) }")
    assert lines(model.nodes) == [
        *("h/c = Relu(x)", "h = Neg(h/c)"),
        *("y/c = Relu(h)", "y = Neg(y/c)"),
    ]
    assert [node.index for node in model.nodes] == [0, 1, 2, 3]
    assert [node.name for node in model.nodes] == ["h/c", "h/b", "y/c", "y/b"]


def test_functions_in_functions() -> None:
    model = read(
        "y = local.g(x)",
        "f (a) => (b) { b = Relu(a) }",
        "g (a) => (b) { c = local.f(a) d = local.f(c) b = Add(c, d) }",
    )
    assert lines(model.nodes) == ["y/c = Relu(x)", "y/d = Relu(y/c)", "y = Add(y/c,y/d)"]


def test_attributes_come_from_the_call_or_from_the_function() -> None:
    function = "f <alpha, axis: int = 1> (a) => (b) "
    body = "{ c = LeakyRelu<alpha: float = @alpha>(a) b = Softmax<axis: int = @axis>(c) }"
    model = read("h = local.f<alpha=0.5>(x) y = local.f<axis=0>(h)", function + body)
    assert [dict(node.attributes) for node in model.nodes] == [
        {"alpha": 0.5},  # given
        {"axis": 1},  # the function's own
        {},  # neither: the operator's default
        {"axis": 0},
    ]


def test_attributes_go_through_functions_in_functions() -> None:
    model = read(
        "y = local.g<alpha=0.5>(x)",
        "f <alpha> (a) => (b) { b = LeakyRelu<alpha: float = @alpha>(a) }",
        "g <alpha> (a) => (b) { b = local.f<alpha: float = @alpha>(a) }",
    )
    assert dict(model.nodes[0].attributes) == {"alpha": 0.5}


def test_ends_that_are_left_out() -> None:
    function = "f (a, low, high) => (b, c, d) { b = Clip(a, low, high) c = Relu(b) d = Neg(c) }"
    model = read("h, , k = local.f(x, , x) y = Add(h, k)", function)
    assert lines(model.nodes) == [
        "h = Clip(x,,x)",
        "h/c = Relu(h)",
        "k = Neg(h/c)",
        "y = Add(h,k)",
    ]
    assert lines(read("y = local.f(x)", function).nodes)[0] == "y = Clip(x,,)"


def test_an_input_that_is_handed_on() -> None:
    model = read("h, k = local.f(x) y = Add(h, k)", "f (a) => (a, b) { b = Relu(a) }")
    assert sorted(lines(model.nodes)) == ["h = Identity(x)", "k = Relu(x)", "y = Add(h,k)"]


def test_names_clash_with_nothing() -> None:
    model = parsed("h = local.f(x) y = Add(z, h)", "f (a) => (b) { c = Relu(a) b = Neg(c) }")
    # another node already writes what the function's inner tensor would be called
    model.graph.node.insert(0, helper.make_node("Neg", ["x"], ["h/c"]))
    model.graph.node.insert(1, helper.make_node("Relu", ["h/c"], ["z"]))
    nodes = read_model(model.SerializeToString()).nodes
    names = [name for node in nodes for name in node.outputs]
    assert len(set(names)) == len(names) == 5
    assert nodes[3].inputs == nodes[2].outputs


def test_calls_inside_subgraphs() -> None:
    choice = (CHOICE % "s = local.f(a) o = Neg(s)").replace("a)", "x)").replace("r =", "y =")
    model = read(
        "i = Constant<value_int=1>() c = Cast<to=9>(i) " + choice, "f (a) => (b) { b = Relu(a) }"
    )
    branch = model.nodes[-1].attributes["then_branch"]
    assert isinstance(branch, Subgraph)
    assert lines(branch.nodes) == ["s = Relu(x)", "o = Neg(s)"]
    assert branch.captured == ("x",)
    assert [node.index for node in branch.nodes] == [3, 4]


def test_subgraphs_inside_functions() -> None:
    body = "i = Constant<value_int=1>() c = Cast<to=9>(i) " + CHOICE % "s = Relu(a) o = Neg(s)"
    model = read("h = local.f(x) y = local.f(h)", f"f (a) => (r) {{ {body} }}")
    first, second = (node for node in model.nodes if node.op_type == "If")
    branches = [node.attributes["then_branch"] for node in (first, second)]
    assert [branch.captured for branch in branches if isinstance(branch, Subgraph)] == [
        ("x",),
        ("h",),
    ]
    assert isinstance(branches[1], Subgraph)
    assert lines(branches[1].nodes) == ["y/s = Relu(h)", "y/o = Neg(y/s)"]
    assert [output.name for output in branches[1].outputs] == ["y/o"]
    indexes = {node.index for node in model.nodes} | {
        node.index
        for holder in (first, second)
        for graph in holder.attributes.values()
        if isinstance(graph, Subgraph)
        for node in graph.nodes
    }
    assert indexes == set(range(12))  # twice: 2 nodes, an If, 2 + 1 in its branches


def test_overloads() -> None:
    model = parsed(
        "h = local.f(x) y = local.f(h)",
        "f (a) => (b) { b = Relu(a) }",
        "f (a) => (b) { b = Neg(a) }",
    )
    model.functions[1].overload = "other"
    model.graph.node[1].overload = "other"
    assert lines(read_model(model.SerializeToString()).nodes) == ["h = Relu(x)", "y = Neg(h)"]


def test_a_function_brings_its_own_versions() -> None:
    model = parsed("h = local.f(x) y = Relu(h)", "f (a) => (b) { b = Softmax(a) }")
    model.functions[0].opset_import[0].version = 11
    nodes = read_model(model.SerializeToString()).nodes
    assert [(node.op_type, node.opset) for node in nodes] == [("Softmax", 11), ("Relu", 17)]


def test_a_graph_handed_to_a_function() -> None:
    model = parsed("k = Neg(x) y = local.f(k)", "f (a) => (b) { n = Neg(a) b = If(n) }")
    branch = parser.parse_graph("t () => (float[2,3] n) { n = Relu(k) }")
    model.graph.node[1].attribute.append(helper.make_attribute("body", branch))
    model.functions[0].attribute.append("body")
    for name in ("then_branch", "else_branch"):
        model.functions[0].node[1].attribute.add(
            name=name, ref_attr_name="body", type=onnx.AttributeProto.GRAPH
        )
    nodes = read_model(model.SerializeToString()).nodes
    held = nodes[-1].attributes["then_branch"]
    assert isinstance(held, Subgraph)
    # its names are those of the caller, whatever the function calls its own
    assert lines(held.nodes) == ["n = Relu(k)"]
    assert held.captured == ("k",)


def test_the_same_as_onnx_writes_out() -> None:
    model = parsed(
        "h, k = local.g<alpha=0.25>(x) l = Add(h, k) y = local.f<alpha=2.0>(l)",
        "f <alpha> (a) => (b) { c = LeakyRelu<alpha: float = @alpha>(a) b = Neg(c) }",
        "g <alpha> (a) => (b, d) { c = local.f<alpha: float = @alpha>(a) "
        "i = Constant<value_int=1>() t = Cast<to=9>(i) "
        "b = If(t) <then_branch = t () => (float[2,3] o) "
        "{ s = local.f<alpha=1.0>(c) o = Neg(s) }, "
        "else_branch = e () => (float[2,3] p) { p = Add(a, c) }> d = Mul(a, c) }",
    )
    checker.check_model(model)
    ours = read_model(model.SerializeToString())
    theirs = oracle(inliner.inline_local_functions(model).SerializeToString())
    assert shape_of(ours.nodes, {}) == shape_of(theirs.nodes, {})


def shape_of(nodes: Iterable[ModelNode], seen: dict[str, int]) -> list[object]:
    """Nodes with names replaced by the order in which they come up."""
    return [
        (
            node.op_type,
            node.opset,
            [seen.setdefault(name, len(seen)) for name in (*node.inputs, *node.outputs)],
            {
                name: shape_of(value.nodes, seen) if isinstance(value, Subgraph) else plain(value)
                for name, value in sorted(node.attributes.items())
            },
        )
        for node in nodes
    ]


def test_the_same_as_onnx_writes_out_for_its_own_functions() -> None:
    schemas: list[Any] = [schema for schema in defs.get_all_schemas() if not schema.domain]
    bodies = [(schema, schema.function_body) for schema in schemas if schema.has_function]
    assert len(bodies) > 20
    for schema, body in bodies:
        body.name, body.domain = schema.name, "local"
        for attributes in ({}, {name: value_of(schema, name) for name in body.attribute}):
            model = calling(body, attributes)
            ours = read_model(model.SerializeToString())
            theirs = oracle(inliner.inline_local_functions(model).SerializeToString())
            assert shape_of(ours.nodes, {}) == shape_of(theirs.nodes, {}), schema.name


def calling(body: onnx.FunctionProto, attributes: Mapping[str, Any]) -> onnx.ModelProto:
    """A model with another node, then two that call the function."""
    inputs = [f"x{place}" for place in range(len(body.input))]
    nodes = [helper.make_node("Relu", ["x0"], ["h"])]
    for mark in "yz":
        outputs = [f"{mark}{place}" for place in range(len(body.output))]
        nodes.append(helper.make_node(body.name, inputs, outputs, domain="local", **attributes))
    given = [onnx.ValueInfoProto(name=name) for name in inputs]
    return helper.make_model(
        helper.make_graph(nodes, "g", given, []),
        functions=[body],
        opset_imports=[*body.opset_import, helper.make_opsetid("local", 1)],
    )


def value_of(schema: Any, name: str) -> Any:
    values = {"FLOAT": 0.5, "INT": 1, "STRING": "text", "INTS": [1, 2], "FLOATS": [0.5]}
    return values[schema.attributes[name].type.name]
