"""Loop and Scan: how often their graph runs, and what it collects.

Specifications: https://onnx.ai/onnx/operators/onnx__Loop.html (versions 1, 11, 13 and later
differ in types only) and https://onnx.ai/onnx/operators/onnx__Scan.html.

The graph of a Loop takes the iteration's number, the condition and the tensors handed on;
it writes the next condition, these tensors, and what is collected. The condition it writes
counts even where the Loop is given none, as in ONNX Runtime.

A Scan runs once for each slice of its inputs. From version 9 the axes are attributes;
version 8 has a batch before everything, a sequence axis after it, and optional lengths.
Directions do not change what is done.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.model import ModelInput
from mansard.estimator.numbers import (
    BOOL,
    FLOAT32,
    INT64,
    Numbers,
    hold,
    joined,
    may_keep,
    offsets,
    pick,
    strides_of,
)
from mansard.estimator.shape_inference.context import (
    InferenceContext,
    Outputs,
    UndecidedError,
    UnknownTripsError,
    unknown_outputs,
)
from mansard.estimator.shape_inference.control_flow.iteration import (
    Cycle,
    History,
    Runs,
    Tensors,
    data_behind,
    iterate,
)
from mansard.estimator.shape_inference.control_flow.subgraphs import (
    node_outputs,
    open_graph,
)
from mansard.estimator.shape_inference.sequences import all_weights
from mansard.estimator.tensors import Node, Origin, Pass, Shape, Tensor

_AXES_SINCE = 9  # opset
_MOST_TRIPS = 2**31 - 1  # of a limit that bounds anything
_SHOWN = 3  # tensors that a condition depends on, in a message


def infer_loop(node: Node, outer: Mapping[str, Tensor], context: InferenceContext) -> Outputs:
    """Outputs, and the body with its iterations; ``--trip`` gives a number that depends on data."""
    inner = open_graph(node, "body", outer, context)
    most = node.optional(0)
    condition = node.optional(1)
    if condition is None:
        condition = Tensor("", BOOL, (), Origin.FILE, hold(BOOL, (), (True,)))
    if any(tensor is None for tensor in node.inputs[2:]):
        raise node.error("an initial value is missing")
    carried = node.present[sum(map(node.has, (0, 1))) :]
    limit = _limit(node, most, context)
    given = _trips(node, limit, context)
    # A loop that goes on while something is true has the largest number there is as its limit.
    has_bound = context.given.upper and limit is not None and limit <= _MOST_TRIPS
    trips = limit if given is None and has_bound else given
    cycle = Cycle(
        inner,
        (condition, *carried),
        # The iteration's number is known although it is nowhere in the file.
        lambda i: (Tensor("", INT64, (), Origin.SHAPES, hold(INT64, (), (i,))),),
        (Tensor("", INT64, (), Origin.SHAPES),),
        is_state_first=False,
        limit=limit,
        has_condition=True,
        is_limit_open=most is not None and limit is None,
        trips=trips,
        trips_error=lambda: _unknown_trips(node, most, cycle),
    )
    try:
        history = iterate(cycle)
    except UnknownTripsError as error:
        # Its outputs are unknown; so is the loop itself, with all that is in it.
        reason = f"{error.what}: {error.fix}"
        return unknown_outputs(node, reason), ()
    if given is None and trips is not None and history.is_open:
        context.bounds[node.name] = max(trips, context.bounds.get(node.name, 0))
        context.bounded.update(node.output_names)
    if given is not None and given != history.done:
        raise UsageError(
            f"loop {node.name!r} runs {history.done} times, as its file says, not {given}",
            fix=f"leave out --trip for {node.name!r}",
        )
    origin = max(history.origin, most.origin if most is not None else Origin.FILE)
    results = (*history.state[1:], *_collected(history))
    return node_outputs(node, results, origin), (inner.body(history.passes),)


def _limit(node: Node, most: Tensor | None, context: InferenceContext) -> int | None:
    """Iterations at most; None where there is no such number, or where it is unknown."""
    if most is None:
        return None
    if most.value is None:
        if context.is_proof and most.origin is not Origin.DATA:
            raise UndecidedError("its iterations differ in number", where=node.label)
        return None
    if most.value.n_elements != 1:
        raise node.error(f"its number of iterations has {most.value.n_elements} elements, not 1")
    return max(int(most.value.first), 0)


def _trips(node: Node, limit: int | None, context: InferenceContext) -> int | None:
    given = context.given.trips
    trips = next((given[name] for name in (node.name, *node.output_names) if name in given), None)
    if trips is not None and limit is not None and trips > limit:
        raise UsageError(f"loop {node.name!r} runs {limit} times at most, not {trips}")
    return trips


def _unknown_trips(node: Node, most: Tensor | None, cycle: Cycle) -> UnknownTripsError:
    if cycle.is_limit_open and most is not None:
        why = f"its number of iterations, {most.name!r}, depends on data"
    else:
        sources = data_behind(cycle, 0)
        why = "its condition depends on data"
        if sources:
            more = " and others" if len(sources) > _SHOWN else ""
            why += f" ({', '.join(repr(name) for name in sources[:_SHOWN])}{more})"
    bound = f", at most {cycle.limit}" if cycle.limit is not None else ""
    if cycle.limit is not None and cycle.limit <= _MOST_TRIPS:
        bound += ", or --upper-bounds for that bound"
    what = f"{node.label}: how often it runs is unknown, {why}"
    return UnknownTripsError(what, fix=f"pass --trip '{node.name}=N'{bound}")


def infer_scan(node: Node, outer: Mapping[str, Tensor], context: InferenceContext) -> Outputs:
    """Outputs, and the body with its iterations; raises ModelError where sizes contradict."""
    n_scanned = node.integer("num_scan_inputs", 0)
    inputs = node.inputs if node.opset >= _AXES_SINCE else node.inputs[1:]
    if not 0 < n_scanned <= len(inputs) or any(tensor is None for tensor in inputs):
        raise node.error(f"{n_scanned} of its {len(inputs)} inputs are to be scanned")
    tensors = tuple(tensor for tensor in inputs if tensor is not None)
    state, scanned = tensors[:-n_scanned], tensors[-n_scanned:]
    reason = next((tensor.unknown for tensor in tensors if tensor.unknown), None)
    if reason is not None:
        return unknown_outputs(node, reason), ()
    if node.opset >= _AXES_SINCE:
        return _scan(node, state, scanned, outer, context)
    return _batched_scan(node, state, scanned, outer, context)


def _scan(
    node: Node,
    state: Tensors,
    scanned: Tensors,
    outer: Mapping[str, Tensor],
    context: InferenceContext,
) -> Outputs:
    axes = node.integers("scan_input_axes") or (0,) * len(scanned)
    if len(axes) != len(scanned):
        raise node.error(f"{len(axes)} axes for {len(scanned)} scanned inputs")
    slices = [(tensor, tensor.axis(axis)) for tensor, axis in zip(scanned, axes, strict=True)]
    backwards = node.integers("scan_input_directions") or (0,) * len(scanned)
    lengths = {tensor.shape[axis] for tensor, axis in slices}
    if len(lengths) > 1 or len(backwards) != len(scanned):
        raise node.error(f"its scanned inputs have different lengths: {sorted(lengths)}")
    (n_steps,) = lengths
    inner = open_graph(node, "body", outer, context)

    def step(i: int) -> Tensors:
        return tuple(
            _slice(tensor, axis, n_steps - 1 - i if back else i)
            for (tensor, axis), back in zip(slices, backwards, strict=True)
        )

    anything = tuple(_slice(tensor, axis, None) for tensor, axis in slices)
    cycle = Cycle(inner, state, step, anything, is_state_first=True, limit=n_steps)
    history = iterate(cycle)
    results = (*history.state, *_collected(history, node.integers("scan_output_axes")))
    return node_outputs(node, results, Origin.FILE), (inner.body(history.passes),)


def _batched_scan(
    node: Node,
    state: Tensors,
    scanned: Tensors,
    outer: Mapping[str, Tensor],
    context: InferenceContext,
) -> Outputs:
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
    inner = open_graph(node, "body", outer, context)
    first = tuple(_slice(tensor, 0, None) for tensor in state)
    step = tuple(_slice(_slice(tensor, 0, None), 0, None) for tensor in scanned)
    cycle = Cycle(inner, first, lambda _i: step, step, is_state_first=True, limit=n_steps)
    history = iterate(cycle)
    total = _total_steps(node, n_batch, n_steps, inner.context)
    if total == n_batch * n_steps:
        passes = [Pass(each.nodes, each.times * n_batch) for each in history.passes]
    elif len(history.passes) > 1:
        raise ModelError("sequences of different lengths whose steps differ", where=node.label)
    else:
        passes = [Pass(each.nodes, total) for each in history.passes if total]
    results = [
        tensor
        if tensor.unknown is not None
        else msgspec.structs.replace(tensor, shape=(n_batch, *tensor.shape), value=None)
        for tensor in (*history.state, *_collected(history))
    ]
    return node_outputs(node, results, Origin.FILE), (inner.body(passes),)


def _total_steps(node: Node, n_batch: int, n_steps: int, context: InferenceContext) -> int:
    """Steps of all sequences together."""
    if not node.has(0):
        return n_batch * n_steps
    if node.input(0).value is None:
        note = f"{node.label}: the lengths of its sequences depend on data; all are taken as full"
        context.notes[note] = None
        return n_batch * n_steps
    lengths = node.value_ints(0)
    if len(lengths) != n_batch or not all(0 <= length <= n_steps for length in lengths):
        raise node.error(f"its sequence lengths do not fit [{n_batch}, {n_steps}]")
    return sum(lengths)


def _slice(tensor: Tensor, axis: int, i: int | None) -> Tensor:
    """Slice ``i`` along ``axis``; None stands for any."""
    shape = (*tensor.shape[:axis], *tensor.shape[axis + 1 :])
    value: Numbers | None = None
    if i is not None and tensor.value is not None:
        strides = strides_of(tensor.shape)
        start = i * strides.pop(axis)
        value = pick(tensor.value, shape, offsets(shape, strides, start))
    return Tensor(tensor.name, tensor.dtype, shape, tensor.origin, value, tensor.weights)


def _collected(history: History, axes: tuple[int, ...] | None = None) -> list[Tensor]:
    """The collected outputs as whole tensors; ``axes``: where the iterations lie, by output."""
    cycle = history.cycle
    outputs = cycle.inner.graph.outputs[len(cycle.state) :]
    axes = axes if axes is not None else (0,) * len(outputs)
    if len(axes) != len(outputs):
        raise cycle.inner.node.error(f"{len(axes)} output axes for {len(outputs)} outputs")
    if history.done == 0:
        return _collected_nothing(cycle, outputs, axes)
    pairs = zip(history.collected, axes, strict=True)
    return [_stacked(cycle.inner.node, runs, axis) for runs, axis in pairs]


def _stacked(node: Node, runs: Runs, axis: int) -> Tensor:
    """Tensors of all iterations as one; raises ModelError where their shapes differ."""
    first = runs[0][0]
    tensors = [tensor for tensor, _ in runs]
    unknown = next((tensor for tensor in tensors if tensor.unknown), None)
    if unknown is not None:
        return unknown
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


def _collected_nothing(
    cycle: Cycle, outputs: tuple[ModelInput, ...], axes: tuple[int, ...]
) -> list[Tensor]:
    """What is collected where nothing runs: tensors of the shape that there would be."""
    node = cycle.inner.node
    try:
        ran = cycle.inner.aside(is_proof=True).run(cycle.inputs(cycle.anything, cycle.state))
        found = ran.outputs[len(cycle.state) :]
    except ModelError:
        found = tuple(map(_declared, outputs))
    return [
        tensor
        if tensor.unknown is not None
        else Tensor(
            tensor.name, tensor.dtype, _with_axis(node, tensor.shape, axis, 0), tensor.origin
        )
        for tensor, axis in zip(found, axes, strict=True)
    ]


def _declared(output: ModelInput) -> Tensor:
    shape = [size for size in output.dimensions or () if isinstance(size, int)]
    reason = None
    if output.dimensions is None or len(shape) < len(output.dimensions):
        reason = f"{output.name!r} has no shape: the loop that writes it does not run"
    return Tensor(output.name, output.dtype or FLOAT32, tuple(shape), unknown=reason)
