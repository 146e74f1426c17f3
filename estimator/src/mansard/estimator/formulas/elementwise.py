"""Operators that work element by element: so many operations for each output element.

A single addition, multiplication, division, comparison or rounding is one simple
operation; exp, log, sqrt, erf and the like are one function. Definitions of the
activations: https://onnx.ai/onnx/operators/
"""

from __future__ import annotations

from mansard.estimator.cost import Cost, FormulaFunction
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node

# operator -> (simple operations, functions) for each element of the output
PER_ELEMENT = {
    "Abs": (1, 0),
    "And": (1, 0),
    "BitShift": (1, 0),
    "BitwiseAnd": (1, 0),
    "BitwiseNot": (1, 0),
    "BitwiseOr": (1, 0),
    "BitwiseXor": (1, 0),
    "Ceil": (1, 0),
    "Div": (1, 0),
    "Equal": (1, 0),
    "Floor": (1, 0),
    "Greater": (1, 0),
    "GreaterOrEqual": (1, 0),
    "IsInf": (1, 0),
    "IsNaN": (1, 0),
    "Less": (1, 0),
    "LessOrEqual": (1, 0),
    "Mod": (1, 0),
    "Mul": (1, 0),
    "Neg": (1, 0),
    "Not": (1, 0),
    "Or": (1, 0),
    "Reciprocal": (1, 0),
    "Relu": (1, 0),
    "Round": (1, 0),
    "Sign": (1, 0),
    "Sub": (1, 0),
    "Add": (1, 0),
    "Where": (1, 0),
    "Xor": (1, 0),
    "Acos": (0, 1),
    "Acosh": (0, 1),
    "Asin": (0, 1),
    "Asinh": (0, 1),
    "Atan": (0, 1),
    "Atanh": (0, 1),
    "Cos": (0, 1),
    "Cosh": (0, 1),
    "Erf": (0, 1),
    "Exp": (0, 1),
    "Log": (0, 1),
    "Sin": (0, 1),
    "Sinh": (0, 1),
    "Sqrt": (0, 1),
    "Tan": (0, 1),
    "Tanh": (0, 1),
    "Celu": (6, 1),  # max(0, x) + min(0, a·(exp(x / a) - 1))
    "Elu": (3, 1),  # x < 0 ? a·(exp(x) - 1) : x
    "HardSigmoid": (4, 0),  # max(0, min(1, a·x + b))
    "HardSwish": (5, 0),  # x · HardSigmoid(x)
    "LeakyRelu": (2, 0),  # x < 0 ? a·x : x
    "Mish": (2, 3),  # x · tanh(log(1 + exp(x)))
    "PRelu": (2, 0),  # x < 0 ? slope·x : x
    "Selu": (4, 1),  # g·(x > 0 ? x : a·exp(x) - a)
    "Shrink": (3, 0),  # compare with both thresholds, add the bias
    "Sigmoid": (3, 1),  # 1 / (1 + exp(-x))
    "Softplus": (1, 2),  # log(1 + exp(x))
    "Softsign": (3, 0),  # x / (1 + |x|)
    "ThresholdedRelu": (1, 0),
    "Range": (2, 0),  # start + i·delta
}


def _per_element(simple: int, functions: int) -> FormulaFunction:
    def formula(node: Node) -> Cost:
        n = node.output.n_elements
        return Cost(simple=simple * n, functions=functions * n)

    parts = [_counted(simple, "operation"), _counted(functions, "function")]
    formula.__doc__ = f"{' and '.join(filter(None, parts))} for each output element."
    return formula


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' if n > 1 else ''}" if n else ""


for _op_type, _counts in PER_ELEMENT.items():
    register(_op_type)(_per_element(*_counts))


@register("Gelu")
def gelu(node: Node) -> Cost:
    """0.5·x·(1 + erf(x/√2)): 4 and a function; with tanh 8 and a function."""
    simple = 8 if node.text("approximate", "none") == "tanh" else 4
    return Cost(simple=simple * node.output.n_elements, functions=node.output.n_elements)


@register("Swish")
def swish(node: Node) -> Cost:
    """x · sigmoid(a·x): 4 operations and a function for each element, 5 where a is not 1."""
    simple = 4 if node.number("alpha", 1.0) == 1.0 else 5
    return Cost(simple=simple * node.output.n_elements, functions=node.output.n_elements)


@register("SwiGLU")
def gated_swish(node: Node) -> Cost:
    """a · sigmoid(alpha·a) · b: 5 operations and a function, 6 where alpha is not 1."""
    return swish(node) + Cost(simple=node.output.n_elements)


@register("Clip", not_weights=(1, 2))
def clip(node: Node) -> Cost:
    """One comparison for each bound that is given."""
    bounds = sum(node.has(i) for i in (1, 2)) + sum(k in node.attributes for k in ("min", "max"))
    return Cost(simple=bounds * node.output.n_elements)


@register("Max", "Min", "Sum")
def fold(node: Node) -> Cost:
    """One operation less than there are inputs, for each output element."""
    return Cost(simple=(len(node.present) - 1) * node.output.n_elements)


@register("Mean")
def mean(node: Node) -> Cost:
    """Additions, and one division, for each output element."""
    return Cost(simple=len(node.present) * node.output.n_elements)


@register("Pow")
def power(node: Node) -> Cost:
    """A square is one multiplication, a cube two, anything else a function."""
    n, exponent = node.output.n_elements, node.input(1).value
    if exponent is not None and exponent.n_elements == 1:
        known = float(exponent.first)
        if known in (1.0, 2.0, 3.0):
            return Cost(simple=int(known - 1) * n)
    return Cost(functions=n)
