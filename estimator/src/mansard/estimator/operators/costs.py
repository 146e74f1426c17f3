"""Costs and bytes that operators of several families have in common."""

from __future__ import annotations

from collections.abc import Mapping

from mansard.core.errors import ModelError
from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.operators.registry import CostFunction, ShapeRule
from mansard.estimator.tensors import Node, Tensor

SIGMOID = Cost(simple=3, functions=1)  # 1 / (1 + exp(-x))
SILU = Cost(simple=4, functions=1)  # x · sigmoid(x)
GELU = Cost(simple=4, functions=1)  # 0.5·x·(1 + erf(x/√2))
FAST_GELU = Cost(simple=8, functions=1)  # the same with tanh of a polynomial
SOFTPLUS = Cost(simple=1, functions=2)  # log(1 + exp(x))
QUANTIZE = Cost(simple=5)  # divide, round, add the zero point, clamp twice
DEQUANTIZE = Cost(simple=2)  # subtract the zero point, multiply


def no_work(text: str = "No work.") -> CostFunction:
    """No work; ``text`` is its row in the table."""

    def cost(node: Node) -> Cost:  # noqa: ARG001
        return NOTHING

    cost.__doc__ = text
    return cost


def refused(reason: str) -> CostFunction:
    """The cost of an operator that cannot be scored: a RefusedError with its reason."""

    def cost(node: Node) -> Cost:
        raise RefusedError(reason, where=node.label)

    cost.__doc__ = f"Refused: {reason}."
    return cost


class RefusedError(ModelError):
    """The work of an operator cannot be told from the file."""


class Refusal(str):
    """Why an operator cannot be scored: the shape of what it writes alone does not help."""

    __slots__ = ()


def refused_shape(reason: str) -> ShapeRule:
    """The shape rule of such an operator."""
    return lambda _: Refusal(reason)


move = no_work()
copy = no_work("No work.")
view = no_work("No work and no traffic.")
pick = no_work("No work.")
handle_text = no_work("No work; strings count 0 bytes.")


def per_element(simple: int, functions: int = 0, text: str = "") -> CostFunction:
    """``simple`` operations and ``functions`` for each output element; ``text`` is its row."""

    def cost(node: Node) -> Cost:
        n = node.output.n_elements
        return Cost(simple=simple * n, functions=functions * n)

    parts = [_counted(simple, "operation"), _counted(functions, "function")]
    cost.__doc__ = text or f"{' and '.join(filter(None, parts))} for each output element."
    return cost


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' if n > 1 else ''}" if n else ""


def first_bytes(node: Node, precision: Precision | None) -> int:
    """The first input."""
    return node.input(0).n_bytes(precision)


def no_bytes(node: Node, precision: Precision | None) -> int:  # noqa: ARG001
    """Nothing."""
    return 0


def picked_bytes(node: Node, precision: Precision | None) -> int:
    """Of the first input as much as is written."""
    whole = sum(tensor.n_bytes(precision) for tensor in node.distinct)
    table = node.input(0).n_bytes(precision)
    return whole - table + min(table, node.output.n_bytes(precision))


def reads_only(node: Node, precision: Precision | None, elements: Mapping[int, int]) -> int:
    """Bytes of the distinct inputs; of those at the positions given only so many elements."""
    partial: dict[str, int] = {}
    for position, n in elements.items():
        tensor = node.optional(position)
        if tensor is not None:
            partial[tensor.name] = max(n, partial.get(tensor.name, 0))
    return _partly(node.distinct, precision, partial)


def writes_only(node: Node, precision: Precision | None, elements: Mapping[int, int]) -> int:
    """Bytes of the outputs that have a name; of some only so many elements."""
    named = tuple(output for output in node.outputs if output.name)
    partial = {node.outputs[i].name: n for i, n in elements.items() if i < len(node.outputs)}
    return _partly(named, precision, partial)


def _partly(
    tensors: tuple[Tensor, ...], precision: Precision | None, partial: Mapping[str, int]
) -> int:
    return sum(
        tensor.dtype.size_bytes(
            min(tensor.n_elements, partial.get(tensor.name, tensor.n_elements)), precision
        )
        for tensor in tensors
    )


def rows(n_elements: int, width: int) -> int:
    """How many rows of ``width`` there are; none where a row is empty."""
    return n_elements // width if width else 0


def folds(node: Node) -> int:
    """Operations that make the input's elements one for each element of the output."""
    return max(node.input(0).n_elements - node.output.n_elements, 0)


def sort_comparisons(n: int) -> int:
    """Comparisons that sort ``n`` elements by merging, at most: n · ⌈log2 n⌉.

    D. E. Knuth, The Art of Computer Programming, vol. 3, section 5.2.4, less the
    lower-order term.
    """
    return n * max(n - 1, 0).bit_length()
