"""Functions that call themselves, explode, or do not fit what calls them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from onnx import helper

from mansard.core.errors import ModelError
from mansard.estimator.reading import read_model
from mansard.estimator.reading.limits import MAX_NAME_CHARACTERS
from tests.estimator.function_models import CHOICE, parsed, read


def refused(body: str, *functions: str) -> str:
    with pytest.raises(ModelError) as caught:
        read(body, *functions)
    return str(caught.value)


def test_functions_that_call_themselves() -> None:
    assert "'f' calls itself" in refused("y = local.f(x)", "f (a) => (b) { b = local.f(a) }")
    around = ("f (a) => (b) { b = local.g(a) }", "g (a) => (b) { b = local.f(a) }")
    assert "calls itself" in refused("y = local.f(x)", *around)


def test_functions_that_explode() -> None:
    functions = [
        f"f{i} (a) => (b) {{ c = local.f{i - 1}(a) d = local.f{i - 1}(c) b = Relu(d) }}"
        for i in range(1, 40)
    ]
    text = refused("y = local.f39(x)", "f0 (a) => (b) { b = Relu(a) }", *functions)
    # 1 node, then twice as many and one more each time: 2^40 - 1
    assert f"stand for {2**40 - 1} nodes" in text


@pytest.mark.parametrize(
    "calls", ["y = local.f149(x)", " ".join(f"y{i} = local.f{i}(x)" for i in range(150))]
)
def test_functions_that_nest_too_deep(calls: str) -> None:
    functions = [f"f{i} (a) => (b) {{ b = local.f{i - 1}(a) }}" for i in range(1, 150)]
    text = refused(calls, "f0 (a) => (b) { b = Relu(a) }", *functions)
    assert "nest deeper than 100" in text


def test_graphs_that_nest_too_deep_once_written_out() -> None:
    functions = [
        f"f{i} (a) => (r) {{ {CHOICE.replace('If(c)', 'If(a)') % f'o = local.f{i - 1}(a)'} }}"
        for i in range(1, 60)
    ]
    text = refused("y = local.f59(x)", "f0 (a) => (b) { b = Relu(a) }", *functions)
    assert "nested deeper than 32" in text


def test_calls_that_do_not_fit() -> None:
    assert "has 2 inputs, its function 1" in refused(
        "y = local.f(x, x)", "f (a) => (b) { b = Relu(a) }"
    )
    assert "has 2 outputs, its function 1" in refused(
        "y, z = local.f(x)", "f (a) => (b) { b = Relu(a) }"
    )
    assert "two functions are called 'f'" in refused(
        "y = local.f(x)", "f (a) => (b) { b = Relu(a) }", "f (a) => (b) { b = Neg(a) }"
    )


def test_functions_that_are_broken_inside() -> None:
    text = refused("y = local.f(x)", "f (a) => (b) { b = Add(a, ghost) }")
    assert "reads tensor 'y/ghost', which is not an input and no node writes" in text
    text = refused("y = local.f(x)", "f (a) => (b) { c = Relu(a) }")
    assert "no node writes the graph's output 'y'" in text


def test_names_that_explode() -> None:
    model = parsed("y = local.f(x)", "f (a) => (b) { b = Relu(a) }")
    del model.functions[0].node[:]
    names = ["a", *(f"t{i}" for i in range(1999)), "b"]
    for given, made in pairwise(names):
        model.functions[0].node.append(helper.make_node("Relu", [given], [made]))
    model.graph.node[0].name = "n" * (MAX_NAME_CHARACTERS // 2000)
    with pytest.raises(ModelError, match="make names of more than"):
        read_model(model.SerializeToString())
