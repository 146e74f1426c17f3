"""Saved activations: what the forward pass saves because the backward pass reads it.

A tensor is saved once, at the first node whose gradient reads it. Weights are not counted. A
derivative in terms of an operator's output saves that output, which the next layer mostly saves as
its input already.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mansard.core.precision import Precision
from mansard.estimator.operators.indexing import PICKING
from mansard.estimator.operators.movement import MOVING, VIEWS
from mansard.estimator.operators.recurrent import GATES, recurrent_sizes
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node, NodeInstance, Origin, Tensor
from mansard.estimator.training.backward import NORMALIZATIONS, PASSING, needing_gradient

# Operators whose derivative is written with the output (``derivatives``).
_FROM_OUTPUT = frozenset(
    {"Relu", "LeakyRelu", "HardSigmoid", "Sigmoid", "Tanh", "Exp", "Sqrt", "Reciprocal"}
    | {"Softmax", "LogSoftmax", "Clip", "Elu", "Selu", "ThresholdedRelu"}
)
_FROM_NOTHING = frozenset(
    {"ReduceSum", "ReduceMean", "AveragePool", "GlobalAveragePool", "Cast", "CumSum"}
)
_SHOWING = frozenset(VIEWS) - {"Dropout"}  # the output is the input's memory in training too
_MASKED = frozenset({"MaxPool", "GlobalMaxPool"})
_KEEPING_NOTHING = PASSING | _FROM_NOTHING | _MASKED | frozenset(MOVING)
_INDEX_BYTES = 8  # a position is kept as int64, as PyTorch's max_pool2d_with_indices does


def saved_bytes(
    instances: Iterable[NodeInstance],
    operators: Mapping[tuple[str, str], Operator | None],
    differentiable: set[str],
    precision: Precision | None,
    segments: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Bytes that the forward pass saves for each node's gradient, by the node's index.

    With ``segments``, by the node's index, only what is made in the node's own segment
    counts: what comes from another one is kept there.
    """
    makers: dict[int, NodeInstance] = {}  # by the tensor's identity
    memory: dict[int, int] = {}  # a view's identity -> that of the tensor it shows
    counted: set[int] = set()
    saved: dict[int, int] = {}
    for instance in instances:
        node, operator = instance.node, operators[instance.node.domain, instance.node.op_type]
        is_view = operator is not None and operator.is_view
        makers.update((id(output), instance) for output in node.outputs)
        if shows_input(node):
            source = id(node.input(0))
            memory.update((id(output), memory.get(source, source)) for output in node.outputs)
        if node.is_constant or node.bodies:
            continue
        operands = needing_gradient(node, operator, differentiable)
        if not operands:
            continue
        total = instance.runs * extra_bytes(node, precision)
        for tensor in kept_tensors(node, operands, is_view):
            held = memory.get(id(tensor), id(tensor))
            if tensor.origin is not Origin.DATA or held in counted:
                continue
            maker = makers.get(held)
            if segments and maker and segments[maker.node.index] != segments[node.index]:
                continue
            counted.add(held)
            total += _runs(maker, instance) * tensor.n_bytes(precision)
        if total:
            saved[node.index] = saved.get(node.index, 0) + total
    return saved


def shows_input(node: Node) -> bool:
    """Whether the outputs share the first input's memory, also in training."""
    return node.op_type in _SHOWING and not node.domain


def _runs(maker: NodeInstance | None, user: NodeInstance) -> int:
    """How often a tensor is made; one from outside a loop is the same in each of its runs."""
    if maker is not None:
        return maker.runs
    return 1 if user.scope == "" else user.runs


def kept_tensors(node: Node, operands: tuple[Tensor, ...], is_view: bool) -> Iterator[Tensor]:
    """The node's tensors that the gradients of ``operands`` read, weights among them."""
    if is_view or node.op_type in _KEEPING_NOTHING:
        return
    names = {operand.name for operand in operands}
    floats = [tensor for tensor in node.distinct if tensor.dtype.is_float]
    if node.op_type in PICKING:
        yield from node.distinct[1:]  # where the elements came from
    elif node.op_type in _FROM_OUTPUT:
        yield node.output
    elif node.op_type in NORMALIZATIONS:
        yield node.input(0)
    elif node.op_type in GATES:
        yield from floats
        yield from node.outputs
    elif node.op_type == "Where":
        yield node.input(0)
    elif node.op_type == "TopK":
        yield from node.outputs[1:]  # where the elements came from
    elif len(floats) > 1:
        # The gradient of one operand reads the others.
        yield from (t for t in floats if names - {t.name})
        is_used_twice = len(node.distinct) < len(node.present)
        if is_used_twice or _needs_operand(node, names):
            yield from floats
    else:
        yield from floats


def _needs_operand(node: Node, names: set[str]) -> bool:
    """Whether the gradient of an operand reads that operand too."""
    if node.op_type == "Div":
        return node.input(1).name in names  # the divisor's
    return node.op_type in ("Pow", "PRelu")


def extra_bytes(node: Node, precision: Precision | None) -> int:
    """Bytes that one run saves beside the node's tensors: positions, a mask, gates."""
    if node.op_type in _MASKED:
        return _INDEX_BYTES * node.output.n_elements
    if node.op_type == "Dropout":
        return node.output.n_elements  # the mask, one byte an element
    if node.op_type in GATES:
        # Every gate, and an LSTM's cell, of every step.
        sizes = recurrent_sizes(node)
        state_elements = sizes.n_steps * sizes.batch * sizes.n_directions * sizes.hidden_size
        n_kept = GATES[node.op_type] + (node.op_type == "LSTM")
        return node.input(0).dtype.size_bytes(n_kept * state_elements, precision)
    return 0


# Recomputation: save little, and run the forward pass again where it is needed.
#
# The network is cut into ⌈√n⌉ segments of about equal length; only what crosses a cut is
# kept, and the backward pass runs each segment's forward pass again, but for the last,
# whose activations are still there. Chen et al., 2016, "Training deep nets with sublinear
# memory cost". https://arxiv.org/abs/1604.06174


def segment_of(instances: Sequence[NodeInstance]) -> dict[int, int]:
    """The segment of each node by its index; a node inside another is in its segment."""
    n_nodes = sum(
        1 for instance in instances if instance.scope == "" and not instance.node.is_constant
    )
    length = max(math.isqrt(max(n_nodes - 1, 0)) + 1, 1)
    segments: dict[int, int] = {}
    position = -1
    for instance in instances:
        if instance.scope == "" and not instance.node.is_constant:
            position += 1
        segments[instance.node.index] = max(position, 0) // length
    return segments


def recomputed_nodes(instances: Sequence[NodeInstance]) -> frozenset[int]:
    """Indexes of the nodes whose forward pass runs twice."""
    segments = segment_of(instances)
    last = max(segments.values(), default=0)
    return frozenset(index for index, segment in segments.items() if segment < last)


def checkpoint_bytes(
    instances: Sequence[NodeInstance], precision: Precision | None
) -> dict[int, int]:
    """Bytes of what crosses a cut, by the index of the node that makes it."""
    segments = segment_of(instances)
    maker: dict[str, tuple[int, int]] = {}  # tensor -> index and segment of its node
    crossing: dict[str, tuple[int, int]] = {}  # tensor -> index of its node, bytes
    for instance in instances:
        if instance.scope:
            continue
        node, segment = instance.node, segments[instance.node.index]
        for tensor in node.distinct:
            made = maker.get(tensor.name)
            if made is not None and made[1] < segment and tensor.origin is Origin.DATA:
                crossing[tensor.name] = (made[0], tensor.n_bytes(precision))
        maker.update((output.name, (node.index, segment)) for output in node.outputs)
    by_node: dict[int, int] = {}
    for index, size in crossing.values():
        by_node[index] = by_node.get(index, 0) + size
    return by_node


# The most memory that activations and their gradients take at once in a training step.
#
# Forward, saved tensors accumulate. Backward, the gradient of a tensor lives from its last
# reader back to its maker, while saved tensors are freed. With recomputation only
# what crosses a cut accumulates, and one segment at a time saves what its gradients need.
# Weights, their gradients and the optimizer's states come on top and are counted apart.


def training_peak_bytes(
    instances: Sequence[NodeInstance],
    saved: Mapping[int, int],
    differentiable: set[str],
    again: Mapping[int, int],
    precision: Precision | None,
) -> int:
    """The peak bytes of saved activations and live gradients in the main graph.

    ``saved``: of each node. ``again``: what a node saves when its segment is recomputed. What the
    nodes inside a loop save counts at the loop.
    """
    main = [instance for instance in instances if instance.scope == ""]
    gradients = _live_gradients(main, differentiable, precision)
    saved_by_node, again_by_node = _with_inner(instances, saved), _with_inner(instances, again)
    segments = segment_of(instances) if again else {}
    peak = held = crossing = in_segment = segment = 0
    for instance, gradient in zip(main, gradients, strict=True):
        index = instance.node.index
        if segments.get(index, 0) != segment:
            # What a segment passed to the next is freed with the next, and recomputed.
            segment, held, crossing, in_segment = segments[index], held + crossing, 0, 0
        if again:
            crossing += saved_by_node.get(index, 0)
            in_segment += again_by_node.get(index, 0)
        else:
            held += saved_by_node.get(index, 0)
        peak = max(peak, held + in_segment + gradient)
    return peak


def _with_inner(instances: Sequence[NodeInstance], saved: Mapping[int, int]) -> dict[int, int]:
    """Bytes saved by each node of the main graph and the nodes inside it, by its index."""
    totals: dict[int, int] = {}
    holder, seen = -1, set()
    for instance in instances:
        index = instance.node.index
        if instance.scope == "":
            holder = index
        if index not in seen:
            seen.add(index)
            totals[holder] = totals.get(holder, 0) + saved.get(index, 0)
    return totals


def _live_gradients(
    main: Sequence[NodeInstance], differentiable: set[str], precision: Precision | None
) -> list[int]:
    """Bytes of the gradients that are alive while each node's backward pass runs.

    The gradient of a view is that of its source, seen otherwise.
    """
    source: dict[str, str] = {}
    last: dict[str, int] = {}
    for position, instance in enumerate(main):
        node = instance.node
        if shows_input(node) and not node.is_constant:
            first = node.input(0).name
            source.update((output.name, source.get(first, first)) for output in node.outputs)
        for tensor in node.present:
            last[source.get(tensor.name, tensor.name)] = position
    starts, ends = [0] * len(main), [0] * (len(main) + 1)
    for position, instance in enumerate(main):
        for output in instance.node.outputs:
            is_own = output.name not in source
            if is_own and output.name in differentiable and output.origin is Origin.DATA:
                size = output.n_bytes(precision)
                starts[position] += size
                # The network's result has no reader; its gradient comes with the loss.
                ends[last.get(output.name, position) + 1] += size
    live, lives = 0, []
    for position in range(len(main)):
        live += starts[position] - ends[position]
        lives.append(live)
    return lives
