"""Catching graphs that only work for the batch they were exported with.

Many exporters write the example's batch into Reshape targets. Where element counts
then contradict, shape inference raises an error. Where they happen to agree, the batch moves
into another dimension and every later count is wrong; that is found here, by looking
at where the batch goes when it is doubled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.model import Given, Model
from mansard.estimator.operators.elementwise import ARITHMETIC, COMPARISON, LOGIC
from mansard.estimator.operators.movement import reshape_target
from mansard.estimator.operators.recurrent import GATES, recurrent_sizes
from mansard.estimator.shape_inference.batch_axis import BatchEvidence, batch_evidence
from mansard.estimator.shape_inference.binding import Binding, bind
from mansard.estimator.shape_inference.dimensions import InputDimensions, find_dimensions
from mansard.estimator.shape_inference.inference import InferredNetwork, Prepared, infer_shapes
from mansard.estimator.tensors import Node, Origin

_BROADCASTING = frozenset({*ARITHMETIC, *COMPARISON, *LOGIC, "Expand", "MatMul", "Pow", "Where"})

_SUSPECTS = _BROADCASTING | GATES.keys() | {"Reshape"}

_FIX = "export the model with a dynamic batch, or score it with the batch it was made for"


class FoundBatch(msgspec.Struct, frozen=True):
    """The batch of a whole network, None where that is unknown; a note where no name tells it."""

    size: int | None
    note: str | None = None


def find_batch(model: Model, binding: Binding, network: InferredNetwork) -> FoundBatch:
    """The batch of a network with shapes.

    That of its name; else that of the operators, or of an axis that goes from the inputs to the
    outputs; else 1.
    """
    is_stated = binding.given.batch is not None  # ``settle_batch`` accepted it
    if is_stated or binding.is_batch_sure or not binding.batch_inputs:
        return FoundBatch(binding.batch)
    evidence = _evidence(model, binding, network)
    if evidence.verdict == "batch" and (binding.batch == 1 or not evidence.reason):
        return FoundBatch(binding.batch)
    place, size = f"the first dimension of {_names(binding.batch_inputs)}", binding.batch
    if evidence.verdict == "shared":
        is_plain = size in (None, 1)
        note = f"the batch is taken to be {size}: {place}, which the outputs share, has no name"
        return FoundBatch(size, None if is_plain else note)
    recurrent = {
        recurrent_sizes(node).batch
        for node in _running(network.nodes)
        if node.op_type in GATES and not node.domain and not _is_unknown(node)
    }
    if recurrent:
        return FoundBatch(recurrent.pop() if len(recurrent) == 1 else None)
    if size == 1:
        return FoundBatch(1)
    shown = "" if size is None else f" ({size})"
    why = f": {evidence.reason}" if evidence.reason else ""
    return FoundBatch(1, f"counted as batch 1: {place}{shown} may not be a batch{why}")


def _evidence(model: Model, binding: Binding, network: InferredNetwork) -> BatchEvidence:
    evidence = batch_evidence(model, network.nodes, network.tensors, binding.batch_inputs)
    if not binding.is_batch_guessed and not evidence.is_mixed:
        return BatchEvidence("batch")  # as its name says
    if evidence.verdict != "batch" and binding.is_batch_guessed and binding.batch_name is not None:
        return BatchEvidence("none", f"its name is {binding.batch_name!r}")
    return evidence


def _names(inputs: Iterable[str]) -> str:
    return " and ".join(map(repr, sorted(inputs)[:3]))


def settle_batch(model: Model, given: Given, prepared: Prepared | None = None) -> Given:
    """``given`` without a batch of 1 where the network has none: it computes one item as it is.

    Raises UsageError for a larger batch, or an open dimension, of such a network.
    """
    dimensions = find_dimensions(model, given)
    if given.batch is None or dimensions.is_batch_sure:
        return given
    for stated in (msgspec.structs.replace(given, batch=None), given):
        try:
            binding = bind(model, stated)
            network = infer_shapes(model, binding, prepared)
        except (ModelError, UsageError):
            continue  # what is wrong with it is said where it is scored
        evidence = _evidence(model, binding, network)
        if evidence.verdict != "none":
            return given
        if stated.batch is None and given.batch == 1 == find_batch(model, binding, network).size:
            return stated
        raise _no_batch(dimensions, binding, stated, evidence)
    return given


def _no_batch(
    dimensions: InputDimensions, binding: Binding, stated: Given, evidence: BatchEvidence
) -> UsageError:
    """The error for a batch that was set, or taken to be 1, where there is none."""
    name = min(binding.batch_inputs)
    what = f"the first dimension of input {name!r} is not a batch: {evidence.reason}"
    if stated.batch is None:
        places = f" and set dimensions by their places: {_places(binding)}"
        return UsageError(what, fix=f"leave out --batch{places if evidence.is_sequence else ''}")
    batch = [dim for dim in dimensions if dim.fixed is None and dim.axis == 0]
    symbols = dict.fromkeys(d.symbol for d in batch if d.symbol in dimensions.batch_symbols)
    flags = " ".join(f"--dim '{symbol}=N'" for symbol in symbols)
    if not symbols:
        return UsageError(what, fix="leave out --batch")
    without = " and leave out --batch" if binding.batch != 1 else ""
    return UsageError(f"{what}, and must be given", fix=f"pass {flags}{without}")


def check_batch(model: Model, binding: Binding, network: InferredNetwork) -> None:
    """Raise ModelError if the batch that was set does not reach every layer as a batch."""
    if not binding.is_batch_changed or binding.batch is None:
        return
    suspects = [node for node in _running(network.nodes) if _is_suspect(node, binding)]
    if not suspects:
        return
    probe = _probe(model, binding)
    after = {node.index: node for node in _running(probe.nodes)}
    for node in suspects:
        # Another batch may lead into another branch.
        if node.index in after and not _is_unknown(after[node.index]):
            _check(node, after[node.index], binding)


def _probe(model: Model, binding: Binding) -> InferredNetwork:
    """The network with twice the batch; ModelError where it cannot have one."""
    given, batch = binding.given, binding.batch or 1
    doubled = msgspec.structs.replace(given, batch=2 * batch)
    # A state's batch that was given by its place is one too.
    same = [name for name, size in given.dims.items() if size == batch]
    fault: ModelError | None = None
    for names in ((), same, *((name,) for name in same)):
        dims = {**given.dims, **dict.fromkeys(names, 2 * batch)}
        try:
            return infer_shapes(model, bind(model, msgspec.structs.replace(doubled, dims=dims)))
        except ModelError as error:
            fault = fault or error
    assert fault is not None  # noqa: S101
    where = f"{fault.where}: " if fault.where else ""
    raise ModelError(f"the batch is baked into the graph: {where}{fault.what}", fix=_FIX) from fault


def _running(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes that run, those inside others too; of a loop those of its first iteration."""
    for node in nodes:
        yield node
        for body in node.bodies:
            if body.is_taken and body.passes:
                yield from _running(body.passes[0].nodes)


def _is_unknown(node: Node) -> bool:
    return any(tensor.unknown for tensor in (*node.present, *node.outputs))


def _is_suspect(node: Node, binding: Binding) -> bool:
    """Whether the batch may become another dimension in this node."""
    if node.op_type not in _SUSPECTS or node.domain or _is_unknown(node):
        return False
    if node.op_type in GATES:
        return binding.is_batch_guessed
    if binding.batch == 1 and _stretches_one(node):
        return True
    if node.op_type != "Reshape" or node.is_constant or not node.input(0).shape:
        return False
    if node.opset >= 5:
        target = node.input(1)
        if target.origin is not Origin.FILE or target.value is None:
            return False
    sizes = reshape_target(node)
    return len(sizes) > 1 and 0 < sizes[0] != node.input(0).shape[0] and -1 in sizes[1:]


def _stretches_one(node: Node) -> bool:
    """Whether data whose first dimension is 1 is spread over more, as only broadcasting does."""
    if node.is_constant or node.op_type not in _BROADCASTING or not node.output.shape:
        return False
    return node.output.shape[0] > 1 and any(
        tensor.origin is Origin.DATA and tensor.rank == node.output.rank and tensor.shape[0] == 1
        for tensor in node.present
    )


def _places(binding: Binding) -> str:
    """Options for the dimensions of the first input that --batch has set."""
    for name, tensor in binding.tensors.items():
        if tensor.rank > 1 and not tensor.unknown:
            return f"--dim '{name}[0]={tensor.shape[0]}' --dim '{name}[1]=N'"
    return "--dim 'INPUT[1]=N'"


def _check(before: Node, after: Node, binding: Binding) -> None:
    if before.op_type in GATES:
        old, new = recurrent_sizes(before), recurrent_sizes(after)
        if old.n_steps != new.n_steps:
            raise before.error(
                "the first dimension of the input is not the batch here but the sequence",
                f"leave out --batch and set dimensions by their places: {_places(binding)}",
            )
        return
    for old_input, new_input in zip(before.present, after.present, strict=True):
        if old_input.rank and new_input.shape[0] == 2 * old_input.shape[0]:
            raise before.error(
                f"the batch is baked in: {list(old_input.shape)} becomes "
                f"{list(before.output.shape)}, which is no longer that batch",
                _FIX,
            )
