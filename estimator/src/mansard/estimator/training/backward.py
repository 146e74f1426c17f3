"""Which tensors need a gradient: those that are learned, or computed from what is.

So the first layer has no data gradient, and a weight that is not there has none either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.operators.indexing import PICKING
from mansard.estimator.operators.movement import MOVING
from mansard.estimator.operators.recurrent import GATES, recurrent_macs, recurrent_sizes
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Body, Node, Tensor
from mansard.estimator.weights import is_weight, slots

FindOperator = Callable[[Node], "Operator | None"]


def differentiable_tensors(nodes: Iterable[Node], find: FindOperator) -> set[str]:
    """Names of the computed tensors that need a gradient, those of inner graphs included."""
    names: set[str] = set()
    _collect(nodes, find, names)
    return names


def needing_gradient(
    node: Node, operator: Operator | None, differentiable: set[str]
) -> tuple[Tensor, ...]:
    """The distinct inputs of ``node`` that need a gradient."""
    if not any(output.dtype.is_float for output in node.outputs):
        return ()
    learned = {
        tensor.name
        for tensor, is_statistic in slots(node, operator)
        if not is_statistic and tensor.dtype.is_float and any(map(is_weight, tensor.weights))
    }
    return tuple(
        tensor
        for tensor in node.distinct
        if tensor.name in learned or (tensor.name in differentiable and tensor.dtype.is_float)
    )


def _collect(nodes: Iterable[Node], find: FindOperator, names: set[str]) -> None:
    for node in nodes:
        if node.is_constant:
            continue
        if node.bodies:
            _collect_inside(node, find, names)
        elif needing_gradient(node, find(node), names):
            names.update(o.name for o in node.outputs if o.name and o.dtype.is_float)


def _collect_inside(node: Node, find: FindOperator, names: set[str]) -> None:
    for body in node.bodies:
        names_outside = [tensor.name if tensor is not None else "" for tensor in node.inputs]
        _hand_on(names_outside, body.inputs, names)
        before = -1
        # What a pass makes differentiable is so in the next one: repeat until nothing changes.
        while before != len(names):
            before = len(names)
            for pass_ in body.passes:
                _collect(pass_.nodes, find, names)
            _hand_on(*_carried(node, body), names)
        _hand_on(body.outputs, [output.name for output in node.outputs], names)


def _carried(node: Node, body: Body) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What one iteration passes to the next: names of a body's outputs and inputs."""
    if node.op_type == "Loop":
        inputs = body.inputs[2:]  # behind the iteration's number and the condition
        return body.outputs[1 : 1 + len(inputs)], inputs
    if node.op_type == "Scan":
        n_states = len(body.inputs) - node.integer("num_scan_inputs", 0)
        return body.outputs[:n_states], body.inputs[:n_states]
    return (), ()


def _hand_on(sources: Iterable[str], targets: Iterable[str], names: set[str]) -> None:
    # A Loop's body has the condition before its outputs, the first Scan the lengths
    # before its inputs: both lists fit from their ends.
    pairs = zip(reversed(list(sources)), reversed(list(targets)), strict=False)
    names.update(target for source, target in pairs if source in names and target)


# Derivatives of single operators: the work of the gradient of one input.
#
# Where an operator is not here, training counts as much as its forward pass.


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
    """One comparison for each given bound, as in the forward pass."""
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
        power = float(exponent.first)
        if power == 1.0:
            return NOTHING
        if power in (2.0, 3.0, 4.0):
            return Cost(simple=int(power))
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


# The work of the backward pass: the gradient of each input that needs one.
#
# A convolution or matrix product costs as much again for each such operand. Not counted:
# the loss itself (unless the graph holds it), and adding up the gradients of a tensor
# that several nodes read.


PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum"})

# The gradient is passed on unchanged: no work, and no bytes where shapes are equal. What was
# subtracted gets it negated.
PASSING = frozenset({"Add", "Sub", "Sum", "Identity"})

# Normalisations give all their gradients in one go: two sums over dy and dy·x̂, the
# data gradient, and the normalised x̂ again; 11 operations an element.
NORMALIZATIONS = frozenset(
    {"BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization"}
    | {"RMSNormalization", "SimplifiedLayerNormalization"}
)
_NORMALIZATION_SIMPLE = 11


def backward_work(node: Node, operator: Operator, operands: tuple[Tensor, ...]) -> Cost:
    """The work of the gradients of ``operands``, the inputs of ``node`` that need one."""
    if not operands:
        return NOTHING
    forward = operator.cost(node)
    names = {tensor.name for tensor in operands}
    if node.op_type in PRODUCTS:
        return _product_backward(node, forward, names)
    if node.op_type in GATES:
        return _recurrent_backward(node, forward, names)
    if forward.macs:
        # Attention is two products, and both have two operands.
        is_attention = "Attention" in node.op_type
        factors = sum(node.has(i) and node.input(i).name in names for i in operator.operands)
        times = 2 if is_attention else factors
        return Cost(forward.macs * times, forward.simple, forward.functions)
    if node.op_type in NORMALIZATIONS:
        return Cost(simple=_NORMALIZATION_SIMPLE * node.output.n_elements)
    return _elementwise_backward(node, operator, forward, operands)


def _product_backward(node: Node, forward: Cost, names: set[str]) -> Cost:
    if node.op_type == "Einsum":
        return _einsum_backward(node, forward, names)
    factors = [t for t in node.inputs[:2] if t is not None and t.name in names]
    biases = [t for t in node.inputs[2:] if t is not None and t.name in names]
    sums = sum(max(node.output.n_elements - bias.n_elements, 0) for bias in biases)
    return Cost(macs=forward.macs) * len(factors) + Cost(simple=sums)


def _einsum_backward(node: Node, forward: Cost, names: set[str]) -> Cost:
    if len(node.present) == 1:
        return NOTHING  # a transposition, or a sum whose gradient is repeated
    factors = [tensor for tensor in node.present if tensor.name in names]
    if forward.macs:
        return Cost(macs=forward.macs) * len(factors)
    # Nothing was summed forwards: what an operand was repeated for is summed backwards.
    n_summed = sum(tensor.n_elements < node.output.n_elements for tensor in factors)
    return Cost(macs=forward.simple * n_summed, simple=forward.simple * (len(factors) - n_summed))


def is_subtracted(node: Node, tensor: Tensor) -> bool:
    """Whether ``tensor`` is the subtrahend of a Sub."""
    return node.op_type == "Sub" and node.input(1).name == tensor.name


def _recurrent_backward(node: Node, forward: Cost, names: set[str]) -> Cost:
    of_input, of_recurrence = recurrent_macs(node)
    macs = of_input * sum(node.input(position).name in names for position in (0, 1))
    if node.input(2).name in names:
        macs += of_recurrence
    # The gradient runs back from step to step, whether or not the data needs one; the
    # initial state needs none.
    n_steps = recurrent_sizes(node).n_steps
    macs += of_recurrence // max(n_steps, 1) * max(n_steps - 1, 0)
    return Cost(macs, forward.simple, forward.functions)


def _elementwise_backward(
    node: Node, operator: Operator, forward: Cost, operands: tuple[Tensor, ...]
) -> Cost:
    n = node.output.n_elements
    # A broadcast operand's gradient is summed over what it was repeated for.
    sums = (
        sum(max(n - operand.n_elements, 0) for operand in operands) if len(node.present) > 1 else 0
    )
    if operator.is_view or node.op_type in MOVING:
        if node.op_type == "Dropout":
            return Cost(simple=n)
        return Cost(simple=sums if node.op_type == "Expand" else 0)
    if node.op_type in PASSING:
        negations = sum(t.n_elements for t in operands if is_subtracted(node, t))
        return Cost(simple=sums + negations)
    names = {operand.name for operand in operands}
    used = [i for i, t in enumerate(node.inputs) if t is not None and t.name in names]
    costs = [derivative(node, position) for position in used]
    if None in costs:
        return Cost(simple=forward.simple, functions=forward.functions) * len(operands)
    if node.op_type in PICKING:
        sums = 0
    size = max(n, operands[0].n_elements) if node.op_type.startswith("Reduce") else n
    return sum((cost * size for cost in costs if cost is not None), Cost(simple=sums))
