"""Scan: once for each slice of its inputs.

Specification: https://onnx.ai/onnx/operators/onnx__Scan.html. From version 9 the axes
are attributes; version 8 has a batch before everything, a sequence axis after it, and
optional lengths. Directions do not change what is done.
"""

from __future__ import annotations

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.control_flow.course import Course, Outer
from mansard.estimator.control_flow.cycles import Cycle, Tensors
from mansard.estimator.control_flow.frames import given_out, names_in, names_out, open_graph
from mansard.estimator.control_flow.iteration import iterate
from mansard.estimator.control_flow.stacking import collected
from mansard.estimator.element_types import FLOAT32
from mansard.estimator.numbers import Numbers
from mansard.estimator.tensors import Body, Node, Origin, Pass, Tensor
from mansard.estimator.values.strides import pick, places, strides_of

_BODY = "body"
_AXES_SINCE = 9  # opset


def place_scan(node: Node, outer: Outer, course: Course) -> tuple[Tensors, tuple[Body, ...]]:
    """Outputs, and the body with its iterations; raises ModelError where sizes contradict."""
    n_scanned = node.integer("num_scan_inputs", 0)
    inputs = node.inputs if node.opset >= _AXES_SINCE else node.inputs[1:]
    if not 0 < n_scanned <= len(inputs) or any(tensor is None for tensor in inputs):
        raise node.error(f"{n_scanned} of its {len(inputs)} inputs are to be scanned")
    tensors = tuple(tensor for tensor in inputs if tensor is not None)
    state, scanned = tensors[:-n_scanned], tensors[-n_scanned:]
    lost = next((tensor.unknown for tensor in tensors if tensor.unknown), None)
    if lost is not None:
        return tuple(Tensor(name, FLOAT32, (), unknown=lost) for name in node.output_names), ()
    if node.opset >= _AXES_SINCE:
        return _scan(node, state, scanned, (outer, course))
    return _batched_scan(node, state, scanned, (outer, course))


def _scan(
    node: Node, state: Tensors, scanned: Tensors, place: tuple[Outer, Course]
) -> tuple[Tensors, tuple[Body, ...]]:
    axes = node.integers("scan_input_axes") or (0,) * len(scanned)
    if len(axes) != len(scanned):
        raise node.error(f"{len(axes)} axes for {len(scanned)} scanned inputs")
    slices = [(tensor, tensor.axis(axis)) for tensor, axis in zip(scanned, axes, strict=True)]
    backwards = node.integers("scan_input_directions") or (0,) * len(scanned)
    lengths = {tensor.shape[axis] for tensor, axis in slices}
    if len(lengths) > 1 or len(backwards) != len(scanned):
        raise node.error(f"its scanned inputs have different lengths: {sorted(lengths)}")
    (n_steps,) = lengths
    frame = open_graph(node, _BODY, *place)

    def step(i: int) -> Tensors:
        return tuple(
            _slice(tensor, axis, n_steps - 1 - i if back else i)
            for (tensor, axis), back in zip(slices, backwards, strict=True)
        )

    anything = tuple(_slice(tensor, axis, None) for tensor, axis in slices)
    cycle = Cycle(frame, state, step, anything, is_state_first=True, limit=n_steps)
    history = iterate(cycle)
    results = (*history.state, *collected(history, node.integers("scan_output_axes")))
    body = Body(_BODY, names_in(frame), names_out(frame), tuple(history.passes))
    return given_out(node, results, Origin.FILE), (body,)


def _slice(tensor: Tensor, axis: int, i: int | None) -> Tensor:
    """Slice ``i`` along ``axis``; None stands for any."""
    shape = (*tensor.shape[:axis], *tensor.shape[axis + 1 :])
    value: Numbers | None = None
    if i is not None and tensor.value is not None:
        strides = strides_of(tensor.shape)
        start = i * strides.pop(axis)
        value = pick(tensor.value, shape, places(shape, strides, start))
    return Tensor(tensor.name, tensor.dtype, shape, tensor.origin, value, tensor.weights)


def _batched_scan(
    node: Node, state: Tensors, scanned: Tensors, place: tuple[Outer, Course]
) -> tuple[Tensors, tuple[Body, ...]]:
    """Version 8: [batch, …] states, [batch, steps, …] scanned; each sequence by itself.

    Where the lengths are data, every sequence is taken to be as long as there is room.
    """
    if any(tensor.rank < 1 for tensor in state) or any(tensor.rank < 2 for tensor in scanned):
        raise node.error("its inputs must start with the batch and the sequence")
    batches = {tensor.shape[0] for tensor in (*state, *scanned)}
    lengths = {tensor.shape[1] for tensor in scanned}
    if len(batches) > 1 or len(lengths) > 1:
        raise node.error(f"its inputs differ in batch {sorted(batches)} or steps {sorted(lengths)}")
    (n_batch,), (n_steps,) = batches, lengths
    frame = open_graph(node, _BODY, *place)
    first = tuple(_slice(tensor, 0, None) for tensor in state)
    step = tuple(_slice(_slice(tensor, 0, None), 0, None) for tensor in scanned)
    cycle = Cycle(frame, first, lambda _i: step, step, is_state_first=True, limit=n_steps)
    history = iterate(cycle)
    total = _total_steps(node, n_batch, n_steps, frame.course)
    passes = _shared(node, history.passes, n_batch, n_steps, total)
    whole = (*history.state, *collected(history))
    results = tuple(_batch(tensor, n_batch) for tensor in whole)
    body = Body(_BODY, names_in(frame), names_out(frame), passes)
    return given_out(node, results, Origin.FILE), (body,)


def _total_steps(node: Node, n_batch: int, n_steps: int, course: Course) -> int:
    """Steps of all sequences together."""
    if not node.has(0):
        return n_batch * n_steps
    if node.input(0).value is None:
        note = f"{node.label}: the lengths of its sequences depend on data; all are taken as full"
        course.notes[note] = None
        return n_batch * n_steps
    lengths = node.value_ints(0)
    if len(lengths) != n_batch or not all(0 <= length <= n_steps for length in lengths):
        raise node.error(f"its sequence lengths do not fit [{n_batch}, {n_steps}]")
    return sum(lengths)


def _shared(
    node: Node, passes: list[Pass], n_batch: int, n_steps: int, total: int
) -> tuple[Pass, ...]:
    if total == n_batch * n_steps:
        return tuple(Pass(each.nodes, each.times * n_batch) for each in passes)
    if len(passes) > 1:
        raise ModelError("sequences of different lengths whose steps differ", where=node.label)
    return tuple(Pass(each.nodes, total) for each in passes if total)


def _batch(tensor: Tensor, n_batch: int) -> Tensor:
    if tensor.unknown is not None:
        return tensor
    return msgspec.structs.replace(tensor, shape=(n_batch, *tensor.shape), value=None)
