"""Catching graphs that only work for the batch they were exported with.

Many exporters write the example's batch into Reshape targets. Where element counts
then contradict, shape inference raises an error. Where they happen to agree, the batch moves
into another dimension and every later count is wrong; that is found here, by looking
at where the batch goes when it is doubled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.model import Model
from mansard.estimator.operators.elementwise import ARITHMETIC, COMPARISON, LOGIC
from mansard.estimator.operators.movement import reshape_target
from mansard.estimator.operators.recurrent import GATES, recurrent_sizes
from mansard.estimator.shape_inference.binding import Binding, bind
from mansard.estimator.shape_inference.inference import InferredNetwork, infer_shapes
from mansard.estimator.tensors import Node, Origin

_BROADCASTING = frozenset({*ARITHMETIC, *COMPARISON, *LOGIC, "Expand", "MatMul", "Pow", "Where"})

_SUSPECTS = _BROADCASTING | GATES.keys() | {"Reshape"}

_FIX = "export the model with a dynamic batch, or score it with the batch it was made for"


def known_batch(binding: Binding, network: InferredNetwork) -> int | None:
    """The batch of the whole network, or None where that is unknown.

    Recurrent layers define theirs; else it is the size of the dimension taken for it.
    """
    if not binding.is_batch_guessed:
        return binding.batch
    found = {
        recurrent_sizes(node).batch
        for node in _running(network.nodes)
        if node.op_type in GATES and not node.domain and not _is_unknown(node)
    }
    if found:
        return found.pop() if len(found) == 1 else None
    return binding.batch


def check_batch(model: Model, binding: Binding, network: InferredNetwork) -> None:
    """Raise ModelError if the batch that was set does not reach every layer as a batch."""
    if not binding.is_batch_changed or binding.batch is None:
        return
    suspects = [node for node in _running(network.nodes) if _is_suspect(node, binding)]
    if not suspects:
        return
    doubled = bind(model, msgspec.structs.replace(binding.given, batch=2 * binding.batch))
    try:
        probe = infer_shapes(model, doubled)
    except ModelError as error:
        raise ModelError(f"the batch is baked into the graph: {error}", fix=_FIX) from error
    after = {node.index: node for node in _running(probe.nodes)}
    for node in suspects:
        # Another batch may lead into another branch.
        if node.index in after and not _is_unknown(after[node.index]):
            _check(node, after[node.index], binding)


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
