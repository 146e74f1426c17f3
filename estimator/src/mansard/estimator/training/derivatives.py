"""Derivatives of single operators: the work of the gradient of one input.

Where an operator is not here, training counts as much as its forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.tensors import Node

# operator -> (simple operations, functions) for each output element and each operand
# that needs a gradient, from the derivative written with the saved output y.
PER_OPERAND = MappingProxyType(
    {
        "Mul": (1, 0),
        "Relu": (1, 0),  # mask
        "LeakyRelu": (2, 0),  # y < 0 ? a·dy : dy
        "HardSigmoid": (3, 0),  # 0 < y < 1 ? a·dy : 0
        "HardSwish": (5, 0),  # -3 < x < 3 ? dy·(x / 3 + 1/2) : 0 or dy
        "Where": (1, 0),
        "Sigmoid": (3, 0),  # dy·y·(1 - y)
        "Tanh": (3, 0),  # dy·(1 - y²)
        "Exp": (1, 0),  # dy·y
        "Log": (1, 0),
        "Sqrt": (2, 0),  # dy / (2·y)
        "Reciprocal": (3, 0),  # -dy·y²
        "Erf": (4, 1),  # dy·2/√π·exp(-x²)
        "Col2Im": (0, 0),  # the columns are picked out again
        "Softmax": (4, 0),  # y·(dy - Σ dy·y)
        "LogSoftmax": (3, 1),  # dy - exp(y)·Σ dy
        "MaxPool": (1, 0),  # added where the maximum was
        "Gather": (1, 0),  # added into the table
        "Cast": (0, 0),
        "ReduceSum": (0, 0),
        "ReduceMean": (1, 0),
    }
)


def derivative(node: Node, position: int) -> Cost | None:
    """Work for each output element of the gradient of the input at ``position``.

    None where the operator has no entry. It is the work of one use of the tensor: in
    ``Mul(x, x)`` the gradient of x is made twice.
    """
    special = _BY_NODE.get(node.op_type)
    if special is not None:
        return special(node, position)
    counts = PER_OPERAND.get(node.op_type)
    return None if counts is None else Cost(simple=counts[0], functions=counts[1])


def _division(node: Node, position: int) -> Cost:  # noqa: ARG001
    """dy / b for the dividend, -dy·y / b for the divisor."""
    return Cost(simple=1 if position == 0 else 3)


def _clip(node: Node, position: int) -> Cost:  # noqa: ARG001
    """As forwards a comparison for each bound that is given."""
    bounds = sum(node.has(i) for i in (1, 2)) + sum(k in node.attributes for k in ("min", "max"))
    return Cost(simple=bounds)


def _power(node: Node, position: int) -> Cost:
    """dy·p·x^(p - 1) for the base, where x^1 is free, x² and x³ are products.

    dy·y·log(x) for the exponent.
    """
    if position == 1:
        return Cost(simple=2, functions=1)
    exponent = node.input(1).value
    if exponent is not None and exponent.n_elements == 1:
        known = float(exponent.first)
        if known == 1.0:
            return NOTHING
        if known in (2.0, 3.0, 4.0):
            return Cost(simple=int(known))
    return Cost(simple=2, functions=1)


def _gelu(node: Node, position: int) -> Cost:  # noqa: ARG001
    """dy·(cdf(x) + x·pdf(x)): cdf by 3 operations and erf, pdf by 3 and exp, and 3 more.

    With tanh: dy·(h + y·(1 - t)·du), where u = x·(c + d·x²) takes 4 operations,
    t = tanh(u), h = (1 + t) / 2 takes 2, du = c + 3·d·x² takes 2, and 5 more.
    """
    if node.text("approximate", "none") == "tanh":
        return Cost(simple=13, functions=1)
    return Cost(simple=9, functions=2)


_BY_NODE: MappingProxyType[str, Callable[[Node, int], Cost]] = MappingProxyType(
    {"Clip": _clip, "Div": _division, "Gelu": _gelu, "Pow": _power}
)
