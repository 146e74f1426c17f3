"""Which nodes run as one kernel, as TensorRT and ONNX Runtime fuse them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from mansard.core.precision import Precision
from mansard.estimator.caches import InPlaceInputs
from mansard.estimator.fusion.accounting import (
    Access,
    BodyGroups,
    FusedGroup,
    Fusion,
    PassGroups,
    account,
    find_aliases,
    root_storage,
)
from mansard.estimator.fusion.drafts import merge_siblings
from mansard.estimator.fusion.grouping import dequantised_addends, group_nodes
from mansard.estimator.fusion.storage import Draft, Part, Storage
from mansard.estimator.fusion.wiring import Constants, Wiring
from mansard.estimator.operators.registry import Operators
from mansard.estimator.tensors import Body, Node, Pass

__all__ = ["BodyGroups", "FusedGroup", "Fusion", "PassGroups", "fuse"]


_NOTHING_IN_PLACE: InPlaceInputs = MappingProxyType({})

Pairs = tuple[tuple[Storage, Storage], ...]


def fuse(
    nodes: Sequence[Node],
    outputs: Collection[str],
    operators: Operators,
    precision: Precision | None,
    attention_buffer_bytes: int | None = None,
    in_place: InPlaceInputs = _NOTHING_IN_PLACE,
) -> Fusion:
    """Which of ``nodes`` run as one kernel, and what each kernel reads and writes.

    ``outputs``: names of the graph's outputs. ``operators``: by (domain, type) of every
    operator, None for those without. ``precision`` replaces the width of floats.
    ``attention_buffer_bytes``: what an attention kernel holds of its queries at a time;
    keys and values are read again for each such block (``rereads``). None: read once.
    ``in_place``: inputs that a node's output already contains, by its index.
    """
    constants = Constants(precision, attention_buffer_bytes, in_place)
    return _fuse_graph(Wiring(nodes, outputs, operators, constants), operators)


def _fuse_graph(wiring: Wiring, operators: Operators) -> Fusion:
    drafts = group_nodes(wiring)
    merge_siblings(drafts)
    ordered = drafts.settle()
    find_aliases(drafts)
    heads: dict[Draft | None, int] = {}
    groups: list[FusedGroup] = []
    dequantisers = {part: node for node, part in wiring.idle if node.op_type == "DequantizeLinear"}
    floats: dict[Part, Access] = {}  # of integers that are dequantised by kernels of their own
    alone: set[int] = set()  # the indexes of these kernels' nodes
    for draft in ordered:
        group = account(draft, drafts)
        for addend in dequantised_addends(draft, drafts) if group.is_known else ():
            node = dequantisers.get(addend)
            if node is None:
                continue
            if addend not in floats:
                n_bytes = node.output.n_bytes(wiring.constants.precision)
                floats[addend] = Storage(n_bytes, addend.storage.n_elements), n_bytes or 0
                reads = ((root_storage(addend.storage), addend.n_bytes or 0),)
                groups.append(FusedGroup(node.index, (node.index,), reads, (floats[addend],)))
                alone.add(node.index)
            group = _with_addend(group, addend, floats[addend], draft, wiring)
        heads[draft] = group.head
        owner = wiring.nodes[draft.positions[0]]
        if owner.bodies:
            bodies = tuple(_fuse_body(owner, body, wiring, operators) for body in owner.bodies)
            group = FusedGroup(group.head, group.indexes, bodies=bodies, is_known=group.is_known)
        groups.append(group)
    idle: dict[int, int] = {}
    for node, part in wiring.idle:
        if node.index in alone:
            continue
        maker = part.storage.maker if part is not None else None
        idle[node.index] = heads.get(maker, node.index)
        if node.bodies:
            idle.update((inner.index, inner.index) for inner in _inside(node))
    return Fusion(tuple(groups), idle, wiring)


def _with_addend(
    group: FusedGroup, part: Part, floats: Access, draft: Draft, wiring: Wiring
) -> FusedGroup:
    """``group``, which adds ``floats`` instead of ``part``, and still reads it as a factor."""
    integers = root_storage(part.storage)
    is_factor = any(part in wiring.reads[position] for position in draft.products)
    reads = [access for access in group.reads if is_factor or access[0] is not integers]
    return replace(group, reads=(*reads, floats))


def _inside(node: Node) -> Iterator[Node]:
    for body in node.bodies:
        for pass_ in body.passes:
            for inner in pass_.nodes:
                yield inner
                yield from _inside(inner)


def _fuse_body(owner: Node, body: Body, outer: Wiring, operators: Operators) -> BodyGroups:
    passes = tuple(_fuse_pass(owner, body, pass_, outer, operators) for pass_ in body.passes)
    return BodyGroups(passes, body.is_taken)


def _fuse_pass(
    owner: Node, body: Body, pass_: Pass, outer: Wiring, operators: Operators
) -> PassGroups:
    wiring = Wiring(pass_.nodes, body.outputs, operators, outer.constants, outer, body.inputs)
    fusion = _fuse_graph(wiring, operators)
    handed, first, n_state = _state(owner)
    inputs = [wiring.parts.get(name) for name in body.inputs[first : first + n_state]]
    outputs = [wiring.known(name) for name in body.outputs]
    results = [outer.known(name) if name else None for name in owner.output_names]
    storages = [
        outer.known(tensor.name) if tensor is not None else None
        for tensor in owner.inputs[handed : handed + n_state]
    ]
    skipped = 1 if owner.op_type == "Loop" else 0  # the condition
    return PassGroups(
        fusion,
        pass_.times,
        enter=_pairs(storages, inputs),
        again=_pairs(outputs[skipped : skipped + n_state], inputs),
        leave=_pairs(outputs[skipped:], results),
    )


def _state(owner: Node) -> tuple[int, int, int]:
    """From which input of the node and of its body the state starts, and how much it is."""
    if owner.op_type == "Loop":  # (trips, condition, state …) -> (iteration, condition, state …)
        return 2, 2, max(len(owner.inputs) - 2, 0)
    if owner.op_type == "Scan":
        n_scanned = owner.attributes.get("num_scan_inputs", 0)
        first = 1 if owner.opset < 9 else 0  # sequence lengths came first
        n_state = len(owner.inputs) - first - (n_scanned if isinstance(n_scanned, int) else 0)
        return first, 0, max(n_state, 0)
    return 0, 0, 0


def _pairs(sources: Iterable[Part | None], targets: Iterable[Part | None]) -> Pairs:
    return tuple(
        (root_storage(source.storage), root_storage(target.storage))
        for source, target in zip(sources, targets, strict=False)
        if source is not None and target is not None and source.storage is not target.storage
    )
