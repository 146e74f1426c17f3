"""The three models of traffic: algorithmic, fused, and through a last-level cache.

Algorithmic: each operator reads each distinct input once and writes each output once. Nothing
is fused and nothing stays in a cache: that is an upper figure for a runtime that fuses, and a
lower one for a kernel that reads its operands again. Views and everything that can be computed
before data is there move nothing.

Convolutions that run as Winograd move transformed filters besides. F(2 × 2, 3 × 3) makes 4 outputs
of a tile with 16 products, so a filter of 9 numbers becomes one of 16 (Lavin and Gray,
arXiv:1509.09308). cuDNN's kernel reads them for ⌈K / 32⌉ · 32 of K filters of C channels:

    T = 16 · C · ⌈K / 32⌉ · 32 · element bytes

A first kernel makes them in each pass. From a cold cache Q = reads + T + max(0, writes − C'),
with C' bytes of cache (docs/understand/traffic.md: 80 convolutions under Nsight Compute).
Measured in fp32 on CUDA cores, where it was the fastest of cuDNN's algorithms for every such
convolution. Tensor cores (TF32, fp16, int8) run them as matrix products instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from mansard.core.precision import Precision
from mansard.core.records import LayerScore
from mansard.core.text import listed
from mansard.estimator.caches import ATTENTION
from mansard.estimator.cost import NOTHING, Cost, GroupTraffic
from mansard.estimator.fusion import Fusion, PassGroups
from mansard.estimator.fusion.accounting import FusedGroup, grown_bytes
from mansard.estimator.fusion.storage import Storage
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node


def traffic(
    node: Node,
    operator: Operator,
    precision: Precision | None,
    in_place: frozenset[str] | None = None,
) -> Cost:
    """The bytes that one inference pass of ``node`` moves.

    ``in_place``: inputs that its output already contains, as caches that grow in place.
    """
    if node.is_constant or operator.is_view:
        return NOTHING
    read_bytes = operator.reads(node, precision) if operator.reads else input_bytes(node, precision)
    wrote = operator.writes(node, precision) if operator.writes else write_bytes(node, precision)
    if in_place is not None:
        read_bytes, wrote = _in_place(node, precision, in_place, (read_bytes, wrote))
    return Cost(read_bytes=read_bytes, write_bytes=wrote)


def _in_place(
    node: Node, precision: Precision | None, in_place: frozenset[str], moved: tuple[int, int]
) -> tuple[int, int]:
    """Bytes read and written where the ``in_place`` inputs are not copied."""
    read_bytes, wrote = moved
    places = ATTENTION.get((node.domain, node.op_type))
    if places is not None:  # an attention reads its whole cache, and writes its new rows
        return read_bytes, wrote - sum(grown_bytes(node, precision, in_place).values())
    if node.op_type == "TensorScatter":
        return moved
    there = sum(tensor.n_bytes(precision) for tensor in node.distinct if tensor.name in in_place)
    if node.op_type == "Slice":  # the last rows of a cache that is a ring
        return 0, 0
    if node.op_type != "Concat":
        updates = node.input(2).n_bytes(precision)
        return max(read_bytes - there, 0), min(updates, wrote)
    return max(read_bytes - there, 0), max(wrote - there, 0)


def input_bytes(node: Node, precision: Precision | None) -> int:
    """Bytes of the distinct inputs, weights among them."""
    return sum(tensor.n_bytes(precision) for tensor in node.distinct)


def write_bytes(node: Node, precision: Precision | None) -> int:
    """Bytes of the outputs that have a name."""
    return sum(output.n_bytes(precision) for output in node.outputs if output.name)


# Fused traffic: each group of nodes that runs as one kernel reads and writes once.
#
# Q = Σ over distinct inputs from outside + weights + what leaves the group. The bytes
# count at the group's heaviest node; its other nodes move nothing.


def fused_traffic(fusion: Fusion) -> dict[int, GroupTraffic]:
    """What each node moves in one inference, by its index; summed over passes and runs.

    A node is missing where its group touches a tensor of unknown size or an operator
    without a formula.
    """
    moved: dict[int, GroupTraffic] = {}
    lost: set[int] = set()
    _add(fusion, 1, moved, lost)
    for index in lost:
        moved.pop(index, None)
    return moved


def _add(fusion: Fusion, runs: int, moved: dict[int, GroupTraffic], lost: set[int]) -> None:
    for index, head in fusion.idle.items():
        moved.setdefault(index, GroupTraffic(head))
    for group in fusion.groups:
        if not group.is_known:
            lost.update(group.indexes)
        head = group.head
        for index in group.indexes:
            if index != head:
                moved.setdefault(index, GroupTraffic(head))
        before = moved.get(head)
        if before is None:
            moved[head] = GroupTraffic(head, runs * group.read_bytes, runs * group.write_bytes)
        else:
            moved[head] = GroupTraffic(
                before.group,
                before.read_bytes + runs * group.read_bytes,
                before.write_bytes + runs * group.write_bytes,
            )
        for body in group.bodies:
            for pass_ in body.passes:
                _add(pass_.fusion, runs * pass_.times, moved, lost)


# Cache-aware traffic: fused, with what stays in a last-level cache between two kernels.
#
# One operator from a cold cache: Q = reads + max(0, writes − C). Of the output C bytes
# stay behind, unwritten; measured with Nsight Compute on 4,237 ReLUs and 1,381 linear
# layers of an A100, where C is 20 MB, half of the L2 (docs/understand/traffic.md).
#
# A network: groups run in order on a least-recently-used stack of tensors. The resident
# part of a tensor is not read again. What falls out is written to memory if it was
# written in the cache, needed or not: no instruction tells the cache that a tensor is
# dead. Weights pass through like everything else; what is larger than C streams. What is
# left in the cache at the end is not counted.


def effective_cache_bytes(l2_bytes: int) -> int:
    """The bytes of an L2 that keep written data: half, as measured on an A100."""
    return l2_bytes // 2


def cached_traffic(fusion: Fusion, cache_bytes: int) -> dict[int, int]:
    """Bytes between memory and a cache that keeps ``cache_bytes``, by the node's index.

    They count at the head of each group, summed over passes and runs; the other nodes move
    nothing. Bytes that a kernel evicts count at that kernel. Nodes are missing as in
    ``fused_traffic``.
    """
    moved: dict[int, int] = {}
    lost: set[int] = set()
    _run(fusion, LoopWeight(), CacheModel(cache_bytes), moved, lost)
    for index in lost:
        moved.pop(index, None)
    return moved


class LoopWeight(msgspec.Struct, frozen=True):
    """How often accesses of the kernels that run now count.

    ``runs``: how many times each of their accesses counts. ``is_typical``: they are one iteration
    that represents several of a loop; loops inside it are then simulated once for all of their
    iterations, so that the time stays linear in the nodes.
    """

    runs: int = 1
    is_typical: bool = False


class CacheModel:
    """A cache that holds tensors in part, the least recently used one at the front."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes
        self._held: dict[Storage, tuple[int, int]] = {}  # bytes resident, and dirty of these
        self._total = 0

    def copy(self) -> CacheModel:
        other = CacheModel(self._capacity)
        other._held, other._total = dict(self._held), self._total
        return other

    def touch(self, group: FusedGroup) -> int:
        """Run a kernel; returns the bytes that memory reads and writes meanwhile."""
        moved = 0
        held = self._held
        for storage, n_bytes in group.reads:
            resident, dirty = held.pop(storage, (0, 0))
            missed = max(n_bytes - resident, 0)
            moved += missed
            self._total += missed
            held[storage] = resident + missed, dirty
        for storage, n_bytes in group.writes:
            resident, dirty = held.pop(storage, (0, 0))
            now = min(resident + n_bytes, max(storage.n_bytes or 0, n_bytes))
            self._total += now - resident
            held[storage] = now, min(dirty + n_bytes, now)
        if group.again_bytes and group.again_span_bytes > self._capacity:
            moved += group.again_bytes
        return moved + self._evict() if self._total > self._capacity else moved

    def rename(self, pairs: Iterable[tuple[Storage, Storage]]) -> None:
        """Rename tensors in the cache, as a loop passes them on."""
        moved = [(new, self._held.pop(old)) for old, new in pairs if old in self._held]
        for new, (resident, dirty) in moved:
            before, _ = self._held.pop(new, (0, 0))
            self._total -= before
            self._held[new] = resident, dirty

    def _evict(self) -> int:
        held, written = self._held, 0
        while self._total > self._capacity:
            storage = next(iter(held))
            resident, dirty = held[storage]
            excess = self._total - self._capacity
            if resident <= excess:
                del held[storage]
                self._total -= resident
                written += dirty
                continue
            # What was only read goes first.
            gone_dirty = max(dirty - (resident - excess), 0)
            held[storage] = resident - excess, dirty - gone_dirty
            self._total -= excess
            written += gone_dirty
        return written


def _run(
    fusion: Fusion, run: LoopWeight, stack: CacheModel, moved: dict[int, int], lost: set[int]
) -> None:
    for index in fusion.idle:
        moved.setdefault(index, 0)
    for group in fusion.groups:
        for index in group.indexes:
            moved.setdefault(index, 0)
        if not group.is_known:
            lost.update(group.indexes)
        elif not group.bodies:
            moved[group.head] += run.runs * stack.touch(group)
        for body in group.bodies:
            inner = stack if body.is_taken else stack.copy()
            for pass_ in body.passes:
                _run_pass(pass_, run, inner, moved, lost)


def _run_pass(
    pass_: PassGroups, run: LoopWeight, stack: CacheModel, moved: dict[int, int], lost: set[int]
) -> None:
    """Run the first iteration on the cache as it is, and the second for all later ones."""
    stack.rename(pass_.enter)
    if run.is_typical or pass_.times == 1:
        _run(pass_.fusion, LoopWeight(run.runs * pass_.times, run.is_typical), stack, moved, lost)
    else:
        _run(pass_.fusion, LoopWeight(run.runs), stack, moved, lost)
        stack.rename(pass_.again)
        _run(pass_.fusion, LoopWeight(run.runs * (pass_.times - 1), True), stack, moved, lost)
    stack.rename(pass_.leave)


_PRODUCTS = 16  # of a tile: (2 + 3 − 1)²
_FILTERS = 32  # that one block of threads makes
_ELEMENT_BYTES = 4
_MAX_SIZES, _MAX_NAMES = 12, 6  # in one note, and of equal layers


def transformed_filter_bytes(node: Node) -> int:
    """T of an fp32 convolution; 0 where Winograd does not apply: 3 × 3, stride 1, one group."""
    weights = node.optional(1)
    if node.op_type != "Conv" or weights is None or weights.unknown:
        return 0
    if weights.shape[2:] != (3, 3) or node.integer("group", 1) != 1:
        return 0
    if any(set(node.integers(name) or (1,)) != {1} for name in ("strides", "dilations")):
        return 0
    n_filters, n_channels = weights.shape[:2]
    return _PRODUCTS * n_channels * -(-n_filters // _FILTERS) * _FILTERS * _ELEMENT_BYTES


def winograd_notes(layers: Iterable[LayerScore], nodes: Iterable[Node]) -> Iterator[str]:
    """A note on the additional traffic of Winograd's filters, by layers; none without such layers.

    ``nodes`` are those of ``layers``, by their index.
    """
    by_index = {node.index: node for node in nodes if node.op_type == "Conv"}
    names: dict[int, list[str]] = {}
    for layer in layers:
        node = by_index.get(layer.index)
        if node is None or layer.precision != "fp32" or layer.unit != "CUDA core":
            continue
        n_bytes = transformed_filter_bytes(node) * layer.runs
        if n_bytes:
            names.setdefault(n_bytes, []).append(layer.name or f"node {layer.index}")
    if not names:
        return
    total = sum(n_bytes * len(layers_of_size) for n_bytes, layers_of_size in names.items())
    shown = [_shown(*size) for size in sorted(names.items(), reverse=True)[:_MAX_SIZES]]
    if len(names) > _MAX_SIZES:
        shown.append("less for the others")
    yield (
        f"cached traffic is {total / 1e6:.3g} MB more where a library runs convolutions of 3 × 3 "
        f"as Winograd (fp32 without TF32), for their transformed filters: {'; '.join(shown)}"
    )


def _shown(n_bytes: int, names: Sequence[str]) -> str:
    prefix = "each of " if len(names) > 1 else ""
    words = [repr(name) for name in names[:_MAX_NAMES]]
    if len(names) > _MAX_NAMES:
        words.append(f"{len(names) - _MAX_NAMES} more")
    return f"{n_bytes / 1e6:.3g} MB for {prefix}{listed(words)}"
