"""What a loop collects: one tensor from each iteration, stacked along a new axis."""

from __future__ import annotations

import math

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.control_flow.cycles import Cycle, History, Runs
from mansard.estimator.control_flow.frames import run_graph
from mansard.estimator.element_types import FLOAT32
from mansard.estimator.model import ModelInput
from mansard.estimator.numbers import Numbers
from mansard.estimator.sequences import all_weights
from mansard.estimator.tensors import Node, Origin, Shape, Tensor
from mansard.estimator.values import may_keep
from mansard.estimator.values.strides import joined


def collected(history: History, axes: tuple[int, ...] | None = None) -> list[Tensor]:
    """The collected outputs as whole tensors; ``axes``: where the iterations lie, by output."""
    cycle = history.cycle
    outputs = cycle.frame.graph.outputs[len(cycle.state) :]
    axes = axes if axes is not None else (0,) * len(outputs)
    if len(axes) != len(outputs):
        raise cycle.frame.node.error(f"{len(axes)} output axes for {len(outputs)} outputs")
    if history.done == 0:
        return _nothing(cycle, outputs, axes)
    pairs = zip(history.collected, axes, strict=True)
    return [stacked(cycle.frame.node, runs, axis) for runs, axis in pairs]


def stacked(node: Node, runs: Runs, axis: int) -> Tensor:
    """Tensors in a row as one; raises ModelError where they do not look alike."""
    first = runs[0][0]
    tensors = [tensor for tensor, _ in runs]
    lost = next((tensor for tensor in tensors if tensor.unknown), None)
    if lost is not None:
        return lost
    shapes = {tensor.shape for tensor in tensors}
    if len(shapes) > 1 or any(tensor.items is not None for tensor in tensors):
        shown = " and ".join(str(list(shape)) for shape in sorted(shapes)[:2])
        raise node.error(f"collects tensors of different shapes from its iterations: {shown}")
    n_runs = sum(times for _, times in runs)
    origin = max(tensor.origin for tensor in tensors)
    shape = _with_axis(node, first.shape, axis, n_runs)
    weights = () if origin is Origin.DATA else all_weights(tensors)
    value = _value(runs, first, shape, axis) if origin is not Origin.DATA else None
    return Tensor(first.name, first.dtype, shape, origin, value, weights)


def _value(runs: Runs, first: Tensor, shape: Shape, axis: int) -> Numbers | None:
    if not may_keep(first.dtype, math.prod(shape)):
        return None
    values = [tensor.value for tensor, times in runs for _ in range(times)]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return joined(known, shape, axis % len(shape))


def _with_axis(node: Node, shape: Shape, axis: int, size: int) -> Shape:
    rank = len(shape) + 1
    if not -rank <= axis < rank:
        raise node.error(f"output axis {axis} of a tensor with {rank} dimensions")
    axis %= rank
    return (*shape[:axis], size, *shape[axis:])


def _nothing(cycle: Cycle, outputs: tuple[ModelInput, ...], axes: tuple[int, ...]) -> list[Tensor]:
    """What is collected where nothing runs: tensors of the shape that there would be."""
    node = cycle.frame.node
    try:
        course = msgspec.structs.replace(cycle.frame.course, is_proof=True, notes={}, used=set())
        frame = msgspec.structs.replace(cycle.frame, course=course)
        ran = run_graph(frame, cycle.inputs(cycle.anything, cycle.state))
        found = ran.outputs[len(cycle.state) :]
    except ModelError:
        found = tuple(map(_declared, outputs))
    return [_emptied(node, tensor, axis) for tensor, axis in zip(found, axes, strict=True)]


def _emptied(node: Node, tensor: Tensor, axis: int) -> Tensor:
    if tensor.unknown is not None:
        return tensor
    shape = _with_axis(node, tensor.shape, axis, 0)
    return Tensor(tensor.name, tensor.dtype, shape, tensor.origin)


def _declared(output: ModelInput) -> Tensor:
    shape = [size for size in output.dimensions or () if isinstance(size, int)]
    reason = None
    if output.dimensions is None or len(shape) < len(output.dimensions):
        reason = f"{output.name!r} has no shape: the loop that writes it does not run"
    return Tensor(output.name, output.dtype or FLOAT32, tuple(shape), unknown=reason)
